// SPDX-License-Identifier: GPL-2.0
/*
 * TCP streams over kernel sockets: connecting, sending, closing.
 *
 * A kernel socket does not hold its namespace, and neither do we: whoever owns the stream closes it before.
 * Only a stream that is closed gracefully holds it, until TCP has seen its FIN acknowledged.
 */

#include <linux/bvec.h>
#include <linux/in6.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/tcp.h>
#include <linux/version.h>
#include <net/inet_connection_sock.h>
#include <net/ipv6.h>
#include <net/tcp.h>

#include <kapi/host.h>
#include <kapi/linux.h>
#include <kapi/stream.h>

#include "stream.h"

#define SEND_BATCH 32
/*
 * Kernels that clear every local variable would clear these vectors for each message, and one entry is used
 * mostly.
 */
#if __has_attribute(__uninitialized__)
#define KAPI_UNINITIALIZED __attribute__((__uninitialized__))
#else
#define KAPI_UNINITIALIZED
#endif
/*
 * A blocked sender is told of room when a third of the buffer is free, and of so many bytes acknowledged in
 * any case.
 */
#define BLOCKED_ACK_STEP 65536u

/*
 * Callbacks of the socket. They run with its lock held: in softirq, or in a task that owns it and works off
 * its backlog. That lock also keeps the stream alive.
 */

static struct kapi_stream *stream_of(struct sock *sk)
{
	return (struct kapi_stream *)((uintptr_t)rcu_dereference_raw(__sk_user_data(sk)) & SK_USER_DATA_PTRMASK);
}

void kapi_stream_do_later(struct kapi_stream *stream, unsigned long delay)
{
	mod_delayed_work(system_wq, &stream->later, delay);
}

static void on_data_ready(struct sock *sk)
{
	struct kapi_stream *stream = stream_of(sk);

	if (!stream)
		return;
	if (unlikely(stream->tls))
		kapi_stream_do_later(stream, 0);
	else
		kapi_stream_offer(stream);
}

/*
 * Called for each acknowledgement as long as SOCK_NOSPACE is set: always on our own sockets, on a program's while
 * something waits for room.
 */
static void tell_acked(struct kapi_stream *stream)
{
	u32 una = tcp_sk(stream->sk)->snd_una;

	if (unlikely(stream->blocked)) {
		if (sk_stream_is_writeable(stream->sk)) {
			stream->blocked = false;
			if (stream->adopted)
				clear_bit(SOCK_NOSPACE, &stream->sock->flags);
		} else if (una - stream->una < BLOCKED_ACK_STEP)
			return;
	} else if (una == stream->una) {
		return;
	}
	stream->una = una;
	stream->ops->acked(stream->context, una);
}

static void on_write_space(struct sock *sk)
{
	struct kapi_stream *stream = stream_of(sk);

	if (stream)
		tell_acked(stream);
}

void kapi_stream_tell_end(struct kapi_stream *stream)
{
	struct sock *sk = stream->sk;

	if (!stream->eof && (sock_flag(sk, SOCK_DONE) || stream->records_end)) {
		kapi_stream_offer(stream);
		WRITE_ONCE(stream->eof, true);
		stream->ops->event(stream->context, KAPI_STREAM_EOF, 0);
	}
	if (!stream->closed && (sk->sk_state == TCP_CLOSE || stream->broken)) {
		kapi_stream_offer(stream);
		WRITE_ONCE(stream->closed, true);
		stream->ops->event(stream->context, KAPI_STREAM_CLOSED, -(stream->broken ?: sk->sk_err));
	}
	if (stream->adopted)
		stream->state_change(sk);
}

static void on_state_change(struct sock *sk)
{
	struct kapi_stream *stream = stream_of(sk);

	if (!stream)
		return;
	if (!stream->established && sk->sk_state == TCP_ESTABLISHED) {
		stream->established = true;
		stream->ops->event(stream->context, KAPI_STREAM_ESTABLISHED, 0);
	}
	if (unlikely(stream->tls))
		kapi_stream_do_later(stream, 0);
	else
		kapi_stream_tell_end(stream);
}

static void on_later(struct work_struct *work)
{
	struct kapi_stream *stream = container_of(to_delayed_work(work), struct kapi_stream, later);

	lock_sock(stream->sk);
	if (stream->ops && stream->blocked)
		tell_acked(stream);
	if (stream->ops && stream->tls) {
		kapi_stream_offer(stream);
		kapi_stream_tell_end(stream);
	}
	release_sock(stream->sk);
}

