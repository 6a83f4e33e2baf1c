/* SPDX-License-Identifier: GPL-2.0 */
/*
 * RDMA: devices, connections, queues of work requests. What the requests move is in kapi/verbs_memory.h. How RDS and RTRS use
 * both, call by call, and where each rule comes from: Documentation/verbs.md.
 *
 * Order of life: device (the host's) > protection domain > completion queue > connection > queue pair > posted requests. What
 * stands right is freed first. A device goes only when nothing of it is left, and until then its removal waits.
 *
 * Two contexts beside those of kapi/types.h:
 *
 *   [event]  callbacks of connections and listeners: a process context that all users of the host's connection manager share.
 *            Only [any] calls. The callbacks of one connection run one after the other.
 *   [done]   callbacks of completion queues. KAPI_CQ_SOFTIRQ and KAPI_CQ_DIRECT: only [any] calls. KAPI_CQ_WORK: also those
 *            that may sleep, except the ones that wait for a queue (kapi_qp_drain, kapi_qp_free, kapi_cq_free,
 *            kapi_cm_destroy, kapi_mr_free). The callback of one queue never runs twice at a time.
 *
 * A process context where [sleep] is allowed is neither of them.
 */
#ifndef KAPI_VERBS_H
#define KAPI_VERBS_H

#include <kapi/types.h>

KAPI_BEGIN

struct kapi_rdma_dev;   /* a device; the host's */
struct kapi_rdma_watcher; /* of devices that come and go */
struct kapi_pd;         /* a protection domain: keys work only with queue pairs of the same one */
struct kapi_cq;         /* a completion queue */
struct kapi_qp;         /* a queue pair, always reliable connected */
struct kapi_cm;         /* one end of a connection, or what may become one */
struct kapi_cm_listener;
struct kapi_mr;         /* kapi/verbs_memory.h */

/* ---- Devices ---- */

enum kapi_rdma_flags {
	/*
	 * No immediate data with a write, no atomics; the target of a read needs its own key; rnr_retry is of no effect: a
	 * message for which no receive is posted ends the connection.
	 */
	KAPI_RDMA_IWARP = 1,
	KAPI_RDMA_ATOMICS = 2,        /* 8 bytes, aligned: fetch-and-add, compare-and-swap */
	KAPI_RDMA_MASKED_ATOMICS = 4, /* the same with masks; without this flag posting one is -EINVAL */
	KAPI_RDMA_ON_DEMAND = 8,      /* kapi_mr_on_demand() works for a reliable connection; not with KAPI_RDMA_IWARP */
	KAPI_RDMA_GAPS = 16,          /* kapi_mr_alloc() can make regions of pieces that do not fill their pages */
	/*
	 * When a request with KAPI_WR_FENCE is sent again, it waits for the reads and atomics behind it, too, and they for it:
	 * the queue pair stands still for ever, without an error. So none of them is posted before it has completed.
	 * (Soft-RoCE of 6.1 and 6.12, drivers/infiniband/sw/rxe/rxe_req.c: rxe_wqe_is_fenced().)
	 */
	KAPI_RDMA_FENCE_HANGS = 32,
	KAPI_RDMA_ON_DEMAND_ATOMICS = 64, /* also for atomics, there and for what they return here */
};

/* Limits: none is exceeded by any call, which then fails with -EINVAL. */
struct kapi_rdma_attrs {
	char name[64];              /* as `rdma link` shows it, zero padded */
	kapi_u64 guid;              /* of the node, host order */
	kapi_u32 flags;             /* KAPI_RDMA_* */
	kapi_u32 max_wr;            /* requests in one queue, the one for kapi_qp_drain() already taken off */
	kapi_u32 max_sge;           /* pieces of a request that sends or writes, and of a receive */
	kapi_u32 max_read_sge;      /* pieces of a read's target */
	kapi_u32 max_cqe;           /* completions in one queue */
	kapi_u32 max_mr;            /* regions of the device */
	kapi_u32 max_mr_pages;      /* of 4 KiB, in one region */
	kapi_u32 max_reads_in;      /* reads and atomics of one peer that the device answers at a time */
	kapi_u32 max_reads_out;     /* and that one queue pair may have outstanding */
	kapi_u32 max_inline;        /* bytes that a request may carry itself (KAPI_WR_INLINE) */
	kapi_u32 vectors;           /* completion vectors: numbers below this spread queues over processors */
	kapi_s32 node;              /* of memory, nearest; -1: none is nearer */
};

