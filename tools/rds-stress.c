// SPDX-License-Identifier: GPL-2.0
/*
 * rds-stress: loads RDS between two hosts, measures it, and reports messages that are lost, doubled, out of
 * order or damaged. This file is the parent process; stress.h describes the other parts.
 */
#include "stress.h"

#include "program.h"
#include "rds-socket.h"
#include "stress-control.h"
#include "stress-foreign.h"
#include "stress-report.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

const char program_name[] = "rds-stress";

/* Time limit for the tasks of either side to open their sockets. */
#define READY_MS 30000

/* The parent's polling interval while it waits for its tasks. */
#define TICK_MS 20

struct run {
	struct stress_options options;
	struct stress_control control;
	struct stress_shared *shared;
	struct stress_report report;
	pid_t *tasks;
	bool peer_stopped;
	bool peer_drained;
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number)
{
	(void)signal_number;
	/* A second signal ends the program at once. */
	if (interrupted)
		_exit(EXIT_FAILED);
	interrupted = 1;
}

static void trace(const struct run *run, const char *what)
{
	if (run->options.trace)
		warn("%s", what);
}

static void command(struct run *run, enum stress_command command)
{
	__atomic_store_n(&run->shared->command, command, __ATOMIC_RELEASE);
}

static bool all_tasks_are(const struct run *run, enum stress_task_state state)
{
	unsigned int i;

	for (i = 0; i < run->options.tasks; i++) {
		if (__atomic_load_n(&run->shared->tasks[i].state, __ATOMIC_ACQUIRE) < (int)state)
			return false;
	}
	return true;
}

/* A task that ends early has printed why. */
static void check_tasks(void)
{
	int status;
	pid_t pid = waitpid(-1, &status, WNOHANG);

	if (pid > 0 && WIFSIGNALED(status))
		die("a task was ended by signal %d", WTERMSIG(status));
	if (pid > 0)
		die("a task ended early");
}

/* Reads from the other side for at most @timeout_ms. */
static void hear(struct run *run, int timeout_ms)
{
	char line[STRESS_LINE_SIZE];

	if (run->options.foreign) {
		run->peer_stopped |= stress_foreign_has_ended(&run->control, timeout_ms);
		return;
	}
	if (!stress_control_receive(&run->control, line, timeout_ms))
		return;
	if (!strcmp(line, "stop"))
		run->peer_stopped = true;
	else if (!strcmp(line, "drained"))
		run->peer_drained = true;
	else
		die("the other side sent '%.40s', which is not valid here", line);
}

static void start_tasks(struct run *run)
{
	size_t size = sizeof(*run->shared) + run->options.tasks * sizeof(run->shared->tasks[0]);
	uint64_t deadline = now_ns() + READY_MS * NS_PER_MS;
	unsigned int i;

	run->shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	run->tasks = calloc(run->options.tasks, sizeof(*run->tasks));
	if (run->shared == MAP_FAILED || !run->tasks)
		die("out of memory");
	fflush(stdout);
	for (i = 0; i < run->options.tasks; i++) {
		pid_t pid = fork();

		if (pid < 0)
			die("starting task %u: %s", i, strerror(errno));
		if (!pid) {
			close(run->control.fd);
			stress_task(&run->options, run->shared, i);
		}
		run->tasks[i] = pid;
	}
	while (!all_tasks_are(run, STRESS_TASK_READY)) {
		check_tasks();
		if (now_ns() > deadline)
			die("the tasks do not get their sockets");
		usleep(1000);
	}
}

/* Waits @seconds, or less after a stop request. Reports every second if @reporting. */
static void run_for(struct run *run, uint64_t seconds, bool reporting)
{
	uint64_t started = now_ns();
	uint64_t next = started + NS_PER_SECOND;

	for (;;) {
		uint64_t now = now_ns();

		if (now >= next) {
			if (reporting)
				stress_report_interval(&run->report);
			/* When late by several seconds, print one line for all. */
			next += (now - next) / NS_PER_SECOND * NS_PER_SECOND + NS_PER_SECOND;
			if (seconds && now - started >= seconds * NS_PER_SECOND)
				return;
			continue;
		}
		if (interrupted || run->peer_stopped)
			return;
		check_tasks();
		hear(run, (int)((next - now) / NS_PER_MS) + 1);
	}
}