struct kapi_stream *kapi_stream_create(struct socket *sock)
{
	struct kapi_stream *stream = kzalloc(sizeof(*stream), GFP_KERNEL | __GFP_NOWARN);

	if (!stream)
		return NULL;
	stream->sock = sock;
	stream->sk = sock->sk;
	stream->data_ready_slot = &sock->sk->sk_data_ready;
	stream->write_space_slot = &sock->sk->sk_write_space;
	INIT_DELAYED_WORK(&stream->later, on_later);
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 2, 0)
	/*
	 * The fragment of the task that happens to send is its own; ours makes consecutive bytes lie
	 * together.
	 */
	stream->sk->sk_use_task_frag = false;
#endif
	return stream;
}

/* Makes the socket's callbacks ours. Its lock is held. */
static void unmute(struct kapi_stream *stream, const struct kapi_stream_ops *ops, void *context)
{
	struct sock *sk = stream->sk;

	write_lock_bh(&sk->sk_callback_lock);
	stream->ops = ops;
	stream->context = context;
	stream->una = tcp_sk(sk)->snd_una;
	stream->data_ready = *stream->data_ready_slot;
	stream->state_change = sk->sk_state_change;
	stream->write_space = *stream->write_space_slot;
	__rcu_assign_sk_user_data_with_flags(sk, stream, SK_USER_DATA_NOCOPY);
	WRITE_ONCE(*stream->data_ready_slot, on_data_ready);
	WRITE_ONCE(sk->sk_state_change, on_state_change);
	WRITE_ONCE(*stream->write_space_slot, on_write_space);
	if (!stream->adopted)
		set_bit(SOCK_NOSPACE, &sk->sk_socket->flags);
	write_unlock_bh(&sk->sk_callback_lock);
}

/* Gives the socket its own callbacks back. Its lock is held, so that none of ours is running. */
void kapi_stream_mute(struct kapi_stream *stream)
{
	struct sock *sk = stream->sk;

	if (!stream->ops && !stream->adopted)
		return;
	write_lock_bh(&sk->sk_callback_lock);
	rcu_assign_sk_user_data(sk, NULL);
	if (!stream->ops)
		goto unlock;
	WRITE_ONCE(*stream->data_ready_slot, stream->data_ready);
	WRITE_ONCE(sk->sk_state_change, stream->state_change);
	WRITE_ONCE(*stream->write_space_slot, stream->write_space);
	stream->ops = NULL;
unlock:
	write_unlock_bh(&sk->sk_callback_lock);
}

/* Making a stream. */

bool kapi_addr_is_v4(const struct kapi_addr *addr)
{
	return ipv6_addr_v4mapped((const struct in6_addr *)addr->ip);
}

int kapi_sockaddr_of(const struct kapi_addr *addr, int family, struct sockaddr_storage *name)
{
	memset(name, 0, sizeof(*name));
	if (family == AF_INET) {
		struct sockaddr_in *v4 = (struct sockaddr_in *)name;

		v4->sin_family = AF_INET;
		v4->sin_port = htons(addr->port);
		memcpy(&v4->sin_addr, addr->ip + 12, sizeof(v4->sin_addr));
		return sizeof(*v4);
	} else {
		struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)name;

		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(addr->port);
		v6->sin6_scope_id = addr->scope;
		memcpy(&v6->sin6_addr, addr->ip, sizeof(v6->sin6_addr));
		return sizeof(*v6);
	}
}

static void set_buffers(struct sock *sk, u32 sndbuf, u32 rcvbuf)
{
	if (sndbuf) {
		sk->sk_userlocks |= SOCK_SNDBUF_LOCK;
		WRITE_ONCE(sk->sk_sndbuf, clamp_t(u32, sndbuf, SOCK_MIN_SNDBUF, INT_MAX / 2));
	}
	if (rcvbuf) {
		sk->sk_userlocks |= SOCK_RCVBUF_LOCK;
		WRITE_ONCE(sk->sk_rcvbuf, clamp_t(u32, rcvbuf, SOCK_MIN_RCVBUF, INT_MAX / 2));
	}
}

