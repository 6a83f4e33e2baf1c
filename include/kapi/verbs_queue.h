/* SPDX-License-Identifier: GPL-2.0 */
/*
 * RDMA queues: completion queues, queue pairs, work requests. Contexts [event] and [done] are explained in kapi/verbs.h.
 *
 * Who posts a request gives its memory away until the request's completion, or until kapi_qp_drain(): an answer that was
 * received says nothing about the request that it answers. The completions of one queue of a queue pair come in the order of
 * posting, but over iWARP (KAPI_RDMA_IWARP) that of a request without KAPI_WR_FENCE may come before those of reads that were
 * posted earlier, and so may the failure of any request; there is no order between its two queues, nor between queue pairs. After
 * the first failure all that is left is flushed in order.
 */
#ifndef KAPI_VERBS_QUEUE_H
#define KAPI_VERBS_QUEUE_H

#include <kapi/verbs.h>

KAPI_BEGIN

/* ---- Completions ---- */

enum kapi_wc_status {
	KAPI_WC_OK = 0,
	KAPI_WC_FLUSHED = 1,         /* an earlier request failed, or the connection ended: the request may have been executed */
	KAPI_WC_LOCAL_ERROR = 2,     /* length, state or another fault of this side */
	KAPI_WC_LOCAL_PROTECTION = 3,/* a key of this side does not cover the memory */
	KAPI_WC_REMOTE_ACCESS = 4,   /* the peer's key is dead, or does not cover the memory, or forbids the access */
	KAPI_WC_REMOTE_ERROR = 5,    /* the peer failed otherwise; or refused the request, say one longer than its receive */
	KAPI_WC_RETRY_EXCEEDED = 6,  /* no answer: the peer or the way to it is gone */
	KAPI_WC_RNR_EXCEEDED = 7,    /* the peer had no receive posted for too long */
};

enum kapi_wc_op {
	KAPI_WC_SEND = 1,            /* each request of the send queue but the following */
	KAPI_WC_READ = 2,
	KAPI_WC_REGISTER = 3,        /* KAPI_WR_REGISTER and KAPI_WR_INVALIDATE */
	KAPI_WC_RECV = 4,
	KAPI_WC_RECV_WRITE_IMM = 5,  /* a receive that a KAPI_WR_WRITE_IMM used up; its memory is unchanged */
};

enum kapi_wc_flags {
	KAPI_WC_IMM = 1,             /* imm is the peer's */
	KAPI_WC_INVALIDATED = 2,     /* the peer's request invalidated key, which was of our region */
};

/*
 * When status is not KAPI_WC_OK, cookie, status, vendor and qp_context hold, and nothing else: op is garbage. What follows op is
 * of receives.
 */
struct kapi_wc {
	kapi_u64 cookie;             /* of the request */
	void *qp_context;            /* of the queue pair */
	enum kapi_wc_status status;
	kapi_u32 vendor;             /* the device's own code for an error, for a log */
	enum kapi_wc_op op;
	kapi_u32 flags;              /* KAPI_WC_IMM, KAPI_WC_INVALIDATED */
	kapi_u32 length;             /* bytes received; of KAPI_WC_RECV_WRITE_IMM those that were written */
	kapi_u32 imm;                /* host order */
	kapi_u32 key;
};

enum kapi_cq_mode {
	KAPI_CQ_SOFTIRQ = 0,         /* done() where nothing may sleep, soonest */
	KAPI_CQ_WORK = 1,            /* done() in a thread */
	KAPI_CQ_DIRECT = 2,          /* done() from kapi_cq_poll() only: no interrupts */
};

/* At most so many completions are given to done() at a time. */
#define KAPI_CQ_BATCH 16

/*
 * [sleep] A queue for entries completions: as many as may be outstanding of all its queue pairs, and two of each for
 * kapi_qp_drain(). One too many, and its queue pairs fail. vector is taken modulo those of the device. done() [done] is called
 * for completions in order, n from 1 to KAPI_CQ_BATCH; no completion is missed, signalled as solicited or not. -EINVAL,
 * -ENOMEM; -ENODEV: dev is going.
 */