static void drain(struct run *run)
{
	uint64_t deadline = now_ns() + run->options.drain_seconds * NS_PER_SECOND;
	bool stopped = false;

	if (!run->peer_stopped)
		stress_control_send(&run->control, "stop");
	trace(run, "draining");
	command(run, STRESS_DRAIN);
	/* The other side may need our acknowledgements during its whole wait, and some time to report its end. */
	while (!stopped || (!run->peer_drained && now_ns() < deadline + 5 * NS_PER_SECOND)) {
		check_tasks();
		if (!stopped && (all_tasks_are(run, STRESS_TASK_DRAINED) || now_ns() >= deadline)) {
			stress_control_send(&run->control, "drained");
			stopped = true;
			continue; /* if the other side has ended, its next line is read elsewhere */
		}
		hear(run, TICK_MS);
	}
	if (!run->peer_drained)
		die("the other side does not finish");
}

/* The other side has ended, or goes on with its requests until we do. */
static void drain_foreign(struct run *run)
{
	uint64_t deadline = now_ns() + run->options.drain_seconds * NS_PER_SECOND;

	if (run->peer_stopped)
		return;
	trace(run, "draining");
	command(run, STRESS_DRAIN);
	while (!run->peer_stopped && !all_tasks_are(run, STRESS_TASK_DRAINED) && now_ns() < deadline) {
		check_tasks();
		hear(run, TICK_MS);
	}
	close(run->control.fd);
}

static void end_tasks(struct run *run)
{
	unsigned int i;
	int status;

	command(run, STRESS_EXIT);
	for (i = 0; i < run->options.tasks; i++) {
		if (waitpid(run->tasks[i], &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status))
			die("task %u did not end well", i);
	}
}

static void prepare(struct run *run)
{
	struct stress_options *options = &run->options;
	struct sigaction on_signal = { .sa_handler = on_interrupt };
	const struct sched_param priority = { .sched_priority = 1 };
	uint32_t run_id;
	int fd;

	/* Report errors before the other side starts. */
	fd = socket(AF_RDS, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		die_error(errno, "opening an RDS socket");
	close(fd);
	if (options->active) {
		if (getrandom(&run_id, sizeof(run_id), 0) != sizeof(run_id))
			die("no random numbers: %s", strerror(errno));
		options->run_id = run_id;
		stress_control_connect(&run->control, options);
		options->foreign = !stress_control_is_greeted(&run->control);
		if (options->foreign)
			stress_foreign_send_options(&run->control, options);
		else
			stress_control_tell_options(&run->control, options);
	} else {
		stress_control_accept(&run->control, options);
		options->foreign = !stress_control_greet(&run->control);
		if (options->foreign)
			stress_foreign_take_options(&run->control, options);
		else
			stress_control_take_options(&run->control, options);
	}
	/* From here on, an interrupt ends the measurement normally. */
	sigaction(SIGINT, &on_signal, NULL);
	sigaction(SIGTERM, &on_signal, NULL);
	start_tasks(run);
	/* After starting the tasks, which keep the normal priority. */
	if (options->realtime && sched_setscheduler(0, SCHED_RR, &priority))
		die("real-time priority: %s", strerror(errno));
}

/* Returns when the tasks of both sides are ready. */
static void meet(struct run *run)
{
	if (run->options.foreign) {
		stress_foreign_start(&run->control, &run->options);
		return;
	}
	stress_control_send(&run->control, "ready");
	stress_control_expect(&run->control, "ready", READY_MS);
}

int main(int argc, char **argv)
{
	static struct run run;
	struct stress_counts ours, theirs = { 0 };
	uint64_t warm_up;

	stress_read_command_line(&run.options, argc, argv);
	prepare(&run);
	trace(&run, "the tasks are ready");
	meet(&run);
	stress_report_open(&run.report, &run.options, run.shared);
	command(&run, STRESS_RUN);
	/* The tasks of rds-tools' rds-stress begin two seconds later. */
	warm_up = run.options.warm_up_seconds + (run.options.foreign ? 2 : 0);
	if (warm_up)
		run_for(&run, warm_up, false);
	stress_report_begin(&run.report);
	/* The active side decides when to stop. */
	run_for(&run, run.options.active ? run.options.run_seconds : 0, true);
	stress_report_end(&run.report);
	if (run.options.foreign)
		drain_foreign(&run);
	else
		drain(&run);
	end_tasks(&run);
	stress_report_sum(&run.report, &ours);
	if (!run.options.foreign)
		stress_control_swap_counts(&run.control, &ours, &theirs);
	stress_report_close(&run.report, &ours, &theirs);
	flush_output();
	return stress_counts_bad(&ours) || stress_counts_bad(&theirs) ? EXIT_FAILED : EXIT_GOOD;
}
