/* SPDX-License-Identifier: GPL-2.0 */
/*
 * TCP streams.
 *
 * Receiving is a push: when bytes are there the host calls rx(), with the stream's own lock held, in a context that
 * must not sleep: in a bottom half, or in a task that is in some stream call at the time. rx() may take core locks,
 * allocate and queue work; it makes no stream call on any stream (none but kapi_rx_*), nor may any other callback. What
 * it does not consume stays with TCP, closes the window and is offered again after kapi_stream_resume().
 */
#ifndef KAPI_STREAM_H
#define KAPI_STREAM_H

#include <kapi/pages.h>
#include <kapi/types.h>

KAPI_BEGIN

struct kapi_workqueue; /* kapi/work.h */
struct kapi_stream;
struct kapi_listener;
struct kapi_rx;    /* bytes on offer, valid during rx() only */
struct kapi_rxbuf; /* received bytes kept by reference */

enum kapi_stream_event {
	KAPI_STREAM_ESTABLISHED = 1,
	KAPI_STREAM_EOF = 2,    /* the peer sent FIN; what came before it has been or will be offered */
	KAPI_STREAM_CLOSED = 3, /* reset, time-out, or both directions closed: nothing can be sent any more */
};

struct kapi_stream_ops {
	/* Returns how many of the length bytes on offer were consumed. Called repeatedly while all is consumed. */
	kapi_size (*rx)(void *context, struct kapi_rx *rx, kapi_size length);
	/* The peer acknowledged up to una (TCP sequence space), or there is room to write again. */
	void (*acked)(void *context, kapi_u32 una);
	void (*event)(void *context, enum kapi_stream_event event, int error);
};

struct kapi_stream_options {
	kapi_u32 sndbuf, rcvbuf; /* bytes, 0: the kernel tunes itself */
	kapi_u32 keepalive_idle_s, keepalive_interval_s, keepalive_count;
	kapi_u8 nodelay;
	kapi_u8 shares_port; /* connecting: local->port may be in use by listeners and by other connections */
};

/*
 * [sleep] Starts to connect local -> remote (local->port 0: automatic) and returns without waiting; event() reports the
 * rest, possibly before this returns. -EADDRINUSE, -EADDRNOTAVAIL, -ENETUNREACH, -ENOMEM, ... : nothing was made.
 * The stream does not hold its namespace; its owner closes it before the namespace goes.
 */
int kapi_stream_connect(struct kapi_net *net, const struct kapi_addr *local, const struct kapi_addr *remote,
			const struct kapi_stream_options *options, const struct kapi_stream_ops *ops, void *context,
			struct kapi_stream **stream) KAPI_NOEXCEPT;

/*
 * [sleep] Listens on addr (:: or the v4-mapped any address for all). ready() is [any]: accept from work. It may be called
 * before this returns, but not before *listener is set; after an error *listener means nothing. -EADDRINUSE; -EAFNOSUPPORT:
 * an IPv6 address, and the host has no IPv6; -ENOMEM.
 */
int kapi_listen(struct kapi_net *net, const struct kapi_addr *addr, unsigned int backlog,
		void (*ready)(void *context), void *context, struct kapi_listener **listener) KAPI_NOEXCEPT;
/*
 * The end of a listener has two steps, for the work that ready() queued may be accepting: stop, wait for that work, close.
 */
void kapi_listener_stop(struct kapi_listener *listener) KAPI_NOEXCEPT; /* [sleep] ready() has returned for good */
/* [sleep] After kapi_listener_stop(), and no kapi_accept() is running. What was not accepted is reset. */
void kapi_listener_close(struct kapi_listener *listener) KAPI_NOEXCEPT;
/*
 * [sleep] The next accepted stream, which is mute until attached. -EAGAIN: none is there. -ESHUTDOWN, of which ready() notifies:
 * an administrator has closed the port (SOCK_DESTROY, ss -K), nothing comes any more. Any other error is that of one connection,
 * which is reset: others may be there, for which ready() is not called again; -ECONNABORTED: a program (sockops) has put it into
 * a sockmap.
 */
