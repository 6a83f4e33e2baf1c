// SPDX-License-Identifier: GPL-2.0
/*
 * Memory for objects that are made for each message. Debian's kernels clear what kmalloc() returns (init_on_alloc), which costs
 * a message of 1 KiB more than all its locks, but not objects of a cache that has a constructor. Their pages were cleared when
 * they came, and contain nothing but such objects.
 *
 * With init_on_free there are no caches: it does not clear objects that have a constructor.
 */

#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>

#include <kapi/objects.h>

#include "charge.h"
#include "objects.h"

#define SMALLEST 256u
#define CACHES 5 /* the largest objects take a page */

static struct kmem_cache *caches[CACHES];

static void construct(void *object)
{
}

/* What an object of a cache takes. A cache with a constructor has its list of free objects in a word behind each. */
static size_t taken_of(unsigned int cache)
{
	return SMALLEST << cache;
}

static size_t room_of(unsigned int cache)
{
	return taken_of(cache) - sizeof(void *);
}

/* CACHES: of none. */
static unsigned int cache_for(size_t size)
{
	if (size > room_of(CACHES - 1))
		return CACHES;
	return size <= room_of(0) ? 0 : ilog2(size + sizeof(void *) - 1) + 1 - ilog2(SMALLEST);
}

void *kapi_alloc_object(kapi_size size, enum kapi_alloc_mode mode)
{
	unsigned int cache = cache_for(size);

	return cache < CACHES && caches[cache] ? kmem_cache_alloc(caches[cache], kapi_gfp_of(mode)) : kapi_alloc(size, mode);
}
EXPORT_SYMBOL_GPL(kapi_alloc_object);

kapi_size kapi_object_true_size(kapi_size size)
{
	unsigned int cache = cache_for(size);

	return cache < CACHES ? taken_of(cache) : kapi_alloc_true_size(size);
}
EXPORT_SYMBOL_GPL(kapi_object_true_size);

/* Without a cache its objects are kmalloc()'s. */
void __init kapi_objects_init(void)
{
	unsigned int i;

	for (i = 0; i < CACHES && want_init_on_alloc(0) && !want_init_on_free(); i++) {
		char name[32];

		snprintf(name, sizeof(name), "hawser_%zu", taken_of(i));
		/* All of an object may be copied from and to programs. */
		caches[i] = kmem_cache_create_usercopy(name, room_of(i), sizeof(u64), 0, 0, room_of(i), construct);
	}
}

/* Objects are left only where a broken device may still use them: then their cache stays, too. */
void kapi_objects_exit(void)
{
	unsigned int i;

	for (i = 0; i < CACHES; i++) {
		if (caches[i] && !kmem_cache_shrink(caches[i]))
			kmem_cache_destroy(caches[i]);
	}
}
