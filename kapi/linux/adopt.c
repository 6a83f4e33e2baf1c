// SPDX-License-Identifier: GPL-2.0
/*
 * A program's own TCP socket, taken over for a while.
 *
 * The program keeps its descriptor and may use it in any way; while the stream exists its file is held. What
 * would let one of its callbacks outlive the stream is refused by TCP itself, because the socket has an upper layer
 * protocol (ULP): hawser's, which does nothing. So neither TLS nor a listener, whose children inherit callbacks, comes on top.
 * TLS that is there already has the same effect (stream_tls.c).
 *
 * A socket keeps its ULP until it is closed, as one with TLS does. getsockopt(TCP_ULP) takes no lock and reads the pointer
 * twice (do_tcp_getsockopt()); between the two, and while it copies the name, it is in the program's memory, which can stall.
 */

#include <linux/file.h>
#include <linux/fs.h>
#include <linux/inetdevice.h>
#include <linux/kmemleak.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/version.h>
#include <net/inet_connection_sock.h>
#include <net/tcp.h>

#include <kapi/linux.h>
#include <kapi/stream.h>

#include "charge.h"
#include "stream.h"
#include "timeo.h"

/* What getsockopt(TCP_ULP) and ss(8) show for a socket that is taken over or was. */
static const char ulp_name[] = "hawser";

/*
 * Sockets refer to it after this module is unloaded, so it is not in the module and is never freed: one object for each time
 * that the module is loaded. It has no functions and no owner.
 */
static struct tcp_ulp_ops *taken_over;

int kapi_adopt_init(void)
{
	taken_over = kzalloc(sizeof(*taken_over), GFP_KERNEL);
	if (!taken_over)
		return -ENOMEM;
	kmemleak_not_leak(taken_over);
	strscpy(taken_over->name, ulp_name, sizeof(taken_over->name));
	return 0;
}

/* Maybe by this module when it was loaded before. */
static bool was_taken_over(const struct inet_connection_sock *icsk)
{
	return icsk->icsk_ulp_ops && !strcmp(icsk->icsk_ulp_ops->name, ulp_name);
}

/*
 * *file is to be given back by fput(): sockfd_put() does so with what the socket has as its file by then, which is none when SMC
 * has taken over both meanwhile: setsockopt(TCP_ULP) of "smc".
 */
static struct socket *socket_of_fd(int fd, struct file **file)
{
	struct socket *sock;

	*file = fget(fd);
	if (!*file)
		return ERR_PTR(-ENOENT);
	sock = sock_from_file(*file);
	if (sock)
		return sock;
	fput(*file);
	return ERR_PTR(-ENOENT);
}

int kapi_stream_key_of_fd(int fd, kapi_u64 *key)
{
	struct socket *sock;
	struct file *file;

	might_sleep();
	sock = socket_of_fd(fd, &file);
	if (IS_ERR(sock))
		return PTR_ERR(sock);
	*key = (uintptr_t)sock->sk;
	fput(file);
	return 0;
}
EXPORT_SYMBOL_GPL(kapi_stream_key_of_fd);

kapi_u64 kapi_stream_key(const struct kapi_stream *stream)
{
	return (uintptr_t)stream->sk;
}
EXPORT_SYMBOL_GPL(kapi_stream_key);

/* The last reference is the stream's: no other can be taken. epoll may have one for a moment: see put_file(). */
int kapi_stream_is_unused(const struct kapi_stream *stream)
{
	return file_count(stream->file) == 1;
}
EXPORT_SYMBOL_GPL(kapi_stream_is_unused);

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

	if ((1 << sk->sk_state) & (TCPF_LISTEN | TCPF_CLOSE | TCPF_SYN_SENT | TCPF_SYN_RECV) && !tcp_passive_fastopen(sk))
		return -EOPNOTSUPP;
	write_lock_bh(&sk->sk_callback_lock);
	if (sk->sk_user_data) {
		error = -EALREADY;
	} else if (icsk->icsk_ulp_ops && !was_taken_over(icsk) && !kapi_tls_is_usable(sk)) {
		error = -EOPNOTSUPP;
	} else {
		stream->error_report = sk->sk_error_report;
		__rcu_assign_sk_user_data_with_flags(sk, stream, SK_USER_DATA_NOCOPY);
	}
	write_unlock_bh(&sk->sk_callback_lock);
	if (error)
		return error;
	stream->disconnects = sk->sk_disconnects;
	if (!icsk->icsk_ulp_ops)
		icsk->icsk_ulp_ops = taken_over;
	else if (!was_taken_over(icsk))
		kapi_tls_take_over(stream);
	return 0;
}