struct kapi_rdma_watch_ops {
	/* [init] dev has come, or was there when the watch began. One device at a time. */
	void (*added)(void *context, struct kapi_rdma_dev *dev, const struct kapi_rdma_attrs *attrs);
	/*
	 * [init] dev goes, or the watch ends. When this returns nothing may exist that was made of dev but a connection that
	 * ended(KAPI_CM_DEVICE_REMOVED) is going to report, which is then to be destroyed soon: the removal waits for that,
	 * and before it for the last protection domain and completion queue. When dev goes, no new ones are made from before
	 * this call on. Not called for a device that added() was not called for.
	 */
	void (*removed)(void *context, struct kapi_rdma_dev *dev);
};

/* [init] added() has been called for the devices that are there when this returns. -ENOMEM. */
int kapi_rdma_watch(const struct kapi_rdma_watch_ops *ops, void *context, struct kapi_rdma_watcher **watch) KAPI_NOEXCEPT;
/* [init] Calls removed() for each device, and neither callback afterwards. */
void kapi_rdma_unwatch(struct kapi_rdma_watcher *watch) KAPI_NOEXCEPT;
/* [any] From added() to the return of removed(), or while anything made of dev exists. */
const struct kapi_rdma_attrs *kapi_rdma_dev_attrs(const struct kapi_rdma_dev *dev) KAPI_NOEXCEPT;
/* [any] May net use dev? All may in the device layer's shared mode; in its exclusive mode the one that dev is in. */
int kapi_rdma_usable(const struct kapi_rdma_dev *dev, const struct kapi_net *net) KAPI_NOEXCEPT;
/*
 * [sleep] The device that holds addr, to be compared with those of added() and not to be used: it may be going. -ENODEV: an
 * address of net, and no device has it; -EADDRNOTAVAIL: not of net; -ENETUNREACH: net is going; -ENOMEM.
 */
int kapi_rdma_dev_of(struct kapi_net *net, const struct kapi_addr *addr, struct kapi_rdma_dev **dev) KAPI_NOEXCEPT;

/* [sleep] A protection domain. dev must be kept from going meanwhile: from added(), or while a connection of it exists.
 * -ENOMEM; -ENODEV: it is going. */
int kapi_pd_create(struct kapi_rdma_dev *dev, struct kapi_pd **pd) KAPI_NOEXCEPT;
void kapi_pd_free(struct kapi_pd *pd) KAPI_NOEXCEPT; /* [sleep] its regions and queue pairs are gone. NULL allowed */

/* ---- Connections ---- */

/* Private data: what a peer sends is padded with zeroes to these sizes, and its true size is lost (iWARP: kept). */
#define KAPI_CM_REQUEST_BYTES 56
#define KAPI_CM_ACCEPT_BYTES 196
#define KAPI_CM_REJECT_BYTES 148

/* How addresses are understood. */
enum kapi_cm_space {
	KAPI_CM_IP = 0,
	KAPI_CM_GID = 1, /* InfiniBand's own: ip is a GID, port the low half of a service id of the IB port space */
};

enum kapi_cm_why {
	KAPI_CM_UNRESOLVED = 1,     /* no device, address, neighbour or route; or it took too long */
	KAPI_CM_REJECTED = 2,       /* by either side; ours when the peer answers, or after about 70 s */
	KAPI_CM_UNREACHABLE = 3,    /* no answer to the request: about 70 s */
	KAPI_CM_FAILED = 4,         /* this host could not go on connecting */
	KAPI_CM_DISCONNECTED = 5,   /* by either side; ours is reported when the peer answers, or after about 70 s */
	KAPI_CM_ADDR_CHANGED = 6,   /* the address moved to another device */
	KAPI_CM_DEVICE_REMOVED = 7, /* destroy the connection soon: the device waits for it */
	KAPI_CM_QUEUE_ERROR = 8,    /* the queue pair failed by a request of the peer, or with the device */
};

