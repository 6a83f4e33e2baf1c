/* SPDX-License-Identifier: GPL-2.0 */
#ifndef KAPI_LINUX_PAGES_H
#define KAPI_LINUX_PAGES_H

#include <linux/bvec.h>
#include <linux/types.h>

/*
 * [task] A part of a fresh page, with a reference, for the next bytes of a message of which so many are left. It has at least a
 * page of them, or all that are left; when these are less than a page it may have fewer, if not whole. -ENOMEM.
 */
int kapi_fresh_take(struct bio_vec *part, size_t left, bool whole);
/* [task] The part, taken with the same left, has not been filled. */
void kapi_fresh_return(const struct bio_vec *part, size_t left);
/* Gives back the pages that the CPUs keep. No kapi_pages are made any more. */
void kapi_fresh_pages_free(void);

struct page;
/* [any] A page that hawser has allocated and filled: nothing writes to it any more. */
bool kapi_page_is_fresh(const struct page *page);

#endif
