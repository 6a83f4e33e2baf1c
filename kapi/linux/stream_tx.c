// SPDX-License-Identifier: GPL-2.0
/* TCP streams over kernel sockets: sending. */

#include <linux/bvec.h>
#include <linux/module.h>
#include <linux/version.h>
#include <net/tcp.h>

#include <kapi/stream.h>

#include "pages.h"
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
 * TCP gives the socket's error to the next that sends, and then has none. The one that core has posted is the program's. A
 * socket that has another connection by now is left alone. The lock is held.
 */
static void put_error_back(struct kapi_stream *stream, int error)
{
	if (error == READ_ONCE(stream->posted) && !kapi_stream_is_replaced(stream))
		kapi_stream_put_error_back(stream, error);
}

/*
 * Nothing else writes to pages of hawser. A user may write to its pages, and the receiving end of a virtual link
 * asks.
 */
static int page_flags(const struct page *page)
{
	return kapi_page_is_fresh(page) ? MSG_NO_SHARED_FRAGS : 0;
}

/*
 * Few bytes before or between pages, as a header of each message, go with them: they are put where TCP itself would copy them to.
 * After a call of their own TCP would send what it has, in a packet.
 *
 * Where a route has no scatter-gather (IPsec over a device that has none) TCP copies pages to that same place: over what is
 * staged and not copied yet, or it gives the place back before.
 */
#define MOST_STAGED 128

static bool is_staged(const struct sock *sk, const struct kapi_segment *segment)
{
	return !segment->page && segment->length <= MOST_STAGED && sk->sk_route_caps & NETIF_F_SG;
}

/* Where the next size bytes can be put. They stay there until the next call for the same socket. The lock is held. */
static struct page_frag *room_to_stage(struct sock *sk, size_t size)
{
	struct page_frag *frag = sk_page_frag(sk);

	return !size || skb_page_frag_refill(size, frag, sk->sk_allocation) ? frag : NULL;
}

/* The segment as a page. */
static struct kapi_segment stage(struct page_frag *frag, const struct kapi_segment *segment)
{
	struct kapi_segment staged = { .page = frag->page, .offset = frag->offset, .length = segment->length };

	memcpy(page_address(frag->page) + frag->offset, segment->addr, segment->length);
	frag->offset += segment->length;
	return staged;
}

/* A run that begins so is sent as pages. */
static bool is_paged(const struct sock *sk, const struct kapi_segment *segments, unsigned int count)
{
	return segments[0].page || (count > 1 && segments[1].page && is_staged(sk, &segments[0]));
}

static int flags_of_run(const struct kapi_segment *segments)
{
	return page_flags(segments[0].page ?: segments[1].page);
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 5, 0)
/* Appends count segments that are pages, by reference, or staged. */
static int send_pages(struct kapi_stream *stream, const struct kapi_segment *segments, unsigned int count, int flags,
		      size_t *wanted)
{
	struct msghdr msg = { .msg_flags = flags | MSG_SPLICE_PAGES | flags_of_run(segments) };
	struct bio_vec vector[SEND_BATCH] KAPI_UNINITIALIZED;
	struct page_frag *frag;
	size_t sum = 0, bytes = 0;
	unsigned int i;

	for (i = 0; i < count; i++) {
		sum += segments[i].length;
		bytes += segments[i].page ? 0 : segments[i].length;
	}
	*wanted = sum;
	frag = room_to_stage(stream->sk, bytes); /* for all: it may be another page then */
	if (!frag)
		return -ENOMEM;
	for (i = 0; i < count; i++) {
		struct kapi_segment segment = segments[i].page ? segments[i] : stage(frag, &segments[i]);

		bvec_set_page(&vector[i], segment.page, segment.length, segment.offset);
	}
	iov_iter_bvec(&msg.msg_iter, ITER_SOURCE, vector, count, sum);
	return tcp_sendmsg_locked(stream->sk, &msg, sum);
}
#else
static int send_pages(struct kapi_stream *stream, const struct kapi_segment *segments, unsigned int count, int flags,
		      size_t *wanted)
{
	int sent = 0, taken = 0;
	unsigned int i;

	*wanted = 0;
	for (i = 0; i < count; i++)
		*wanted += segments[i].length;
	for (i = 0; i < count; i++) {
		int more = i + 1 < count ? MSG_MORE | MSG_SENDPAGE_NOTLAST : 0;
		struct kapi_segment segment = segments[i];
		struct page_frag *frag;

		if (!segment.page) {
			frag = room_to_stage(stream->sk, segment.length);
			taken = -ENOMEM;
			if (!frag)
				break;
			segment = stage(frag, &segments[i]);
		}
		taken = tcp_sendpage_locked(stream->sk, segment.page, segment.offset, segment.length,
					    flags | more | flags_of_run(segments));
		if (taken < 0)
			break;
		sent += taken;
		if (taken < segment.length)
			break;
	}
	if (sent && taken < 0)
		put_error_back(stream, -taken); /* the caller does not see it */
	return sent ? sent : taken;
}
#endif

