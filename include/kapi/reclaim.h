/* SPDX-License-Identifier: GPL-2.0 */
/* Memory for what the machine's memory may be waiting for: a disk that is written to make some free. */
#ifndef KAPI_RECLAIM_H
#define KAPI_RECLAIM_H

#include <kapi/types.h>

KAPI_BEGIN

/*
 * [sleep] From here to kapi_reclaim_restore(), which gets what this returns, no allocation of this thread, in hawser or in what
 * it calls, waits for IO. May be nested.
 */
unsigned int kapi_reclaim_without_io(void) KAPI_NOEXCEPT;
void kapi_reclaim_restore(unsigned int before) KAPI_NOEXCEPT; /* [sleep] the same thread */

KAPI_END
#endif
