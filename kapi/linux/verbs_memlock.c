// SPDX-License-Identifier: GPL-2.0
/*
 * RLIMIT_MEMLOCK: the pages that a program has pinned. Some pins are given back by a work (verbs_pin.c), so that a program may
 * meet its limit with pages that it has given back already. Then it waits for them.
 *
 * It waits for its own pins only, in a queue of its own: any number of threads of any user may be at their limit, and pages are
 * given back in softirq, where nothing may be done for each of them. The queue is a tree, and the first thread is the one that
 * needs the least room: where its address space has none for it, it has none for any. So it alone is woken, and one that leaves
 * wakes the next.
 *
 * Pages that nobody can give back, because another has locked them (verbs_busy.c), count for each program of their user, too.
 * The address space to which they are charged may have no program any more, and a user can have any number of those. Threads of
 * one address space may be of several users. If such pages alone hold back the first one, the others wait until it gives up.
 */

#include <linux/hash.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/rbtree.h>
#include <linux/rhashtable.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#include <kapi/host.h>
#include <kapi/linux.h>
#include <kapi/share.h>

#include "charge.h"
#include "verbs.h"

#define LONGEST_WAIT HZ
#define KEPT_BITS 8

/* A program with pins. A kept one may be that of an address space which is gone: then it becomes that of the next one there. */
struct kapi_memlock {
	struct rhash_head entry;
	const struct mm_struct *mm; /* for comparison */
	struct rcu_head rcu;
	refcount_t refs;            /* pins, calls that make one, kept */
	atomic_t returning;         /* pins on their way back and still charged */
	spinlock_t lock;            /* guards the tree */
	struct rb_root_cached waiting;
};

/* A thread that waits, on its stack. */
struct waiter {
	struct rb_node node;
	struct task_struct *task;
	s64 most; /* there is room for it when no more pages than these are pinned */
};

static const struct rhashtable_params by_mm = {
	.key_len = sizeof(struct mm_struct *),
	.key_offset = offsetof(struct kapi_memlock, mm),
	.head_offset = offsetof(struct kapi_memlock, entry),
	.automatic_shrinking = true,
};

/* Read under RCU. What is in it has a reference for anyone who holds the mutex. */
static struct rhashtable programs;
static DEFINE_MUTEX(changing);

/* A program that always has one pin at a time need not be made for each. */
static struct kapi_memlock *kept[1 << KEPT_BITS];

/* Pages that cannot be given back at present. Two users may have one number in common. */
static atomic_long_t busy[KAPI_USERS];

int kapi_memlock_init(void)
{
	return rhashtable_init(&programs, &by_mm);
}

void kapi_memlock_exit(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(kept); i++)
		if (kept[i])
			kapi_memlock_put(kept[i]);
	rhashtable_destroy(&programs);
}

/* ---- Programs ---- */

static struct kapi_memlock *find(const struct mm_struct *mm)
{
	struct kapi_memlock *program;

	rcu_read_lock();
	program = rhashtable_lookup(&programs, &mm, by_mm);
	if (program && !refcount_inc_not_zero(&program->refs))
		program = NULL;
	rcu_read_unlock();
	return program;
}

static struct kapi_memlock *make(const struct mm_struct *mm)
{
	struct kapi_memlock *program = kzalloc(sizeof(*program), KAPI_GFP_CHARGED);

	if (!program)
		return NULL;
	program->mm = mm;
	refcount_set(&program->refs, 2);
	spin_lock_init(&program->lock);
	program->waiting = RB_ROOT_CACHED;
	return program;
}

struct kapi_memlock *kapi_memlock_get(const struct mm_struct *mm)
{
	struct kapi_memlock *program = find(mm), *fresh, *displaced;
	int error = 0;

	if (program)
		return program;
	fresh = make(mm);
	if (!fresh)
		return NULL;
	mutex_lock(&changing);
	program = find(mm);
	if (!program)
		error = rhashtable_insert_fast(&programs, &fresh->entry, by_mm);
	mutex_unlock(&changing);
	if (program || error) {
		kfree(fresh);
		return program;
	}
	displaced = xchg(&kept[hash_ptr(mm, KEPT_BITS)], fresh);
	if (displaced)
		kapi_memlock_put(displaced);
	return fresh;
}

void kapi_memlock_put(struct kapi_memlock *program)
{
	if (!refcount_dec_and_mutex_lock(&program->refs, &changing))
		return;
	rhashtable_remove_fast(&programs, &program->entry, by_mm);
	mutex_unlock(&changing);
	kfree_rcu(program, rcu);
}

