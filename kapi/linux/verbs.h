/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Between the files that make up hawser_verbs.ko: devices (verbs_dev.c), addresses (verbs_addr.c), connections (verbs_cm.c),
 * listeners (verbs_listen.c), completion queues (verbs_cq.c), queue pairs (verbs_qp.c), requests (verbs_post.c, verbs_hold.c),
 * mappings (verbs_map.c), pinned pages (verbs_pin.c), those that stay so for a while (verbs_busy.c), and their limit
 * (verbs_memlock.c), regions (verbs_mr.c).
 */
#ifndef KAPI_LINUX_VERBS_H
#define KAPI_LINUX_VERBS_H

#include <linux/completion.h>
#include <linux/refcount.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#include <kapi/verbs.h>
#include <kapi/verbs_memory.h>
#include <kapi/verbs_queue.h>

#include "verbs_opaque.h"

/* ---- Devices ---- */

/*
 * Lives as long as anything that was made of it; ib lives until its removal has seen the end of all that was made of it. The
 * connection manager waits for the connections, and here it is waited for the rest.
 */
struct kapi_rdma_dev {
	struct ib_device *ib;
	struct kapi_rdma_attrs attrs;
	struct list_head entry; /* in the list of those that are not going */
	bool stuck;             /* the last drain of a queue pair ended without it */
	refcount_t refs;
	spinlock_t lock;        /* guards the following */
	bool going;
	unsigned int users;     /* protection domains with their regions, completion queues */
	wait_queue_head_t unused;
};

int kapi_verbs_devs_init(void);
void kapi_verbs_devs_exit(void);
/* Any context. A reference to what stands for ib; NULL: it is going. */
struct kapi_rdma_dev *kapi_rdma_dev_get(const struct ib_device *ib);
void kapi_rdma_dev_put(struct kapi_rdma_dev *dev); /* NULL allowed */
/* For something that is made of dev, which does not go before the other is called. False: it is going. */
bool kapi_rdma_dev_use(struct kapi_rdma_dev *dev);
void kapi_rdma_dev_unuse(struct kapi_rdma_dev *dev);
/* For something that the device does not give up: it goes all the same, and what stands for it stays. */
void kapi_rdma_dev_lose(struct kapi_rdma_dev *dev);

struct kapi_pd {
	struct ib_pd *ib;
	struct kapi_rdma_dev *dev;
};

/* ---- Addresses ---- */

/* Our address as the connection manager's. */
void kapi_rdma_sockaddr_of(enum kapi_cm_space space, const struct kapi_addr *addr, struct sockaddr_storage *name);
void kapi_rdma_addr_of(const struct sockaddr_storage *name, struct kapi_addr *addr);
bool kapi_rdma_is_any(const struct kapi_addr *addr);
/* The connection manager takes it for any address. */
bool kapi_rdma_is_loopback(const struct kapi_addr *addr);
/* A new id, or an error. */
struct rdma_cm_id *kapi_rdma_create_id(struct kapi_net *net, enum kapi_cm_space space, rdma_cm_event_handler handler,
				       void *context);

/* ---- Connections ---- */

struct kapi_cm {
	struct rdma_cm_id *id;
	const struct kapi_cm_ops *ops;
	void *context;
	u32 timeout_ms;
	bool peer_registers;       /* kapi_cm_route */
	bool ended;                /* the handler's lock guards it */
	struct kapi_rdma_dev *dev; /* from resolved() or request() on */
	struct kapi_qp *qp;
	struct work_struct failed; /* the queue pair did so: its event comes where nothing may sleep */
	spinlock_t lock;           /* guards info */
	struct kapi_cm_info info;
};

struct kapi_cm *kapi_cm_alloc(void);
/* Frees one that has no id any more. */
void kapi_cm_forget(struct kapi_cm *cm);
/* Device and addresses become known. False: the device is going. */
bool kapi_cm_learn(struct kapi_cm *cm);
int kapi_cm_on_event(struct rdma_cm_id *id, struct rdma_cm_event *event);

/* For what callbacks leave to be done: the ends of connections, unpinning. */
extern struct workqueue_struct *kapi_verbs_works;
/* For completion queues whose callbacks may sleep. */
extern struct workqueue_struct *kapi_verbs_completions;
/* Waits until all pins are given back. Some may wait for a time, so that the queue's end does not wait for them. */
void kapi_verbs_pins_exit(void);

/* ---- Queues ---- */

/* Does the device need kapi_qp.hold? Then its queues need twice the room. */
bool kapi_rdma_repeats_registrations(const struct kapi_rdma_dev *dev);
/* Is it Soft-RoCE? */
bool kapi_rdma_is_soft(const struct ib_device *ib);
/* Does it send by reference what it has reported as done? */
bool kapi_rdma_sends_late(const struct ib_device *ib);

/* Of a cookie from KAPI_COOKIES on: its request completes because it must, and core did not ask for it. */
#define KAPI_UNASKED (1ULL << 63)
/* What the drain posts behind everything else, and what goes before registrations: the three highest. */
#define KAPI_DRAIN_SEND (~0ULL)
#define KAPI_DRAIN_RECV (~0ULL - 1)
#define KAPI_MARKER (~0ULL - 2)

struct kapi_qp {
	struct ib_qp *ib;
	struct kapi_cm *cm;
	struct kapi_cq *send_cq, *recv_cq;
	void *context;
	u32 max_send_sge, max_recv_sge, max_read_sge, max_inline;
	u32 flags; /* of the device, enum kapi_rdma_flags */
	struct kapi_hold *hold; /* of a device that repeats registrations (verbs_hold.c), or NULL */
	bool sends_late; /* as the device */
	bool undrained;  /* kapi_qp_drain() failed */
	spinlock_t lock; /* keeps the requests of a chain together, which not all drivers do */
	struct completion drained_send, drained_recv;
};