static void set_options(struct sock *sk, const struct kapi_stream_options *options)
{
	if (options->nodelay)
		tcp_sock_set_nodelay(sk);
	if (options->keepalive_idle_s) {
		tcp_sock_set_keepidle(sk, options->keepalive_idle_s);
		if (options->keepalive_interval_s)
			tcp_sock_set_keepintvl(sk, options->keepalive_interval_s);
		if (options->keepalive_count)
			tcp_sock_set_keepcnt(sk, options->keepalive_count);
		sock_set_keepalive(sk);
	}
	lock_sock(sk);
	set_buffers(sk, options->sndbuf, options->rcvbuf);
	release_sock(sk);
}

/*
 * An automatic port is chosen when the remote address is known, so that the range serves each remote address
 * anew.
 */
static int bind_local(struct socket *sock, const struct kapi_addr *local, int family)
{
	struct sockaddr_storage name;
	int length = kapi_sockaddr_of(local, family, &name), on = 1;

	if (local->port)
		sock_set_reuseaddr(sock->sk);
	else
		sock->ops->setsockopt(sock, SOL_IP, IP_BIND_ADDRESS_NO_PORT, KERNEL_SOCKPTR(&on), sizeof(on));
	return kernel_bind(sock, (void *)&name, length);
}

int kapi_stream_connect(struct kapi_net *net, const struct kapi_addr *local, const struct kapi_addr *remote,
			const struct kapi_stream_options *options, const struct kapi_stream_ops *ops, void *context,
			struct kapi_stream **result)
{
	int family = kapi_addr_is_v4(remote) ? AF_INET : AF_INET6;
	struct sockaddr_storage name;
	struct kapi_stream *stream;
	struct socket *sock;
	int length, error;

	might_sleep();
	error = sock_create_kern(kapi_net_to_net(net), family, SOCK_STREAM, IPPROTO_TCP, &sock);
	if (error)
		return error;
	error = -ENOMEM;
	stream = kapi_stream_create(sock);
	if (!stream)
		goto release;
	set_options(sock->sk, options);
	error = bind_local(sock, local, family);
	if (error)
		goto destroy;
	lock_sock(sock->sk);
	unmute(stream, ops, context);
	release_sock(sock->sk);
	/* Events may come before kernel_connect() returns: whoever gets them may use the stream. */
	*result = stream;
	length = kapi_sockaddr_of(remote, family, &name);
	error = kernel_connect(sock, (void *)&name, length, O_NONBLOCK);
	if (!error || error == -EINPROGRESS)
		return 0;
	*result = NULL;
	lock_sock(sock->sk);
	kapi_stream_mute(stream);
	release_sock(sock->sk);
destroy:
	kfree(stream);
release:
	sock_release(sock);
	return error;
}
EXPORT_SYMBOL_GPL(kapi_stream_connect);

void kapi_stream_attach(struct kapi_stream *stream, const struct kapi_stream_options *options,
			const struct kapi_stream_ops *ops, void *context)
{
	struct sock *sk = stream->sk;

	might_sleep();
	set_options(sk, options);
	lock_sock(sk);
	unmute(stream, ops, context);
	stream->established = true;
	kapi_stream_offer(stream);
	kapi_stream_tell_end(stream);
	release_sock(sk);
}
EXPORT_SYMBOL_GPL(kapi_stream_attach);

/* Of a live stream. */

void kapi_stream_addrs(struct kapi_stream *stream, struct kapi_addr *local, struct kapi_addr *remote)
{
	const struct sock *sk = stream->sk;
	const struct inet_sock *inet = inet_sk(sk);
	struct in6_addr from, to;

#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6) {
		from = sk->sk_v6_rcv_saddr;
		to = sk->sk_v6_daddr;
	} else
#endif
	{
		ipv6_addr_set_v4mapped(inet->inet_saddr, &from);
		ipv6_addr_set_v4mapped(inet->inet_daddr, &to);
	}
	*local = (struct kapi_addr){ .port = ntohs(inet->inet_sport) };
	*remote = (struct kapi_addr){ .port = ntohs(inet->inet_dport) };
	memcpy(local->ip, &from, sizeof(local->ip));
	memcpy(remote->ip, &to, sizeof(remote->ip));
	if (ipv6_addr_type(&to) & IPV6_ADDR_LINKLOCAL)
		local->scope = remote->scope = READ_ONCE(sk->sk_bound_dev_if);
}
EXPORT_SYMBOL_GPL(kapi_stream_addrs);

