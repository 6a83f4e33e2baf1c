/* SPDX-License-Identifier: GPL-2.0 */
/* Memory. The simulator fails each allocation once, poisons freed memory and reports leaks. */
#ifndef KAPI_MEMORY_H
#define KAPI_MEMORY_H

#include <kapi/types.h>

KAPI_BEGIN

/*
 * Charged: to the memory cgroup of the program in whose system call we are, or whose stream (kapi_stream_adopt) calls rx().
 * So is everything that a program can make hawser hold; where there is no such program (a peer, a timer) nothing is charged,
 * and there has to be another limit. It fails when that cgroup is at its limit, even if the machine has memory.
 */
enum kapi_alloc_mode {
	KAPI_ATOMIC = 0,         /* [any] */
	KAPI_SLEEP = 1,          /* [sleep] */
	KAPI_ATOMIC_CHARGED = 2, /* [any] */
	KAPI_SLEEP_CHARGED = 3,  /* [task] */
};

/* Returns zeroed memory of at least size bytes, aligned to 8, or NULL. No warning is logged. The caller owns it. With
 * KAPI_SLEEP and KAPI_SLEEP_CHARGED it need not be physically contiguous when larger than a page. */
void *kapi_zalloc(kapi_size size, enum kapi_alloc_mode mode) KAPI_NOEXCEPT;

/* As kapi_zalloc, the contents undefined, with init_on_alloc too: for what is overwritten before it is read. */
void *kapi_alloc(kapi_size size, enum kapi_alloc_mode mode) KAPI_NOEXCEPT;

/* [any] Frees what kapi_alloc or kapi_zalloc returned; NULL is allowed. */
void kapi_free(void *memory) KAPI_NOEXCEPT;

/* [any] What an allocation of size bytes really takes (for accounting in true size). */
kapi_size kapi_alloc_true_size(kapi_size size) KAPI_NOEXCEPT;

/* [any] The memory of the machine, in bytes: what bounds that all share are a part of. */
kapi_u64 kapi_memory_total(void) KAPI_NOEXCEPT;

/*
 * Calls release(head) after a grace period, from a context where only [any] calls are allowed. head is embedded in the
 * object that dies; the object must be unlinked from every look-up before.
 */
struct kapi_rcu {
	unsigned long opaque[KAPI_SIZE_RCU / sizeof(unsigned long)];
};
void kapi_free_rcu(struct kapi_rcu *head, void (*release)(struct kapi_rcu *head)) KAPI_NOEXCEPT; /* [any] */

/* [init] Waits until every release function passed to kapi_free_rcu before has run: before a module's code goes away.
 */
void kapi_rcu_barrier(void) KAPI_NOEXCEPT;

/* A set of counters, one copy a CPU. Adding is [any] and never contends; reading sums the copies. */
struct kapi_counters;
struct kapi_counters *kapi_counters_create(unsigned int count) KAPI_NOEXCEPT; /* [sleep] NULL: no memory */
void kapi_counters_destroy(struct kapi_counters *counters) KAPI_NOEXCEPT;     /* [any] */
void kapi_counters_add(struct kapi_counters *counters, unsigned int index, kapi_u64 n) KAPI_NOEXCEPT;
kapi_u64 kapi_counters_read(const struct kapi_counters *counters, unsigned int index) KAPI_NOEXCEPT;

/* Plain byte moves between kernel buffers. [any] Here, so that those of a constant size become a few instructions. */
static inline void kapi_copy(void *to, const void *from, kapi_size size) KAPI_NOEXCEPT
{
	if (size) /* else a pointer may be null */
		__builtin_memcpy(to, from, size);
}
static inline void kapi_fill(void *to, int byte, kapi_size size) KAPI_NOEXCEPT
{
	if (size)
		__builtin_memset(to, byte, size);
}
static inline int kapi_compare(const void *a, const void *b, kapi_size size) KAPI_NOEXCEPT /* as memcmp */
{
	return size ? __builtin_memcmp(a, b, size) : 0;
}

KAPI_END
#endif
