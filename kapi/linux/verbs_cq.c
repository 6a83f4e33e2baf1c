// SPDX-License-Identifier: GPL-2.0
/*
 * Completion queues. They are polled here rather than by ib_core, which wants an object of each request to lie in memory until
 * the request completes; kapi's requests have a cookie.
 */

#include <linux/list.h>
#include <linux/irq_poll.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>

#include <kapi/host.h>
#include <kapi/linux.h>

#include "turn.h"
#include "verbs.h"

/* So many, and others get the processor. */
#define SOFTIRQ_AT_ONCE 256
/* When the turn is over, but not by them. */
#define SOFTIRQ_LEAST 64
#define WORK_AT_ONCE 4096

struct kapi_cq {
	struct ib_cq *ib;
	struct kapi_rdma_dev *dev;
	void (*done)(void *context, const struct kapi_wc *wcs, unsigned int n);
	void *context;
	enum kapi_cq_mode mode;
	struct irq_poll softirq;
	struct work_struct work;
	unsigned long polled; /* bit 0: a task is in kapi_cq_poll() */
	u32 given; /* how many completions done() has returned for; the one who polls counts them */
	atomic_t arming; /* how many are in poll_in_softirq() */
	bool stopped;
	struct mutex stopping;
	/* Of the one who polls. */
	struct ib_wc raw[KAPI_CQ_BATCH];
	struct kapi_wc wcs[KAPI_CQ_BATCH];
};

struct ib_cq *kapi_cq_ib(const struct kapi_cq *cq)
{
	return cq->ib;
}

const struct kapi_rdma_dev *kapi_cq_dev(const struct kapi_cq *cq)
{
	return cq->dev;
}

u32 kapi_cq_given(const struct kapi_cq *cq)
{
	return READ_ONCE(cq->given);
}

bool kapi_cq_is_direct(const struct kapi_cq *cq)
{
	return cq->mode == KAPI_CQ_DIRECT;
}

static enum kapi_wc_status status_of(enum ib_wc_status status)
{
	switch (status) {
	case IB_WC_SUCCESS:
		return KAPI_WC_OK;
	case IB_WC_WR_FLUSH_ERR:
		return KAPI_WC_FLUSHED;
	case IB_WC_LOC_PROT_ERR:
	case IB_WC_LOC_ACCESS_ERR:
	case IB_WC_MW_BIND_ERR:
		return KAPI_WC_LOCAL_PROTECTION;
	case IB_WC_REM_ACCESS_ERR:
		return KAPI_WC_REMOTE_ACCESS;
	case IB_WC_REM_INV_REQ_ERR:
	case IB_WC_REM_OP_ERR:
	case IB_WC_REM_ABORT_ERR:
	case IB_WC_REM_INV_RD_REQ_ERR:
		return KAPI_WC_REMOTE_ERROR;
	case IB_WC_RETRY_EXC_ERR:
	case IB_WC_RESP_TIMEOUT_ERR:
		return KAPI_WC_RETRY_EXCEEDED;
	case IB_WC_RNR_RETRY_EXC_ERR:
		return KAPI_WC_RNR_EXCEEDED;
	default:
		return KAPI_WC_LOCAL_ERROR;
	}
}

static enum kapi_wc_op op_of(enum ib_wc_opcode op)
{
	switch (op) {
	case IB_WC_RDMA_READ:
		return KAPI_WC_READ;
	case IB_WC_LOCAL_INV:
	case IB_WC_REG_MR:
		return KAPI_WC_REGISTER;
	case IB_WC_RECV:
		return KAPI_WC_RECV;
	case IB_WC_RECV_RDMA_WITH_IMM:
		return KAPI_WC_RECV_WRITE_IMM;
	default:
		return KAPI_WC_SEND;
	}
}

static void convert(const struct kapi_qp *qp, const struct ib_wc *from, struct kapi_wc *to)
{
	*to = (struct kapi_wc){
		.cookie = from->wr_id & ~KAPI_UNASKED,
		.qp_context = qp->context,
		.status = status_of(from->status),
		.vendor = from->vendor_err,
	};
	if (from->status != IB_WC_SUCCESS)
		return;
	to->op = op_of(from->opcode);
	to->length = from->byte_len;
	/* Soft-RoCE has flags for what was sent, too. */
	if (to->op != KAPI_WC_RECV && to->op != KAPI_WC_RECV_WRITE_IMM)
		return;
	if (from->wc_flags & IB_WC_WITH_IMM) {
		to->flags |= KAPI_WC_IMM;
		to->imm = be32_to_cpu(from->ex.imm_data);
	} else if (from->wc_flags & IB_WC_WITH_INVALIDATE) {
		to->flags |= KAPI_WC_INVALIDATED;
		to->key = from->ex.invalidate_rkey;
	}
}

