// SPDX-License-Identifier: GPL-2.0
/* Copies of received bytes, in network buffers of our own. */

#include <linux/mm.h>
#include <linux/skbuff.h>

#include "stream.h"

/* What one buffer always has room for: before 6.5 the kernel puts single pages into it, at most so many. */
#define COPY_MAX (MAX_SKB_FRAGS * PAGE_SIZE)

static int copy_bytes(const struct kapi_source *from, unsigned int offset, void *to, unsigned int size)
{
	if (!from->bytes)
		return skb_copy_bits(from->skb, from->offset + offset, to, size);
	memcpy(to, from->bytes + offset, size);
	return 0;
}

static struct sk_buff *copy_part(const struct kapi_source *from, unsigned int offset, unsigned int size, gfp_t gfp)
{
	/* All of it in pages, if not in the head: both would take a page more. */
	unsigned int head = size <= SKB_WITH_OVERHEAD(PAGE_SIZE) ? size : 0, done = head, i;
	struct sk_buff *copy;
	int error;

	copy = alloc_skb_with_frags(head, size - head, PAGE_ALLOC_COSTLY_ORDER, &error, gfp | __GFP_NOWARN);
	if (!copy)
		return NULL;
	error = copy_bytes(from, offset, skb_put(copy, head), head);
	for (i = 0; !error && done < size; i++) {
		const skb_frag_t *frag = &skb_shinfo(copy)->frags[i];
		unsigned int part = min_t(unsigned int, size - done, skb_frag_size(frag));

		error = copy_bytes(from, offset + done, skb_frag_address(frag), part);
		done += part;
	}
	copy->len = size;
	copy->data_len = size - head;
	if (WARN_ON_ONCE(error)) {
		kfree_skb(copy);
		return NULL;
	}
	return copy;
}

bool kapi_copy_to_queue(const struct kapi_source *from, unsigned int size, gfp_t gfp, struct sk_buff_head *copies)
{
	unsigned int done = 0;

	while (done < size) {
		unsigned int part = min_t(unsigned int, size - done, COPY_MAX);
		struct sk_buff *copy = copy_part(from, done, part, gfp);

		if (!copy)
			return false;
		__skb_queue_tail(copies, copy);
		done += part;
	}
	return true;
}

struct sk_buff *kapi_copy_to_skb(const struct kapi_source *from, unsigned int size, gfp_t gfp)
{
	struct sk_buff_head copies;
	struct sk_buff *first, *copy, **link;

	__skb_queue_head_init(&copies);
	if (!kapi_copy_to_queue(from, size, gfp, &copies)) {
		__skb_queue_purge(&copies);
		return NULL;
	}
	first = __skb_dequeue(&copies);
	if (skb_queue_empty(&copies))
		return first;
	link = &skb_shinfo(first)->frag_list;
	while ((copy = __skb_dequeue(&copies))) {
		*link = copy;
		link = &copy->next;
		first->len += copy->len;
		first->data_len += copy->len;
		first->truesize += copy->truesize;
	}
	return first;
}