/* The segments from the first on that go in one call. */
static unsigned int run_of(const struct sock *sk, const struct kapi_segment *segments, unsigned int count)
{
	bool pages = is_paged(sk, segments, count);
	unsigned int i;

	for (i = 1; i < count && i < SEND_BATCH; i++) {
		if (!pages && is_paged(sk, segments + i, count - i))
			break;
		if (pages && !segments[i].page && !is_staged(sk, &segments[i]))
			break;
		if (pages && segments[i].page && page_flags(segments[i].page) != flags_of_run(segments))
			break;
	}
	return i;
}

/*
 * TCP took nothing or not all. When nothing is on its way either, no acknowledgement will report room; nor did the last
 * one when it came after TLS had let go of the lock. A closed stream gets no room.
 */
static void note_blocked(struct kapi_stream *stream, bool some_sent)
{
	bool anew = some_sent || !stream->blocked;

	if (stream->closed)
		return;
	stream->blocked = true;
	set_bit(SOCK_NOSPACE, &stream->sock->flags);
	if ((tcp_rtx_and_write_queues_empty(stream->sk) || stream->tls) && stream->established)
		kapi_stream_retry_later(stream);
	if (stream->adopted)
		kapi_stream_look_later(stream, anew);
}

/* Sends run after run. Returns what was taken of the last one, *sent what was taken in all, *left runs that are left. */
static int send_runs(struct kapi_stream *stream, const struct kapi_segment *segments, unsigned int *left, int more,
		     s64 *sent)
{
	int taken = 0;

	while (*left) {
		unsigned int run = run_of(stream->sk, segments, *left);
		int flags = MSG_DONTWAIT | MSG_NOSIGNAL | (more || run < *left ? MSG_MORE : 0);
		size_t wanted;

		taken = is_paged(stream->sk, segments, run) ? send_pages(stream, segments, run, flags, &wanted) :
							      send_bytes(stream->sk, segments, run, flags, &wanted);
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

/*
 * Nothing was taken, but it may be when there is room. EINTR: TLS had to wait for another sender. A recvmmsg() of the socket's
 * program that a signal ended left this or ERESTARTSYS for the next call, which was this one.
 */
static bool is_busy(int error)
{
	return error == -EAGAIN || error == -ENOMEM || error == -EINTR || error == -ERESTARTSYS;
}

/*
 * Sends what was held back for more. Only the end of a cork does so from here, and it takes the lock itself. A program that
 * has corked its socket has said what is to wait for more. If it does so between the two locks, its cork ends.
 */
static void push(struct kapi_stream *stream)
{
	struct sock *sk = stream->sk;
	bool pushes;

	lock_sock(sk);
	pushes = !kapi_stream_is_replaced(stream) && !(tcp_sk(sk)->nonagle & TCP_NAGLE_CORK);
	release_sock(sk);
	if (pushes)
		tcp_sock_set_cork(sk, false);
}

/*
 * What is held back then needs no timer: without Nagle's algorithm TCP sends it at the next acknowledgement. A receiver
 * acknowledges two small packets when it reads them, one perhaps after its delay only (RFC 9293, 3.8.6.3).
 */
static bool has_packets_under_way(const struct sock *sk)
{
	return tcp_sk(sk)->packets_out >= 2;
}

kapi_s64 kapi_stream_send(struct kapi_stream *stream, const struct kapi_segment *segments, unsigned int count,
			  unsigned int flags, kapi_u32 *end_seq)
{
	struct sock *sk = stream->sk;
	s64 sent = 0;
	bool more = flags & KAPI_STREAM_MORE, gathers = false;
	int taken;

	might_sleep();
	if (!count && !more && !stream->tls)
		push(stream);
	if (unlikely(stream->tls)) {
		taken = kapi_tls_send(stream, segments, &count, &sent);
		lock_sock(sk);
	} else {
		lock_sock(sk);
		kapi_stream_limit_buffers(stream);
		gathers = (flags & KAPI_STREAM_GATHER) && has_packets_under_way(sk);
		taken = likely(!kapi_stream_is_replaced(stream)) ?
				send_runs(stream, segments, &count, more || gathers, &sent) :
				-ECONNRESET;
		/* In a long call TCP looks for acknowledgements, and the last ones may have come (sk_flush_backlog()). */
		gathers = gathers && !more && !has_packets_under_way(sk);
	}
	if (unlikely(taken < 0))
		put_error_back(stream, -taken);
	if (is_busy(taken))
		taken = 0;
	if (count && taken >= 0)
		note_blocked(stream, sent > 0);
	*end_seq = tcp_sk(sk)->write_seq;
	release_sock(sk);
	if (unlikely(gathers))
		push(stream);
	return sent ? sent : taken;
}
EXPORT_SYMBOL_GPL(kapi_stream_send);
