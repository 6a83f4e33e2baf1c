// SPDX-License-Identifier: GPL-2.0
/*
 * RLIMIT_MEMLOCK: the pages that a program has pinned. Some pins are given back by a work (verbs_pin.c), so that a program may
 * meet its limit with pages that it has given back already. Then it waits for them.
 *
 * It waits for its own pins only, in a queue of its own: any number of threads of any user may be at their limit, and pages are
 * given back in softirq, where nothing may be done for each of them. So one thread is woken, and one that leaves wakes the next.
 * One for which there is too little room goes to the end of the queue.
 */

#include <linux/hash.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/wait.h>

#include "verbs.h"

#define LONGEST_WAIT HZ
#define BUCKET_BITS 8

/* A program with pins on their way back, or with threads that wait for them. */
struct kapi_memlock {
	struct hlist_node entry;
	const struct mm_struct *mm;    /* for comparison: the pins and the threads hold it */
	unsigned int pins;             /* on their way back and still charged */
	unsigned int threads;
	struct wait_queue_head waiting; /* all exclusive */
};

/* The lock guards the list and the numbers of the programs on it. */
static struct bucket {
	spinlock_t lock;
	struct hlist_head programs;
} buckets[1 << BUCKET_BITS];

/* Threads that wait, of all programs: while there are none, nothing is looked up. */
static atomic_t waiters;

void kapi_memlock_init(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(buckets); i++)
		spin_lock_init(&buckets[i].lock);
}

static struct bucket *bucket_of(const struct mm_struct *mm)
{
	return &buckets[hash_ptr(mm, BUCKET_BITS)];
}

static struct kapi_memlock *find(const struct bucket *bucket, const struct mm_struct *mm)
{
	struct kapi_memlock *program;

	hlist_for_each_entry(program, &bucket->programs, entry)
		if (program->mm == mm)
			return program;
	return NULL;
}

/* With the bucket's lock, after one of the numbers became less. */
static void free_if_unused(struct kapi_memlock *program)
{
	if (program->pins || program->threads)
		return;
	hlist_del(&program->entry);
	kfree(program);
}

/* ---- Pins on their way back ---- */

static struct kapi_memlock *find_or_make(struct bucket *bucket, const struct mm_struct *mm)
{
	struct kapi_memlock *program = find(bucket, mm);

	if (program)
		return program;
	program = kzalloc(sizeof(*program), GFP_ATOMIC | __GFP_NOWARN);
	if (!program)
		return NULL;
	program->mm = mm;
	init_waitqueue_head(&program->waiting);
	hlist_add_head(&program->entry, &bucket->programs);
	return program;
}

struct kapi_memlock *kapi_memlock_begin_return(const struct mm_struct *mm)
{
	struct bucket *bucket = bucket_of(mm);
	struct kapi_memlock *program;
	unsigned long flags;

	spin_lock_irqsave(&bucket->lock, flags);
	program = find_or_make(bucket, mm);
	if (program)
		program->pins++;
	spin_unlock_irqrestore(&bucket->lock, flags);
	return program;
}

void kapi_memlock_end_return(struct kapi_memlock *program)
{
	struct bucket *bucket = bucket_of(program->mm);
	unsigned long flags;

	spin_lock_irqsave(&bucket->lock, flags);
	/* Pairs with nothing_returns(): who sees this finds the pages uncharged. */
	smp_store_release(&program->pins, program->pins - 1);
	if (!program->pins)
		wake_up(&program->waiting);
	free_if_unused(program);
	spin_unlock_irqrestore(&bucket->lock, flags);
}

/* ---- Charges ---- */

/* By pages of the address space, as InfiniBand's own calls do, so that both share one limit. */
static bool charge(struct mm_struct *mm, unsigned int count, u64 limit)
{
	if (atomic64_add_return(count, &mm->pinned_vm) <= limit)
		return true;
	atomic64_sub(count, &mm->pinned_vm);
	return false;
}

void kapi_memlock_uncharge(struct mm_struct *mm, unsigned int count)
{
	struct bucket *bucket = bucket_of(mm);
	struct kapi_memlock *program;
	unsigned long flags;

	atomic64_sub(count, &mm->pinned_vm);
	/* Pairs with prepare_to_wait_exclusive(): who is not counted yet finds the pages uncharged. */
	smp_mb__after_atomic();
	if (!atomic_read(&waiters))
		return;
	spin_lock_irqsave(&bucket->lock, flags);
	program = find(bucket, mm);
	if (program)
		wake_up(&program->waiting);
	spin_unlock_irqrestore(&bucket->lock, flags);
}

static struct kapi_memlock *join(const struct mm_struct *mm)
{
	struct bucket *bucket = bucket_of(mm);
	struct kapi_memlock *program;

	spin_lock_irq(&bucket->lock);
	program = find(bucket, mm);
	if (program) {
		program->threads++;
		atomic_inc(&waiters);
	}
	spin_unlock_irq(&bucket->lock);
	return program;
}

/* What made this thread leave may hold for the next one, or it has taken a wake-up that is not for itself. */
static void leave(struct kapi_memlock *program)
{
	struct bucket *bucket = bucket_of(program->mm);

	spin_lock_irq(&bucket->lock);
	program->threads--;
	atomic_dec(&waiters);
	wake_up(&program->waiting);
	free_if_unused(program);
	spin_unlock_irq(&bucket->lock);
}

static bool nothing_returns(const struct kapi_memlock *program)
{
	return !smp_load_acquire(&program->pins);
}

/* Or nothing is on its way back: looked at first, for it would be charged no more by the time that the charge is tried. */
static bool charge_or_idle(const struct kapi_memlock *program, struct mm_struct *mm, unsigned int count, u64 limit, bool *charged)
{
	bool idle = nothing_returns(program);

	*charged = charge(mm, count, limit);
	return *charged || idle;
}

static bool wait_to_charge(struct kapi_memlock *program, struct mm_struct *mm, unsigned int count, u64 limit)
{
	DEFINE_WAIT(entry);
	long left = LONGEST_WAIT;
	bool charged;

	for (;;) {
		prepare_to_wait_exclusive(&program->waiting, &entry, TASK_KILLABLE);
		if (charge_or_idle(program, mm, count, limit, &charged) || !left || fatal_signal_pending(current))
			break;
		left = schedule_timeout(left);
	}
	finish_wait(&program->waiting, &entry);
	return charged;
}

/* What is returned is soon charged no more, unless its pages are busy: it is not waited for for long. */
bool kapi_memlock_charge(struct mm_struct *mm, unsigned int count)
{
	u64 limit = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
	struct kapi_memlock *program;
	bool charged;

	if (charge(mm, count, limit))
		return true;
	if (capable(CAP_IPC_LOCK))
		return charge(mm, count, U64_MAX);
	program = join(mm);
	if (!program) /* now, if it was not so before */
		return charge(mm, count, limit);
	charged = wait_to_charge(program, mm, count, limit);
	leave(program);
	return charged;
}