void kapi_stream_set_buffers(struct kapi_stream *stream, kapi_u32 sndbuf, kapi_u32 rcvbuf)
{
	might_sleep();
	lock_sock(stream->sk);
	set_buffers(stream->sk, sndbuf, rcvbuf);
	if (stream->ops && stream->blocked)
		tell_acked(stream);
	release_sock(stream->sk);
}
EXPORT_SYMBOL_GPL(kapi_stream_set_buffers);

void kapi_stream_shutdown_write(struct kapi_stream *stream)
{
	might_sleep();
	kernel_sock_shutdown(stream->sock, SHUT_WR);
}
EXPORT_SYMBOL_GPL(kapi_stream_shutdown_write);

void kapi_stream_health(struct kapi_stream *stream, struct kapi_stream_health *health)
{
	struct sock *sk = stream->sk;
	const struct tcp_sock *tp = tcp_sk(sk);
	const struct inet_connection_sock *icsk = inet_csk(sk);
	/* A look from outside, without the socket's lock: what changes meanwhile is seen as it was or as it is. */
	u64 now = kapi_now_ns(), silent = jiffies64_to_nsecs(data_race(keepalive_time_elapsed(tp)));

	health->una = READ_ONCE(tp->snd_una);
	health->next = READ_ONCE(tp->snd_nxt);
	health->write_seq = READ_ONCE(tp->write_seq);
	health->unread = max(data_race(tcp_inq(sk)), 0);
	/* Before anything was heard, the time stamps are those of the machine's start or before it. */
	health->last_ack_ns = now > silent ? now - silent : 0;
	health->unanswered = READ_ONCE(icsk->icsk_retransmits) || READ_ONCE(icsk->icsk_probes_out);
	/* A stream that nobody has attached to has had no events. */
	health->eof = READ_ONCE(stream->eof) || sock_flag(sk, SOCK_DONE);
	health->closed = READ_ONCE(stream->closed) || inet_sk_state_load(sk) == TCP_CLOSE;
}
EXPORT_SYMBOL_GPL(kapi_stream_health);

/* Sending. */

/* Appends count segments that are bytes in memory; wanted is set to their sum. */
static int send_bytes(struct sock *sk, const struct kapi_segment *segments, unsigned int count, int flags,
		      size_t *wanted)
{
	struct msghdr msg = { .msg_flags = flags };
	struct kvec vector[SEND_BATCH] KAPI_UNINITIALIZED;
	unsigned int i;
	size_t sum = 0;

	for (i = 0; i < count; i++) {
		vector[i].iov_base = (void *)segments[i].addr;
		vector[i].iov_len = segments[i].length;
		sum += segments[i].length;
	}
	*wanted = sum;
	iov_iter_kvec(&msg.msg_iter, ITER_SOURCE, vector, count, sum);
	return tcp_sendmsg_locked(sk, &msg, sum);
}

/*
 * Pages of our own are nobody else's to write to; a user's pages are, and the receiving end of a virtual link
 * asks.
 */
static int page_flags(const struct page *page)
{
	return READ_ONCE(compound_head((struct page *)page)->mapping) ? 0 : MSG_NO_SHARED_FRAGS;
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 5, 0)
/* Appends count segments that are pages, by reference. */
static int send_pages(struct sock *sk, const struct kapi_segment *segments, unsigned int count, int flags,
		      size_t *wanted)
{
	struct msghdr msg = { .msg_flags = flags | MSG_SPLICE_PAGES | page_flags(segments[0].page) };
	struct bio_vec vector[SEND_BATCH] KAPI_UNINITIALIZED;
	unsigned int i;
	size_t sum = 0;

	for (i = 0; i < count; i++) {
		bvec_set_page(&vector[i], segments[i].page, segments[i].length, segments[i].offset);
		sum += segments[i].length;
	}
	*wanted = sum;
	iov_iter_bvec(&msg.msg_iter, ITER_SOURCE, vector, count, sum);
	return tcp_sendmsg_locked(sk, &msg, sum);
}
#else
static int send_pages(struct sock *sk, const struct kapi_segment *segments, unsigned int count, int flags,
		      size_t *wanted)
{
	int sent = 0, taken = 0;
	unsigned int i;

	*wanted = 0;
	for (i = 0; i < count; i++)
		*wanted += segments[i].length;
	for (i = 0; i < count; i++) {
		const struct kapi_segment *segment = &segments[i];
		int more = i + 1 < count ? MSG_MORE | MSG_SENDPAGE_NOTLAST : 0;

		taken = tcp_sendpage_locked(sk, segment->page, segment->offset, segment->length,
					    flags | more | page_flags(segment->page));
		if (taken < 0)
			break;
		sent += taken;
		if (taken < segment->length)
			break;
	}
	return sent ? sent : taken;
}
#endif

