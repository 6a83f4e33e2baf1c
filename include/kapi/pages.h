/* SPDX-License-Identifier: GPL-2.0 */
/* Bytes in pages that may be handed to the network by reference, and the vector that carries them. */
#ifndef KAPI_PAGES_H
#define KAPI_PAGES_H

#include <kapi/types.h>

KAPI_BEGIN

/*
 * A piece of what is to be written to a stream. With page NULL the bytes at addr are copied by the stream before the
 * call returns; otherwise length bytes at offset of page are handed over by reference and must stay readable and
 * unchanged until acknowledged.
 */
struct kapi_segment {
	const void *addr;
	void *page;
	kapi_u32 offset;
	kapi_u32 length;
};

/* A fixed number of bytes in pages; immutable once made, except for a sole owner that fills it again. One owner;
 * freeing it leaves alone what the network still holds. */
struct kapi_pages;

/* [task] Copies length bytes of the user's message into fresh pages, which are charged to it. -ENOMEM, -EFAULT. */
int kapi_pages_from_msg(struct kapi_msg *msg, kapi_size length, struct kapi_pages **pages) KAPI_NOEXCEPT;
/*
 * [task] Pins the user's own pages (MSG_ZEROCOPY), each charged to the memlock limit. -EFAULT, -ENOMEM (the limit, too),
 * -EMSGSIZE (it lies in more than 1024 pieces, each within a page).
 */
int kapi_pages_pin_msg(struct kapi_msg *msg, kapi_size length, struct kapi_pages **pages) KAPI_NOEXCEPT;
void kapi_pages_free(struct kapi_pages *pages) KAPI_NOEXCEPT;                          /* [any] NULL allowed */
/*
 * For an owner that fills one after the other: clear gives the bytes back (what the network still holds stays as it is),
 * refill is then kapi_pages_from_msg() in the same list. length is at most kapi_pages_capacity(), which is what the list was
 * made for in whole pages. After an error it is to be freed.
 */
void kapi_pages_clear(struct kapi_pages *pages) KAPI_NOEXCEPT;                         /* [any] not of pinned pages */
int kapi_pages_refill(struct kapi_pages *pages, struct kapi_msg *msg, kapi_size length) KAPI_NOEXCEPT; /* [task] */
kapi_size kapi_pages_capacity(const struct kapi_pages *pages) KAPI_NOEXCEPT;           /* [any] */
kapi_size kapi_pages_length(const struct kapi_pages *pages) KAPI_NOEXCEPT;             /* [any] */
/*
 * [any] Memory held: of the page around a piece its share, but at least what kapi_part_charge() says, for the rest of the page
 * may have no owner any more. Pinned pages count whole.
 */
kapi_size kapi_pages_true_size(const struct kapi_pages *pages) KAPI_NOEXCEPT;
/*
 * [any] Fills at most count segments with the bytes from offset to the end and returns how many were filled; fewer
 * bytes than requested only when count is exhausted. But for the one with offset, and of pinned pages, each is a page or more,
 * and what is less than that at the end lies in two at most.
 */
unsigned int kapi_pages_segments(const struct kapi_pages *pages, kapi_size offset, struct kapi_segment *segments,
				 unsigned int count) KAPI_NOEXCEPT;
/* [task] Copies length bytes from offset to the user's message. -EFAULT. */
int kapi_pages_to_msg(const struct kapi_pages *pages, kapi_size offset, kapi_size length,
		      struct kapi_msg *msg) KAPI_NOEXCEPT;

KAPI_END
#endif
