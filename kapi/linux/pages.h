/* SPDX-License-Identifier: GPL-2.0 */
#ifndef KAPI_LINUX_PAGES_H
#define KAPI_LINUX_PAGES_H

#include <linux/types.h>

/* Gives back the pages that the CPUs keep. No kapi_pages are made any more. */
void kapi_fresh_pages_free(void);

struct page;
/* [any] A page that hawser has allocated and filled: nothing writes to it any more. */
bool kapi_page_is_fresh(const struct page *page);

#endif
