// SPDX-License-Identifier: GPL-2.0
#include "task.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "ktap.h"
#include "util.h"

static void *run(void *arg)
{
	struct task *t = arg;
	long long start = now_ms();

	__atomic_store_n(&t->tid, gettid(), __ATOMIC_RELEASE);
	errno = 0;
	t->result = t->call(t->arg);
	t->error = errno;
	t->took_ms = now_ms() - start;
	__atomic_store_n(&t->done, 1, __ATOMIC_RELEASE);
	return NULL;
}

void task_start(struct task *t, long (*call)(void *arg), void *arg)
{
	*t = (struct task){ .call = call, .arg = arg };
	NEED(pthread_create(&t->thread, NULL, run, t) == 0);
}

static bool is_in(struct task *t, char wanted)
{
	pid_t tid = __atomic_load_n(&t->tid, __ATOMIC_ACQUIRE);
	char path[64], stat[256], *state;

	if (!tid || __atomic_load_n(&t->done, __ATOMIC_ACQUIRE))
		return false;
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	if (!read_file(path, stat, sizeof(stat)))
		return false;
	state = strrchr(stat, ')');
	return state && state[1] && state[2] == wanted;
}

static bool stays_in(struct task *t, char state)
{
	/* Ignore short sleeps (a lock, an allocation): several checks in a row must agree. */
	int agreed = 0;

	return WAIT_UNTIL(SOON_MS, task_finished(t, 0) || (agreed = is_in(t, state) ? agreed + 1 : 0) >= 20) &&
	       !task_finished(t, 0);
}

bool task_blocked(struct task *t)
{
	return stays_in(t, 'S');
}

bool task_locked_out(struct task *t)
{
	return stays_in(t, 'D');
}

bool task_finished(struct task *t, int ms)
{
	return WAIT_UNTIL(ms, __atomic_load_n(&t->done, __ATOMIC_ACQUIRE));
}

void task_note_wait(struct task *t)
{
	char path[64], stack[2048], *end, *line;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stack", __atomic_load_n(&t->tid, __ATOMIC_ACQUIRE));
	if (!read_file(path, stack, sizeof(stack)))
		return;
	for (line = strtok_r(stack, "\n", &end); line; line = strtok_r(NULL, "\n", &end))
		note("waits in %s", line);
}

static void ignore(int number)
{
	(void)number;
}

void task_signal(struct task *t)
{
	struct sigaction act = { .sa_handler = ignore };

	NEED(sigaction(SIGUSR2, &act, NULL) == 0);
	NEED(pthread_kill(t->thread, SIGUSR2) == 0);
}

long task_join(struct task *t)
{
	NEED(pthread_join(t->thread, NULL) == 0);
	errno = t->error;
	return t->result;
}
