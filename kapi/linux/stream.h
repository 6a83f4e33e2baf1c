/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Between the files that make up streams: callbacks and life (stream.c), opening (stream_open.c), sending (stream_tx.c),
 * receiving (stream_rx.c), state (stream_state.c), listening (listener.c), a program's sockets (adopt.c), what is put back into
 * them (stream_back.c), those with TLS on them (stream_tls.c).
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
/* In jiffies, before something is tried again for which no event comes. */
#define KAPI_RETRY_DELAY (HZ / 100 + 1)

/*
 * A TCP socket with hawser's callbacks. All fields but the constant ones are used with the socket's lock
 * held, which also holds while a callback runs.
 */
struct kapi_stream {
	struct sock *sk;     /* constant */
	struct socket *sock; /* constant */
	struct file *file;   /* adopted: the program's, held; constant */
	const struct kapi_stream_ops *ops; /* NULL: mute */
	void *context;
	u32 una;          /* last reported to acked() */
	u64 until;        /* the turn of what is offered now, on kapi_turn_clock() */
	bool looked;      /* whether it is over already, and nothing was offered since */
	u8 paused : 1;    /* rx() declined: nothing is offered until kapi_stream_resume() */
	u8 blocked : 1;   /* a send took less than it was given: acked() is owed when there is room */
	u8 established : 1; /* event reported */
	u8 adopted : 1;     /* a program's own socket; constant */
	u8 records_end : 1; /* TLS: an alert came, no data follow */
	u8 unreadable : 1;  /* TLS: what follows is no record that can be read; not tried again, for TLS reports it each time */
	bool tls;           /* ... with TLS on it, through which bytes go; constant once it is taken over */
	u8 task_frag : 1;   /* adopted: what the socket had as sk_use_task_frag */
	u16 broken;         /* the error that ends reading: of TLS, unreadable bytes, replaced; health() looks at it, too */
	int posted;         /* the error that core has posted last, without the lock */
	int disconnects;    /* adopted: the socket's, when it was taken over; constant */
	int most_sndbuf, most_rcvbuf; /* what TCP may tune its buffers to; constant */
	bool eof, closed;   /* events reported; health() looks at them without the lock */
	bool unoffered;     /* TLS: rx() may be yet to be offered something; health() the same */
	struct kapi_payer *payer; /* of an adopted one: is charged for what is kept of it; constant */
	/*
	 * When TCP had no memory and no acknowledgement is due that would report room; and what a callback of TLS,
	 * which can be read from a task only, leaves to be done.
	 */
	struct delayed_work later;
	struct delayed_work look; /* adopted, blocked: whether it was replaced */
	int look_delay;           /* in jiffies */
	struct workqueue_struct *queue; /* for both; constant */
	kapi_callback *data_ready_slot, *write_space_slot; /* where callbacks are set; constant once it is taken over */
	kapi_callback data_ready, state_change, write_space; /* what they were before */
	kapi_callback error_report; /* the same, of an adopted one; constant once it is taken over */
	struct rcu_head rcu;        /* of an adopted one */
};

/*
 * The program has disconnected its adopted socket (connect() to AF_UNSPEC), of which TCP makes no callback but that for errors:
 * what TCP has, or gets, is of another connection. TLS may refuse it, which is counted too, and leaves the socket in this state.
 * The lock is held.
 */
static inline bool kapi_stream_is_replaced(const struct kapi_stream *stream)
{
	return stream->adopted && stream->sk->sk_disconnects != stream->disconnects &&
	       !(stream->tls && stream->sock->state == SS_DISCONNECTING);
}

/*
 * Core has taken the socket's error, positive, which is the program's: the program finds it again, unless there is another by
 * now. Its poll() may have looked in between.
 */
static inline void kapi_stream_put_error_back(struct kapi_stream *stream, int error)
{
	if (!cmpxchg(&stream->sk->sk_err, 0, error))
		stream->error_report(stream->sk);
}

/* What rx() is given. */
struct kapi_rx {
	struct sk_buff *skb;
	unsigned int offset;
	size_t length;
	struct kapi_payer *payer; /* for what is kept; or NULL */
	u64 until; /* its turn, on kapi_turn_clock() */
	bool looked; /* at the clock, just now */
	unsigned int frag; /* that was looked at last, and where it begins */
	size_t frag_start;
};

