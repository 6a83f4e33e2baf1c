// SPDX-License-Identifier: GPL-2.0
/*
 * A program's own TCP socket, taken over for a while.
 *
 * The program keeps its descriptor and may do what it likes with it; while the stream exists its file is held. What
 * would let a callback of ours outlive the stream is refused by TCP itself, because the socket has an upper layer
 * protocol (ULP): ours, which does nothing. So neither TLS nor a listener, whose children inherit callbacks, comes on top.
 * TLS that is there already has the same effect (stream_tls.c).
 */

#include <linux/file.h>
#include <linux/inetdevice.h>
#include <linux/module.h>
#include <linux/skbuff.h>
#include <net/inet_connection_sock.h>
#include <net/tcp.h>

#include <kapi/linux.h>
#include <kapi/stream.h>

#include "stream.h"

/* Its name is what getsockopt(TCP_ULP) and ss(8) tell of such a socket. */
static const struct tcp_ulp_ops taken_over = {
	.name = "hawser",
	.owner = THIS_MODULE,
};

static struct socket *socket_of_fd(int fd)
{
	int error;
	struct socket *sock = sockfd_lookup(fd, &error);

	return sock ? sock : ERR_PTR(-ENOENT);
}

int kapi_stream_key_of_fd(int fd, kapi_u64 *key)
{
	struct socket *sock;

	might_sleep();
	sock = socket_of_fd(fd);
	if (IS_ERR(sock))
		return PTR_ERR(sock);
	*key = (uintptr_t)sock->sk;
	sockfd_put(sock);
	return 0;
}
EXPORT_SYMBOL_GPL(kapi_stream_key_of_fd);

kapi_u64 kapi_stream_key(const struct kapi_stream *stream)
{
	return (uintptr_t)stream->sk;
}
EXPORT_SYMBOL_GPL(kapi_stream_key);

static bool is_tcp(const struct sock *sk)
{
	return (sk->sk_family == AF_INET || sk->sk_family == AF_INET6) && sk->sk_type == SOCK_STREAM &&
	       sk->sk_protocol == IPPROTO_TCP;
}

/* The socket's lock is held. */
static int take_over(struct sock *sk, struct kapi_stream *stream)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	int error = 0;

	if ((1 << sk->sk_state) & (TCPF_LISTEN | TCPF_CLOSE | TCPF_SYN_SENT | TCPF_SYN_RECV))
		return -EOPNOTSUPP;
	write_lock_bh(&sk->sk_callback_lock);
	if (sk->sk_user_data)
		error = -EALREADY;
	else if (icsk->icsk_ulp_ops && !kapi_tls_is_usable(sk))
		error = -EOPNOTSUPP;
	else
		__rcu_assign_sk_user_data_with_flags(sk, stream, SK_USER_DATA_NOCOPY);
	write_unlock_bh(&sk->sk_callback_lock);
	if (error)
		return error;
	if (icsk->icsk_ulp_ops)
		kapi_tls_take_over(stream);
	else
		icsk->icsk_ulp_ops = &taken_over;
	return 0;
}

int kapi_stream_adopt(int fd, struct kapi_stream **result)
{
	struct kapi_stream *stream;
	struct socket *sock;
	int error = -EOPNOTSUPP;

	might_sleep();
	sock = socket_of_fd(fd);
	if (IS_ERR(sock))
		return PTR_ERR(sock);
	if (!sock->sk || !is_tcp(sock->sk))
		goto put;
	error = -ENOMEM;
	stream = kapi_stream_create(sock);
	if (!stream)
		goto put;
	stream->adopted = true;
	lock_sock(sock->sk);
	error = take_over(sock->sk, stream);
	release_sock(sock->sk);
	if (error)
		goto free;
	*result = stream;
	return 0;
free:
	kfree(stream);
put:
	sockfd_put(sock);
	return error;
}
EXPORT_SYMBOL_GPL(kapi_stream_adopt);

/* Giving back. */

/* A buffer for TCP's queue with a copy of the piece. */
static struct sk_buff *copy_of_piece(const struct kapi_piece *piece)
{
	unsigned int head = min_t(unsigned int, piece->size, SKB_WITH_OVERHEAD(PAGE_SIZE)), done = head, i;
	struct sk_buff *copy;
	int error;

	copy = alloc_skb_with_frags(head, piece->size - head, PAGE_ALLOC_COSTLY_ORDER, &error, GFP_KERNEL | __GFP_NOWARN);
	if (!copy)
		return NULL;
	kapi_piece_copy(piece, 0, skb_put(copy, head), head);
	for (i = 0; done < piece->size; i++) {
		const skb_frag_t *frag = &skb_shinfo(copy)->frags[i];
		unsigned int part = min_t(unsigned int, piece->size - done, skb_frag_size(frag));

		kapi_piece_copy(piece, done, skb_frag_address(frag), part);
		done += part;
	}
	copy->len = piece->size;
	copy->data_len = piece->size - head;
	return copy;
}

