// SPDX-License-Identifier: GPL-2.0
/*
 * Bytes in pages: copied from a user into fresh pages, or the user's own pages, pinned. Each piece holds one
 * reference to its page.
 */

#include <linux/bvec.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <linux/uio.h>

#include <kapi/kept.h>
#include <kapi/linux.h>
#include <kapi/pages.h>

#include "charge.h"
#include "pages.h"

/* Bounds what one message may pin; 1 MiB of contiguous memory is 257 pieces. */
#define PIECES_MAX 1024
#define PIN_BATCH 16

struct kapi_pages {
	size_t length;
	unsigned int count, capacity; /* pieces */
	bool pinned;
	struct mmpin account; /* of pinned pages, against the memlock limit */
	struct bio_vec pieces[];
};

static struct kapi_pages *pages_create(unsigned int pieces)
{
	struct kapi_pages *pages = kvmalloc(struct_size(pages, pieces, pieces), KAPI_GFP_CHARGED);

	if (pages) {
		pages->length = 0;
		pages->count = 0;
		pages->capacity = pieces;
		pages->pinned = false;
		pages->account.user = NULL;
		pages->account.num_pg = 0;
	}
	return pages;
}

static void add_piece(struct kapi_pages *pages, struct page *page, unsigned int offset, unsigned int length)
{
	struct bio_vec *piece = &pages->pieces[pages->count++];

	piece->bv_page = page;
	piece->bv_offset = offset;
	piece->bv_len = length;
	pages->length += length;
}

/* Within one page only the page is checked; else this would be done for each, and the memory is checked as a whole. */
static bool copy_in(const struct bio_vec *piece, struct iov_iter *from)
{
	size_t copied;

	if (piece->bv_len < PAGE_SIZE)
		copied = copy_page_from_iter(piece->bv_page, piece->bv_offset, piece->bv_len, from);
	else
		copied = copy_from_iter(page_address(piece->bv_page) + piece->bv_offset, piece->bv_len, from);
	return copied == piece->bv_len;
}

/*
 * The last piece was less than a page, so this one is the rest. In any number of pieces, each what others have left of a page, a
 * message would not fit into the requests of a device.
 */
static bool is_rest(const struct kapi_pages *pages, size_t left)
{
	return pages->count && left + pages->pieces[pages->count - 1].bv_len < PAGE_SIZE;
}

/* Fills one piece; returns its length. It is reserved first, for the copy may fault and sleep. */
static int copy_piece(struct kapi_pages *pages, struct iov_iter *from, size_t left)
{
	bool whole = is_rest(pages, left);
	struct bio_vec part;
	int error;

	if (WARN_ON_ONCE(pages->count == pages->capacity))
		return -EMSGSIZE;
	error = kapi_fresh_take(&part, left, whole);
	if (error)
		return error;
	if (!copy_in(&part, from)) {
		kapi_fresh_return(&part, left);
		return -EFAULT;
	}
	add_piece(pages, part.bv_page, part.bv_offset, part.bv_len);
	return part.bv_len;
}

int kapi_pages_refill(struct kapi_pages *pages, struct kapi_msg *msg, kapi_size length)
{
	struct iov_iter *from = &kapi_msg_to_msghdr(msg)->msg_iter;
	size_t left = length;

	might_sleep();
	if (WARN_ON_ONCE(pages->count || length > kapi_pages_capacity(pages)))
		return -EMSGSIZE;
	while (left) {
		int copied = copy_piece(pages, from, left);

		if (copied < 0)
			return copied;
		left -= copied;
	}
	return 0;
}
EXPORT_SYMBOL_GPL(kapi_pages_refill);

int kapi_pages_from_msg(struct kapi_msg *msg, kapi_size length, struct kapi_pages **result)
{
	/* Each piece has a whole page at least, but for what is left at the end, which may lie in two. */
	struct kapi_pages *pages = pages_create(DIV_ROUND_UP(length, PAGE_SIZE) + 1);
	int error;

	if (!pages)
		return -ENOMEM;
	error = kapi_pages_refill(pages, msg, length);
	if (error)
		kapi_pages_free(pages);
	else
		*result = pages;
	return error;
}
EXPORT_SYMBOL_GPL(kapi_pages_from_msg);

/*
 * Pins what comes next in the message. Each page is recorded as soon as it is pinned, so that freeing gives
 * back all.
 */
static int pin_some(struct kapi_pages *pages, struct iov_iter *from, size_t left, unsigned int room)
{
	struct page *batch[PIN_BATCH];
	size_t offset;
	ssize_t got, rest;
	unsigned int i;

	if (!room)
		return -EMSGSIZE;
	got = iov_iter_get_pages2(from, batch, left, min_t(unsigned int, room, PIN_BATCH), &offset);
	if (got <= 0)
		return got == -ENOMEM ? -ENOMEM : -EFAULT;
	for (i = 0, rest = got; rest; i++) {
		unsigned int length = min_t(size_t, rest, PAGE_SIZE - offset);

		add_piece(pages, batch[i], offset, length);
		rest -= length;
		offset = 0;
	}
	return got;
}

