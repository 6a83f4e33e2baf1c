// SPDX-License-Identifier: GPL-2.0
/*
 * Receiving: TCP's buffers are offered as they lie in its queue, and parts of them are kept by cloning the
 * buffer's head.
 */

#include <linux/mm.h>
#include <linux/module.h>
#include <linux/skbuff.h>
#include <net/tcp.h>

#include <kapi/linux.h>
#include <kapi/stream.h>

#include "stream.h"

/*
 * A kept part is a socket buffer; this lies in its control block. A clone holds the whole buffer's memory and
 * is charged for its share of it, which adds up when all parts of a buffer are kept. So that one small part
 * cannot hold many times what it is charged for, such a part is copied.
 */
struct kept {
	struct kapi_rxbuf *next;
	u32 offset, length;
	size_t true_size;
};
#define SMALLEST_SHARE 16

static struct sk_buff *skb_of(const struct kapi_rxbuf *buffer)
{
	return (struct sk_buff *)buffer;
}

static struct kept *kept_of(const struct kapi_rxbuf *buffer)
{
	BUILD_BUG_ON(sizeof(struct kept) > sizeof(skb_of(buffer)->cb));
	return (struct kept *)skb_of(buffer)->cb;
}

static int offer_buffer(read_descriptor_t *reader, struct sk_buff *skb, unsigned int offset, size_t length)
{
	struct kapi_stream *stream = reader->arg.data;
	struct kapi_rx rx = { .skb = skb, .offset = offset, .length = length };
	size_t used;

	/* TCP offers the rest of a buffer that was consumed in part at once. */
	if (stream->paused)
		return 0;
	used = stream->ops->rx(stream->context, &rx, length);
	if (used < length) {
		stream->paused = true;
		reader->count = 0;
	}
	return used;
}

/* So many, and others get the processor: TLS takes in what arrives meanwhile, without an end if the peer is fast. */
#define RECORDS_AT_ONCE 64

static int offer_record(read_descriptor_t *reader, struct sk_buff *skb, unsigned int offset, size_t length)
{
	int used = offer_buffer(reader, skb, offset, length);

	if (reader->count)
		reader->count--;
	return used;
}

static void offer_records(struct kapi_stream *stream)
{
	read_descriptor_t reader = { .arg.data = stream, .count = RECORDS_AT_ONCE };
	int result = kapi_tls_read(stream, &reader, offer_record);

	/* There may be more; and what ended the reading TLS says only to a call that gets nothing. */
	if (result > 0 && !stream->paused)
		kapi_stream_do_later(stream, 0);
	else if (result == -ESHUTDOWN)
		stream->records_end = true;
	else if (result == -EBUSY)
		kapi_stream_do_later(stream, KAPI_RETRY_DELAY);
	else if (result < 0 && result != -EAGAIN && !stream->broken)
		stream->broken = -result;
}

void kapi_stream_offer(struct kapi_stream *stream)
{
	read_descriptor_t reader = { .arg.data = stream, .count = 1 };

	if (!stream->ops || stream->paused)
		return;
	if (unlikely(stream->tls))
		offer_records(stream);
	else
		tcp_read_sock(stream->sk, &reader, offer_buffer);
}

kapi_size kapi_stream_resume(struct kapi_stream *stream)
{
	struct sock *sk = stream->sk;
	kapi_size unread;

	might_sleep();
	lock_sock(sk);
	stream->paused = false;
	kapi_stream_offer(stream);
	if (stream->tls && stream->ops)
		kapi_stream_tell_end(stream);
	unread = tcp_inq(sk);
	release_sock(sk);
	return unread;
}
EXPORT_SYMBOL_GPL(kapi_stream_resume);

/*
 * The bytes from offset on when they lie in one piece that needs no mapping, as headers mostly do; else NULL. Whoever looks
 * for message after message goes forward, and so does the search.
 */
static const void *in_one_piece(struct kapi_rx *rx, size_t offset, size_t size)
{
	const struct skb_shared_info *shared = skb_shinfo(rx->skb);
	unsigned int head = skb_headlen(rx->skb);

	if (offset + size <= head)
		return rx->skb->data + offset;
	if (IS_ENABLED(CONFIG_HIGHMEM) || offset < head)
		return NULL;
	if (offset < rx->frag_start || !rx->frag) {
		rx->frag = 0;
		rx->frag_start = head;
	}
	for (; rx->frag < shared->nr_frags; rx->frag++) {
		const skb_frag_t *frag = &shared->frags[rx->frag];
		size_t end = rx->frag_start + skb_frag_size(frag);

		if (offset < end)
			return offset + size <= end ? skb_frag_address(frag) + offset - rx->frag_start : NULL;
		rx->frag_start = end;
	}
	return NULL;
}