/* Stands for those that were freed, should the device not give them up. */
extern struct kapi_qp kapi_lost_qp;

/* ---- What is held until a registration can be executed: nothing but kapi_qp.hold NULL, if the device needs none. ---- */

struct kapi_hold;

/* KAPI_WR_EARLY, among the flags of a request for Soft-RoCE, which ignores it. */
#define KAPI_SEND_EARLY IB_SEND_RESERVED_START

/* Sleeps. After an error kapi_hold_free(). */
int kapi_hold_make(struct kapi_qp *qp, struct kapi_pd *pd, const struct kapi_qp_caps *caps);
void kapi_hold_limit(const struct kapi_qp *qp, struct kapi_qp_caps *caps);
/* Sleeps. Nothing is posted any more, and the queue pair is going to be freed. */
void kapi_hold_stop(struct kapi_qp *qp);
/* The queue pair is gone, or was not made. */
void kapi_hold_free(struct kapi_qp *qp);
/* Posts or holds what kapi_qp_send() has converted. With qp->lock. After an error *failed and what follows were not posted. */
int kapi_hold_post(struct kapi_qp *qp, struct ib_send_wr *list, const struct ib_send_wr **failed);
/* One of the send queue, KAPI_MARKER too, has succeeded. Nobody else polls the queue meanwhile. */
void kapi_hold_count(struct kapi_qp *qp);
/* Any context. A request of either queue has failed, and with it the queue pair. */
void kapi_hold_fail(struct kapi_qp *qp);
/* KAPI_MARKER has completed, or was flushed. */
void kapi_hold_end(struct kapi_qp *qp);

struct ib_cq *kapi_cq_ib(const struct kapi_cq *cq);
const struct kapi_rdma_dev *kapi_cq_dev(const struct kapi_cq *cq);
/* Sleeps. done() is called no more and does not run when this returns: completions are left whose queue pairs are freed. */
void kapi_cq_stop(struct kapi_cq *cq);
/*
 * Sleeps. The queue stops, and done() is given what the device has ended so far, in the caller's context. For a device that has
 * failed and ends what was posted when it is polled, and where who polls otherwise takes too long.
 */
void kapi_cq_finish(struct kapi_cq *cq);
/* Any context. How many completions done() has returned for, of all queue pairs; it overflows. */
u32 kapi_cq_given(const struct kapi_cq *cq);
bool kapi_cq_is_direct(const struct kapi_cq *cq);

/* ---- Memory ---- */

struct kapi_mr {
	struct ib_mr *ib;
	struct kapi_rdma_dev *dev;
	unsigned int pages; /* 0: made of a program's memory on demand */
	bool gaps, mapped;
};

/* ---- Memory: the pages that a program has pinned, and RLIMIT_MEMLOCK. ---- */

struct kapi_memlock;

struct kapi_pin {
	struct work_struct work;
	struct list_head entry;       /* while it is busy */
	unsigned long due;            /* jiffies, while it is busy */
	struct mm_struct *mm;
	struct kapi_memlock *program; /* NULL: given up already */
	size_t length;
	unsigned int count, offset;   /* pages; where in the first one the bytes begin */
	unsigned int marked;          /* so many pages are known to be marked as changed */
	unsigned int pauses;          /* so often it was found busy */
	unsigned int user;            /* kapi_memlock_user() */
	bool write, dirty;
	struct page *pages[];
};

/* 0 or an error. Then kapi_memlock_exit(), when all pins are given back. */
int kapi_memlock_init(void);
void kapi_memlock_exit(void);
/* Sleeps. A reference to what stands for the program with this address space. NULL: no memory. */
struct kapi_memlock *kapi_memlock_get(const struct mm_struct *mm);
void kapi_memlock_put(struct kapi_memlock *program); /* sleeps */
/* Any context. The same unless it is the last one: then false. */
bool kapi_memlock_put_here(struct kapi_memlock *program);
/* The number below KAPI_USERS of the running program's user. */
unsigned int kapi_memlock_user(void);
/*
 * Sleeps. Charges the pages of pin to its address space, that of the running program. False: the program is at its limit, also
 * when its pins that are on their way back are not there within a second, or when it is killed; or its user is, by busy pages.
 */
bool kapi_memlock_charge(const struct kapi_pin *pin);
/* Any context. Wakes one thread that waits to be charged. */
void kapi_memlock_uncharge(const struct kapi_pin *pin);
/* Any context. A pin of the program is on its way back until kapi_memlock_end_return(), after its pages were uncharged. */
void kapi_memlock_begin_return(struct kapi_memlock *program);
void kapi_memlock_end_return(struct kapi_memlock *program);
/* Any context. So many more pages, or less, cannot be given back at present, and count for each program of the user. */
void kapi_memlock_add_busy(unsigned int user, long count);

void kapi_pin_busy_init(void);
/* Sleeps. No pin is busy any more. */
void kapi_pin_busy_exit(void);
/* Sleeps. The next page to be marked is busy: queues pin->work when it is so no more, at the earliest after a pause. */
void kapi_pin_wait(struct kapi_pin *pin);
/* Any context. All its pages are marked. */
void kapi_pin_end_wait(const struct kapi_pin *pin);

static inline enum dma_data_direction kapi_dma_direction(enum kapi_map_direction direction)
{
	switch (direction) {
	case KAPI_MAP_TO_DEVICE:
		return DMA_TO_DEVICE;
	case KAPI_MAP_FROM_DEVICE:
		return DMA_FROM_DEVICE;
	default:
		return DMA_BIDIRECTIONAL;
	}
}

#endif
