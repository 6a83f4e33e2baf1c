// SPDX-License-Identifier: GPL-2.0
/*
 * TCP streams over kernel sockets: their callbacks and their life.
 *
 * A kernel socket does not hold its namespace, and neither does a stream: its owner closes it before the namespace ends.
 * Only a stream that is closed gracefully holds it, until TCP has seen its FIN acknowledged.
 */

#include <linux/module.h>
#include <linux/slab.h>
#include <linux/tcp.h>
#include <linux/version.h>
#include <net/tcp.h>

#include <kapi/host.h>
#include <kapi/linux.h>
#include <kapi/stream.h>

#include "charge.h"
#include "opaque.h"
#include "stream.h"
#include "turn.h"

/*
 * A blocked sender is notified when a third of the buffer is free, and when so many bytes were acknowledged in any
 * case.
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

/*
 * Work on a program's stream takes the lock of its socket, which the program can hold for as long as it likes (a send() from
 * memory that is not there). Some hundreds of those and a queue does nothing else. So none of them waits in this queue: who
 * takes over a program's socket provides one.
 */
static struct workqueue_struct *own_queue;

int kapi_streams_init(void)
{
	own_queue = alloc_workqueue("hawser_streams", KAPI_WQ_PER_CPU | WQ_MEM_RECLAIM, 0);
	return own_queue ? 0 : -ENOMEM;
}

void kapi_streams_exit(void)
{
	destroy_workqueue(own_queue);
}

void kapi_stream_do_later(struct kapi_stream *stream, unsigned long delay)
{
	mod_delayed_work(stream->queue, &stream->later, delay);
}

void kapi_stream_retry_later(struct kapi_stream *stream)
{
	queue_delayed_work(stream->queue, &stream->later, KAPI_RETRY_DELAY);
}

/*
 * TCP reports only an error, maybe without the lock, and nothing else looks while all wait for room. There may be many of those,
 * for hours.
 */
#define FIRST_LOOK (HZ / 2)
#define MOST_BETWEEN_LOOKS (30 * HZ)

void kapi_stream_look_later(struct kapi_stream *stream, bool anew)
{
	if (!anew || stream->look_delay == FIRST_LOOK) {
		queue_delayed_work(stream->queue, &stream->look, stream->look_delay);
		return;
	}
	stream->look_delay = FIRST_LOOK;
	mod_delayed_work(stream->queue, &stream->look, FIRST_LOOK);
}

/*
 * TLS reports by this alone that a header is none of a record. It says by two more errors what is wrong with it, but forged it
 * is. Nothing else sets these but core, whose error may still be there when another is reported. This is called without the
 * socket's lock, too, as for a time stamp: then only RCU keeps the stream.
 */
static void on_error_report(struct sock *sk)
{
	struct kapi_stream *stream;
	int error = smp_load_acquire(&sk->sk_err); /* before posted */

	rcu_read_lock();
	stream = stream_of(sk);
	if (stream) {
		if ((error == EINVAL || error == EMSGSIZE) && error != READ_ONCE(stream->posted))
			cmpxchg(&sk->sk_err, error, EBADMSG);
		stream->error_report(sk);
		kapi_stream_do_later(stream, 0);
	}
	rcu_read_unlock();
}

/* TLS: something may have come. */
static void offer_later(struct kapi_stream *stream)
{
	WRITE_ONCE(stream->unoffered, true);
	kapi_stream_do_later(stream, 0);
}

static void on_data_ready(struct sock *sk)
{
	struct kapi_stream *stream = stream_of(sk);

	if (!stream)
		return;
	kapi_stream_limit_buffers(stream);
	if (unlikely(stream->tls))
		offer_later(stream);
	else
		kapi_stream_offer(stream);
}

/*
 * Called for each acknowledgement as long as SOCK_NOSPACE is set: always on our own sockets, on a program's while
 * something waits for room.
 */
void kapi_stream_report_acked(struct kapi_stream *stream)
{
	u32 una = tcp_sk(stream->sk)->snd_una;
	u64 began, until;

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
	began = kapi_turn_begin(&until);
	stream->ops->acked(stream->context, una);
	kapi_turn_end(began);
}

static void on_write_space(struct sock *sk)
{
	struct kapi_stream *stream = stream_of(sk);

	if (!stream)
		return;
	kapi_stream_report_acked(stream);
	/* The program may wait for room as well. */
	if (stream->adopted)
		stream->write_space(sk);
}

void kapi_stream_tell_end(struct kapi_stream *stream)
{
	struct sock *sk = stream->sk;
	bool at_eof = !stream->eof && (sock_flag(sk, SOCK_DONE) || stream->records_end);

	if (at_eof || (!stream->closed && (sk->sk_state == TCP_CLOSE || stream->broken)))
		kapi_stream_offer(stream);
	/* What was offered may have broken it; then it is not read to its end, and all of this was reported from there. */
	if (at_eof && !stream->broken) {
		WRITE_ONCE(stream->eof, true);
		stream->ops->event(stream->context, KAPI_STREAM_EOF, 0);
	}
	if (!stream->closed && (sk->sk_state == TCP_CLOSE || stream->broken)) {
		WRITE_ONCE(stream->closed, true);
		stream->blocked = false; /* it stays full */
		stream->ops->event(stream->context, KAPI_STREAM_CLOSED, -(stream->broken ?: sk->sk_err));
	}
}