static void give(struct kapi_cq *cq, unsigned int *count)
{
	if (*count)
		cq->done(cq->context, cq->wcs, *count);
	*count = 0;
}

static bool is_unasked_failure(const struct ib_wc *wc)
{
	return wc->wr_id < KAPI_MARKER && wc->status != IB_WC_SUCCESS;
}

/* What the drain waits for comes behind all else of its queue, which done() has been given by then. */
static void deliver(struct kapi_cq *cq, unsigned int polled)
{
	unsigned int i, count = 0;

	for (i = 0; i < polled; i++) {
		const struct ib_wc *wc = &cq->raw[i];
		struct kapi_qp *qp = wc->qp->qp_context;

		if (unlikely(qp == &kapi_lost_qp))
			continue;
		if (qp->hold && wc->status != IB_WC_SUCCESS)
			kapi_hold_fail(qp);
		else if (qp->hold && !(wc->opcode & IB_WC_RECV))
			kapi_hold_count(qp);
		if (likely(wc->wr_id < KAPI_COOKIES) || is_unasked_failure(wc)) {
			convert(qp, wc, &cq->wcs[count++]);
			continue;
		}
		if (wc->wr_id <= KAPI_MARKER) {
			if (wc->wr_id == KAPI_MARKER)
				kapi_hold_end(qp);
			continue;
		}
		give(cq, &count);
		complete(wc->wr_id == KAPI_DRAIN_SEND ? &qp->drained_send : &qp->drained_recv);
	}
	give(cq, &count);
	WRITE_ONCE(cq->given, cq->given + polled);
}

/* A visit of a softirq that has begun then, and has polled so many. */
static bool is_over(u64 began, unsigned int total)
{
	return total < SOFTIRQ_LEAST ? kapi_turn_is_taken(began) : kapi_turn_is_over();
}

/* Of a softirq began is not 0. Returns how many there were; less than most: none are left, or *ends is set, the visit is over. */
static unsigned int poll(struct kapi_cq *cq, unsigned int most, u64 began, bool *ends)
{
	unsigned int total = 0;

	while (total < most && !READ_ONCE(cq->stopped)) {
		unsigned int wanted = min_t(unsigned int, most - total, KAPI_CQ_BATCH);
		int got = ib_poll_cq(cq->ib, wanted, cq->raw);

		if (got <= 0)
			break;
		deliver(cq, got);
		total += got;
		if (got < wanted)
			break;
		if (began && is_over(began, total)) {
			*ends = true;
			break;
		}
	}
	return total;
}

/* The next completion is going to be signalled. True: one has come meanwhile, and is not. Whether it was solicited is no
 * matter: those that are flushed may not be. */
static bool arm(struct kapi_cq *cq)
{
	return ib_req_notify_cq(cq->ib, IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS) > 0;
}

static int poll_in_softirq(struct irq_poll *softirq, int budget)
{
	struct kapi_cq *cq = container_of(softirq, struct kapi_cq, softirq);
	bool ends = false;
	unsigned int done;
	u64 began, until;

	/* irq_poll_disable() waits for irq_poll_complete() only, behind which the next may run on another processor. */
	atomic_inc(&cq->arming);
	began = kapi_turn_begin(&until);
	done = poll(cq, budget, began, &ends);
	kapi_turn_end(began);
	if (ends) {
		done = budget; /* it is polled again, as if nothing else could be done now */
	} else if (done < budget) {
		irq_poll_complete(softirq);
		if (arm(cq))
			irq_poll_sched(softirq);
	}
	atomic_dec_return_release(&cq->arming);
	return done;
}

static void poll_in_work(struct work_struct *work)
{
	struct kapi_cq *cq = container_of(work, struct kapi_cq, work);

	if (READ_ONCE(cq->stopped))
		return;
	if (poll(cq, WORK_AT_ONCE, 0, NULL) == WORK_AT_ONCE || arm(cq))
		queue_work(kapi_verbs_completions, work);
}

/* May be called with interrupts off and the queue's lock held. */
static void on_completion(struct ib_cq *ib, void *context)
{
	struct kapi_cq *cq = context;

	if (cq->mode == KAPI_CQ_SOFTIRQ)
		irq_poll_sched(&cq->softirq);
	else if (cq->mode == KAPI_CQ_WORK)
		queue_work(kapi_verbs_completions, &cq->work);
}

static void on_cq_event(struct ib_event *event, void *context)
{
	pr_err_ratelimited("hawser: a completion queue of %s has failed: %s\n", dev_name(&event->device->dev),
			   ib_event_msg(event->event));
}