int kapi_pages_pin_msg(struct kapi_msg *msg, kapi_size length, struct kapi_pages **result)
{
	struct iov_iter *from = &kapi_msg_to_msghdr(msg)->msg_iter;
	struct iov_iter wanted = *from;
	struct kapi_pages *pages;
	size_t left = length;
	int count, got;

	might_sleep();
	if (!user_backed_iter(from))
		return -EFAULT;
	iov_iter_truncate(&wanted, length);
	count = iov_iter_npages(&wanted, PIECES_MAX + 1);
	if (count > PIECES_MAX)
		return -EMSGSIZE;
	pages = pages_create(count);
	if (!pages)
		return -ENOMEM;
	pages->pinned = true;
	/* By pages, not by bytes: one byte pins a page. */
	if (mm_account_pinned_pages(&pages->account, (size_t)count << PAGE_SHIFT)) {
		kapi_pages_free(pages);
		return -ENOMEM;
	}
	for (; left; left -= got) {
		got = pin_some(pages, from, left, count - pages->count);
		if (got < 0) {
			kapi_pages_free(pages);
			return got;
		}
	}
	*result = pages;
	return 0;
}
EXPORT_SYMBOL_GPL(kapi_pages_pin_msg);

void kapi_pages_clear(struct kapi_pages *pages)
{
	unsigned int i;

	for (i = 0; i < pages->count; i++)
		put_page(pages->pieces[i].bv_page);
	pages->count = 0;
	pages->length = 0;
}
EXPORT_SYMBOL_GPL(kapi_pages_clear);

kapi_size kapi_pages_capacity(const struct kapi_pages *pages)
{
	return (size_t)(pages->capacity - 1) << PAGE_SHIFT;
}
EXPORT_SYMBOL_GPL(kapi_pages_capacity);

void kapi_pages_free(struct kapi_pages *pages)
{
	if (!pages)
		return;
	kapi_pages_clear(pages);
	if (pages->pinned)
		mm_unaccount_pinned_pages(&pages->account);
	kvfree(pages);
}
EXPORT_SYMBOL_GPL(kapi_pages_free);

kapi_size kapi_pages_length(const struct kapi_pages *pages)
{
	return pages->length;
}
EXPORT_SYMBOL_GPL(kapi_pages_length);

/* The page of a piece stays as long as the piece; other pieces of it may be gone. */
kapi_size kapi_pages_true_size(const struct kapi_pages *pages)
{
	size_t held = pages->pinned ? (size_t)pages->count << PAGE_SHIFT : 0;
	unsigned int i;

	for (i = 0; !pages->pinned && i < pages->count; i++) {
		const struct bio_vec *piece = &pages->pieces[i];

		held += kapi_part_charge(piece->bv_len, page_size(piece->bv_page));
	}
	return held + struct_size(pages, pieces, pages->count);
}
EXPORT_SYMBOL_GPL(kapi_pages_true_size);

unsigned int kapi_pages_segments(const struct kapi_pages *pages, kapi_size offset, struct kapi_segment *segments,
				 unsigned int count)
{
	unsigned int i, filled = 0;

	for (i = 0; i < pages->count && filled < count; i++) {
		const struct bio_vec *piece = &pages->pieces[i];

		if (offset >= piece->bv_len) {
			offset -= piece->bv_len;
			continue;
		}
		segments[filled++] = (struct kapi_segment){
			.page = piece->bv_page,
			.offset = piece->bv_offset + offset,
			.length = piece->bv_len - offset,
		};
		offset = 0;
	}
	return filled;
}
EXPORT_SYMBOL_GPL(kapi_pages_segments);

int kapi_pages_to_msg(const struct kapi_pages *pages, kapi_size offset, kapi_size length, struct kapi_msg *msg)
{
	struct iov_iter *to = &kapi_msg_to_msghdr(msg)->msg_iter;
	unsigned int i;

	might_sleep();
	for (i = 0; i < pages->count && length; i++) {
		const struct bio_vec *piece = &pages->pieces[i];
		size_t part;

		if (offset >= piece->bv_len) {
			offset -= piece->bv_len;
			continue;
		}
		part = min_t(size_t, length, piece->bv_len - offset);
		if (copy_page_to_iter(piece->bv_page, piece->bv_offset + offset, part, to) != part)
			return -EFAULT;
		length -= part;
		offset = 0;
	}
	return length ? -EFAULT : 0;
}
EXPORT_SYMBOL_GPL(kapi_pages_to_msg);