int kapi_cq_create(struct kapi_rdma_dev *dev, kapi_u32 entries, kapi_u32 vector, enum kapi_cq_mode mode,
		   void (*done)(void *context, const struct kapi_wc *wcs, unsigned int n), void *context,
		   struct kapi_cq **cq) KAPI_NOEXCEPT;
/* [sleep] Its queue pairs are gone. done() does not run when this returns. Not from done(). NULL allowed. */
void kapi_cq_free(struct kapi_cq *cq) KAPI_NOEXCEPT;
/*
 * [any] Of a KAPI_CQ_DIRECT queue: gives done() up to budget completions and returns how many there were. 0 also while another
 * call is in it. Also from block-layer polling; not from done().
 */
unsigned int kapi_cq_poll(struct kapi_cq *cq, unsigned int budget) KAPI_NOEXCEPT;

/* ---- Queue pairs ---- */

struct kapi_qp_caps {
	kapi_u32 max_send, max_recv;         /* requests outstanding in each queue; the host adds what kapi_qp_drain() needs */
	kapi_u32 max_send_sge, max_recv_sge; /* pieces of one */
	kapi_u32 max_inline;                 /* bytes; a wish: none are granted where the device refuses so many */
};

/*
 * [sleep] The one queue pair of cm: after its resolved(), or of what request() took. Receives may be posted at once, and sends
 * from established() of the side that asked, or from kapi_cm_accept() of the other. caps is set to what was granted, which may be
 * more. The queues may be one and the same. context is in each completion. -EINVAL: a limit, or cm has ended; -ENOMEM, -ENODEV.
 */
int kapi_qp_create(struct kapi_cm *cm, struct kapi_pd *pd, struct kapi_qp_caps *caps, struct kapi_cq *send_cq,
		   struct kapi_cq *recv_cq, void *context, struct kapi_qp **qp) KAPI_NOEXCEPT;
/*
 * [sleep] Nothing is posted any more (kapi_qp_drain). Not from done(). Before its kapi_cm_destroy(). NULL allowed. Of one that
 * could not be drained: done() of its completion queues is called no more, and does not run when this returns.
 */
void kapi_qp_free(struct kapi_qp *qp) KAPI_NOEXCEPT;
/*
 * [sleep] Fails the queue pair and waits until done() has returned for everything that was posted, unsignalled requests
 * included; of a direct queue it calls done() itself, and of another one when nothing has completed for 10 s, after which its
 * queues are silent. Nobody else posts meanwhile. Not from done(), nor holding anything that
 * done() waits for. Afterwards memory of what was posted is ours and regions of it are not accessed by the peer through this
 * connection. -ETIMEDOUT: the device has ended nothing for 10 s, or 1 s if it was so the last time; it is broken, and the
 * memory and mappings of what was posted, and those of its regions, must never be freed. The queue pair is, and then the
 * regions.
 */
int kapi_qp_drain(struct kapi_qp *qp) KAPI_NOEXCEPT;

/* ---- Work requests ---- */

/* A piece of mapped memory: what kapi_map_sges() fills in. Has the layout of the kernel's ib_sge. */
struct kapi_sge {
	kapi_u64 address;            /* as the device sees it */
	kapi_u32 length;
	kapi_u32 key;                /* local */
};

