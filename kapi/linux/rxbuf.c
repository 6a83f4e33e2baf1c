// SPDX-License-Identifier: GPL-2.0
/* Received bytes that are kept: parts of TCP's buffers, and buffers that a device has filled. */

#include <linux/mm.h>
#include <linux/module.h>
#include <linux/skbuff.h>

#include <kapi/linux.h>
#include <kapi/stream.h>
#include <kapi/verbs_memory.h>

#include "charge.h"
#include "rxbuf.h"
#include "stream.h"

void kapi_rxbuf_free(struct kapi_rxbuf *buffer)
{
	consume_skb(kapi_rxbuf_skb(buffer));
}
EXPORT_SYMBOL_GPL(kapi_rxbuf_free);

kapi_size kapi_rxbuf_length(const struct kapi_rxbuf *buffer)
{
	return kapi_kept_of(buffer)->length;
}
EXPORT_SYMBOL_GPL(kapi_rxbuf_length);

kapi_size kapi_rxbuf_true_size(const struct kapi_rxbuf *buffer)
{
	return kapi_kept_of(buffer)->true_size;
}
EXPORT_SYMBOL_GPL(kapi_rxbuf_true_size);

struct kapi_rxbuf **kapi_rxbuf_next(struct kapi_rxbuf *buffer)
{
	return &kapi_kept_of(buffer)->next;
}
EXPORT_SYMBOL_GPL(kapi_rxbuf_next);

void kapi_rxbuf_copy(const struct kapi_rxbuf *buffer, kapi_size offset, void *to, kapi_size size)
{
	WARN_ON_ONCE(skb_copy_bits(kapi_rxbuf_skb(buffer), kapi_kept_of(buffer)->offset + offset, to, size));
}
EXPORT_SYMBOL_GPL(kapi_rxbuf_copy);

int kapi_rxbuf_to_msg(const struct kapi_rxbuf *buffer, kapi_size offset, kapi_size size, struct kapi_msg *msg)
{
	might_sleep();
	return skb_copy_datagram_iter(kapi_rxbuf_skb(buffer), kapi_kept_of(buffer)->offset + offset,
				      &kapi_msg_to_msghdr(msg)->msg_iter, size);
}
EXPORT_SYMBOL_GPL(kapi_rxbuf_to_msg);

struct kapi_source kapi_source_of(const struct kapi_piece *piece)
{
	if (piece->bytes)
		return (struct kapi_source){ .bytes = piece->bytes };
	return (struct kapi_source){ .skb = kapi_rxbuf_skb(piece->buffer), .offset = kapi_kept_of(piece->buffer)->offset };
}

/* A smaller one is in the buffer's head; a larger one would make the head take twice its size. */
#define SIZE_IN_HEAD 512

static bool add_page(struct sk_buff *skb, u32 size, gfp_t gfp)
{
	struct page *page = alloc_page(gfp);

	if (!page)
		return false;
	skb_add_rx_frag(skb, 0, page, 0, size, PAGE_SIZE);
	return true;
}

struct kapi_rxbuf *kapi_rxbuf_create(kapi_u32 size, enum kapi_alloc_mode mode)
{
	gfp_t gfp = kapi_gfp_of(mode);
	bool in_head = size <= SIZE_IN_HEAD;
	struct sk_buff *skb;

	if (WARN_ON_ONCE(size > PAGE_SIZE))
		return NULL;
	skb = alloc_skb(in_head ? size : 0, gfp);
	if (!skb)
		return NULL;
	if (in_head) {
		skb_put(skb, size);
	} else if (!add_page(skb, size, gfp)) {
		kfree_skb(skb);
		return NULL;
	}
	*kapi_kept_of((struct kapi_rxbuf *)skb) = (struct kapi_kept){ .length = size, .true_size = skb->truesize };
	return (struct kapi_rxbuf *)skb;
}
EXPORT_SYMBOL_GPL(kapi_rxbuf_create);

void kapi_rxbuf_trim(struct kapi_rxbuf *buffer, kapi_u32 length)
{
	struct kapi_kept *kept = kapi_kept_of(buffer);

	if (!WARN_ON_ONCE(length > kept->length))
		kept->length = length;
}
EXPORT_SYMBOL_GPL(kapi_rxbuf_trim);