int kapi_accept(struct kapi_listener *listener, struct kapi_stream **stream) KAPI_NOEXCEPT;
/* Of an accepted stream that is not attached yet: */
/* [sleep] Copies the first size bytes that arrived, or all if there are less. Returns how many; they stay unread. */
kapi_size kapi_stream_peek(struct kapi_stream *stream, void *to, kapi_size size) KAPI_NOEXCEPT;
/* [sleep] Ends it when its peer's host is gone: what options say of keepalive, and nothing else of them. */
void kapi_stream_keep_alive(struct kapi_stream *stream, const struct kapi_stream_options *options) KAPI_NOEXCEPT;
/*
 * [sleep] Starts callbacks; what arrived before, and an end or loss that happened before, is reported at once. Keepalive that a
 * program has set on its socket stays as it is.
 */
void kapi_stream_attach(struct kapi_stream *stream, const struct kapi_stream_options *options,
			const struct kapi_stream_ops *ops, void *context) KAPI_NOEXCEPT;
/*
 * [task] Takes over sending and receiving on a program's connected TCP socket; mute until attached. The socket stays
 * open in the program, and while it is taken over no other call can take it over. End it with
 * kapi_stream_give_back() only. TLS on it is used where the kernel lets others read through it (from 6.12 on, in software,
 * with the keys of both directions). -ENOENT: fd is no socket; -EOPNOTSUPP: not a connected TCP socket (one that was accepted
 * with the data of a SYN, TCP_FASTOPEN, is), or one with another protocol on top, such as other TLS; -EALREADY: taken over
 * already; -ENOMEM. Without TLS it gets none later either, nor does it listen, also when it was given back.
 *
 * A program can hold its socket's lock for as long as it likes (a send() from memory that is not there), and a call that may
 * sleep then waits. So works that make such calls belong on a queue of works for the same user only; the stream's own works
 * run on queue, too, which must exist longer than the stream.
 */
int kapi_stream_adopt(int fd, struct kapi_workqueue *queue, struct kapi_stream **stream) KAPI_NOEXCEPT;
/* Bytes that go back to where they came from: those at bytes, or, when that is NULL, all of buffer. */
struct kapi_piece {
	struct kapi_piece *next;
	const void *bytes;
	struct kapi_rxbuf *buffer;
	kapi_u32 size;
};
enum kapi_give_back {
	KAPI_GIVE_BACK_OPEN,  /* the connection goes on */
	KAPI_GIVE_BACK_RESET, /* it is reset */
	KAPI_GIVE_BACK_LOST,  /* it is reset, and what was never consumed is forgotten, since something before it was */
};
/*
 * [sleep] Ends what kapi_stream_adopt() began: no callback runs during or after, and the program reads first what first
 * holds, a copy of which is made, then what was never consumed. -ENOMEM: the bytes could not be given back, as with
 * KAPI_GIVE_BACK_LOST. When no program has the socket open any more, all of that is forgotten: the socket is closed then, and
 * with unread bytes TCP would discard what it has yet to send.
 */
int kapi_stream_give_back(struct kapi_stream *stream, const struct kapi_piece *first, enum kapi_give_back how) KAPI_NOEXCEPT;
/*
 * [sleep] Resets the connection; the stream stays taken over, and event() reports its end. The socket's owner finds the error
 * that waits for it, or ECONNABORTED.
 */
