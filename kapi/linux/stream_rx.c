// SPDX-License-Identifier: GPL-2.0
/*
 * Receiving: TCP's buffers are offered as they lie in its queue, and parts of them are kept by cloning the
 * buffer's head.
 */

#include <linux/mm.h>
#include <linux/module.h>
#include <linux/skbuff.h>
#include <net/tcp.h>

#include <kapi/kept.h>
#include <kapi/linux.h>
#include <kapi/stream.h>

#include "charge.h"
#include "rxbuf.h"
#include "stream.h"
#include "turn.h"


static bool is_readable(const struct sk_buff *skb)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
	return skb_frags_readable(skb);
#else
	return true;
#endif
}

static int offer_buffer(read_descriptor_t *reader, struct sk_buff *skb, unsigned int offset, size_t length)
{
	struct kapi_stream *stream = reader->arg.data;
	struct kapi_rx rx = { .skb = skb, .offset = offset, .length = length, .payer = stream->payer,
			      .until = stream->until, .looked = stream->looked };
	struct mem_cgroup *other = NULL;
	size_t used;

	/* TCP offers the rest of a buffer that was consumed in part at once. */
	if (stream->paused)
		return 0;
	/* It is in a device's memory, for a program that reads it there. */
	if (unlikely(!is_readable(skb))) {
		WRITE_ONCE(stream->broken, EFAULT);
		reader->count = 0;
		return 0;
	}
	/* What a program's stream makes core allocate is the program's. */
	if (stream->payer)
		other = kapi_begin_charging(stream->payer);
	stream->looked = false;
	used = stream->ops->rx(stream->context, &rx, length);
	if (stream->payer)
		set_active_memcg(other);
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
	/* TLS keeps a record of which nothing is used; of an empty one (RFC 8446, 5.1) nothing can be. */
	int used = length ? offer_buffer(reader, skb, offset, length) : 1;

	if (reader->count)
		reader->count--;
	return used;
}

static void offer_records(struct kapi_stream *stream)
{
	read_descriptor_t reader = { .arg.data = stream, .count = RECORDS_AT_ONCE };
	int result = stream->unreadable ? -EAGAIN : kapi_tls_read(stream, &reader, offer_record);

	/* What TCP has else is a part of a record, or behind an alert. */
	WRITE_ONCE(stream->unoffered, stream->paused || result > 0 || result == -EBUSY);
	/* There may be more. TLS reports why reading ended only to a call that gets nothing. */
	if (result > 0 && !stream->paused) {
		kapi_stream_do_later(stream, 0);
	} else if (result == -ESHUTDOWN) {
		stream->records_end = true;
	} else if (result == -EBUSY) {
		kapi_stream_do_later(stream, KAPI_RETRY_DELAY);
	} else if (result < 0 && result != -EAGAIN) {
		stream->unreadable = true;
		WRITE_ONCE(stream->broken, stream->broken ?: -result);
	}
}

/* TCP reads no further there, and no message has such a byte in it. */
static bool is_at_urgent_byte(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return tp->urg_data && tp->urg_seq == tp->copied_seq;
}

static void offer(struct kapi_stream *stream)
{
	read_descriptor_t reader = { .arg.data = stream, .count = 1 };

	if (unlikely(stream->tls)) {
		offer_records(stream);
		return;
	}
	if (unlikely(kapi_stream_is_replaced(stream)))
		WRITE_ONCE(stream->broken, ECONNRESET);
	else
		tcp_read_sock(stream->sk, &reader, offer_buffer);
	if (unlikely(is_at_urgent_byte(stream->sk)) && !stream->broken)
		WRITE_ONCE(stream->broken, EPROTO);
	if (unlikely(stream->broken))
		kapi_stream_tell_end(stream);
}

void kapi_stream_offer(struct kapi_stream *stream)
{
	u64 began;

	if (!stream->ops || stream->paused || unlikely(stream->broken && !stream->tls))
		return;
	began = kapi_turn_begin(&stream->until);
	stream->looked = true;
	offer(stream);
	kapi_turn_end(began);
}

/* What follows that which has broken a stream is never offered: TCP may count it, but nobody waits for it. */
static size_t unread(const struct kapi_stream *stream)
{
	return stream->broken ? 0 : tcp_inq(stream->sk);
}

kapi_size kapi_stream_resume(struct kapi_stream *stream)
{
	struct sock *sk = stream->sk;
	kapi_size left;

	might_sleep();
	lock_sock(sk);
	stream->paused = false;
	kapi_stream_offer(stream);
	if (stream->tls && stream->ops)
		kapi_stream_tell_end(stream);
	left = unread(stream);
	release_sock(sk);
	return left;
}
EXPORT_SYMBOL_GPL(kapi_stream_resume);

/*
 * Under one lock, so that nothing comes in meanwhile: a peer that sends faster than core reads would put off the end for ever.
 * Other works of this processor run in between.
 */
static size_t drain(struct kapi_stream *stream)
{
	size_t left = unread(stream), before;

	for (;;) {
		before = left;
		stream->paused = false;
		kapi_stream_offer(stream);
		left = unread(stream);
		if (!left || left >= before)
			return left;
		schedule_timeout_uninterruptible(1);
	}
}

