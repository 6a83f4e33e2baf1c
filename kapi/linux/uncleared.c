// SPDX-License-Identifier: GPL-2.0
/*
 * What kapi_alloc() returns is overwritten at once, but with init_on_alloc, which Debian has on, the allocator clears it before:
 * for the two ends of a message of 1 KiB some 400 instructions. It clears no object that has a constructor. So those of some
 * hundred bytes to 8 KiB are of caches of our own, whose constructor does nothing. Their pages were cleared when they came, and
 * contain nothing but what hawser had in such objects.
 *
 * With init_on_free, and where the kernel finds accesses to freed memory, there are no caches: it would neither clear nor poison
 * these objects when they are freed.
 */

#include <linux/mm.h>
#include <linux/slab.h>

#include "uncleared.h"

#define SMALLEST_SHIFT 9
static const char *const names[] = { "hawser_512", "hawser_1k", "hawser_2k", "hawser_4k", "hawser_8k" };
static struct kmem_cache *caches[ARRAY_SIZE(names)];

/* The allocator has a pointer behind each object with a constructor. With it, it takes as much as kmalloc()'s. */
static unsigned int size_of(unsigned int index)
{
	return (1U << (SMALLEST_SHIFT + index)) - sizeof(void *);
}

static void construct_nothing(void *object)
{
}

static bool are_useful(void)
{
	if (IS_ENABLED(CONFIG_KASAN) || IS_ENABLED(CONFIG_KMSAN) || IS_ENABLED(CONFIG_SLUB_DEBUG_ON) || IS_ENABLED(CONFIG_SLOB))
		return false;
	return want_init_on_alloc(0) && !want_init_on_free();
}

/* Without a cache its objects are kmalloc()'s. */
void kapi_uncleared_init(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(names) && are_useful(); i++)
		caches[i] = kmem_cache_create_usercopy(names[i], size_of(i), 0, 0, 0, size_of(i), construct_nothing);
}

/* Objects are left only if a device was left that may use them: then their cache stays, too. */
void kapi_uncleared_exit(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		if (caches[i] && !kmem_cache_shrink(caches[i]))
			kmem_cache_destroy(caches[i]);
	}
}

void *kapi_uncleared_alloc(size_t size, gfp_t gfp)
{
	unsigned int shift = max_t(unsigned int, SMALLEST_SHIFT, fls_long(size - 1));
	unsigned int index = shift - SMALLEST_SHIFT;

	if (size <= size_of(0) / 2 || index >= ARRAY_SIZE(names) || size > size_of(index) || !caches[index])
		return kmalloc(size, gfp);
	return kmem_cache_alloc(caches[index], gfp);
}