static int copy_pieces(const struct kapi_piece *first, struct sk_buff_head *copies)
{
	const struct kapi_piece *piece;

	for (piece = first; piece; piece = piece->next) {
		struct sk_buff *copy;

		if (!piece->size)
			continue;
		copy = copy_of_piece(piece);
		if (!copy) {
			__skb_queue_purge(copies);
			return -ENOMEM;
		}
		__skb_queue_tail(copies, copy);
	}
	return 0;
}

/*
 * Puts copies before what TCP has; the reader's place in the stream goes back by as much. False: TCP may have no more
 * memory. The lock is held.
 */
static bool prepend(struct sock *sk, struct sk_buff_head *copies)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct sk_buff *copy;
	u32 seq = tp->copied_seq;
	size_t cost = 0;

	if (skb_queue_empty(copies))
		return true;
	skb_queue_walk(copies, copy)
		cost += copy->truesize;
	if (!sk_rmem_schedule(sk, skb_peek(copies), cost))
		return false;
	while ((copy = __skb_dequeue_tail(copies))) {
		memset(copy->cb, 0, sizeof(copy->cb));
		TCP_SKB_CB(copy)->end_seq = seq;
		seq -= copy->len;
		TCP_SKB_CB(copy)->seq = seq;
		TCP_SKB_CB(copy)->tcp_flags = TCPHDR_ACK;
		skb_set_owner_r(copy, sk);
		__skb_queue_head(&sk->sk_receive_queue, copy);
	}
	WRITE_ONCE(tp->copied_seq, seq);
	/* What was read since then is how TCP finds the size of its window. */
	if (before(seq, tp->rcvq_space.seq))
		tp->rcvq_space.seq = seq;
	return true;
}

/* Closed by either end what came before can be read; not so when the program has disconnected it for another one. */
static bool has_stream(const struct sock *sk)
{
	return sk->sk_state != TCP_CLOSE || sk->sk_shutdown == SHUTDOWN_MASK;
}

/* What came before it is lost: a program that reads on must find the end of the connection there. The lock is held. */
static void forget_received(struct kapi_stream *stream)
{
	struct sock *sk = stream->sk;

	if (stream->tls)
		kapi_tls_forget(sk);
	__skb_queue_purge(&sk->sk_receive_queue);
	WRITE_ONCE(tcp_sk(sk)->copied_seq, tcp_sk(sk)->rcv_nxt);
}

int kapi_stream_give_back(struct kapi_stream *stream, const struct kapi_piece *first, int abort)
{
	struct sock *sk = stream->sk;
	struct sk_buff_head copies;
	int error;

	might_sleep();
	__skb_queue_head_init(&copies);
	error = copy_pieces(first, &copies);
	lock_sock(sk);
	kapi_stream_mute(stream);
	if (!stream->tls)
		inet_csk(sk)->icsk_ulp_ops = NULL;
	if (!error && has_stream(sk)) {
		if (stream->tls)
			kapi_tls_prepend(sk, &copies);
		else if (!prepend(sk, &copies))
			error = -ENOMEM;
	}
	if (error)
		forget_received(stream);
	if (!skb_queue_empty(&sk->sk_receive_queue) || stream->tls)
		(*stream->data_ready_slot)(sk);
	release_sock(sk);
	__skb_queue_purge(&copies);
	if (abort || error)
		tcp_abort(sk, ECONNABORTED);
	if (error) { /* what came until it was reset */
		lock_sock(sk);
		forget_received(stream);
		release_sock(sk);
	}
	cancel_delayed_work_sync(&stream->later);
	sockfd_put(stream->sock);
	kfree(stream);
	return error;
}
EXPORT_SYMBOL_GPL(kapi_stream_give_back);

void kapi_stream_reset(struct kapi_stream *stream)
{
	might_sleep();
	tcp_abort(stream->sk, ECONNABORTED);
}
EXPORT_SYMBOL_GPL(kapi_stream_reset);

/* What the program has set, and what it is told. */

void kapi_stream_post_error(struct kapi_stream *stream, int error)
{
	WRITE_ONCE(stream->sk->sk_err, error);
	sk_error_report(stream->sk);
}
EXPORT_SYMBOL_GPL(kapi_stream_post_error);

kapi_u32 kapi_stream_rcvbuf(const struct kapi_stream *stream)
{
	return READ_ONCE(stream->sk->sk_rcvbuf);
}
EXPORT_SYMBOL_GPL(kapi_stream_rcvbuf);

kapi_u64 kapi_stream_rcvtimeo_ns(const struct kapi_stream *stream)
{
	long timeo = READ_ONCE(stream->sk->sk_rcvtimeo);

	return timeo == MAX_SCHEDULE_TIMEOUT ? KAPI_FOREVER : jiffies64_to_nsecs(timeo);
}
EXPORT_SYMBOL_GPL(kapi_stream_rcvtimeo_ns);

void kapi_stream_queues(const struct kapi_stream *stream, struct kapi_stream_queues *queues)
{
	const struct sock *sk = stream->sk;

	queues->recv_q = skb_queue_len_lockless(&sk->sk_receive_queue);
	queues->rmem = atomic_read(&sk->sk_rmem_alloc);
	queues->send_q = skb_queue_len_lockless(&sk->sk_write_queue);
	queues->smem = refcount_read(&sk->sk_wmem_alloc);
}
EXPORT_SYMBOL_GPL(kapi_stream_queues);