bool kapi_memlock_put_here(struct kapi_memlock *program)
{
	return refcount_dec_not_one(&program->refs);
}

/* ---- Threads that wait ---- */

static bool is_before(struct rb_node *a, const struct rb_node *b)
{
	return rb_entry(a, struct waiter, node)->most > rb_entry(b, struct waiter, node)->most;
}

/* With the lock. */
static void wake_first_locked(struct kapi_memlock *program)
{
	struct rb_node *first = rb_first_cached(&program->waiting);

	if (first)
		wake_up_process(rb_entry(first, struct waiter, node)->task);
}

/* After something became less that threads wait for. */
static void wake_first(struct kapi_memlock *program)
{
	unsigned long flags;

	/* Pairs with set_current_state() in wait_to_charge(): who is not in the tree yet finds what became less. */
	smp_mb();
	if (RB_EMPTY_ROOT(&program->waiting.rb_root))
		return;
	spin_lock_irqsave(&program->lock, flags);
	wake_first_locked(program);
	spin_unlock_irqrestore(&program->lock, flags);
}

static void join(struct kapi_memlock *program, struct waiter *waiter)
{
	spin_lock_irq(&program->lock);
	rb_add_cached(&waiter->node, &program->waiting, is_before);
	spin_unlock_irq(&program->lock);
}

/* What made this thread leave may hold for the next one, or it has taken a wake-up that is not for itself. */
static void leave(struct kapi_memlock *program, struct waiter *waiter)
{
	spin_lock_irq(&program->lock);
	rb_erase_cached(&waiter->node, &program->waiting);
	wake_first_locked(program);
	spin_unlock_irq(&program->lock);
}

/* ---- Pins on their way back ---- */

void kapi_memlock_begin_return(struct kapi_memlock *program)
{
	atomic_inc(&program->returning);
}

void kapi_memlock_end_return(struct kapi_memlock *program)
{
	/* Pairs with is_idle(): who sees this finds the pages uncharged. */
	if (!atomic_dec_return(&program->returning))
		wake_first(program);
}

static bool is_idle(const struct kapi_memlock *program)
{
	return !atomic_read_acquire(&program->returning);
}

void kapi_memlock_add_busy(unsigned int user, long count)
{
	atomic_long_add(count, &busy[user]);
}

unsigned int kapi_memlock_user(void)
{
	return kapi_user_number(kapi_user());
}

/* ---- Charges ---- */

/* By pages of the address space, as InfiniBand's own calls do, so that both share one limit. */
static bool charge(const struct kapi_pin *pin, u64 limit)
{
	if (atomic_long_read(&busy[pin->user]) + (u64)pin->count > limit)
		return false;
	if (atomic64_add_return(pin->count, &pin->mm->pinned_vm) <= limit)
		return true;
	atomic64_sub(pin->count, &pin->mm->pinned_vm);
	return false;
}

void kapi_memlock_uncharge(const struct kapi_pin *pin)
{
	atomic64_sub(pin->count, &pin->mm->pinned_vm);
	wake_first(pin->program);
}

/* Or nothing is on its way back: looked at first, for it would be charged no more by the time that the charge is tried. */
static bool charge_or_idle(const struct kapi_pin *pin, u64 limit, bool *charged)
{
	bool idle = is_idle(pin->program);

	*charged = charge(pin, limit);
	return *charged || idle;
}

static bool wait_to_charge(const struct kapi_pin *pin, u64 limit)
{
	struct waiter waiter = { .task = current, .most = (s64)limit - pin->count };
	long left = LONGEST_WAIT;
	bool charged;

	join(pin->program, &waiter);
	for (;;) {
		set_current_state(TASK_KILLABLE);
		if (charge_or_idle(pin, limit, &charged) || !left || fatal_signal_pending(current))
			break;
		left = schedule_timeout(left);
	}
	__set_current_state(TASK_RUNNING);
	leave(pin->program, &waiter);
	return charged;
}

/* What is returned is soon charged no more, unless its pages are busy: it is not waited for for long. */
bool kapi_memlock_charge(const struct kapi_pin *pin)
{
	u64 limit = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
	bool charged;

	if (charge(pin, limit))
		return true;
	if (capable(CAP_IPC_LOCK))
		return charge(pin, U64_MAX);
	if (charge_or_idle(pin, limit, &charged)) /* now, if it was not so before */
		return charged;
	return wait_to_charge(pin, limit);
}