/* The segments from the first on that are of the same kind. */
static unsigned int run_of(const struct kapi_segment *segments, unsigned int count)
{
	bool pages = segments[0].page;
	unsigned int i;

	for (i = 1; i < count && i < SEND_BATCH; i++) {
		if (!segments[i].page == pages)
			break;
		if (pages && page_flags(segments[i].page) != page_flags(segments[0].page))
			break;
	}
	return i;
}

/*
 * TCP took nothing or not all. When nothing is on its way either, no acknowledgement will tell of room; nor did the last
 * one when it came after TLS had let go of the lock.
 */
static void note_blocked(struct kapi_stream *stream)
{
	stream->blocked = true;
	set_bit(SOCK_NOSPACE, &stream->sock->flags);
	if ((tcp_rtx_and_write_queues_empty(stream->sk) || stream->tls) && stream->established && !stream->closed)
		schedule_delayed_work(&stream->later, KAPI_RETRY_DELAY);
}

/* Sends run after run. Returns what was taken of the last one, *sent what was taken in all, *left runs that are left. */
static int send_runs(struct sock *sk, const struct kapi_segment *segments, unsigned int *left, int more, s64 *sent)
{
	int taken = 0;

	while (*left) {
		unsigned int run = run_of(segments, *left);
		int flags = MSG_DONTWAIT | MSG_NOSIGNAL | (more || run < *left ? MSG_MORE : 0);
		size_t wanted;

		taken = segments->page ? send_pages(sk, segments, run, flags, &wanted) :
					 send_bytes(sk, segments, run, flags, &wanted);
		if (taken < 0)
			break;
		*sent += taken;
		if (taken < wanted)
			break;
		segments += run;
		*left -= run;
	}
	return taken;
}

/* Nothing was taken, but it may be when there is room. EINTR: TLS had to wait for another sender. */
static bool is_busy(int error)
{
	return error == -EAGAIN || error == -ENOMEM || error == -EINTR;
}

kapi_s64 kapi_stream_send(struct kapi_stream *stream, const struct kapi_segment *segments, unsigned int count, int more,
			  kapi_u32 *end_seq)
{
	struct sock *sk = stream->sk;
	s64 sent = 0;
	int taken;

	might_sleep();
	if (unlikely(stream->tls)) {
		taken = kapi_tls_send(stream, segments, &count, &sent);
		lock_sock(sk);
	} else {
		lock_sock(sk);
		taken = send_runs(sk, segments, &count, more, &sent);
	}
	if (is_busy(taken))
		taken = 0;
	if (count && taken >= 0)
		note_blocked(stream);
	*end_seq = tcp_sk(sk)->write_seq;
	release_sock(sk);
	return sent ? sent : taken;
}
EXPORT_SYMBOL_GPL(kapi_stream_send);

/* The end. */

/*
 * Makes the socket hold its namespace, as a user's socket does. False: the namespace is going. The lock is
 * held.
 */
static bool hold_namespace(struct sock *sk)
{
	struct net *net = maybe_get_net(sock_net(sk));

	if (!net)
		return false;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
	sk_net_refcnt_upgrade(sk);
#else
	sk->sk_net_refcnt = 1;
	get_net_track(net, &sk->ns_tracker, GFP_KERNEL);
	sock_inuse_add(net, 1);
#endif
	put_net(net);
	return true;
}

void kapi_stream_close(struct kapi_stream *stream, int abort)
{
	struct sock *sk = stream->sk;

	might_sleep();
	lock_sock(sk);
	kapi_stream_mute(stream);
	if (!abort && sk->sk_state != TCP_CLOSE && !hold_namespace(sk))
		abort = true;
	release_sock(sk);
	cancel_delayed_work_sync(&stream->later);
	if (abort)
		sock_no_linger(sk);
	sock_release(stream->sock);
	kfree(stream);
}
EXPORT_SYMBOL_GPL(kapi_stream_close);
