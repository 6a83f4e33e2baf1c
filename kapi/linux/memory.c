// SPDX-License-Identifier: GPL-2.0
/* Memory, deferred freeing, per-CPU counters. */

#include <linux/mm.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/string.h>

#include <kapi/memory.h>
#include <kapi/reclaim.h>

#include "charge.h"
#include "opaque.h"
#include "uncleared.h"

static bool sleeps(enum kapi_alloc_mode mode)
{
	return mode == KAPI_SLEEP || mode == KAPI_SLEEP_CHARGED;
}

void *kapi_zalloc(kapi_size size, enum kapi_alloc_mode mode)
{
	if (unlikely(size > PAGE_SIZE && sleeps(mode)))
		return kvzalloc(size, kapi_gfp_of(mode));
	return kzalloc(size, kapi_gfp_of(mode));
}
EXPORT_SYMBOL_GPL(kapi_zalloc);

void *kapi_alloc(kapi_size size, enum kapi_alloc_mode mode)
{
	if (unlikely(size > PAGE_SIZE && sleeps(mode)))
		return kvmalloc(size, kapi_gfp_of(mode));
	return kapi_uncleared_alloc(size, kapi_gfp_of(mode));
}
EXPORT_SYMBOL_GPL(kapi_alloc);

void kapi_free(void *memory)
{
	kvfree(memory);
}
EXPORT_SYMBOL_GPL(kapi_free);

kapi_size kapi_alloc_true_size(kapi_size size)
{
	return kmalloc_size_roundup(size);
}
EXPORT_SYMBOL_GPL(kapi_alloc_true_size);

unsigned int kapi_reclaim_without_io(void)
{
	return memalloc_noio_save();
}
EXPORT_SYMBOL_GPL(kapi_reclaim_without_io);

void kapi_reclaim_restore(unsigned int before)
{
	memalloc_noio_restore(before);
}
EXPORT_SYMBOL_GPL(kapi_reclaim_restore);

kapi_u64 kapi_memory_total(void)
{
	return (kapi_u64)totalram_pages() << PAGE_SHIFT;
}
EXPORT_SYMBOL_GPL(kapi_memory_total);

static void release_after_grace(struct rcu_head *head)
{
	struct kapi_rcu_inside *inside = container_of(head, struct kapi_rcu_inside, head);

	inside->release(KAPI_OUTSIDE(struct kapi_rcu, inside));
}

void kapi_free_rcu(struct kapi_rcu *head, void (*release)(struct kapi_rcu *head))
{
	struct kapi_rcu_inside *inside = KAPI_INSIDE(struct kapi_rcu_inside, head);

	inside->release = release;
	call_rcu(&inside->head, release_after_grace);
}
EXPORT_SYMBOL_GPL(kapi_free_rcu);

void kapi_rcu_barrier(void)
{
	might_sleep();
	rcu_barrier();
}
EXPORT_SYMBOL_GPL(kapi_rcu_barrier);

struct kapi_counters {
	unsigned int count;
	u64 __percpu *values;
};

struct kapi_counters *kapi_counters_create(unsigned int count)
{
	struct kapi_counters *counters;

	might_sleep();
	counters = kmalloc(sizeof(*counters), KAPI_GFP_CHARGED);
	if (!counters)
		return NULL;
	counters->count = count;
	counters->values = __alloc_percpu_gfp(array_size(count, sizeof(u64)), sizeof(u64), KAPI_GFP_CHARGED);
	if (!counters->values) {
		kfree(counters);
		return NULL;
	}
	return counters;
}
EXPORT_SYMBOL_GPL(kapi_counters_create);

void kapi_counters_destroy(struct kapi_counters *counters)
{
	if (!counters)
		return;
	free_percpu(counters->values);
	kfree(counters);
}
EXPORT_SYMBOL_GPL(kapi_counters_destroy);

void kapi_counters_add(struct kapi_counters *counters, unsigned int index, kapi_u64 n)
{
	this_cpu_add(counters->values[index], n);
}
EXPORT_SYMBOL_GPL(kapi_counters_add);

kapi_u64 kapi_counters_read(const struct kapi_counters *counters, unsigned int index)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(*per_cpu_ptr(&counters->values[index], cpu));
	return sum;
}
EXPORT_SYMBOL_GPL(kapi_counters_read);
