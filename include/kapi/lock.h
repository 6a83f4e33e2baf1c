/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Spinlocks. Usually they are taken with bottom halves off, because stream callbacks run in them, and never from a hard
 * interrupt. A lock's class is its rank in the order of locking (lower rank first) and its name for lockdep. Locks of equal rank
 * are not nested.
 *
 * The second kind is taken with interrupts off, for the locks under which requests are posted to a device, and for those that a
 * hard interrupt takes. When bottom halves are switched on again, a device that is software (Soft-RoCE) does at once what it has
 * left to them, request by request; after a lock of this kind it does so later, for all that were posted meanwhile. No lock of
 * the first kind is taken under one of these.
 */
#ifndef KAPI_LOCK_H
#define KAPI_LOCK_H

#include <kapi/types.h>

KAPI_BEGIN

struct kapi_lock_class {
	const char *name;
	unsigned int rank;
	unsigned long key[KAPI_SIZE_LOCK_KEY / sizeof(unsigned long)]; /* lockdep's static key; zero-initialised */
};

struct kapi_spin {
	unsigned long opaque[KAPI_SIZE_SPIN / sizeof(unsigned long)];
};

/* [any] cls must live as long as the module (a static object). */
void kapi_spin_init(struct kapi_spin *lock, struct kapi_lock_class *cls) KAPI_NOEXCEPT;
void kapi_spin_lock(struct kapi_spin *lock) KAPI_NOEXCEPT;   /* [any] */
void kapi_spin_unlock(struct kapi_spin *lock) KAPI_NOEXCEPT; /* [any] by the holder */
/* [any] The second kind; what is returned is passed to the unlock. One lock is always taken in the same way. */
unsigned long kapi_spin_lock_irqs(struct kapi_spin *lock) KAPI_NOEXCEPT;
void kapi_spin_unlock_irqs(struct kapi_spin *lock, unsigned long state) KAPI_NOEXCEPT; /* [any] by the holder */
/* [any] True when the calling context holds the lock, where the host records it (else always true): for assertions. */
int kapi_spin_is_held(struct kapi_spin *lock) KAPI_NOEXCEPT;

KAPI_END
#endif