void kapi_stream_reset(struct kapi_stream *stream) KAPI_NOEXCEPT;
/* The identity of the socket of a stream or a descriptor, for comparison. [task] -ENOENT: fd is no socket. */
int kapi_stream_key_of_fd(int fd, kapi_u64 *key) KAPI_NOEXCEPT;
kapi_u64 kapi_stream_key(const struct kapi_stream *stream) KAPI_NOEXCEPT; /* [any] */
/* [any] No program has the socket of a stream that was taken over open any more, nor is a descriptor of it on its way to one. */
int kapi_stream_is_unused(const struct kapi_stream *stream) KAPI_NOEXCEPT;
/* [any] Lets the socket's owner find error (positive) by SO_ERROR and poll; no call of core's takes it. Also from callbacks. */
void kapi_stream_post_error(struct kapi_stream *stream, int error) KAPI_NOEXCEPT;
/* [any] SO_RCVBUF as the kernel keeps it, and SO_RCVTIMEO in ns (KAPI_FOREVER: unset). */
kapi_u32 kapi_stream_rcvbuf(const struct kapi_stream *stream) KAPI_NOEXCEPT;
kapi_u64 kapi_stream_rcvtimeo_ns(const struct kapi_stream *stream) KAPI_NOEXCEPT;
/* [any] The contents of the socket's queues: buffers to be read and their memory, buffers to be sent, references to it. */
struct kapi_stream_queues {
	kapi_u32 recv_q, rmem, send_q, smem;
};
void kapi_stream_queues(const struct kapi_stream *stream, struct kapi_stream_queues *queues) KAPI_NOEXCEPT;
/* [any] Both ends' addresses, each that is link-local with the interface of its link as the scope. */
void kapi_stream_addrs(struct kapi_stream *stream, struct kapi_addr *local, struct kapi_addr *remote) KAPI_NOEXCEPT;
/* [sleep] New buffer sizes for a live stream (0: leave as it is). */
void kapi_stream_set_buffers(struct kapi_stream *stream, kapi_u32 sndbuf, kapi_u32 rcvbuf) KAPI_NOEXCEPT;
/* [any] The largest sizes that programs without privileges may set (net.core.wmem_max and rmem_max), in bytes. */
void kapi_stream_buffer_limits(kapi_u32 *sndbuf, kapi_u32 *rcvbuf) KAPI_NOEXCEPT;

enum kapi_stream_flag {
	/* Further bytes follow soon, so do not push a partial packet; with count 0 and without this it is pushed after all. */
	KAPI_STREAM_MORE = 1,
	/* A partial packet may wait for an acknowledgement, if two packets or more are on their way. */
	KAPI_STREAM_GATHER = 2,
};
/*
 * [sleep] Appends the segments in order, without waiting for room: returns the number of bytes taken (maybe 0: acked()
 * follows when there is room) or the error that ended the stream (-EPIPE, -ECONNRESET, ...). *end_seq is the TCP
 * sequence number after the last byte taken. flags: enum kapi_stream_flag or-ed.
 */
kapi_s64 kapi_stream_send(struct kapi_stream *stream, const struct kapi_segment *segments, unsigned int count,
			  unsigned int flags, kapi_u32 *end_seq) KAPI_NOEXCEPT;
/*
 * [sleep] Offers unread bytes to rx() until it declines or none are left. Returns the bytes that are left (0: drained, or the
 * stream is broken and offers no more).
 */
kapi_size kapi_stream_resume(struct kapi_stream *stream) KAPI_NOEXCEPT;
/*
 * [sleep] The same until rx() takes nothing, and when none are left the connection is reset in the same moment: nothing that rx()
 * was not offered is acknowledged to the peer. What the peer sends meanwhile is not received. No callback runs after the reset;
 * the stream is still to be closed. Not of a program's socket.
 */
kapi_size kapi_stream_drain_and_reset(struct kapi_stream *stream) KAPI_NOEXCEPT;
/* [sleep] Sends FIN after what was written; receiving continues. */
void kapi_stream_shutdown_write(struct kapi_stream *stream) KAPI_NOEXCEPT;
/* For so long, in milliseconds, TCP tries to send what a stream has had when it is closed, from each acknowledgement on. */
#define KAPI_CLOSE_MS 10000
/*
 * [sleep] No callback runs during or after. Frees the stream; unread bytes are lost (resume first). abort: reset
 * instead of FIN, and what was not yet sent is discarded.
 */
void kapi_stream_close(struct kapi_stream *stream, int abort) KAPI_NOEXCEPT;