kapi_size kapi_stream_drain_and_reset(struct kapi_stream *stream)
{
	struct sock *sk = stream->sk;
	kapi_size left;

	might_sleep();
	lock_sock(sk);
	left = drain(stream);
	if (!left) {
		/* What waits in the backlog finds a closed socket, and its sender keeps it. */
		kapi_stream_mute(stream);
		sk->sk_prot->disconnect(sk, 0); /* tcp_disconnect(), which not every kernel exports */
	}
	release_sock(sk);
	return left;
}
EXPORT_SYMBOL_GPL(kapi_stream_drain_and_reset);

/* A caller that looks at one message after another goes forward, and so does the search. */
const void *kapi_rx_piece(struct kapi_rx *rx, size_t offset, size_t *length)
{
	const struct skb_shared_info *shared = skb_shinfo(rx->skb);
	unsigned int head = skb_headlen(rx->skb);

	offset += rx->offset;
	if (offset < head) {
		*length = head - offset;
		return rx->skb->data + offset;
	}
	if (IS_ENABLED(CONFIG_HIGHMEM))
		return NULL;
	if (offset < rx->frag_start || !rx->frag) {
		rx->frag = 0;
		rx->frag_start = head;
	}
	for (; rx->frag < shared->nr_frags; rx->frag++) {
		const skb_frag_t *frag = &shared->frags[rx->frag];
		size_t end = rx->frag_start + skb_frag_size(frag);

		if (offset < end) {
			*length = end - offset;
			return skb_frag_address(frag) + offset - rx->frag_start;
		}
		rx->frag_start = end;
	}
	return NULL;
}

void kapi_rx_copy(struct kapi_rx *rx, kapi_size offset, void *to, kapi_size size)
{
	size_t length = 0;
	const void *from = kapi_rx_piece(rx, offset, &length);

	if (likely(from && size <= length)) {
		memcpy(to, from, size);
		return;
	}
	/* Cannot fail: rx() is given what is there. */
	WARN_ON_ONCE(skb_copy_bits(rx->skb, rx->offset + offset, to, size));
}
EXPORT_SYMBOL_GPL(kapi_rx_copy);

/* The clock is not read twice at the beginning of a call. */
int kapi_rx_turn_is_over(struct kapi_rx *rx)
{
	if (!rx->looked)
		return kapi_is_past(rx->until);
	rx->looked = false;
	return !rx->until;
}
EXPORT_SYMBOL_GPL(kapi_rx_turn_is_over);

static size_t charge_of(const struct sk_buff *skb, size_t size)
{
	u64 share = div_u64((u64)skb->truesize * size, max(skb->len, 1u));

	return kapi_part_charge(share, skb->truesize) + sizeof(struct sk_buff);
}

static void uncharge_kept(struct sk_buff *skb)
{
	struct kapi_payer *payer = container_of(skb->sk, struct kapi_payer, sk);

	kapi_uncharge(payer, kapi_kept_of((struct kapi_rxbuf *)skb)->true_size);
	kapi_payer_put(payer);
}

/* As long as part lives, a clone of the network's buffer or a copy from it, the payer is charged for it. */
static bool charge_kept(struct sk_buff *part, struct kapi_payer *payer, size_t size)
{
	if (!payer)
		return true;
	if (kapi_charge(payer, size) < 0)
		return false;
	kapi_payer_hold(payer);
	part->sk = &payer->sk;
	part->destructor = uncharge_kept;
	return true;
}

struct kapi_rxbuf *kapi_rx_keep(struct kapi_rx *rx, kapi_size offset, kapi_size size)
{
	struct sk_buff *skb = rx->skb, *mine;
	struct kapi_kept kept = { .offset = rx->offset + offset, .length = size };
	gfp_t gfp = GFP_ATOMIC | __GFP_NOWARN; /* the payer is charged for all of it */

	/*
	 * On a virtual link a sender's own pages may arrive, and the sender may change them once TCP has acknowledged
	 * them (MSG_ZEROCOPY): what was delivered must not change.
	 */
	if (kapi_part_is_copied(size, skb->truesize) || skb_has_shared_frag(skb)) {
		struct kapi_source from = { .skb = skb, .offset = kept.offset, .size = size };

		mine = kapi_copy_to_skb(&from, gfp);
		kept.offset = 0;
		kept.true_size = mine ? mine->truesize : 0;
	} else {
		kept.true_size = charge_of(skb, size);
		mine = skb_clone(skb, gfp);
	}
	if (!mine)
		return NULL;
	if (!charge_kept(mine, rx->payer, kept.true_size)) {
		kfree_skb(mine);
		return NULL;
	}
	*kapi_kept_of((struct kapi_rxbuf *)mine) = kept;
	return (struct kapi_rxbuf *)mine;
}
EXPORT_SYMBOL_GPL(kapi_rx_keep);

int kapi_rx_charge(struct kapi_rx *rx, kapi_size size, struct kapi_payer **payer)
{
	if (!rx->payer)
		return 0;
	if (kapi_charge(rx->payer, size) < 0)
		return -ENOMEM;
	if (!*payer)
		kapi_payer_hold(rx->payer);
	*payer = rx->payer;
	return 0;
}
EXPORT_SYMBOL_GPL(kapi_rx_charge);

void kapi_rx_uncharge(struct kapi_payer *payer, kapi_size size)
{
	if (!payer)
		return;
	kapi_uncharge(payer, size);
	kapi_payer_put(payer);
}
EXPORT_SYMBOL_GPL(kapi_rx_uncharge);

kapi_size kapi_rx_true_size(const struct kapi_rx *rx)
{
	return charge_of(rx->skb, rx->length);
}
EXPORT_SYMBOL_GPL(kapi_rx_true_size);
