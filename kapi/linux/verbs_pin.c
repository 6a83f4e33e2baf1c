// SPDX-License-Identifier: GPL-2.0
/* A program's pages, pinned for as long as a device may use them. */

#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pagemap.h>
#include <linux/sched/mm.h>
#include <linux/sizes.h>
#include <linux/version.h>
#include <linux/wait_bit.h>

#include <kapi/linux.h>

#include "charge.h"
#include "verbs.h"

/* Pages: more than so many are given back by the work in any case. */
#define UNPIN_AT_ONCE 256

/* Pins that the work gives back, of all programs. */
static atomic_t in_work;

static int pin_pages(struct kapi_pin *pin, u64 first, unsigned int flags)
{
	unsigned int done = 0;

	while (done < pin->count) {
		int got = pin_user_pages_fast(first + ((u64)done << PAGE_SHIFT), pin->count - done, flags | FOLL_LONGTERM,
					      pin->pages + done);

		if (got <= 0) {
			unpin_user_pages(pin->pages, done);
			return got == -ENOMEM || got == -EOPNOTSUPP ? got : -EFAULT;
		}
		done += got;
	}
	return 0;
}

static int pin_to_read(struct kapi_pin *pin, u64 first)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
	/* A page that the program has in common with others, zeroes among them, is replaced when it writes: pin its own. */
	int error = pin_pages(pin, first, FOLL_WRITE | FOLL_FORCE);

	if (error != -EFAULT)
		return error;
#endif
	return pin_pages(pin, first, 0);
}

static void unpin_all(struct kapi_pin *pin)
{
	unpin_user_pages(pin->pages, pin->count);
	kapi_memlock_uncharge(pin);
	pin->count = 0;
}

static void release(struct kapi_pin *pin)
{
	if (pin->program)
		kapi_memlock_put(pin->program);
	mmdrop(pin->mm);
	kvfree(pin);
}

/* Any context. False: the last one of the address space or its program must not end here. */
static bool release_here(struct kapi_pin *pin)
{
	if (!kapi_memlock_put_here(pin->program))
		return false;
	pin->program = NULL;
	if (!atomic_add_unless(&pin->mm->mm_count, -1, 1))
		return false;
	kfree(pin);
	return true;
}

static bool mark_dirty(struct page *page)
{
	struct folio *folio = page_folio(page);

	if (folio_test_dirty(folio))
		return true;
	if (!folio_trylock(folio))
		return false;
	folio_mark_dirty(folio);
	folio_unlock(folio);
	return true;
}

/*
 * Marking a page as changed takes its lock, and large pieces of memory are freed where one may sleep. Nobody waits for the lock:
 * false, at a page whose lock is held.
 */
static bool mark_all(struct kapi_pin *pin)
{
	for (; pin->dirty && pin->marked < pin->count; pin->marked++)
		if (!mark_dirty(pin->pages[pin->marked]))
			return false;
	return true;
}

static void give_back(struct kapi_pin *pin)
{
	kapi_pin_end_wait(pin);
	unpin_all(pin);
	kapi_memlock_end_return(pin->program);
}

static void unpin_in_work(struct work_struct *work)
{
	struct kapi_pin *pin = container_of(work, struct kapi_pin, work);

	if (!mark_all(pin)) {
		kapi_pin_wait(pin);
		return;
	}
	if (pin->count)
		give_back(pin);
	release(pin);
	if (atomic_dec_and_test(&in_work))
		wake_up_var(&in_work);
}

/*
 * The common case costs no switch to the work: pages that were only read, or are marked already, as those of a buffer that is
 * used again. Block devices end their requests likewise (bio_check_pages_dirty()).
 */
static bool unpin_here(struct kapi_pin *pin)
{
	unsigned int i;

	if (pin->count > UNPIN_AT_ONCE)
		return false;
	for (i = 0; pin->dirty && i < pin->count; i++)
		if (!folio_test_dirty(page_folio(pin->pages[i])))
			return false;
	unpin_all(pin);
	return release_here(pin);
}

static int charge_and_pin(struct kapi_pin *pin, u64 first)
{
	int error;

	if (!kapi_memlock_charge(pin))
		return -ENOMEM;
	error = pin->write ? pin_pages(pin, first, FOLL_WRITE) : pin_to_read(pin, first);
	if (error)
		kapi_memlock_uncharge(pin);
	return error;
}

int kapi_pin_user(kapi_u64 address, kapi_size length, int write, struct kapi_pin **result)
{
	u64 first = address & PAGE_MASK;
	struct kapi_pin *pin;
	unsigned int count;
	int error;

	might_sleep();
	if (!length || length > SZ_1G || address + length < address)
		return -EINVAL;
	if (!current->mm)
		return -EFAULT;
	count = DIV_ROUND_UP(address - first + length, PAGE_SIZE);
	pin = kvmalloc(struct_size(pin, pages, count), KAPI_GFP_CHARGED);
	if (!pin)
		return -ENOMEM;
	*pin = (struct kapi_pin){
		.mm = current->mm, .length = length, .count = count, .offset = address - first, .write = write,
		.user = kapi_memlock_user(), .program = kapi_memlock_get(current->mm),
	};
	INIT_WORK(&pin->work, unpin_in_work);
	mmgrab(pin->mm);
	error = pin->program ? charge_and_pin(pin, first) : -ENOMEM;
	if (error)
		release(pin);
	else
		*result = pin;
	return error;
}
EXPORT_SYMBOL_GPL(kapi_pin_user);

void kapi_unpin(struct kapi_pin *pin, int dirty)
{
	if (!pin)
		return;
	/* Pages that were pinned to be read may be those of a file that the program may not change. */
	pin->dirty = dirty && !WARN_ON_ONCE(!pin->write);
	if (unpin_here(pin))
		return;
	atomic_inc(&in_work);
	if (pin->count)
		kapi_memlock_begin_return(pin->program);
	queue_work(kapi_verbs_works, &pin->work);
}
EXPORT_SYMBOL_GPL(kapi_unpin);

unsigned int kapi_pin_pages(const struct kapi_pin *pin)
{
	return DIV_ROUND_UP(pin->offset % SZ_4K + pin->length, SZ_4K);
}
EXPORT_SYMBOL_GPL(kapi_pin_pages);

void kapi_verbs_pins_exit(void)
{
	wait_var_event(&in_work, !atomic_read(&in_work));
	kapi_pin_busy_exit();
}
