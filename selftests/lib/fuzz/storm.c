// SPDX-License-Identifier: GPL-2.0
#include "fuzz/storm.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "fuzz/calls.h"
#include "fuzz/memory.h"

#define CALLERS 8

static const struct storm *is;
static int64_t end_ms, late_ms;
static struct caller callers[CALLERS], vandals, helpers[HELPERS_MAX];
static pthread_t threads[CALLERS];
static int running;

static int helper_count(void)
{
	int count = 0;

	while (count < HELPERS_MAX && is->helpers[count])
		count++;
	return count;
}

#define EVERYONE (CALLERS + HELPERS_MAX)

static int everyone(struct caller *all[EVERYONE])
{
	int count = 0;

	for (int i = 0; i < CALLERS; i++)
		all[count++] = &callers[i];
	for (int i = 0; i < helper_count(); i++)
		all[count++] = &helpers[i];
	return count;
}

/* What is rare needs luck as well as time. */
static bool everything_was_seen(void)
{
	struct caller *all[EVERYONE];

	return tally_missing(all, everyone(all)) < 0 && (!is->complete || is->complete());
}

bool over(void)
{
	int64_t now = now_ms();

	return now >= end_ms && (now >= late_ms || everything_was_seen());
}

static void *run_caller(void *arg)
{
	while (!over())
		is->call(arg);
	__atomic_fetch_sub(&running, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void *run_vandal(void *arg)
{
	vandal(arg);
	return NULL;
}

static void *run_helper(void *arg)
{
	struct caller *c = arg;

	is->helpers[c - helpers](c);
	return NULL;
}

static void start(pthread_t *thread, void *(*run)(void *arg), struct caller *c, uint64_t seed)
{
	caller_open(c, seed);
	NEED(pthread_create(thread, NULL, run, c) == 0);
}

static void ignore(int number)
{
	(void)number;
}

/* One signal whose calls are restarted, one whose calls are not. */
static void take_signals(void)
{
	struct sigaction restart = { .sa_handler = ignore, .sa_flags = SA_RESTART }, fail = { .sa_handler = ignore };

	NEED(sigaction(SIGUSR1, &restart, NULL) == 0 && sigaction(SIGUSR2, &fail, NULL) == 0);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGIO, SIG_IGN);
	signal(SIGURG, SIG_IGN);
}

/* Interrupts one caller after the other until all are done, and checks that each makes progress. */
static bool watch(struct random *r)
{
	unsigned long calls[CALLERS] = { 0 };
	int64_t since[CALLERS];

	for (int i = 0; i < CALLERS; i++)
		since[i] = now_ms();
	while (__atomic_load_n(&running, __ATOMIC_ACQUIRE)) {
		int i = random_below(r, CALLERS);
		unsigned long now = __atomic_load_n(&callers[i].calls, __ATOMIC_RELAXED);

		pthread_kill(threads[i], over() || random_below(r, 2) ? SIGUSR2 : SIGUSR1);
		nap_us(random_below(r, 4000));
		if (calls[i] != now) {
			calls[i] = now;
			since[i] = now_ms();
		} else if (now_ms() - since[i] > 2 * SOON_MS) {
			return check(false, "each call returns; one did not: %s", kind_name(callers[i].doing));
		}
	}
	return check(true, "each call returns");
}

static bool blow(uint64_t seed)
{
	pthread_t vandals_thread, helping[HELPERS_MAX];
	struct random r = { seed };

	callers[0].random.state = seed;
	is->open(&callers[0]);
	running = CALLERS;
	for (int i = 0; i < CALLERS; i++)
		start(&threads[i], run_caller, &callers[i], random_next(&r));
	start(&vandals_thread, run_vandal, &vandals, random_next(&r));
	for (int i = 0; i < helper_count(); i++)
		start(&helping[i], run_helper, &helpers[i], random_next(&r));
	if (!watch(&r))
		return false;
	for (int i = 0; i < CALLERS; i++)
		NEED(pthread_join(threads[i], NULL) == 0);
	NEED(pthread_join(vandals_thread, NULL) == 0);
	for (int i = 0; i < helper_count(); i++)
		NEED(pthread_join(helping[i], NULL) == 0);
	return true;
}

/*
 * The kernel enables packet time stamps by patching its code, and QEMU's threaded emulation does not survive that at a
 * fuzzer's rate (Documentation/lab.md): so keep them enabled.
 */
static void keep_timestamps(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0), on = 1;

	NEED(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_TIMESTAMP, &on, sizeof(on)) == 0);
}

void storm(const struct storm *s, int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t)now_us();
	int seconds = argc > 2 ? atoi(argv[2]) : 20;

	is = s;
	kinds_are(s->kinds, s->kind_count);
	note("seed %llu, %d seconds", (unsigned long long)seed, seconds);
	take_signals();
	keep_timestamps();
	memory_open();
	calls_open();
	bad_pointer();
	read_only_page();
	end_ms = now_ms() + stretched(seconds * 1000);
	late_ms = end_ms + stretched(3 * seconds * 1000);
	if (!blow(seed)) {
		fflush(stdout);
		_exit(1);
	}
}

void storm_verdict(void)
{
	unsigned long calls = 0, leaked = 0, wrong_ones = 0;
	struct caller *all[EVERYONE];
	int count = everyone(all);

	tally_print(all, count);
	for (int i = 0; i < count; i++) {
		calls += all[i]->calls;
		leaked += all[i]->leaked;
		wrong_ones += all[i]->wrong;
	}
	note("%lu calls", calls);
	check(!leaked, "no errno of the kernel's own");
	check(!wrong_ones, "no invalid result");
}

/* ---- children */

static _Noreturn void live(struct caller *c)
{
	unsigned long before = c->wrong + c->leaked;

	c->is_child = true;
	for (int i = pick(c, 60); i > 0; i--)
		is->call(c);
	_exit(c->wrong + c->leaked != before);
}

void call_process(struct caller *c)
{
	int status, patience = pick(c, 40000);
	int64_t until;
	pid_t child;

	if (c->is_child)
		return;
	child = CALL(c, is->fork_kind, fork());
	if (!child)
		live(c);
	if (child < 0)
		return;
	until = now_us() + patience;
	while (waitpid(child, &status, WNOHANG) == 0) {
		if (now_us() >= until)
			kill(child, SIGKILL);
		nap_us(500);
	}
	if (WIFEXITED(status) && WEXITSTATUS(status))
		wrong(c, "what a child saw", WEXITSTATUS(status), 0);
}