struct kapi_cm_end {
	enum kapi_cm_why why;
	int error;               /* negative errno, fit to be a system call's */
	kapi_u32 reason;         /* of a rejection, as the host numbers it (28: the peer's core), else 0 */
	const void *data;        /* of a rejection by the peer's core, else NULL; valid during the callback */
	kapi_size size;
};

/*
 * [event] Each may be late, by the time that other users' callbacks take; each but ended(KAPI_CM_DEVICE_REMOVED) may never come:
 * wait for none without a limit. What comes after ended() is not reported.
 */
struct kapi_cm_ops {
	/*
	 * Of kapi_cm_connect(): address and route are known, a queue pair can be made. dev may be one that added() is about to
	 * be called for, or that removed() was just called for: then ended(KAPI_CM_DEVICE_REMOVED) follows.
	 */
	void (*resolved)(void *context, struct kapi_rdma_dev *dev);
	/*
	 * The peer accepted, with data (size bytes, valid during the callback); or, without data, our acceptance has reached the
	 * peer. Then messages of it may have been received before.
	 */
	void (*established)(void *context, const void *data, kapi_size size);
	/*
	 * Nothing can be sent any more. Once, and last. kapi_cm_destroy() is still to be called, and soon: the device may be
	 * going, which waits for it. A request of ours that fails is reported by its completion alone, not here.
	 */
	void (*ended)(void *context, const struct kapi_cm_end *end);
};

/* What goes with a request or an acceptance. */
struct kapi_cm_options {
	const void *data;           /* private, copied */
	kapi_size size;             /* at most KAPI_CM_REQUEST_BYTES or KAPI_CM_ACCEPT_BYTES */
	kapi_u8 reads_in, reads_out;/* at most as in kapi_rdma_attrs, and in an acceptance at most the other of the request */
	kapi_u8 retry;              /* 0 to 7: how often a packet is sent again without an answer */
	kapi_u8 rnr_retry;          /* 0 to 6: the same while the peer has no receive posted; 7: for ever */
	kapi_u8 rnr_timer;          /* InfiniBand's code, 1 (0.01 ms) to 31 (492 ms); 0 is 656 ms: what we ask of a peer then */
	kapi_u8 ack_timeout;        /* 4.096 us times 2 to this power; 0: the host's choice */
};

/* A peer that asks for a connection. Valid during the callback. */
struct kapi_cm_offer {
	const void *data;
	kapi_size size;
	kapi_u8 reads_in, reads_out; /* as the peer would have them of us */
	kapi_u8 tos;                 /* 0 where the host has none */
	kapi_u8 retry;               /* as in kapi_cm_options: the peer chooses it for both sides. Of iWARP 0, without effect */
};

struct kapi_cm_listener_ops {
	/*
	 * [event] Requests of one listener come one after the other, and a slow one holds up kapi_cm_listener_close(). Returns 1:
	 * taken. cm is ours, kapi_cm_attach() was called, and it is accepted or rejected from work, within some seconds. Returns
	 * 0: rejected, with *size bytes that were written to answer (KAPI_CM_REJECT_BYTES; *size is 0 before); cm is the host's.
	 */
	int (*request)(void *context, struct kapi_cm *cm, const struct kapi_cm_offer *request, void *answer, kapi_size *size);
};

/*
 * [sleep] Listens on addr->port of every device that net may use, those that come later too. addr->ip is :: (both families) or
 * the v4-mapped any address (IPv4 only); of KAPI_CM_GID it is ::. request() may be called before this returns. -EADDRINUSE;
 * -EINVAL: another address; -EAFNOSUPPORT: no device has GIDs, or the host no IPv6; -ENETUNREACH: net is going; -ENOMEM. A
 * listener may hold net, as a connection may: another namespace than the initial one does not end before they do, and nothing
 * reports that it should.
 */