/* The state of the peer according to TCP. */
struct kapi_stream_health {
	kapi_u32 una, next;         /* oldest unacknowledged and next sequence number to be sent */
	kapi_u32 write_seq;         /* after the last byte accepted */
	kapi_u32 unread;            /* bytes received and not consumed */
	kapi_u64 silent_ns;         /* time since the peer last sent something; inexact by some milliseconds, as TCP's clock is */
	kapi_u32 rtt_us;            /* TCP's smoothed round-trip time; 0: not known */
	kapi_u8 unanswered;         /* retransmissions or window probes are out and unanswered */
	kapi_u8 eof, closed;        /* what happened, before a stream is attached too; eof: of one that is not broken */
	kapi_u8 to_offer;           /* rx() is, or may be, yet to be offered something that has come; attached ones only */
};
void kapi_stream_health(struct kapi_stream *stream,
			struct kapi_stream_health *health) KAPI_NOEXCEPT; /* [any] not from its callbacks */

/*
 * [sleep] Takes back what TCP's retransmission time-out (or its interval between window probes) has grown by, so that the next
 * packet goes limit_ms from now at the latest, or three of the shortest round trips if that is more. Nothing happens when it
 * goes earlier anyway. The stream ends no sooner for what is sent more often.
 */
void kapi_stream_limit_back_off(struct kapi_stream *stream, kapi_u32 limit_ms) KAPI_NOEXCEPT;

/* From rx() only. Copies size bytes that start offset bytes into the offer. */
void kapi_rx_copy(struct kapi_rx *rx, kapi_size offset, void *to, kapi_size size) KAPI_NOEXCEPT;
/*
 * From rx() only. Is it to decline what is left of the offer, and to be resumed in a work? As kapi_turn_is_over(); in a task when
 * one call has made offers for KAPI_TURN_NS, so that other works get their turn.
 */
int kapi_rx_turn_is_over(struct kapi_rx *rx) KAPI_NOEXCEPT;
/* From rx() only. Keeps a part of the offer, of one byte at least, by reference: NULL when no memory. The caller owns it. */
struct kapi_rxbuf *kapi_rx_keep(struct kapi_rx *rx, kapi_size offset, kapi_size size) KAPI_NOEXCEPT;
/*
 * From rx() only. Charges size bytes of memory that core allocates (with KAPI_ATOMIC) for what it takes of the offer, as
 * kapi_rx_keep() charges what it keeps: to the user and the cgroup of the program that has the stream, if one has. *payer is NULL
 * before the first of several charges, and is then for kapi_rx_uncharge(), which gives back the sum of them. -ENOMEM: nothing was
 * charged.
 */
struct kapi_payer;
int kapi_rx_charge(struct kapi_rx *rx, kapi_size size, struct kapi_payer **payer) KAPI_NOEXCEPT;
void kapi_rx_uncharge(struct kapi_payer *payer, kapi_size size) KAPI_NOEXCEPT; /* [any] once; NULL allowed */
/* [any] What keeping the offer costs in memory. */
kapi_size kapi_rx_true_size(const struct kapi_rx *rx) KAPI_NOEXCEPT;
void kapi_rxbuf_free(struct kapi_rxbuf *buffer) KAPI_NOEXCEPT;                   /* [any] */
kapi_size kapi_rxbuf_length(const struct kapi_rxbuf *buffer) KAPI_NOEXCEPT;      /* [any] */
kapi_size kapi_rxbuf_true_size(const struct kapi_rxbuf *buffer) KAPI_NOEXCEPT;   /* [any] */
struct kapi_rxbuf **
kapi_rxbuf_next(struct kapi_rxbuf *buffer) KAPI_NOEXCEPT; /* [any] the owner's link to chain buffers */
void kapi_rxbuf_copy(const struct kapi_rxbuf *buffer, kapi_size offset, void *to,
		     kapi_size size) KAPI_NOEXCEPT; /* [any] */
/* [task] -EFAULT */
int kapi_rxbuf_to_msg(const struct kapi_rxbuf *buffer, kapi_size offset, kapi_size size,
		      struct kapi_msg *msg) KAPI_NOEXCEPT;

KAPI_END
#endif