enum kapi_wr_op {
	KAPI_WR_SEND = 1,
	KAPI_WR_SEND_IMM = 2,
	KAPI_WR_SEND_INV = 3,        /* and invalidates one key of the peer */
	KAPI_WR_WRITE = 4,
	KAPI_WR_WRITE_IMM = 5,       /* takes a receive of the peer */
	KAPI_WR_READ = 6,
	KAPI_WR_ATOMIC_ADD = 7,      /* the old value goes to the piece, 8 bytes in host order */
	KAPI_WR_ATOMIC_SWAP = 8,     /* if it equals compare */
	KAPI_WR_MASKED_ADD = 9,
	KAPI_WR_MASKED_SWAP = 10,
	KAPI_WR_REGISTER = 11,       /* makes a region valid that is free: kapi_mr_map() or kapi_mr_next_key() came before */
	KAPI_WR_INVALIDATE = 12,     /* makes a region of ours free. Its memory is ours when this has completed */
};

enum kapi_wr_flags {
	KAPI_WR_SIGNALED = 1,        /* completes in success too. Without it: done when a later one of the queue completed */
	KAPI_WR_SOLICITED = 2,       /* wakes a peer that waits for that only, as the kernel's own RDS does */
	KAPI_WR_FENCE = 4,           /* begins after the reads and atomics before it have ended */
	KAPI_WR_INLINE = 8,          /* of sends and writes: the bytes are copied when posted; address is a kernel address */
	KAPI_WR_EARLY = 16,          /* of an unsignalled REGISTER: may be executed, fail and be flushed before others that were
				      * posted earlier, but no INVALIDATE. With KAPI_WR_FENCE it keeps its place */
};

enum kapi_access {
	KAPI_ACCESS_LOCAL_WRITE = 1, /* needed with REMOTE_WRITE and REMOTE_ATOMIC */
	KAPI_ACCESS_REMOTE_WRITE = 2,
	KAPI_ACCESS_REMOTE_READ = 4,
	KAPI_ACCESS_REMOTE_ATOMIC = 8,
};

/* Cookies are less: the others are the host's. */
#define KAPI_COOKIES ((1ULL << 63) - 3)

/* A request for a send queue. It and its pieces may be reused when posting returns. */
struct kapi_wr {
	struct kapi_wr *next;        /* posted after this one, or NULL */
	kapi_u64 cookie;             /* comes back in the completion */
	const struct kapi_sge *sges;
	kapi_u32 n_sges;
	kapi_u8 op;                  /* enum kapi_wr_op */
	kapi_u8 flags;               /* KAPI_WR_SIGNALED ... */
	kapi_u8 access;              /* of REGISTER: enum kapi_access */
	kapi_u8 pad;
	kapi_u32 imm;                /* of SEND_IMM and WRITE_IMM, host order */
	kapi_u32 key;                /* the peer's: of the memory, or the one to invalidate; of INVALIDATE ours */
	kapi_u64 remote;             /* address at the peer */
	struct kapi_mr *mr;          /* of REGISTER */
	kapi_u64 add_or_swap, compare;
	kapi_u64 add_or_swap_mask, compare_mask; /* of MASKED_*: of an add the last bit of each field; of a swap the bits */
	unsigned long opaque[KAPI_SIZE_WR / sizeof(unsigned long)]; /* the host's, not to be set */
};

struct kapi_recv_wr {
	struct kapi_recv_wr *next;
	kapi_u64 cookie;
	const struct kapi_sge *sges;
	kapi_u32 n_sges;
	kapi_u32 pad;
	unsigned long opaque[KAPI_SIZE_RECV_WR / sizeof(unsigned long)];
};

/*
 * [any] Posts a chain in order. After an error *bad is the first that was not posted, and those before it are. -ENOMEM: the queue
 * is full; -EINVAL: not connected yet, or the device cannot do that. Of a failed queue pair all are taken, and flushed. Several
 * callers may post at the same time; the requests of a chain stay together.
 */
int kapi_qp_send(struct kapi_qp *qp, struct kapi_wr *first, struct kapi_wr **bad) KAPI_NOEXCEPT;
/* [any] The same for receives, from kapi_qp_create() on. What is received fills the pieces in order. */
int kapi_qp_recv(struct kapi_qp *qp, struct kapi_recv_wr *first, struct kapi_recv_wr **bad) KAPI_NOEXCEPT;

KAPI_END
#endif