static int make(struct kapi_cq *cq, struct ib_cq_init_attr *attr)
{
	if (!kapi_rdma_dev_use(cq->dev))
		return -ENODEV;
	cq->ib = ib_create_cq(cq->dev->ib, on_completion, on_cq_event, cq, attr);
	if (IS_ERR(cq->ib)) {
		kapi_rdma_dev_unuse(cq->dev);
		return PTR_ERR(cq->ib);
	}
	return 0;
}

int kapi_cq_create(struct kapi_rdma_dev *dev, kapi_u32 entries, kapi_u32 vector, enum kapi_cq_mode mode,
		   void (*done)(void *context, const struct kapi_wc *wcs, unsigned int n), void *context, struct kapi_cq **result)
{
	struct ib_cq_init_attr attr = { .cqe = entries, .comp_vector = vector % max(dev->attrs.vectors, 1u) };
	struct kapi_cq *cq;
	int error;

	might_sleep();
	if (!entries || entries > dev->attrs.max_cqe)
		return -EINVAL;
	cq = kzalloc(sizeof(*cq), GFP_KERNEL | __GFP_NOWARN);
	if (!cq)
		return -ENOMEM;
	cq->done = done;
	cq->context = context;
	cq->mode = mode;
	irq_poll_init(&cq->softirq, SOFTIRQ_AT_ONCE, poll_in_softirq);
	INIT_WORK(&cq->work, poll_in_work);
	mutex_init(&cq->stopping);
	cq->dev = dev;
	if (kapi_rdma_repeats_registrations(dev)) /* kapi_qp.hold: markers complete, too */
		attr.cqe = min(2 * entries, dev->attrs.max_cqe);
	error = make(cq, &attr);
	if (error) {
		kfree(cq);
		return error;
	}
	if (mode != KAPI_CQ_DIRECT)
		arm(cq);
	*result = cq;
	return 0;
}
EXPORT_SYMBOL_GPL(kapi_cq_create);

static void stop_softirq(struct kapi_cq *cq)
{
	irq_poll_disable(&cq->softirq);
	while (atomic_read_acquire(&cq->arming))
		schedule_timeout_uninterruptible(1);
}

void kapi_cq_stop(struct kapi_cq *cq)
{
	might_sleep();
	mutex_lock(&cq->stopping);
	if (!cq->stopped) {
		WRITE_ONCE(cq->stopped, true);
		if (cq->mode == KAPI_CQ_SOFTIRQ)
			stop_softirq(cq);
		else if (cq->mode == KAPI_CQ_WORK)
			cancel_work_sync(&cq->work);
		else
			while (test_and_set_bit_lock(0, &cq->polled)) /* and it is never cleared */
				schedule_timeout_uninterruptible(1);
	}
	mutex_unlock(&cq->stopping);
}

void kapi_cq_finish(struct kapi_cq *cq)
{
	bool in_softirq = cq->mode != KAPI_CQ_WORK;
	int got;

	kapi_cq_stop(cq);
	mutex_lock(&cq->stopping);
	do {
		if (in_softirq)
			local_bh_disable();
		got = ib_poll_cq(cq->ib, KAPI_CQ_BATCH, cq->raw);
		if (got > 0)
			deliver(cq, got);
		if (in_softirq)
			local_bh_enable();
		cond_resched();
	} while (got > 0);
	mutex_unlock(&cq->stopping);
}

void kapi_cq_free(struct kapi_cq *cq)
{
	struct kapi_rdma_dev *dev;

	might_sleep();
	if (!cq)
		return;
	dev = cq->dev;
	kapi_cq_stop(cq);
	if (ib_destroy_cq_user(cq->ib, NULL)) {
		/* It can still signal completions, which stop at on_completion(). */
		pr_err("hawser: %s does not give up a completion queue: it is lost\n", dev->attrs.name);
		kapi_rdma_dev_lose(dev);
		return;
	}
	/* One that was signalled beside kapi_cq_stop(). */
	cancel_work_sync(&cq->work);
	mutex_destroy(&cq->stopping);
	kfree(cq);
	kapi_rdma_dev_unuse(dev);
}
EXPORT_SYMBOL_GPL(kapi_cq_free);

unsigned int kapi_cq_poll(struct kapi_cq *cq, unsigned int budget)
{
	unsigned int done;

	if (WARN_ON_ONCE(cq->mode != KAPI_CQ_DIRECT) || test_and_set_bit_lock(0, &cq->polled))
		return 0;
	done = poll(cq, budget, 0, NULL);
	clear_bit_unlock(0, &cq->polled);
	return done;
}
EXPORT_SYMBOL_GPL(kapi_cq_poll);
