// SPDX-License-Identifier: GPL-2.0
/*
 * Waiting. A waiter is the kernel's "woken" wait entry: its wake function leaves a mark, so that a wake-up
 * that comes before the sleep is not lost.
 */

#include <linux/jiffies.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/sched/signal.h>
#include <linux/wait.h>

#include <kapi/errno.h>
#include <kapi/host.h>
#include <kapi/linux.h>
#include <kapi/wait.h>

#include "opaque.h"

void kapi_waitq_init(struct kapi_waitq *queue)
{
	init_waitqueue_head(KAPI_INSIDE(struct wait_queue_head, queue));
}
EXPORT_SYMBOL_GPL(kapi_waitq_init);

void kapi_wake(struct kapi_waitq *queue, unsigned int events)
{
	/* Of exclusive ones one is enough, but at the end. */
	__wake_up(KAPI_INSIDE(struct wait_queue_head, queue), TASK_NORMAL, events & KAPI_HUP ? 0 : 1,
		  poll_to_key((__force __poll_t)events));
}
EXPORT_SYMBOL_GPL(kapi_wake);

int kapi_waitq_active(struct kapi_waitq *queue)
{
	return wq_has_sleeper(KAPI_INSIDE(struct wait_queue_head, queue));
}
EXPORT_SYMBOL_GPL(kapi_waitq_active);

static struct wait_queue_entry *entry_of(struct kapi_waiter *waiter)
{
	struct wait_queue_entry *entry = KAPI_INSIDE(struct wait_queue_entry, waiter);

	might_sleep();
	init_waitqueue_func_entry(entry, woken_wake_function);
	entry->private = current;
	return entry;
}

/*
 * The barriers pair with the one of kapi_waitq_active(). Without them the caller's look at its condition may come before the
 * waiter is on the queue for others to see, and a waker finds the queue empty.
 */
void kapi_wait_begin(struct kapi_waitq *queue, struct kapi_waiter *waiter)
{
	add_wait_queue(KAPI_INSIDE(struct wait_queue_head, queue), entry_of(waiter));
	smp_mb();
}
EXPORT_SYMBOL_GPL(kapi_wait_begin);

void kapi_wait_begin_exclusive(struct kapi_waitq *queue, struct kapi_waiter *waiter)
{
	add_wait_queue_exclusive(KAPI_INSIDE(struct wait_queue_head, queue), entry_of(waiter));
	smp_mb();
}
EXPORT_SYMBOL_GPL(kapi_wait_begin_exclusive);

void kapi_wait_end(struct kapi_waitq *queue, struct kapi_waiter *waiter)
{
	remove_wait_queue(KAPI_INSIDE(struct wait_queue_head, queue), KAPI_INSIDE(struct wait_queue_entry, waiter));
}
EXPORT_SYMBOL_GPL(kapi_wait_end);

/* How long to sleep until deadline: never too short, so that a time-out is never reported early. */
static long jiffies_left(u64 deadline_ns)
{
	u64 now, left;

	if (deadline_ns == KAPI_FOREVER)
		return MAX_SCHEDULE_TIMEOUT;
	now = kapi_now_ns();
	if (now >= deadline_ns)
		return 0;
	left = nsecs_to_jiffies64(deadline_ns - now) + 1;
	return min_t(u64, left, MAX_SCHEDULE_TIMEOUT - 1);
}

static int park(struct kapi_waiter *waiter, u64 deadline_ns, unsigned int mode)
{
	struct wait_queue_entry *entry = KAPI_INSIDE(struct wait_queue_entry, waiter);
	long left = 0;

	might_sleep();
	/* A wake-up that is already there comes before a signal and before the deadline. */
	if (!(READ_ONCE(entry->flags) & WQ_FLAG_WOKEN)) {
		if (signal_pending_state(mode, current))
			return -EINTR;
		left = jiffies_left(deadline_ns);
		if (!left)
			return -ETIMEDOUT;
	}
	wait_woken(entry, mode, left);
	return 0;
}

int kapi_park(struct kapi_waiter *waiter, kapi_u64 deadline_ns)
{
	return park(waiter, deadline_ns, TASK_INTERRUPTIBLE);
}
EXPORT_SYMBOL_GPL(kapi_park);

/*
 * Not TASK_IDLE, which the detector of hung tasks leaves alone: what is waited for are our own threads, as with
 * cancel_work_sync(), and when that takes minutes the administrator must be able to see where.
 */
int kapi_park_uninterruptible(struct kapi_waiter *waiter, kapi_u64 deadline_ns)
{
	return park(waiter, deadline_ns, TASK_UNINTERRUPTIBLE);
}
EXPORT_SYMBOL_GPL(kapi_park_uninterruptible);

int kapi_fatal_signal_pending(void)
{
	return fatal_signal_pending(current);
}
EXPORT_SYMBOL_GPL(kapi_fatal_signal_pending);

void kapi_poll_wait(struct kapi_poll *poll, struct kapi_waitq *queue)
{
	poll_wait(poll->file, KAPI_INSIDE(struct wait_queue_head, queue), poll->table);
	/*
	 * A thread that changes the condition either finds this waiter, or the caller's next look at the
	 * condition finds the change.
	 */
	smp_mb();
}
EXPORT_SYMBOL_GPL(kapi_poll_wait);
