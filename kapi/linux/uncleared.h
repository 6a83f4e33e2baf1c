/* SPDX-License-Identifier: GPL-2.0 */
/* Memory whose contents are undefined, which the allocator does not clear either. */
#ifndef KAPI_LINUX_UNCLEARED_H
#define KAPI_LINUX_UNCLEARED_H

#include <linux/types.h>

/* Once, before the first allocation. */
void kapi_uncleared_init(void);
/* All is freed. */
void kapi_uncleared_exit(void);
/* As kmalloc(), and so is it freed. */
void *kapi_uncleared_alloc(size_t size, gfp_t gfp);

#endif
