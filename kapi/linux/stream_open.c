// SPDX-License-Identifier: GPL-2.0
/* TCP streams over kernel sockets: addresses, options, connecting, attaching. */

#include <linux/in6.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/tcp.h>
#include <net/ipv6.h>
#include <net/tcp.h>

#include <kapi/linux.h>
#include <kapi/stream.h>

#include "stream.h"

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

void kapi_most_buffers(const struct net *net, int *sndbuf, int *rcvbuf)
{
	if (net_eq(net, &init_net)) {
		*sndbuf = *rcvbuf = INT_MAX;
		return;
	}
	*sndbuf = max_t(int, READ_ONCE(init_net.ipv4.sysctl_tcp_wmem[2]), READ_ONCE(sysctl_wmem_max));
	*rcvbuf = max_t(int, READ_ONCE(init_net.ipv4.sysctl_tcp_rmem[2]), READ_ONCE(sysctl_rmem_max));
}

void kapi_limit_buffers(struct sock *sk, int most_sndbuf, int most_rcvbuf)
{
	set_buffers(sk, sk->sk_sndbuf > most_sndbuf ? most_sndbuf : 0, sk->sk_rcvbuf > most_rcvbuf ? most_rcvbuf : 0);
}

static void set_keepalive(struct sock *sk, const struct kapi_stream_options *options)
{
	if (!options->keepalive_idle_s)
		return;
	tcp_sock_set_keepidle(sk, options->keepalive_idle_s);
	if (options->keepalive_interval_s)
		tcp_sock_set_keepintvl(sk, options->keepalive_interval_s);
	if (options->keepalive_count)
		tcp_sock_set_keepcnt(sk, options->keepalive_count);
	sock_set_keepalive(sk);
}

/* A program's own keepalive stays as it is. */
static void set_options(struct kapi_stream *stream, const struct kapi_stream_options *options)
{
	struct sock *sk = stream->sk;

	if (options->nodelay)
		tcp_sock_set_nodelay(sk);
	if (!stream->adopted || !sock_flag(sk, SOCK_KEEPOPEN))
		set_keepalive(sk, options);
	lock_sock(sk);
	set_buffers(sk, options->sndbuf, options->rcvbuf);
	kapi_stream_limit_buffers(stream);
	release_sock(sk);
}

/*
 * An automatic port is chosen when the remote address is known, so that the range serves each remote address
 * anew.
 */
static int bind_local(struct socket *sock, const struct kapi_addr *local, int family, bool shares_port)
{
	struct sockaddr_storage name;
	int length = kapi_sockaddr_of(local, family, &name), on = 1;

	if (shares_port)
		sock->sk->sk_reuse = SK_FORCE_REUSE;
	else if (local->port)
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
	set_options(stream, options);
	error = bind_local(sock, local, family, options->shares_port);
	if (error)
		goto destroy;
	lock_sock(sock->sk);
	kapi_stream_unmute(stream, ops, context);
	release_sock(sock->sk);
	/* Events may come before kernel_connect() returns: their receiver may use the stream. */
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

void kapi_stream_keep_alive(struct kapi_stream *stream, const struct kapi_stream_options *options)
{
	might_sleep();
	set_keepalive(stream->sk, options);
}
EXPORT_SYMBOL_GPL(kapi_stream_keep_alive);

kapi_size kapi_stream_peek(struct kapi_stream *stream, void *to, kapi_size size)
{
	struct kvec part = { .iov_base = to, .iov_len = size };
	struct msghdr msg = {};
	int copied;

	might_sleep();
	copied = kernel_recvmsg(stream->sock, &msg, &part, 1, size, MSG_PEEK | MSG_DONTWAIT);
	return copied < 0 ? 0 : copied;
}
EXPORT_SYMBOL_GPL(kapi_stream_peek);

void kapi_stream_attach(struct kapi_stream *stream, const struct kapi_stream_options *options,
			const struct kapi_stream_ops *ops, void *context)
{
	struct sock *sk = stream->sk;

	might_sleep();
	set_options(stream, options);
	lock_sock(sk);
	kapi_stream_unmute(stream, ops, context);
	stream->established = true;
	kapi_stream_offer(stream);
	kapi_stream_tell_end(stream);
	release_sock(sk);
}
EXPORT_SYMBOL_GPL(kapi_stream_attach);

void kapi_stream_set_buffers(struct kapi_stream *stream, kapi_u32 sndbuf, kapi_u32 rcvbuf)
{
	might_sleep();
	lock_sock(stream->sk);
	set_buffers(stream->sk, sndbuf, rcvbuf);
	kapi_stream_limit_buffers(stream);
	if (stream->ops && stream->blocked)
		kapi_stream_report_acked(stream);
	release_sock(stream->sk);
}
EXPORT_SYMBOL_GPL(kapi_stream_set_buffers);

void kapi_stream_buffer_limits(kapi_u32 *sndbuf, kapi_u32 *rcvbuf)
{
	*sndbuf = READ_ONCE(sysctl_wmem_max);
	*rcvbuf = READ_ONCE(sysctl_rmem_max);
}
EXPORT_SYMBOL_GPL(kapi_stream_buffer_limits);
