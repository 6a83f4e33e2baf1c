// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred work. The queues are per CPU: what a softirq queues is run by a worker of the same CPU, which is
 * there as soon as the softirq ends, without an interprocessor interrupt and with the data still in the
 * cache.
 */

#include <linux/hash.h>
#include <linux/jiffies.h>
#include <linux/module.h>
#include <linux/workqueue.h>

#include <kapi/linux.h>
#include <kapi/work.h>

#include "opaque.h"

struct kapi_workqueue *kapi_workqueue_create(const char *name, unsigned int most)
{
	might_sleep();
	return (struct kapi_workqueue *)alloc_workqueue("%s", KAPI_WQ_PER_CPU | WQ_MEM_RECLAIM, most, name);
}
EXPORT_SYMBOL_GPL(kapi_workqueue_create);

/* WQ_MEM_RECLAIM is a thread for each queue, that has nothing to do as long as there is memory. */
struct kapi_workqueue *kapi_workqueue_create_cheap(const char *name, unsigned int most)
{
	might_sleep();
	return (struct kapi_workqueue *)alloc_workqueue("%s", KAPI_WQ_PER_CPU, most, name);
}
EXPORT_SYMBOL_GPL(kapi_workqueue_create_cheap);

void kapi_workqueue_destroy(struct kapi_workqueue *queue)
{
	might_sleep();
	if (queue)
		destroy_workqueue((struct workqueue_struct *)queue);
}
EXPORT_SYMBOL_GPL(kapi_workqueue_destroy);

static void run_work(struct work_struct *work)
{
	struct kapi_work_inside *inside = container_of(to_delayed_work(work), struct kapi_work_inside, delayed);

	inside->fn(KAPI_OUTSIDE(struct kapi_work, inside));
}

/*
 * Waiting for one work from another is legal, so that lockdep must distinguish them. A work's class is its
 * function; the keys are shared by the few functions that have the same hash.
 */
static void set_work_class(struct kapi_work_inside *inside)
{
#ifdef CONFIG_LOCKDEP
	static struct lock_class_key keys[256];

	lockdep_init_map(&inside->delayed.work.lockdep_map, "kapi_work", &keys[hash_ptr(inside->fn, 8)], 0);
#endif
}

void kapi_work_init(struct kapi_work *work, kapi_work_fn fn)
{
	struct kapi_work_inside *inside = KAPI_INSIDE(struct kapi_work_inside, work);

	INIT_DELAYED_WORK(&inside->delayed, run_work);
	inside->fn = fn;
	set_work_class(inside);
}
EXPORT_SYMBOL_GPL(kapi_work_init);

/* Never early: a delay is rounded up. */
static unsigned long jiffies_of(u64 delay_ns)
{
	if (!delay_ns)
		return 0;
	return min_t(u64, nsecs_to_jiffies64(delay_ns) + 1, MAX_JIFFY_OFFSET);
}

int kapi_work_queue(struct kapi_workqueue *queue, struct kapi_work *work, kapi_u64 delay_ns)
{
	struct kapi_work_inside *inside = KAPI_INSIDE(struct kapi_work_inside, work);

	return queue_delayed_work((struct workqueue_struct *)queue, &inside->delayed, jiffies_of(delay_ns));
}
EXPORT_SYMBOL_GPL(kapi_work_queue);

int kapi_work_mod(struct kapi_workqueue *queue, struct kapi_work *work, kapi_u64 delay_ns)
{
	struct kapi_work_inside *inside = KAPI_INSIDE(struct kapi_work_inside, work);

	return mod_delayed_work((struct workqueue_struct *)queue, &inside->delayed, jiffies_of(delay_ns));
}
EXPORT_SYMBOL_GPL(kapi_work_mod);

int kapi_work_cancel(struct kapi_work *work)
{
	return cancel_delayed_work(&KAPI_INSIDE(struct kapi_work_inside, work)->delayed);
}
EXPORT_SYMBOL_GPL(kapi_work_cancel);

int kapi_work_cancel_sync(struct kapi_work *work)
{
	might_sleep();
	return cancel_delayed_work_sync(&KAPI_INSIDE(struct kapi_work_inside, work)->delayed);
}
EXPORT_SYMBOL_GPL(kapi_work_cancel_sync);
