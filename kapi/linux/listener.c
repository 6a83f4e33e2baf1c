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
	void (*data_ready)(struct sock *sk); /* what the callback was before */
};

/*
 * A child starts with this callback too, and is mute by it until it is attached. For the listener it is
 * called with the child's lock held, not the listener's; the callback lock keeps it and the listener's end
 * apart.
 */
static void on_ready(struct sock *sk)
{
	struct kapi_listener *listener;

	if (sk->sk_state != TCP_LISTEN)
		return;
	read_lock_bh(&sk->sk_callback_lock);
	listener = rcu_dereference_sk_user_data(sk);
	if (listener)
		listener->ready(listener->context);
	read_unlock_bh(&sk->sk_callback_lock);
}

static void set_callback(struct sock *sk, struct kapi_listener *listener, void (*data_ready)(struct sock *sk))
{
	write_lock_bh(&sk->sk_callback_lock);
	/* Children do not inherit the pointer. */
	__rcu_assign_sk_user_data_with_flags(sk, listener, listener ? SK_USER_DATA_NOCOPY : 0);
	WRITE_ONCE(sk->sk_data_ready, data_ready);
	write_unlock_bh(&sk->sk_callback_lock);
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
	/* Before it listens: no child may start without the callback. */
	listener->data_ready = listener->sock->sk->sk_data_ready;
	set_callback(listener->sock->sk, listener, on_ready);
	/* The callback for a child looks for the listener here. */
	*result = listener;
	error = open_listener(listener->sock, addr, family, backlog);
	if (error)
		goto release;
	return 0;
release:
	set_callback(listener->sock->sk, NULL, listener->data_ready);
	sock_release(listener->sock);
destroy:
	kfree(listener);
	return error;
}
EXPORT_SYMBOL_GPL(kapi_listen);

void kapi_listener_stop(struct kapi_listener *listener)
{
	might_sleep();
	set_callback(listener->sock->sk, NULL, listener->data_ready);
}
EXPORT_SYMBOL_GPL(kapi_listener_stop);

void kapi_listener_close(struct kapi_listener *listener)
{
	might_sleep();
	sock_release(listener->sock);
	kfree(listener);
}
EXPORT_SYMBOL_GPL(kapi_listener_close);

int kapi_accept(struct kapi_listener *listener, struct kapi_stream **result)
{
	struct kapi_stream *stream;
	struct socket *sock;
	int error;

	might_sleep();
	error = kernel_accept(listener->sock, &sock, O_NONBLOCK);
	if (error)
		return error;
	set_callback(sock->sk, NULL, listener->data_ready);
	stream = kapi_stream_create(sock);
	if (!stream) {
		sock_no_linger(sock->sk); /* closed in order it would outlive its namespace */
		sock_release(sock);
		return -ENOMEM;
	}
	*result = stream;
	return 0;
}
EXPORT_SYMBOL_GPL(kapi_accept);
