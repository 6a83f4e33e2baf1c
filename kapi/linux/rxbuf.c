// SPDX-License-Identifier: GPL-2.0
/* Received bytes that are kept: parts of TCP's buffers, and buffers that a device has filled. */

#include <linux/mm.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/skbuff.h>

#include <kapi/linux.h>
#include <kapi/stream.h>
#include <kapi/verbs_memory.h>

#include "charge.h"
#include "rxbuf.h"
#include "stream.h"

/*
 * Buffers of a page that a device has filled and that were read are filled again: another page would have to be cleared first,
 * and the allocator be called for it and for two more pieces. So many stay at each CPU at most, which nobody pays for. With
 * init_on_free, and where the kernel finds accesses to freed memory, none stay.
 */
#define SPARES (IS_ENABLED(CONFIG_KASAN) || IS_ENABLED(CONFIG_KMSAN) ? 0 : 64)

struct rx_spares {
	struct kapi_rxbuf *first; /* a list */
	unsigned int count;
};
static DEFINE_PER_CPU(struct rx_spares, rx_spares);

static bool keep_spare(struct kapi_rxbuf *buffer)
{
	struct page *page = skb_frag_page(&skb_shinfo(kapi_rxbuf_skb(buffer))->frags[0]);
	struct rx_spares *spares;
	unsigned long flags;
	bool kept;

	if (want_init_on_free() || page_ref_count(page) != 1 || page_is_pfmemalloc(page) || page_to_nid(page) != numa_mem_id())
		return false;
	local_irq_save(flags);
	spares = this_cpu_ptr(&rx_spares);
	kept = spares->count < SPARES;
	if (kept) {
		kapi_kept_of(buffer)->next = spares->first;
		spares->first = buffer;
		spares->count++;
	}
	local_irq_restore(flags);
	return kept;
}

static struct kapi_rxbuf *take_spare(void)
{
	struct kapi_rxbuf *buffer;
	struct rx_spares *spares;
	unsigned long flags;

	local_irq_save(flags);
	spares = this_cpu_ptr(&rx_spares);
	buffer = spares->first;
	if (buffer) {
		spares->first = kapi_kept_of(buffer)->next;
		spares->count--;
	}
	local_irq_restore(flags);
	return buffer;
}

void kapi_rx_spares_free(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct rx_spares *spares = per_cpu_ptr(&rx_spares, cpu);

		while (spares->first) {
			struct kapi_rxbuf *buffer = spares->first;

			spares->first = kapi_kept_of(buffer)->next;
			consume_skb(kapi_rxbuf_skb(buffer));
		}
		spares->count = 0;
	}
}

void kapi_rxbuf_free(struct kapi_rxbuf *buffer)
{
	if (!kapi_kept_of(buffer)->whole_page || !keep_spare(buffer))
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
	struct kapi_source source = { .bytes = piece->bytes, .size = piece->size, .next = piece->next };

	if (!piece->bytes) {
		source.skb = kapi_rxbuf_skb(piece->buffer);
		source.offset = kapi_kept_of(piece->buffer)->offset;
	}
	return source;
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

static struct sk_buff *make_buffer(u32 size, gfp_t gfp)
{
	bool in_head = size <= SIZE_IN_HEAD;
	struct sk_buff *skb = alloc_skb(in_head ? size : 0, gfp);

	if (!skb)
		return NULL;
	if (in_head) {
		skb_put(skb, size);
	} else if (!add_page(skb, size, gfp)) {
		kfree_skb(skb);
		return NULL;
	}
	return skb;
}

struct kapi_rxbuf *kapi_rxbuf_create(kapi_u32 size, enum kapi_alloc_mode mode)
{
	bool whole_page = size == PAGE_SIZE;
	struct kapi_rxbuf *buffer;

	if (WARN_ON_ONCE(size > PAGE_SIZE))
		return NULL;
	buffer = whole_page ? take_spare() : NULL;
	if (!buffer)
		buffer = (struct kapi_rxbuf *)make_buffer(size, kapi_gfp_of(mode));
	if (!buffer)
		return NULL;
	*kapi_kept_of(buffer) = (struct kapi_kept){
		.length = size,
		.true_size = kapi_rxbuf_skb(buffer)->truesize,
		.whole_page = whole_page,
	};
	return buffer;
}
EXPORT_SYMBOL_GPL(kapi_rxbuf_create);

void kapi_rxbuf_trim(struct kapi_rxbuf *buffer, kapi_u32 length)
{
	struct kapi_kept *kept = kapi_kept_of(buffer);

	if (!WARN_ON_ONCE(length > kept->length))
		kept->length = length;
}
EXPORT_SYMBOL_GPL(kapi_rxbuf_trim);
