// SPDX-License-Identifier: GPL-2.0
/* Queue pairs: their life, and how they are drained. */

#include <linux/module.h>
#include <linux/slab.h>

#include <kapi/linux.h>

#include "opaque.h"
#include "verbs.h"

/* For how long nothing completes in a drain. Of a device that did not end the last one: a path may have hundreds. */
#define DRAIN_TIMEOUT (10 * HZ)
#define DRAIN_TIMEOUT_STUCK HZ
#define LOOK_AFTER (HZ / 10)

/* It has no connection, so that its events are ignored. */
struct kapi_qp kapi_lost_qp;

/* In any context, a hard interrupt too. That our acceptance has reached the peer may be reported here first. */
static void on_qp_event(struct ib_event *event, void *context)
{
	struct kapi_qp *qp = context;

	if (!qp->cm)
		return;
	switch (event->event) {
	case IB_EVENT_COMM_EST:
		rdma_notify(qp->cm->id, IB_EVENT_COMM_EST);
		break;
	case IB_EVENT_QP_FATAL:
	case IB_EVENT_QP_REQ_ERR:
	case IB_EVENT_QP_ACCESS_ERR:
		queue_work(kapi_verbs_works, &qp->cm->failed);
		break;
	default:
		break;
	}
}

static bool fits(const struct kapi_qp_caps *caps, const struct kapi_rdma_attrs *attrs)
{
	return caps->max_send && caps->max_send <= attrs->max_wr && caps->max_recv <= attrs->max_wr &&
	       caps->max_send_sge <= attrs->max_sge && caps->max_recv_sge <= attrs->max_sge;
}

static int make(struct kapi_qp *qp, struct kapi_pd *pd, struct kapi_qp_caps *caps)
{
	u32 held = qp->hold ? caps->max_send + 1 : 0; /* and a marker */
	struct ib_qp_init_attr attr = {
		.event_handler = on_qp_event,
		.qp_context = qp,
		.send_cq = kapi_cq_ib(qp->send_cq),
		.recv_cq = kapi_cq_ib(qp->recv_cq),
		/* One more each, for the drain. */
		.cap.max_send_wr = caps->max_send + held + 1,
		.cap.max_recv_wr = caps->max_recv + 1,
		.cap.max_send_sge = max(caps->max_send_sge, 1u),
		.cap.max_recv_sge = max(caps->max_recv_sge, 1u),
		.cap.max_inline_data = caps->max_inline,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_RC,
	};
	int error;

	rdma_lock_handler(qp->cm->id);
	error = qp->cm->ended ? -EINVAL : rdma_create_qp(qp->cm->id, pd->ib, &attr);
	if (!error) {
		qp->ib = qp->cm->id->qp;
		qp->cm->qp = qp;
	}
	rdma_unlock_handler(qp->cm->id);
	if (error)
		return error;
	caps->max_send = attr.cap.max_send_wr - held - 1;
	caps->max_recv = attr.cap.max_recv_wr - 1;
	caps->max_send_sge = attr.cap.max_send_sge;
	caps->max_recv_sge = attr.cap.max_recv_sge;
	caps->max_inline = attr.cap.max_inline_data;
	kapi_hold_limit(qp, caps);
	return 0;
}

/* A device reports no limit of what its requests carry: it refuses. */
static int make_with_inline(struct kapi_qp *qp, struct kapi_pd *pd, struct kapi_qp_caps *caps)
{
	int error = make(qp, pd, caps);

	if (error != -EINVAL || !caps->max_inline)
		return error;
	caps->max_inline = 0;
	return make(qp, pd, caps);
}

int kapi_qp_create(struct kapi_cm *cm, struct kapi_pd *pd, struct kapi_qp_caps *caps, struct kapi_cq *send_cq,
		   struct kapi_cq *recv_cq, void *context, struct kapi_qp **result)
{
	struct kapi_qp *qp;
	int error;

	might_sleep();
	if (!cm->dev || WARN_ON_ONCE(cm->qp) || !fits(caps, &cm->dev->attrs) ||
	    WARN_ON_ONCE(pd->dev != cm->dev || kapi_cq_dev(send_cq) != cm->dev || kapi_cq_dev(recv_cq) != cm->dev))
		return -EINVAL;
	qp = kzalloc(sizeof(*qp), GFP_KERNEL | __GFP_NOWARN);
	if (!qp)
		return -ENOMEM;
	qp->cm = cm;
	qp->context = context;
	qp->send_cq = send_cq;
	qp->recv_cq = recv_cq;
	qp->flags = cm->dev->attrs.flags;
	qp->sends_late = kapi_rdma_sends_late(cm->dev->ib);
	spin_lock_init(&qp->lock);
	init_completion(&qp->drained_send);
	init_completion(&qp->drained_recv);
	error = kapi_hold_make(qp, pd, caps) ?: make_with_inline(qp, pd, caps);
	if (error) {
		kapi_hold_free(qp);
		kfree(qp);
		return error;
	}
	qp->max_send_sge = caps->max_send_sge;
	qp->max_recv_sge = caps->max_recv_sge;
	qp->max_read_sge = cm->dev->attrs.max_read_sge;
	qp->max_inline = caps->max_inline;
	*result = qp;
	return 0;
}
EXPORT_SYMBOL_GPL(kapi_qp_create);

