/* SPDX-License-Identifier: GPL-2.0 */
/* A call that is expected to block, made in a thread of its own so that the test can watch it. */
#ifndef SELFTESTS_LIB_TASK_H
#define SELFTESTS_LIB_TASK_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

struct task {
	pthread_t thread;
	long (*call)(void *arg);
	void *arg;
	pid_t tid; /* set by the thread before the call */
	long result; /* the call's result; valid when done */
	int error; /* its errno */
	int done; /* read and written atomically */
	long long took_ms; /* duration of the call */
};

void task_start(struct task *t, long (*call)(void *arg), void *arg);
/** task_blocked - true if the thread sleeps inside its call, and stays asleep for a while */
bool task_blocked(struct task *t);
/** task_locked_out - the same if no signal ends that sleep, as the wait for a socket's lock */
bool task_locked_out(struct task *t);
/** task_finished - true if the call returned within @ms */
bool task_finished(struct task *t, int ms);
/** task_note_wait - note where in the kernel it waits, to explain a failure */
void task_note_wait(struct task *t);
/** task_signal - send it a signal whose handler does nothing, so that only its system call sees it */
void task_signal(struct task *t);
/** task_join - wait for the call and restore errno and the result as if it had been made here */
long task_join(struct task *t);

#endif
