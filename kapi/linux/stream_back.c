// SPDX-License-Identifier: GPL-2.0
/*
 * What core has of a program's stream goes back to where the program reads, as copies.
 *
 * They are made with the socket's lock held: a thread of the program can keep it for ever, and copies that were made before would
 * wait for it without having been charged.
 */

#include <linux/mm.h>
#include <linux/skbuff.h>
#include <net/tcp.h>

#include "charge.h"
#include "stream.h"

/*
 * For fewer pages the kernel would look for a process to kill when the cgroup is at its limit (mem_cgroup_oom()), not only
 * refuse.
 */
#define CHARGED_AT_ONCE (PAGE_SIZE << (PAGE_ALLOC_COSTLY_ORDER + 1))

/* TCP counts in an int. False: no memory. The lock is held. */
static bool charge_copy(struct sock *sk, struct sk_buff *copy)
{
	int missing = (int)copy->truesize - sk->sk_forward_alloc;

	if ((s64)atomic_read(&sk->sk_rmem_alloc) + copy->truesize > INT_MAX)
		return false;
	if (missing > 0 && !__sk_mem_schedule(sk, max_t(int, missing, CHARGED_AT_ONCE), SK_MEM_RECV))
		return false;
	skb_set_owner_r(copy, sk);
	return true;
}

static size_t size_of(const struct kapi_piece *piece)
{
	size_t size = 0;

	for (; piece; piece = piece->next)
		size += piece->size;
	return size;
}

/*
 * Small pieces are copied together: TCP takes buffers that are next to empty for bloated, and copies them together in softirq.
 * It is charged for each copy before the next is made, so that one at most is not charged for. TLS has no accounts: the
 * allocations are charged. False: no memory; the caller frees what is in copies. The lock is held.
 */
static bool copy_pieces(struct kapi_stream *stream, const struct kapi_piece *first, struct sk_buff_head *copies)
{
	gfp_t gfp = stream->tls ? KAPI_GFP_CHARGED : GFP_KERNEL;
	struct kapi_source from = { .next = first };
	size_t left = size_of(first);
	struct sk_buff *copy;

	for (; left; left -= copy->len) {
		copy = kapi_copy_next(&from, left, gfp);
		if (!copy)
			return false;
		__skb_queue_tail(copies, copy);
		if (!stream->tls && !charge_copy(stream->sk, copy))
			return false;
	}
	return true;
}

/*
 * While the queue has more than the socket may have, TCP copies it together in softirq at each packet, from the buffer on of
 * which the program has read a part (tcp_collapse()). It stops where one buffer was decrypted by a device and the next one was
 * not, or the reverse. So neighbours differ in that, and TCP copies one of them. In a receive queue only TLS looks at it, too,
 * which a socket that was taken over cannot get. Kernels without TLS in devices have no such mark.
 */
static void set_apart(struct sk_buff *copy, const struct sk_buff *next)
{
#if defined(CONFIG_TLS_DEVICE) || defined(CONFIG_SKB_DECRYPTED)
	copy->decrypted = next && !next->decrypted;
#endif
}

/* Puts copies before what TCP has; the reader's place in the stream goes back by as much. The lock is held. */
static void prepend(struct sock *sk, struct sk_buff_head *copies)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct sk_buff *copy;
	u32 seq = tp->copied_seq;
	u8 flags = TCPHDR_ACK;

	/* A FIN that was consumed has the last number: the bytes are before it, and the program consumes it again. */
	if (sock_flag(sk, SOCK_DONE) && seq == tp->rcv_nxt)
		flags |= TCPHDR_FIN;
	for (; (copy = __skb_dequeue_tail(copies)); flags = TCPHDR_ACK) {
		memset(copy->cb, 0, sizeof(copy->cb));
		TCP_SKB_CB(copy)->end_seq = seq;
		seq -= copy->len + !!(flags & TCPHDR_FIN);
		TCP_SKB_CB(copy)->seq = seq;
		TCP_SKB_CB(copy)->tcp_flags = flags;
		set_apart(copy, skb_peek(&sk->sk_receive_queue));
		__skb_queue_head(&sk->sk_receive_queue, copy);
	}
	WRITE_ONCE(tp->copied_seq, seq);
	/* What was read since then is how TCP finds the size of its window. */
	if (before(seq, tp->rcvq_space.seq))
		tp->rcvq_space.seq = seq;
}

int kapi_stream_put_back(struct kapi_stream *stream, const struct kapi_piece *first)
{
	struct mem_cgroup *other = NULL;
	struct sk_buff_head copies;
	bool done;

	__skb_queue_head_init(&copies);
	/* With TCP's own charges it would only slow down a thread of the kernel's, as the cgroup's memory.high says. */
	if (stream->tls)
		other = kapi_begin_charging(stream->payer);
	done = copy_pieces(stream, first, &copies);
	if (stream->tls)
		set_active_memcg(other);
	if (done && stream->tls)
		done = kapi_tls_prepend(stream->sk, &copies);
	else if (done && !skb_queue_empty(&copies))
		prepend(stream->sk, &copies);
	__skb_queue_purge(&copies);
	if (!stream->tls)
		sk_mem_reclaim(stream->sk); /* what was charged beyond the copies */
	return done ? 0 : -ENOMEM;
}
