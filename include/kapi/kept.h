/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The charge for a part of a network buffer that is kept by reference, or of a page that messages share: the rule of every host.
 *
 * As long as one part is kept, so is the whole buffer. If every part paid for all of it, messages that arrive together would
 * count many times; if each paid for its share alone, a peer and a slow reader could make a host hold many times the
 * charge, with one message in each buffer. So a small part is copied, and another one pays for its share, but at least for a
 * quarter of the buffer.
 */
#ifndef KAPI_KEPT_H
#define KAPI_KEPT_H

#include <kapi/types.h>

KAPI_BEGIN

#define KAPI_SMALLEST_PART 16
#define KAPI_LEAST_CHARGE 4

/* [any] Is a part of so many bytes copied, of a buffer that takes so much memory? */
static inline int kapi_part_is_copied(kapi_u64 size, kapi_u64 buffer) KAPI_NOEXCEPT
{
	return size < buffer / KAPI_SMALLEST_PART;
}

/* [any] What a part pays whose bytes have such a share of the buffer's memory. */
static inline kapi_u64 kapi_part_charge(kapi_u64 share, kapi_u64 buffer) KAPI_NOEXCEPT
{
	return share < buffer / KAPI_LEAST_CHARGE ? buffer / KAPI_LEAST_CHARGE : share;
}

KAPI_END
#endif