static void on_state_change(struct sock *sk)
{
	struct kapi_stream *stream = stream_of(sk);

	if (!stream)
		return;
	if (!stream->established && sk->sk_state == TCP_ESTABLISHED) {
		stream->established = true;
		stream->ops->event(stream->context, KAPI_STREAM_ESTABLISHED, 0);
	} else if (unlikely(kapi_stream_is_replaced(stream))) {
		WRITE_ONCE(stream->broken, ECONNRESET);
	}
	if (unlikely(stream->tls))
		offer_later(stream); /* what came before the end */
	else
		kapi_stream_tell_end(stream);
	/* The program may wait for the same; what else kapi_stream_tell_end() finds is no change of the socket. */
	if (stream->adopted)
		stream->state_change(sk);
}

static void on_later(struct work_struct *work)
{
	struct kapi_stream *stream = container_of(to_delayed_work(work), struct kapi_stream, later);

	lock_sock(stream->sk);
	if (stream->ops && stream->blocked)
		kapi_stream_report_acked(stream);
	if (stream->ops && stream->tls) {
		kapi_stream_offer(stream);
		kapi_stream_tell_end(stream);
	}
	release_sock(stream->sk);
}

static void on_look(struct work_struct *work)
{
	struct kapi_stream *stream = container_of(to_delayed_work(work), struct kapi_stream, look);

	lock_sock(stream->sk);
	if (stream->ops && kapi_stream_is_replaced(stream)) {
		WRITE_ONCE(stream->broken, ECONNRESET);
		kapi_stream_tell_end(stream);
	} else if (stream->ops && stream->blocked) {
		stream->look_delay = min(2 * stream->look_delay, MOST_BETWEEN_LOOKS);
		kapi_stream_look_later(stream, false);
	}
	release_sock(stream->sk);
}

struct kapi_stream *kapi_stream_create(struct socket *sock)
{
	struct kapi_stream *stream = kzalloc(sizeof(*stream), KAPI_GFP_CHARGED); /* a work's is not */

	if (!stream)
		return NULL;
	stream->sock = sock;
	stream->sk = sock->sk;
	stream->queue = own_queue;
	stream->look_delay = FIRST_LOOK;
	kapi_most_buffers(sock_net(stream->sk), &stream->most_sndbuf, &stream->most_rcvbuf);
	stream->data_ready_slot = &sock->sk->sk_data_ready;
	stream->write_space_slot = &sock->sk->sk_write_space;
	INIT_DELAYED_WORK(&stream->later, on_later);
	INIT_DELAYED_WORK(&stream->look, on_look);
	return stream;
}

/*
 * The fragment of the task that happens to send is its own; the socket's makes consecutive bytes lie together. The lock is
 * held.
 */
static void take_fragment(struct kapi_stream *stream)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 2, 0)
	stream->task_frag = stream->sk->sk_use_task_frag;
	stream->sk->sk_use_task_frag = false;
#endif
}

static void give_back_fragment(struct kapi_stream *stream)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 2, 0)
	if (stream->adopted)
		stream->sk->sk_use_task_frag = stream->task_frag;
#endif
}

/* Puts callbacks of this file in the place of the socket's. Its lock is held. */
void kapi_stream_unmute(struct kapi_stream *stream, const struct kapi_stream_ops *ops, void *context)
{
	struct sock *sk = stream->sk;

	take_fragment(stream);
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
	if (stream->tls)
		WRITE_ONCE(sk->sk_error_report, on_error_report);
	if (!stream->adopted)
		set_bit(SOCK_NOSPACE, &sk->sk_socket->flags);
	write_unlock_bh(&sk->sk_callback_lock);
}

/* Gives the socket its own callbacks back. Its lock is held, so that none of this file's is running. */
void kapi_stream_mute(struct kapi_stream *stream)
{
	struct sock *sk = stream->sk;

	write_lock_bh(&sk->sk_callback_lock);
	if (stream_of(sk) == stream)
		rcu_assign_sk_user_data(sk, NULL);
	if (!stream->ops)
		goto unlock;
	WRITE_ONCE(*stream->data_ready_slot, stream->data_ready);
	WRITE_ONCE(sk->sk_state_change, stream->state_change);
	WRITE_ONCE(*stream->write_space_slot, stream->write_space);
	if (stream->tls)
		WRITE_ONCE(sk->sk_error_report, stream->error_report);
	stream->ops = NULL;
	give_back_fragment(stream);
unlock:
	write_unlock_bh(&sk->sk_callback_lock);
}

/*
 * Makes the socket hold its namespace, as a user's socket does. False: the namespace is going. Without the socket's lock,
 * for it may allocate, and freeing memory may need sockets. Nothing else changes that of a kernel socket.
 */
static bool hold_namespace(struct sock *sk)
{
	struct net *net = maybe_get_net(sock_net(sk));

	if (!net)
		return false;
#ifdef KAPI_HAS_SK_NET_REFCNT_UPGRADE
	sk_net_refcnt_upgrade(sk);
#else
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 2, 0)
	__netns_tracker_free(net, &sk->ns_tracker, false);
#endif
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
	release_sock(sk);
	if (!abort && inet_sk_state_load(sk) != TCP_CLOSE && !hold_namespace(sk))
		abort = true;
	cancel_delayed_work_sync(&stream->later);
	if (abort)
		sock_no_linger(sk);
	else
		tcp_sock_set_user_timeout(sk, KAPI_CLOSE_MS);
	sock_release(stream->sock);
	kfree(stream);
}
EXPORT_SYMBOL_GPL(kapi_stream_close);
