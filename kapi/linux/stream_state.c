// SPDX-License-Identifier: GPL-2.0
/* TCP streams over kernel sockets: the state of a live one, and how soon it probes its peer again. */

#include <linux/module.h>
#include <linux/tcp.h>
#include <net/inet_connection_sock.h>
#include <net/ipv6.h>
#include <net/tcp.h>

#include <kapi/stream.h>

#include "stream.h"

/* One that was accepted is bound to its link for a link-local peer only; for others TCP notes by which it came. */
static u32 link_of(const struct sock *sk)
{
	u32 bound = READ_ONCE(sk->sk_bound_dev_if);

#if IS_ENABLED(CONFIG_IPV6)
	if (!bound && sk->sk_family == AF_INET6)
		return READ_ONCE(inet6_sk(sk)->mcast_oif);
#endif
	return bound;
}

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
	if (ipv6_addr_type(&from) & IPV6_ADDR_LINKLOCAL)
		local->scope = link_of(sk);
	if (ipv6_addr_type(&to) & IPV6_ADDR_LINKLOCAL)
		remote->scope = link_of(sk);
}
EXPORT_SYMBOL_GPL(kapi_stream_addrs);

void kapi_stream_shutdown_write(struct kapi_stream *stream)
{
	might_sleep();
	kernel_sock_shutdown(stream->sock, SHUT_WR);
}
EXPORT_SYMBOL_GPL(kapi_stream_shutdown_write);

/*
 * The time stamps count jiffies and are written by any processor, maybe after this one has read the clock: what seems to
 * lie a little ahead is the present. What is half of the range ago is not ahead: a peer may send no data for weeks.
 */
static u32 time_since(u32 stamp, u32 now)
{
	u32 ahead = stamp - now;

	return ahead < HZ ? 0 : now - stamp;
}

/* Both are set once a stream is established. */
static u64 silent_ns(const struct sock *sk)
{
	u32 now = tcp_jiffies32;
	u32 data = time_since(data_race(inet_csk(sk)->icsk_ack.lrcvtime), now);
	u32 ack = time_since(data_race(tcp_sk(sk)->rcv_tstamp), now);

	return jiffies64_to_nsecs(min(data, ack));
}

void kapi_stream_health(struct kapi_stream *stream, struct kapi_stream_health *health)
{
	struct sock *sk = stream->sk;
	const struct tcp_sock *tp = tcp_sk(sk);
	const struct inet_connection_sock *icsk = inet_csk(sk);

	/*
	 * A look from outside, without the socket's lock: what changes meanwhile is seen as it was or as it is. The end comes
	 * first, so that no bytes follow those that are counted. A stream without an owner has had no events.
	 */
	health->eof = (READ_ONCE(stream->eof) || sock_flag(sk, SOCK_DONE)) && !READ_ONCE(stream->broken);
	health->closed = READ_ONCE(stream->closed) || inet_sk_state_load(sk) == TCP_CLOSE;
	smp_rmb(); /* the bytes were queued before the end */
	health->una = READ_ONCE(tp->snd_una);
	health->next = READ_ONCE(tp->snd_nxt);
	health->write_seq = READ_ONCE(tp->write_seq);
	health->unread = max(data_race(tcp_inq(sk)), 0);
	/*
	 * TLS is read in work: what TCP has at the end may be still to come, or never. Of another stream that never comes which
	 * follows what has broken it; one that was reset may be about to be read.
	 */
	if (stream->tls)
		health->to_offer = READ_ONCE(stream->unoffered);
	else
		health->to_offer = health->unread && !READ_ONCE(stream->broken);
	health->silent_ns = silent_ns(sk);
	health->rtt_us = READ_ONCE(tp->srtt_us) >> 3;
	health->unanswered = READ_ONCE(icsk->icsk_retransmits) || READ_ONCE(icsk->icsk_probes_out);
}
EXPORT_SYMBOL_GPL(kapi_stream_health);

/* When TCP sends again or probes, if it does. */
static unsigned long timeout_of(struct sock *sk)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 19, 0)
	return tcp_timeout_expires(sk);
#else
	return inet_csk(sk)->icsk_timeout;
#endif
}

void kapi_stream_limit_back_off(struct kapi_stream *stream, kapi_u32 limit_ms)
{
	struct sock *sk = stream->sk;
	struct inet_connection_sock *icsk = inet_csk(sk);
	unsigned long limit = msecs_to_jiffies(limit_ms);
	u32 trip;

	might_sleep();
	lock_sock(sk);
	if (sk->sk_state == TCP_CLOSE || (icsk->icsk_pending != ICSK_TIME_RETRANS && icsk->icsk_pending != ICSK_TIME_PROBE0))
		goto unlock;
	trip = tcp_min_rtt(tcp_sk(sk));
	if (trip != ~0U)
		limit = max(limit, 3 * usecs_to_jiffies(trip));
	if (time_before_eq(timeout_of(sk), jiffies + limit))
		goto unlock;
	/* What TCP itself does for thin streams. */
	icsk->icsk_backoff = 0;
	icsk->icsk_rto = min_t(unsigned long, icsk->icsk_rto, limit);
	/* A probe that is sent more often would reach the number after which TCP gives up so much earlier. */
	icsk->icsk_probes_out = min_t(u8, icsk->icsk_probes_out, 1);
	inet_csk_reset_xmit_timer(sk, icsk->icsk_pending, limit, TCP_RTO_MAX);
unlock:
	release_sock(sk);
}
EXPORT_SYMBOL_GPL(kapi_stream_limit_back_off);