int kapi_stream_adopt(int fd, struct kapi_workqueue *queue, struct kapi_stream **result)
{
	struct kapi_stream *stream;
	struct socket *sock;
	struct file *file;
	int error = -EOPNOTSUPP;

	might_sleep();
	sock = socket_of_fd(fd, &file);
	if (IS_ERR(sock))
		return PTR_ERR(sock);
	if (!sock->sk || !is_tcp(sock->sk))
		goto put;
	error = -ENOMEM;
	stream = kapi_stream_create(sock);
	if (!stream)
		goto put;
	stream->adopted = true;
	stream->most_sndbuf = stream->most_rcvbuf = INT_MAX; /* the program's cgroup is charged */
	stream->file = file;
	stream->queue = (struct workqueue_struct *)queue;
	stream->payer = kapi_payer_create();
	if (!stream->payer)
		goto free;
	lock_sock(sock->sk);
	error = take_over(sock->sk, stream);
	release_sock(sock->sk);
	if (error)
		goto free;
	*result = stream;
	return 0;
free:
	if (stream->payer)
		kapi_payer_put(stream->payer);
	kfree(stream);
put:
	fput(file);
	return error;
}
EXPORT_SYMBOL_GPL(kapi_stream_adopt);

/* Giving back. */

/* What came before it is lost: a program that reads on must find the end of the connection there, and close() nothing. The
 * lock is held. */
static void forget_received(struct kapi_stream *stream)
{
	struct sock *sk = stream->sk;

	if (stream->tls)
		kapi_tls_forget(sk);
	__skb_queue_purge(&sk->sk_receive_queue);
	WRITE_ONCE(tcp_sk(sk)->copied_seq, tcp_sk(sk)->rcv_nxt);
}

/*
 * Ends the connection as tcp_abort() does, but under the lock, which the caller holds: what waits in the backlog finds it closed,
 * and is not read behind a hole. TLS refuses it, and has been made to read nothing more. An error that waits for the program is
 * why it ends.
 */
static void end_at_hole(struct sock *sk)
{
	int error = READ_ONCE(sk->sk_err) ?: ECONNABORTED;

	if (sk->sk_state == TCP_CLOSE || sk->sk_prot->disconnect(sk, 0) != 0)
		return;
	WRITE_ONCE(sk->sk_shutdown, SHUTDOWN_MASK);
	WRITE_ONCE(sk->sk_err, error);
	sk->sk_state_change(sk);
}

/*
 * Another connection of the program is left alone, unless it is made between the look and the reset: TCP exports nothing that
 * does both in one step, and the harm is the program's own doing. An error that waits for the program is why it is reset.
 */
static void abort_stream(struct kapi_stream *stream)
{
	bool replaced;
	int error;

	lock_sock(stream->sk);
	replaced = kapi_stream_is_replaced(stream);
	error = READ_ONCE(stream->sk->sk_err) ?: ECONNABORTED;
	release_sock(stream->sk);
	if (!replaced)
		tcp_abort(stream->sk, error);
}

/* Gives a reference back, unless it is the last. */
static bool put_unless_last(struct file *file)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	return atomic_long_add_unless(&file->f_ref.refcnt, -1, FILE_REF_ONEREF);
#else
	return atomic_long_add_unless(&file->f_count, -1, 1);
