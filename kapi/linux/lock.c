// SPDX-License-Identifier: GPL-2.0
/* Spinlocks with bottom halves or interrupts off. */

#include <linux/module.h>
#include <linux/spinlock.h>

#include <kapi/lock.h>

#include "opaque.h"

void kapi_spin_init(struct kapi_spin *lock, struct kapi_lock_class *cls)
{
	spinlock_t *inside = KAPI_INSIDE(spinlock_t, lock);

	BUILD_BUG_ON(sizeof(struct lock_class_key) > sizeof(cls->key));
	spin_lock_init(inside);
	lockdep_set_class_and_name(inside, (struct lock_class_key *)cls->key, cls->name);
}
EXPORT_SYMBOL_GPL(kapi_spin_init);

void kapi_spin_lock(struct kapi_spin *lock)
{
	spin_lock_bh(KAPI_INSIDE(spinlock_t, lock));
}
EXPORT_SYMBOL_GPL(kapi_spin_lock);

void kapi_spin_unlock(struct kapi_spin *lock)
{
	spin_unlock_bh(KAPI_INSIDE(spinlock_t, lock));
}
EXPORT_SYMBOL_GPL(kapi_spin_unlock);

unsigned long kapi_spin_lock_irqs(struct kapi_spin *lock)
{
	unsigned long flags;

	spin_lock_irqsave(KAPI_INSIDE(spinlock_t, lock), flags);
	return flags;
}
EXPORT_SYMBOL_GPL(kapi_spin_lock_irqs);

void kapi_spin_unlock_irqs(struct kapi_spin *lock, unsigned long state)
{
	spin_unlock_irqrestore(KAPI_INSIDE(spinlock_t, lock), state);
}
EXPORT_SYMBOL_GPL(kapi_spin_unlock_irqs);

int kapi_spin_is_held(struct kapi_spin *lock)
{
#ifdef CONFIG_LOCKDEP
	return lockdep_is_held(KAPI_INSIDE(spinlock_t, lock)) != LOCK_STATE_NOT_HELD;
#else
	return 1;
#endif
}
EXPORT_SYMBOL_GPL(kapi_spin_is_held);
