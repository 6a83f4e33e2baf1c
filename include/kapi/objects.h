/* SPDX-License-Identifier: GPL-2.0 */
/* Memory for objects that are made for each message. */
#ifndef KAPI_OBJECTS_H
#define KAPI_OBJECTS_H

#include <kapi/memory.h>

KAPI_BEGIN

/*
 * As kapi_alloc, but where the kernel clears what others allocate (init_on_alloc), these are not, up to a page. So the caller
 * shows no byte that it has not written, to a program or a peer. Freed by kapi_free.
 */
void *kapi_alloc_object(kapi_size size, enum kapi_alloc_mode mode) KAPI_NOEXCEPT;

/* [any] As kapi_alloc_true_size. */
kapi_size kapi_object_true_size(kapi_size size) KAPI_NOEXCEPT;

KAPI_END
#endif