void kapi_rx_copy(struct kapi_rx *rx, kapi_size offset, void *to, kapi_size size)
{
	const void *from = in_one_piece(rx, rx->offset + offset, size);

	if (likely(from)) {
		memcpy(to, from, size);
		return;
	}
	/* Cannot fail: rx() is given what is there. */
	WARN_ON_ONCE(skb_copy_bits(rx->skb, rx->offset + offset, to, size));
}
EXPORT_SYMBOL_GPL(kapi_rx_copy);

/* A buffer of our own with a copy of a part of skb. */
static struct sk_buff *copy_part(struct sk_buff *skb, unsigned int offset, unsigned int size)
{
	unsigned int head = min_t(unsigned int, size, SKB_WITH_OVERHEAD(PAGE_SIZE)), done, i;
	struct sk_buff *copy;
	int error;

	copy = alloc_skb_with_frags(head, size - head, PAGE_ALLOC_COSTLY_ORDER, &error, GFP_ATOMIC | __GFP_NOWARN);
	if (!copy)
		return NULL;
	error = skb_copy_bits(skb, offset, skb_put(copy, head), head);
	for (done = head, i = 0; !error && done < size; i++) {
		const skb_frag_t *frag = &skb_shinfo(copy)->frags[i];
		unsigned int part = min_t(unsigned int, size - done, skb_frag_size(frag));

		error = skb_copy_bits(skb, offset + done, skb_frag_address(frag), part);
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

static size_t share_of(const struct sk_buff *skb, size_t size)
{
	return div_u64((u64)skb->truesize * size, max(skb->len, 1u)) + sizeof(struct sk_buff);
}

struct kapi_rxbuf *kapi_rx_keep(struct kapi_rx *rx, kapi_size offset, kapi_size size)
{
	struct sk_buff *skb = rx->skb, *mine;
	struct kept kept = { .offset = rx->offset + offset, .length = size };

	/*
	 * On a virtual link a sender's own pages may arrive, and he may change them once TCP has acknowledged
	 * them (MSG_ZEROCOPY): what was delivered must not change.
	 */
	if (size < skb->truesize / SMALLEST_SHARE || skb_has_shared_frag(skb)) {
		mine = copy_part(skb, kept.offset, size);
		kept.offset = 0;
		kept.true_size = mine ? mine->truesize : 0;
	} else {
		mine = skb_clone(skb, GFP_ATOMIC | __GFP_NOWARN);
		kept.true_size = share_of(skb, size);
	}
	if (!mine)
		return NULL;
	*(struct kept *)mine->cb = kept;
	return (struct kapi_rxbuf *)mine;
}
EXPORT_SYMBOL_GPL(kapi_rx_keep);

kapi_size kapi_rx_true_size(const struct kapi_rx *rx)
{
	return share_of(rx->skb, rx->length);
}
EXPORT_SYMBOL_GPL(kapi_rx_true_size);

void kapi_rxbuf_free(struct kapi_rxbuf *buffer)
{
	consume_skb(skb_of(buffer));
}
EXPORT_SYMBOL_GPL(kapi_rxbuf_free);

kapi_size kapi_rxbuf_length(const struct kapi_rxbuf *buffer)
{
	return kept_of(buffer)->length;
}
EXPORT_SYMBOL_GPL(kapi_rxbuf_length);

kapi_size kapi_rxbuf_true_size(const struct kapi_rxbuf *buffer)
{
	return kept_of(buffer)->true_size;
}
EXPORT_SYMBOL_GPL(kapi_rxbuf_true_size);

struct kapi_rxbuf **kapi_rxbuf_next(struct kapi_rxbuf *buffer)
{
	return &kept_of(buffer)->next;
}
EXPORT_SYMBOL_GPL(kapi_rxbuf_next);

void kapi_rxbuf_copy(const struct kapi_rxbuf *buffer, kapi_size offset, void *to, kapi_size size)
{
	WARN_ON_ONCE(skb_copy_bits(skb_of(buffer), kept_of(buffer)->offset + offset, to, size));
}
EXPORT_SYMBOL_GPL(kapi_rxbuf_copy);

int kapi_rxbuf_to_msg(const struct kapi_rxbuf *buffer, kapi_size offset, kapi_size size, struct kapi_msg *msg)
{
	might_sleep();
	return skb_copy_datagram_iter(skb_of(buffer), kept_of(buffer)->offset + offset,
				      &kapi_msg_to_msghdr(msg)->msg_iter, size);
}
EXPORT_SYMBOL_GPL(kapi_rxbuf_to_msg);

void kapi_piece_copy(const struct kapi_piece *piece, unsigned int offset, void *to, unsigned int size)
{
	if (piece->bytes)
		memcpy(to, piece->bytes + offset, size);
	else
		kapi_rxbuf_copy(piece->buffer, offset, to, size);
}
