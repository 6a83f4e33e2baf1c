/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Between the files that make up streams: sending and life (stream.c), receiving (stream_rx.c), listening
 * (listener.c), a program's sockets (adopt.c), those with TLS on them (stream_tls.c).
 */
#ifndef KAPI_LINUX_STREAM_H
#define KAPI_LINUX_STREAM_H

#include <linux/net.h>
#include <linux/skbuff.h>
#include <linux/version.h>
#include <linux/workqueue.h>
#include <net/sock.h>

#include <kapi/stream.h>

typedef void (*kapi_callback)(struct sock *sk);
/* In jiffies, before something is tried again of which nobody tells when it works. */
#define KAPI_RETRY_DELAY (HZ / 100 + 1)

/*
 * A TCP socket whose callbacks are ours. All fields but the constant ones are used with the socket's lock
 * held, which also holds while a callback runs.
 */
struct kapi_stream {
	struct sock *sk;     /* constant */
	struct socket *sock; /* constant */
	const struct kapi_stream_ops *ops; /* NULL: mute */
	void *context;
	u32 una;          /* last told to acked() */
	u8 paused : 1;    /* rx() declined: nothing is offered until kapi_stream_resume() */
	u8 blocked : 1;   /* a send took less than it was given: acked() is owed when there is room */
	u8 established : 1; /* event told */
	u8 adopted : 1;     /* a program's own socket; constant */
	u8 records_end : 1; /* TLS: an alert came, no data follow */
	bool tls;           /* ... with TLS on it, through which bytes go; constant once it is taken over */
	u16 broken;         /* TLS: the error that keeps it from being read on */
	bool eof, closed;   /* events told; health() looks at them without the lock */
	/*
	 * When TCP had no memory and no acknowledgement is due that would tell of room; and what a callback of TLS,
	 * which can be read from a task only, leaves to be done.
	 */
	struct delayed_work later;
	kapi_callback *data_ready_slot, *write_space_slot; /* where callbacks are set; constant once it is taken over */
	kapi_callback data_ready, state_change, write_space; /* what they were before */
};

/* What rx() is given. */
struct kapi_rx {
	struct sk_buff *skb;
	unsigned int offset;
	size_t length;
	unsigned int frag; /* that was looked at last, and where it begins */
	size_t frag_start;
};

struct kapi_stream *kapi_stream_create(struct socket *sock);
void kapi_stream_do_later(struct kapi_stream *stream, unsigned long delay); /* in jiffies */
void kapi_stream_mute(struct kapi_stream *stream); /* the socket's lock is held */
/* Copies size bytes that begin at offset of the piece. */
void kapi_piece_copy(const struct kapi_piece *piece, unsigned int offset, void *to, unsigned int size);
/* The socket's lock is held; when it has TLS on it, by a task. */
void kapi_stream_offer(struct kapi_stream *stream);
/* As before: tells an end that nobody was told of, after offering what came before it. */
void kapi_stream_tell_end(struct kapi_stream *stream);

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0) && IS_ENABLED(CONFIG_TLS) && !IS_ENABLED(CONFIG_HIGHMEM)
/* Is it TLS in software, with the keys of both directions? The socket's lock is held, as it is for the following. */
bool kapi_tls_is_usable(const struct sock *sk);
/* Makes stream one that sends and receives through it. */
void kapi_tls_take_over(struct kapi_stream *stream);
/*
 * As tcp_read_sock() with what is in records of data; may sleep. -EAGAIN: no record is whole; -EBUSY: the program is
 * reading, and nobody tells when it has done; -ESHUTDOWN: the next record is an alert; -EPROTO: it is another that is no
 * data; else what broke the connection.
 */
int kapi_tls_read(struct kapi_stream *stream, read_descriptor_t *reader, sk_read_actor_t actor);
/*
 * Sends segments, *left of them, as kapi_stream_send() does, but without the lock. Returns what was taken of the last ones, or
 * an error; *sent is what was taken in all, *left segments are left.
 */
int kapi_tls_send(struct kapi_stream *stream, const struct kapi_segment *segments, unsigned int *left, s64 *sent);
/* Puts copies before what TLS has. */
void kapi_tls_prepend(struct sock *sk, struct sk_buff_head *copies);
/* Drops what it has of the stream. */
void kapi_tls_forget(struct sock *sk);
#else
static inline bool kapi_tls_is_usable(const struct sock *sk)
{
	return false;
}
static inline void kapi_tls_take_over(struct kapi_stream *stream)
{
}
static inline int kapi_tls_read(struct kapi_stream *stream, read_descriptor_t *reader, sk_read_actor_t actor)
{
	return -EOPNOTSUPP;
}
static inline int kapi_tls_send(struct kapi_stream *stream, const struct kapi_segment *segments, unsigned int *left, s64 *sent)
{
	return -EOPNOTSUPP;
}
static inline void kapi_tls_prepend(struct sock *sk, struct sk_buff_head *copies)
{
}
static inline void kapi_tls_forget(struct sock *sk)
{
}
#endif

/* Our address as the kernel's, for a socket of family; returns its length. */
int kapi_sockaddr_of(const struct kapi_addr *addr, int family, struct sockaddr_storage *name);
bool kapi_addr_is_v4(const struct kapi_addr *addr);

#endif
