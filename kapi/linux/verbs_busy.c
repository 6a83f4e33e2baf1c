// SPDX-License-Identifier: GPL-2.0
/*
 * Pins that cannot be given back, because a page's lock is held. A file system in user space can hold it for as long as it likes,
 * and its user can have as many such pins as the limits allow. So they cost no timer each: one work looks at all of them, at each
 * less and less often. It never waits for a lock, and hands pins on to their own works, which take any time.
 */

#include <linux/list.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/spinlock.h>

#include "verbs.h"

/* The pauses before a pin is looked at again: 50 ms, twice as long each time, 0.8 s at last: less than threads wait for it. */
#define FIRST_PAUSE (HZ / 20 + 1)
#define PAUSES 5
/* After three pauses, 0.35 s, its pages count for its user. A lock that is held for a moment is no reason to refuse others. */
#define COUNTED 3
/* Pins that are looked at in one run. */
#define AT_ONCE 64

static void look(struct work_struct *work);

/* One list for each pause, so that each is in the order in which its pins are due. */
static struct list_head lists[PAUSES];
static DEFINE_SPINLOCK(lock);
static DECLARE_DELAYED_WORK(looks, look);

void kapi_pin_busy_init(void)
{
	unsigned int i;

	for (i = 0; i < PAUSES; i++)
		INIT_LIST_HEAD(&lists[i]);
}

void kapi_pin_busy_exit(void)
{
	cancel_delayed_work_sync(&looks);
}

static bool is_busy(const struct kapi_pin *pin)
{
	struct folio *folio = page_folio(pin->pages[pin->marked]);

	return folio_test_locked(folio) && !folio_test_dirty(folio);
}

/* With the lock. */
static void add(struct kapi_pin *pin)
{
	unsigned int pause = min(pin->pauses, PAUSES - 1);

	if (pin->pauses++ == COUNTED)
		kapi_memlock_add_busy(pin->user, pin->count);
	pin->due = jiffies + (FIRST_PAUSE << pause);
	list_add_tail(&pin->entry, &lists[pause]);
}

/* With the lock. The first pin of a list. */
static struct kapi_pin *first_of(unsigned int list)
{
	return list_first_entry_or_null(&lists[list], struct kapi_pin, entry);
}

/* With the lock. The work runs when the first pin is due, and not at all if there is none. */
static void set_time(void)
{
	unsigned long now = jiffies, delay = FIRST_PAUSE << PAUSES;
	bool any = false;
	unsigned int i;

	for (i = 0; i < PAUSES; i++) {
		const struct kapi_pin *pin = first_of(i);

		if (!pin)
			continue;
		any = true;
		delay = min(delay, time_after(pin->due, now) ? pin->due - now : 0);
	}
	if (any)
		mod_delayed_work(kapi_verbs_works, &looks, delay);
}

/* With the lock. How many of the list it has looked at. */
static unsigned int look_at(unsigned int list, unsigned int most, unsigned long now)
{
	struct kapi_pin *pin;
	unsigned int done;

	for (done = 0; done < most; done++) {
		pin = first_of(list);
		if (!pin || time_after(pin->due, now))
			break;
		list_del(&pin->entry);
		if (is_busy(pin))
			add(pin);
		else
			queue_work(kapi_verbs_works, &pin->work);
	}
	return done;
}

static void look(struct work_struct *work)
{
	unsigned int done = 0, i;
	unsigned long now = jiffies;

	spin_lock(&lock);
	for (i = 0; i < PAUSES; i++)
		done += look_at(i, AT_ONCE - done, now);
	set_time();
	spin_unlock(&lock);
}

void kapi_pin_end_wait(const struct kapi_pin *pin)
{
	if (pin->pauses > COUNTED)
		kapi_memlock_add_busy(pin->user, -(long)pin->count);
}

void kapi_pin_wait(struct kapi_pin *pin)
{
	spin_lock(&lock);
	add(pin);
	set_time();
	spin_unlock(&lock);
}
