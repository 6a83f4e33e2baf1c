// SPDX-License-Identifier: GPL-2.0
/* Copies of received bytes, in network buffers of our own. */

#include <linux/mm.h>
#include <linux/skbuff.h>

#include "stream.h"

/* What one buffer always has room for: before 6.5 the kernel puts single pages into it, at most so many. */
#define COPY_MAX (MAX_SKB_FRAGS * PAGE_SIZE)

/* The next size bytes of from, which goes on. */
static int copy_bytes(struct kapi_source *from, void *to, unsigned int size)
{
	int error = 0;

	while (size && !error) {
		unsigned int part;

		if (!from->size)
			*from = kapi_source_of(from->next);
		part = min(size, from->size);
		if (from->bytes)
			memcpy(to, from->bytes + from->offset, part);
		else
			error = skb_copy_bits(from->skb, from->offset, to, part);
		from->offset += part;
		from->size -= part;
		to += part;
		size -= part;
	}
	return error;
}

struct sk_buff *kapi_copy_next(struct kapi_source *from, size_t left, gfp_t gfp)
{
	unsigned int size = min_t(size_t, left, COPY_MAX);
	/* All of it in pages, if not in the head: both would take a page more. */
	unsigned int head = size <= SKB_WITH_OVERHEAD(PAGE_SIZE) ? size : 0, done = head, i;
	struct sk_buff *copy;
	int error;

	copy = alloc_skb_with_frags(head, size - head, PAGE_ALLOC_COSTLY_ORDER, &error, gfp | __GFP_NOWARN);
	if (!copy)
		return NULL;
	error = copy_bytes(from, skb_put(copy, head), head);
	for (i = 0; !error && done < size; i++) {
		const skb_frag_t *frag = &skb_shinfo(copy)->frags[i];
		unsigned int part = min_t(unsigned int, size - done, skb_frag_size(frag));

		error = copy_bytes(from, skb_frag_address(frag), part);
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

struct sk_buff *kapi_copy_to_skb(struct kapi_source *from, gfp_t gfp)
{
	struct sk_buff *first = kapi_copy_next(from, from->size, gfp), *copy, **link;

	link = first ? &skb_shinfo(first)->frag_list : NULL;
	while (first && from->size) {
		copy = kapi_copy_next(from, from->size, gfp);
		if (!copy) {
			kfree_skb(first);
			return NULL;
		}
		*link = copy;
		link = &copy->next;
		first->len += copy->len;
		first->data_len += copy->len;
		first->truesize += copy->truesize;
	}
	return first;
}