int kapi_cm_listen(struct kapi_net *net, enum kapi_cm_space space, const struct kapi_addr *addr, unsigned int backlog,
		   const struct kapi_cm_listener_ops *ops, void *context, struct kapi_cm_listener **listener) KAPI_NOEXCEPT;
/* [sleep] request() has returned for good. What was taken lives on. NULL allowed. */
void kapi_cm_listener_close(struct kapi_cm_listener *listener) KAPI_NOEXCEPT;

struct kapi_cm_route {
	enum kapi_cm_space space;
	struct kapi_addr local;     /* :: or the v4-mapped any address: the host chooses. Port 0: automatic */
	struct kapi_addr remote;
	kapi_u32 timeout_ms;        /* for the address, and again for the route */
	kapi_u8 tos;                /* type of service, 0 to 255 */
	/*
	 * Not 0: the peer registers memory between what it sends. Where the device fails when it sends such again (Soft-RoCE),
	 * the peer is asked to wait longer for an acknowledgement, and the request is to set an ack_timeout for this side.
	 */
	kapi_u8 peer_registers;
};

/*
 * [sleep] Begins to resolve, without waiting; resolved() or ended() follows, maybe before this returns, but not before *cm is
 * set. The local port may be that of an old connection. -EADDRNOTAVAIL, -EADDRINUSE, -ENODEV (no device has local), -ENETUNREACH
 * (or net is going), -EAFNOSUPPORT, -ENOMEM: nothing was made. The connection may hold net: see kapi_cm_listen().
 */
int kapi_cm_connect(struct kapi_net *net, const struct kapi_cm_route *route, const struct kapi_cm_ops *ops, void *context,
		    struct kapi_cm **cm) KAPI_NOEXCEPT;
/* [event] From request() that is going to return 1, once: what is called for cm. */
void kapi_cm_attach(struct kapi_cm *cm, const struct kapi_cm_ops *ops, void *context) KAPI_NOEXCEPT;
/*
 * [sleep] After resolved(), the queue pair made and receives posted: asks the peer. Does not wait; established() or ended()
 * follows. -EINVAL: it has ended meanwhile, or options exceed a limit; -ENOMEM. After an error destroy it.
 */
int kapi_cm_request(struct kapi_cm *cm, const struct kapi_cm_options *options) KAPI_NOEXCEPT;
/* [sleep] The same of what request() took: from its return on we may send. retry is that of the offer. */
int kapi_cm_accept(struct kapi_cm *cm, const struct kapi_cm_options *options) KAPI_NOEXCEPT;
/* [sleep] Turns down what request() took; size at most KAPI_CM_REJECT_BYTES. Nothing follows but kapi_cm_destroy(). */
void kapi_cm_reject(struct kapi_cm *cm, const void *data, kapi_size size) KAPI_NOEXCEPT;
/* [sleep] Fails the queue pair, so that all that is posted is flushed, and notifies the peer. Does not wait. In any state. */
void kapi_cm_disconnect(struct kapi_cm *cm) KAPI_NOEXCEPT;
/*
 * [sleep] No callback runs during or after. Its queue pair was freed before. A peer that was not notified is notified once,
 * which may get lost. Not from its own callbacks, nor holding anything that they wait for. NULL allowed.
 */
void kapi_cm_destroy(struct kapi_cm *cm) KAPI_NOEXCEPT;

struct kapi_cm_info {
	struct kapi_addr local, remote;
	kapi_u8 local_gid[16], remote_gid[16];
	struct kapi_rdma_dev *dev;  /* NULL: not resolved */
	kapi_u32 port;              /* of the device, counted from 1 */
};
/* [any] After resolved(), or from request() on: with the scope of link-local addresses. Before, what was given and zeroes. */
void kapi_cm_describe(const struct kapi_cm *cm, struct kapi_cm_info *info) KAPI_NOEXCEPT;

KAPI_END
#endif