void kapi_qp_free(struct kapi_qp *qp)
{
	might_sleep();
	if (!qp)
		return;
	/* Completions of it that are left lead to memory that is freed here. */
	if (qp->undrained) {
		kapi_cq_stop(qp->send_cq);
		kapi_cq_stop(qp->recv_cq);
	}
	kapi_hold_stop(qp);
	/* A broken device may not give it up, which is not reported. */
	WRITE_ONCE(qp->ib->qp_context, &kapi_lost_qp);
	rdma_destroy_qp(qp->cm->id);
	qp->cm->qp = NULL;
	kapi_hold_free(qp);
	kfree(qp);
}
EXPORT_SYMBOL_GPL(kapi_qp_free);

/*
 * A drain ends in vain when nothing has completed for so long, however long all takes: callbacks may be slow. Its own waits are
 * counted, as if none was longer than it should be: a machine that stood still meanwhile is no broken device.
 */
struct patience {
	long all, left; /* ticks */
	u32 given;      /* completions of both queues, when it was looked */
	bool polls;     /* others did not, or a callback did not return: it is done here from now on */
};

static void poll_here(struct kapi_cq *cq, bool finishes)
{
	if (finishes)
		kapi_cq_finish(cq);
	else if (kapi_cq_is_direct(cq)) /* nobody else does */
		kapi_cq_poll(cq, ~0u);
}

/* Before a wait of so many ticks. False: there is nothing to wait for. */
static bool may_wait(struct kapi_qp *qp, struct patience *patience, long ticks)
{
	u32 given;

	for (;;) {
		poll_here(qp->send_cq, patience->polls);
		poll_here(qp->recv_cq, patience->polls);
		given = kapi_cq_given(qp->send_cq) + kapi_cq_given(qp->recv_cq);
		if (given != patience->given)
			patience->left = patience->all;
		patience->given = given;
		if (patience->left > 0)
			break;
		if (patience->polls)
			return false;
		patience->polls = true;
	}
	patience->left -= ticks;
	return true;
}

static bool wait_drained(struct kapi_qp *qp, struct completion *drained, struct patience *patience)
{
	bool is_direct = kapi_cq_is_direct(qp->send_cq) || kapi_cq_is_direct(qp->recv_cq);
	long ticks = is_direct ? 1 : LOOK_AFTER;

	do {
		if (!may_wait(qp, patience, ticks))
			return false;
	} while (!wait_for_completion_timeout(drained, ticks));
	return true;
}

/* Behind what is held, which is posted when the marker is flushed. */
static int post_send_marker(struct kapi_qp *qp)
{
	union kapi_wr_inside send = {
		.rdma.wr = { .wr_id = KAPI_DRAIN_SEND, .opcode = IB_WR_RDMA_WRITE, .send_flags = IB_SEND_SIGNALED },
	};
	const struct ib_send_wr *failed;
	unsigned long flags;
	int error;

	if (!qp->hold)
		return ib_post_send(qp->ib, &send.plain, NULL);
	spin_lock_irqsave(&qp->lock, flags);
	error = kapi_hold_post(qp, &send.plain, &failed);
	spin_unlock_irqrestore(&qp->lock, flags);
	return error;
}

/* Who has posted until the queue was full has used the room for these: there is some when what is flushed has completed. */
static int post_markers(struct kapi_qp *qp, struct patience *patience)
{
	struct ib_recv_wr recv = { .wr_id = KAPI_DRAIN_RECV };
	bool sent = false;
	int error;

	for (;;) {
		error = sent ? 0 : post_send_marker(qp);
		if (!error) {
			sent = true;
			error = ib_post_recv(qp->ib, &recv, NULL);
		}
		if (error != -ENOMEM || !may_wait(qp, patience, 1))
			return error;
		schedule_timeout_uninterruptible(1);
	}
}

/*
 * A failed device takes no request. Drivers with a drain of their own, mlx4 and mlx5, return this error then and in no other case
 * (mlx5/wr.c: mlx5_ib_post_send()); what was posted before they end themselves, when they are polled (mlx5/cq.c: sw_comp()).
 */
static bool has_failed(const struct kapi_qp *qp, int error)
{
	return error == -EIO && qp->ib->device->ops.drain_sq;
}

static bool drain(struct kapi_qp *qp, long ticks)
{
	struct ib_qp_attr failed = { .qp_state = IB_QPS_ERR };
	struct patience patience = { .all = ticks, .left = ticks };
	int refused = ib_modify_qp(qp->ib, &failed, IB_QP_STATE), error;

	if (refused && !qp->ib->device->ops.drain_sq)
		return false;
	error = post_markers(qp, &patience);
	if (has_failed(qp, error)) {
		kapi_cq_finish(qp->send_cq);
		kapi_cq_finish(qp->recv_cq);
		return true;
	}
	return !refused && !error && wait_drained(qp, &qp->drained_send, &patience) &&
	       wait_drained(qp, &qp->drained_recv, &patience);
}

int kapi_qp_drain(struct kapi_qp *qp)
{
	struct kapi_rdma_dev *dev = qp->cm->dev;

	might_sleep();
	qp->undrained = true;
	reinit_completion(&qp->drained_send);
	reinit_completion(&qp->drained_recv);
	if (!drain(qp, READ_ONCE(dev->stuck) ? DRAIN_TIMEOUT_STUCK : DRAIN_TIMEOUT)) {
		pr_err("hawser: %s does not end what was posted: its memory is lost\n", dev_name(&qp->ib->device->dev));
		WRITE_ONCE(dev->stuck, true);
		return -ETIMEDOUT;
	}
	WRITE_ONCE(dev->stuck, false);
	qp->undrained = false;
	return 0;
}
EXPORT_SYMBOL_GPL(kapi_qp_drain);