#endif
}

/*
 * Gives up the stream's reference to the program's file. The last one closes the socket, without the program.
 *
 * A program closes it when its call returns, as it would have. For a thread of the kernel's fput() would leave that to the one
 * work of the machine that closes the files of all such threads, which then waited as long as SO_LINGER says, and the peer
 * likes, and every other such file with it. So the thread closes the socket itself. Nor does it wait: close() has returned to
 * the program long ago, and the kernel waits for no peer when a process exits either. A time of 0 resets the connection still.
 */
static void put_file(struct kapi_stream *stream)
{
	struct file *file = stream->file;
	bool in_program = !(current->flags & PF_KTHREAD);
	struct sock *sk = stream->sk;

	if (put_unless_last(file))
		return;
	lock_sock(sk);
	forget_received(stream); /* what came meanwhile */
	if (!in_program && sk->sk_lingertime)
		sock_reset_flag(sk, SOCK_LINGER);
	release_sock(sk);
	if (in_program)
		fput(file);
	else
		__fput_sync(file);
}

/* For good: an error that is reported without the socket's lock may still find the stream. */
static void stop_later(struct kapi_stream *stream)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 10, 0)
	disable_delayed_work_sync(&stream->later);
#else
	cancel_delayed_work_sync(&stream->later); /* no TLS there */
#endif
	cancel_delayed_work_sync(&stream->look);
}

int kapi_stream_give_back(struct kapi_stream *stream, const struct kapi_piece *first, enum kapi_give_back how)
{
	struct sock *sk = stream->sk;
	bool unused = kapi_stream_is_unused(stream);
	bool lost = how == KAPI_GIVE_BACK_LOST;
	int error = 0;

	might_sleep();
	lock_sock(sk);
	kapi_stream_mute(stream);
	/* Bytes of a former connection would be before those of the next one, with numbers that TCP does not expect. */
	if (!unused && !lost && !kapi_stream_is_replaced(stream))
		error = kapi_stream_put_back(stream, first);
	lost |= error != 0;
	if (unused || (lost && !kapi_stream_is_replaced(stream)))
		forget_received(stream);
	if (lost && !kapi_stream_is_replaced(stream))
		end_at_hole(sk);
	if (!skb_queue_empty(&sk->sk_receive_queue) || stream->tls)
		(*stream->data_ready_slot)(sk);
	/* What was acknowledged meanwhile was not reported to the program. */
	sk->sk_write_space(sk);
	if (stream->tls) /* of an error reported without the lock in that moment: see on_error_report() */
		sk_error_report(sk);
	release_sock(sk);
	if (lost || how != KAPI_GIVE_BACK_OPEN)
		abort_stream(stream);
	stop_later(stream);
	put_file(stream);
	kapi_payer_put(stream->payer);
	kfree_rcu(stream, rcu);
	return error;
}
EXPORT_SYMBOL_GPL(kapi_stream_give_back);

void kapi_stream_reset(struct kapi_stream *stream)
{
	might_sleep();
	abort_stream(stream);
}
EXPORT_SYMBOL_GPL(kapi_stream_reset);

/* What the program has set, and the events that it gets. */

void kapi_stream_post_error(struct kapi_stream *stream, int error)
{
	WRITE_ONCE(stream->posted, error);
	smp_store_release(&stream->sk->sk_err, error); /* who finds it sees who has set it */
	stream->error_report(stream->sk); /* past our own */
}
EXPORT_SYMBOL_GPL(kapi_stream_post_error);

kapi_u32 kapi_stream_rcvbuf(const struct kapi_stream *stream)
{
	return READ_ONCE(stream->sk->sk_rcvbuf);
}
EXPORT_SYMBOL_GPL(kapi_stream_rcvbuf);

kapi_u64 kapi_stream_rcvtimeo_ns(const struct kapi_stream *stream)
{
	return kapi_timeo_ns(READ_ONCE(stream->sk->sk_rcvtimeo));
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