int kapi_streams_init(void); /* The queue of work on our own streams. -ENOMEM. */
void kapi_streams_exit(void);
int kapi_adopt_init(void); /* What marks sockets that are taken over; stays for ever. -ENOMEM. */
struct kapi_stream *kapi_stream_create(struct socket *sock);
void kapi_stream_do_later(struct kapi_stream *stream, unsigned long delay); /* in jiffies */
/* Is it replaced while it is blocked? anew: it was not blocked before, or has sent something since. The socket's lock is held. */
void kapi_stream_look_later(struct kapi_stream *stream, bool anew);
void kapi_stream_retry_later(struct kapi_stream *stream); /* unless something is to be done sooner */
/* What TCP may tune the buffers of a socket of the namespace to that no cgroup is charged for. */
void kapi_most_buffers(const struct net *net, int *sndbuf, int *rcvbuf);
/* Cuts those that are larger, which TCP then leaves alone. The socket's lock is held. */
void kapi_limit_buffers(struct sock *sk, int most_sndbuf, int most_rcvbuf);
/*
 * Cuts buffers that TCP has enlarged beyond what the stream may have: the administrator of a namespace, who may be any user, can
 * write tcp_rmem and tcp_wmem at any time. The lock is held.
 */
static inline void kapi_stream_limit_buffers(struct kapi_stream *stream)
{
	if (unlikely(stream->sk->sk_rcvbuf > stream->most_rcvbuf || stream->sk->sk_sndbuf > stream->most_sndbuf))
		kapi_limit_buffers(stream->sk, stream->most_sndbuf, stream->most_rcvbuf);
}
/* The socket's callbacks become ops', and its own again. The socket's lock is held. */
void kapi_stream_unmute(struct kapi_stream *stream, const struct kapi_stream_ops *ops, void *context);
void kapi_stream_mute(struct kapi_stream *stream);
/* Notifies acked() of what the peer has acknowledged, or of room after a send that took too little. The same. */
void kapi_stream_report_acked(struct kapi_stream *stream);
/*
 * Where bytes are copied from: memory, or, when bytes is NULL, a network buffer, from offset on. size of them are left; behind
 * those come the pieces from next on.
 */
struct kapi_source {
	const void *bytes;
	const struct sk_buff *skb;
	unsigned int offset, size;
	const struct kapi_piece *next;
};
struct kapi_source kapi_source_of(const struct kapi_piece *piece);
/*
 * A copy of the next left bytes of from, or of so many as one network buffer always has room for; from goes on behind them. NULL:
 * no memory.
 */
struct sk_buff *kapi_copy_next(struct kapi_source *from, size_t left, gfp_t gfp);
/* All of from without what comes next, as one network buffer, which may carry others in its list of fragments. The same. */
struct sk_buff *kapi_copy_to_skb(struct kapi_source *from, gfp_t gfp);
/*
 * Puts copies of the bytes of first before what TCP, or TLS, has; the program is charged for them. May sleep; the socket's lock
 * is held. -ENOMEM: none is put back.
 */
int kapi_stream_put_back(struct kapi_stream *stream, const struct kapi_piece *first);
/* The socket's lock is held; when it has TLS on it, by a task. */
void kapi_stream_offer(struct kapi_stream *stream);
/* As before: reports an end that was not reported yet, after offering what came before it. */
void kapi_stream_tell_end(struct kapi_stream *stream);

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0) && IS_ENABLED(CONFIG_TLS) && !IS_ENABLED(CONFIG_HIGHMEM)
/* Is it TLS in software, with the keys of both directions? The socket's lock is held, as it is for the following. */
bool kapi_tls_is_usable(const struct sock *sk);
/* Makes stream one that sends and receives through it. */
void kapi_tls_take_over(struct kapi_stream *stream);
/*
 * As tcp_read_sock() with what is in records of data; may sleep. -EAGAIN: no record is whole; -EBUSY: that cannot be said
 * yet, for the program is reading, and no event comes when it has done, or TLS has not looked; -ESHUTDOWN: the next record is
 * an alert; -EPROTO: it is another that is no data; -EBADMSG: it is forged; else what broke the connection.
 */
int kapi_tls_read(struct kapi_stream *stream, read_descriptor_t *reader, sk_read_actor_t actor);
/*
 * Sends segments, *left of them, as kapi_stream_send() does, but without the lock. Returns what was taken of the last ones, or
 * an error; *sent is what was taken in all, *left segments are left.
 */
int kapi_tls_send(struct kapi_stream *stream, const struct kapi_segment *segments, unsigned int *left, s64 *sent);
/* Puts copies before what TLS has. False: it cannot be done while a program waits for the next record. */
bool kapi_tls_prepend(struct sock *sk, struct sk_buff_head *copies);
/* Drops what it has of the stream, and takes in nothing any more. */
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
static inline bool kapi_tls_prepend(struct sock *sk, struct sk_buff_head *copies)
{
	return false;
}
static inline void kapi_tls_forget(struct sock *sk)
{
}
#endif

/* Our address as the kernel's, for a socket of family; returns its length. */
int kapi_sockaddr_of(const struct kapi_addr *addr, int family, struct sockaddr_storage *name);
bool kapi_addr_is_v4(const struct kapi_addr *addr);

#endif
