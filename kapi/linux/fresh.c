// SPDX-License-Identifier: GPL-2.0
/*
 * Pages for what is copied from users.
 *
 * Every CPU has a ring of pages of 32 KiB (where such are to be had), of which it hands out parts in turn, so
 * that a message is few pieces. What is less than a page is a part of a single page, of another ring: a byte may
 * stay for as long as a program likes, and its page with it. When a ring returns to a page that is not
 * used any more it is used again: a new one would have to be cleared first, which costs as much as the
 * copying. Each page is charged to the memory cgroup whose program it was allocated for, and used for no other's.
 */

#include <linux/bvec.h>
#include <linux/mm.h>
#include <linux/percpu.h>

#include "charge.h"
#include "pages.h"

/* Bounds what a CPU keeps: 256 KiB of large pages and 128 KiB of single ones. */
#define FRESH_LARGE 8
#define FRESH_SINGLE 32

struct fresh_page {
	struct page *page;
	const void *payer; /* kapi_paying_cgroup() */
	unsigned int used; /* the next part starts here */
};
struct fresh_pages {
	unsigned int current_large, current_single; /* where the last part was taken, or the last page put in */
	struct fresh_page large[FRESH_LARGE], single[FRESH_SINGLE];
};
static DEFINE_PER_CPU(struct fresh_pages, fresh_pages);
static const char fresh_mark; /* its address is in each such page, until that is freed */

/* One of a CPU's rings. */
struct fresh_ring {
	struct fresh_page *slots;
	unsigned int *current_slot, count;
};

/* The one for parts of a message of which so much is left. To be given back with put_ring(). */
static struct fresh_ring get_ring(size_t left)
{
	struct fresh_pages *fresh = get_cpu_ptr(&fresh_pages);

	if (left < PAGE_SIZE)
		return (struct fresh_ring){ fresh->single, &fresh->current_single, FRESH_SINGLE };
	return (struct fresh_ring){ fresh->large, &fresh->current_large, FRESH_LARGE };
}

static void put_ring(void)
{
	put_cpu_ptr(&fresh_pages);
}

/*
 * Has the slot room for a part of what is left, or for all of it? Copying sleeps in between, and meanwhile others take parts of
 * the same page.
 */
static bool has_room(struct fresh_page *slot, const void *payer, size_t left, bool whole)
{
	if (!slot->page || slot->payer != payer)
		return false;
	/* TCP may cut at page borders: no more pieces than necessary then. */
	if (left >= PAGE_SIZE)
		slot->used = PAGE_ALIGN(slot->used);
	if (slot->used < page_size(slot->page) && (!whole || slot->used + left <= page_size(slot->page)))
		return true;
	if (page_ref_count(slot->page) != 1)
		return false;
	slot->used = 0;
	return true;
}

/* Takes a part of a page of the CPU's ring, the last one first. False: there has to be a new page. */
static bool take_part(struct bio_vec *part, size_t left, bool whole)
{
	const void *payer = kapi_paying_cgroup();
	struct fresh_ring ring = get_ring(left);
	bool found = false;
	unsigned int i;

	for (i = 0; i < ring.count && !found; i++) {
		unsigned int at = (*ring.current_slot + i) % ring.count;
		struct fresh_page *slot = &ring.slots[at];

		found = has_room(slot, payer, left, whole);
		if (!found)
			continue;
		*ring.current_slot = at;
		get_page(slot->page);
		part->bv_page = slot->page;
		part->bv_offset = slot->used;
		part->bv_len = min_t(size_t, left, page_size(slot->page) - slot->used);
		slot->used += part->bv_len;
	}
	put_ring();
	return found;
}

/* Puts a new page into the ring, next in turn, in place of one that is still in use elsewhere. */
static bool add_fresh_page(size_t left)
{
	const void *payer = kapi_paying_cgroup();
	struct page *page = NULL, *old;
	struct fresh_page *slot;
	struct fresh_ring ring;

	if (left >= PAGE_SIZE)
		page = alloc_pages((GFP_KERNEL_ACCOUNT & ~__GFP_DIRECT_RECLAIM) | __GFP_COMP | __GFP_NOWARN | __GFP_NORETRY,
				   PAGE_ALLOC_COSTLY_ORDER);
	if (!page)
		page = alloc_page(KAPI_GFP_CHARGED);
	if (!page)
		return false;
	set_page_private(page, (unsigned long)&fresh_mark);
	ring = get_ring(left);
	*ring.current_slot = (*ring.current_slot + 1) % ring.count;
	slot = &ring.slots[*ring.current_slot];
	old = slot->page;
	*slot = (struct fresh_page){ .page = page, .payer = payer };
	put_ring();
	if (old)
		put_page(old);
	return true;
}

int kapi_fresh_take(struct bio_vec *part, size_t left, bool whole)
{
	while (!take_part(part, left, whole)) {
		if (!add_fresh_page(left))
			return -ENOMEM;
	}
	return 0;
}

/* After another part of the page was taken, or on another CPU, it is not found: it is unused then until the whole page is. */
void kapi_fresh_return(const struct bio_vec *part, size_t left)
{
	struct fresh_ring ring = get_ring(left);
	unsigned int i;

	for (i = 0; i < ring.count; i++) {
		struct fresh_page *slot = &ring.slots[i];

		if (slot->page == part->bv_page && slot->used == part->bv_offset + part->bv_len)
			slot->used = part->bv_offset;
	}
	put_ring();
	put_page(part->bv_page);
}

/* A driver's page that a program has mapped has no mapping either, so that only a mark is certain. */
bool kapi_page_is_fresh(const struct page *page)
{
	return page_private(compound_head((struct page *)page)) == (unsigned long)&fresh_mark;
}

static void free_slots(struct fresh_page *slots, unsigned int count)
{
	while (count--) {
		if (slots[count].page)
			put_page(slots[count].page);
	}
}

void kapi_fresh_pages_free(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		free_slots(per_cpu_ptr(&fresh_pages, cpu)->large, FRESH_LARGE);
		free_slots(per_cpu_ptr(&fresh_pages, cpu)->single, FRESH_SINGLE);
	}
}
