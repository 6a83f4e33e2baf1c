/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Between the files that make up streams: sending and life (stream.c), receiving (stream_rx.c), listening
 * (listener.c).
 */
#ifndef KAPI_LINUX_STREAM_H
#define KAPI_LINUX_STREAM_H

#include <linux/net.h>
#include <linux/skbuff.h>
#include <linux/workqueue.h>
#include <net/sock.h>

#include <kapi/stream.h>

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
	bool eof, closed;   /* events told; health() looks at them without the lock */
	struct delayed_work retry; /* when TCP had no memory and no acknowledgement is due that would tell of room */
	void (*data_ready)(struct sock *sk); /* what the callbacks were before */
	void (*state_change)(struct sock *sk);
	void (*write_space)(struct sock *sk);
};

/* What rx() is given. */
struct kapi_rx {
	struct sk_buff *skb;
	unsigned int offset;
	size_t length;
};

struct kapi_stream *kapi_stream_create(struct socket *sock);
void kapi_stream_mute(struct kapi_stream *stream); /* the socket's lock is held */
/* Copies size bytes that begin at offset of the piece. */
void kapi_piece_copy(const struct kapi_piece *piece, unsigned int offset, void *to, unsigned int size);
void kapi_stream_offer(struct kapi_stream *stream); /* the socket's lock is held */

/* Our address as the kernel's, for a socket of family; returns its length. */
int kapi_sockaddr_of(const struct kapi_addr *addr, int family, struct sockaddr_storage *name);
bool kapi_addr_is_v4(const struct kapi_addr *addr);

#endif
