/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Waiting, free of lost wake-ups when used like this:
 *
 *	kapi_wait_begin(&queue, &waiter);
 *	while (!condition() && (err = kapi_park(&waiter, deadline)) == 0)
 *		;
 *	kapi_wait_end(&queue, &waiter);
 *
 * A wake-up between begin (or the previous park's return) and park makes park return at once.
 */
#ifndef KAPI_WAIT_H
#define KAPI_WAIT_H

#include <kapi/types.h>

KAPI_BEGIN

#define KAPI_FOREVER (~0ULL)

/* What a wake-up is about; poll reports these to its caller (values of Linux's EPOLL*). */
enum kapi_events {
	KAPI_IN = 0x001,
	KAPI_OUT = 0x004,
	KAPI_ERR = 0x008,
	KAPI_HUP = 0x010,
	KAPI_RDNORM = 0x040,
	KAPI_RDBAND = 0x080,
	KAPI_WRNORM = 0x100,
	KAPI_WRBAND = 0x200,
};

struct kapi_waitq {
	unsigned long opaque[KAPI_SIZE_WAITQ / sizeof(unsigned long)];
};
struct kapi_waiter {
	unsigned long opaque[KAPI_SIZE_WAITER / sizeof(unsigned long)];
};
struct kapi_poll; /* the poll call in progress */

void kapi_waitq_init(struct kapi_waitq *queue) KAPI_NOEXCEPT;                              /* [any] */
/*
 * [any] Wakes all; of exclusive waiters and pollers (EPOLLEXCLUSIVE) one that sleeps, but with KAPI_HUP all of those too. A
 * waiter that has been woken otherwise, by a signal or its deadline, does not sleep: it takes no wake-up away.
 */
void kapi_wake(struct kapi_waitq *queue, unsigned int events) KAPI_NOEXCEPT;
int kapi_waitq_active(struct kapi_waitq *queue) KAPI_NOEXCEPT; /* [any] there is a waiter; full barrier before */
/* [sleep] waiter on the stack; full barrier after, so that a waker's look at the queue sees it or it sees the change */
void kapi_wait_begin(struct kapi_waitq *queue, struct kapi_waiter *waiter) KAPI_NOEXCEPT;
/* [sleep] The same for a waiter that takes what it waits for: an exclusive one. The longest waiting one is woken first. */
void kapi_wait_begin_exclusive(struct kapi_waitq *queue, struct kapi_waiter *waiter) KAPI_NOEXCEPT;
void kapi_wait_end(struct kapi_waitq *queue, struct kapi_waiter *waiter) KAPI_NOEXCEPT;    /* [sleep] */
/*
 * [sleep] Sleeps until woken (0), until deadline on kapi_now_ns()'s clock (-ETIMEDOUT) or a signal (-EINTR). A task that gets
 * a signal gives up: it stays pending, so another park would not sleep.
 */
int kapi_park(struct kapi_waiter *waiter, kapi_u64 deadline_ns) KAPI_NOEXCEPT;
/*
 * [sleep] The same, but no signal ends it: for a teardown, which cannot give up and waits only for hawser's own threads.
 * Never where a program or a peer decides how long it takes: after two minutes the kernel reports a hung task.
 */
int kapi_park_uninterruptible(struct kapi_waiter *waiter, kapi_u64 deadline_ns) KAPI_NOEXCEPT;
/* [task] Is the calling program being killed? Then nobody sees what it was to return, and a long walk can end. */
int kapi_fatal_signal_pending(void) KAPI_NOEXCEPT;
/* [task] Has the poll in progress woken by this queue too. */
void kapi_poll_wait(struct kapi_poll *poll, struct kapi_waitq *queue) KAPI_NOEXCEPT;

KAPI_END
#endif
