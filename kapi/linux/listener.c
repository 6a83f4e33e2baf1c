// SPDX-License-Identifier: GPL-2.0
/* Listening, and what is accepted. */

#include <linux/in6.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <net/ipv6.h>
#include <net/tcp.h>

#include <kapi/linux.h>
#include <kapi/stream.h>

#include "charge.h"
#include "stream.h"

struct kapi_listener {
	struct socket *sock;
	void (*ready)(void *context);
	void *context;
	void (*data_ready)(struct sock *sk); /* what the callbacks were before */
	void (*state_change)(struct sock *sk);
};

/*
 * A child starts with these callbacks too, and is mute by them until it is accepted. A program (sockops) may have put it into a
 * sockmap by then, whose own pointer is in the place of the listener's.
 */
static struct kapi_listener *listener_of(const struct sock *sk)
{
	uintptr_t user_data = (uintptr_t)rcu_dereference_raw(__sk_user_data(sk));

	return user_data & SK_USER_DATA_PSOCK ? NULL : (struct kapi_listener *)(user_data & SK_USER_DATA_PTRMASK);
}

/*
 * For a child data_ready() of the listener is called with the child's lock held, not the listener's; the callback lock keeps it
 * and the listener's end apart.
 */
static void notify(struct sock *sk)
{
	struct kapi_listener *listener;

	read_lock_bh(&sk->sk_callback_lock);
	listener = listener_of(sk);
	if (listener)
		listener->ready(listener->context);
	read_unlock_bh(&sk->sk_callback_lock);
}

static void on_ready(struct sock *sk)
{
	if (sk->sk_state == TCP_LISTEN)
		notify(sk);
}

/* An administrator has closed the listener (SOCK_DESTROY). */
static void on_state_change(struct sock *sk)
{
	if (sk->sk_state == TCP_CLOSE)
		notify(sk);
}

/* The callback lock is held. */
static void restore_callbacks(struct sock *sk, const struct kapi_listener *listener)
{
	WRITE_ONCE(sk->sk_data_ready, listener->data_ready);
	WRITE_ONCE(sk->sk_state_change, listener->state_change);
}

static void set_callbacks(struct kapi_listener *listener)
{
	struct sock *sk = listener->sock->sk;

	write_lock_bh(&sk->sk_callback_lock);
	listener->data_ready = sk->sk_data_ready;
	listener->state_change = sk->sk_state_change;
	/* Children do not inherit the pointer. */
	__rcu_assign_sk_user_data_with_flags(sk, listener, SK_USER_DATA_NOCOPY);
	WRITE_ONCE(sk->sk_data_ready, on_ready);
	WRITE_ONCE(sk->sk_state_change, on_state_change);
	write_unlock_bh(&sk->sk_callback_lock);
}

static void drop_callbacks(struct kapi_listener *listener)
{
	struct sock *sk = listener->sock->sk;

	write_lock_bh(&sk->sk_callback_lock);
	rcu_assign_sk_user_data(sk, NULL);
	restore_callbacks(sk, listener);
	write_unlock_bh(&sk->sk_callback_lock);
}

/* Children begin with these: see kapi_stream_limit_buffers(). */
static void limit_buffers(struct sock *sk)
{
	int sndbuf, rcvbuf;

	kapi_most_buffers(sock_net(sk), &sndbuf, &rcvbuf);
	lock_sock(sk);
	kapi_limit_buffers(sk, sndbuf, rcvbuf);
	release_sock(sk);
}

static int open_listener(struct socket *sock, const struct kapi_addr *addr, int family, unsigned int backlog)
{
	struct sockaddr_storage name;
	int length = kapi_sockaddr_of(addr, family, &name), off = 0, error;

	sock_set_reuseaddr(sock->sk);
	if (family == AF_INET6)
		sock->ops->setsockopt(sock, SOL_IPV6, IPV6_V6ONLY, KERNEL_SOCKPTR(&off), sizeof(off));
	error = kernel_bind(sock, (void *)&name, length);
	return error ?: kernel_listen(sock, backlog);
}

int kapi_listen(struct kapi_net *net, const struct kapi_addr *addr, unsigned int backlog,
		void (*ready)(void *context), void *context, struct kapi_listener **result)
{
	int family = kapi_addr_is_v4(addr) ? AF_INET : AF_INET6;
	struct kapi_listener *listener;
	int error;

	might_sleep();
	listener = kzalloc(sizeof(*listener), KAPI_GFP_CHARGED); /* a namespace's, which any user can make */
	if (!listener)
		return -ENOMEM;
	listener->ready = ready;
	listener->context = context;
	error = sock_create_kern(kapi_net_to_net(net), family, SOCK_STREAM, IPPROTO_TCP, &listener->sock);
	if (error)
		goto destroy;
	limit_buffers(listener->sock->sk);
	set_callbacks(listener); /* before it listens: no child may start without them */
	/* The callback for a child looks for the listener here. */
	*result = listener;
	error = open_listener(listener->sock, addr, family, backlog);
	if (error)
		goto release;
	return 0;
release:
	drop_callbacks(listener);
	sock_release(listener->sock);
destroy:
	kfree(listener);
	return error;
}
EXPORT_SYMBOL_GPL(kapi_listen);

void kapi_listener_stop(struct kapi_listener *listener)
{
	might_sleep();
	drop_callbacks(listener);
}
EXPORT_SYMBOL_GPL(kapi_listener_stop);

void kapi_listener_close(struct kapi_listener *listener)
{
	might_sleep();
	sock_release(listener->sock);
	kfree(listener);
}
EXPORT_SYMBOL_GPL(kapi_listener_close);

/*
 * The stream's pointer keeps the socket out of sockmaps from here on. False: it is in one, which has replaced its functions.
 *
 * Under the socket's lock, with which its callbacks run: one that takes the pointer for a listener's (a reset in this moment) has
 * ended before, and none begins.
 */
static bool own(struct kapi_stream *stream, const struct kapi_listener *listener)
{
	struct sock *sk = stream->sk;
	bool free;

	lock_sock(sk);
	write_lock_bh(&sk->sk_callback_lock);
	free = !sk->sk_user_data;
	if (free) {
		__rcu_assign_sk_user_data_with_flags(sk, stream, SK_USER_DATA_NOCOPY);
		restore_callbacks(sk, listener);
	}
	write_unlock_bh(&sk->sk_callback_lock);
	release_sock(sk);
	return free;
}

int kapi_accept(struct kapi_listener *listener, struct kapi_stream **result)
{
	struct kapi_stream *stream;
	struct socket *sock;
	int error;

	might_sleep();
	error = kernel_accept(listener->sock, &sock, O_NONBLOCK);
	if (error)
		return inet_sk_state_load(listener->sock->sk) == TCP_LISTEN ? error : -ESHUTDOWN;
	error = -ENOMEM;
	stream = kapi_stream_create(sock);
	if (!stream)
		goto release;
	error = -ECONNABORTED;
	if (!own(stream, listener))
		goto destroy;
	*result = stream;
	return 0;
destroy:
	kfree(stream);
release:
	sock_no_linger(sock->sk); /* closed in order it would outlive its namespace */
	sock_release(sock);
	return error;
}
EXPORT_SYMBOL_GPL(kapi_accept);
