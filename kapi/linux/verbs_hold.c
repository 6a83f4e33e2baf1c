// SPDX-License-Identifier: GPL-2.0
/*
 * Registrations on Soft-RoCE.
 *
 * Soft-RoCE of 6.1 and 6.12 executes a registration once more when a request before it has to be sent again
 * (drivers/infiniband/sw/rxe/rxe_req.c: req_retry(); what is done is not skipped). It is refused then, and the queue pair stands
 * still for ever if the request is lost once more; or it makes a region valid again that the peer has invalidated meanwhile. So
 * nothing may be under way when one is executed. An invalidation waits there until all before it has completed: each registration
 * goes behind one, the marker, of a region that is never valid.
 *
 * If every registration had one, requests would go one by one. So what is posted while a marker has not completed is held here,
 * and posted when it has, with one marker: first the registrations, then the others in order.
 */

#include <linux/mm.h>

#include <kapi/linux.h>

#include "verbs.h"

struct held {
	union kapi_wr_inside wr;
	struct ib_sge sges[]; /* or one, and inline bytes */
};

/* qp->lock guards it. */
struct kapi_hold {
	struct ib_mr *never;
	struct ib_send_wr marker;
	bool marked;  /* the marker has not completed */
	bool closing; /* nothing is held any more */
	u32 size, first, count;
	u32 max_sge, max_inline;
	size_t stride;
	char *ring; /* of held, in the order of posting */
};

static struct held *held_at(const struct kapi_hold *hold, u32 index)
{
	return (struct held *)(hold->ring + (hold->first + index) % hold->size * hold->stride);
}

int kapi_hold_make(struct kapi_qp *qp, struct kapi_pd *pd, const struct kapi_qp_caps *caps)
{
	struct kapi_hold *hold;

	if (!kapi_rdma_repeats_registrations(pd->dev))
		return 0;
	hold = kzalloc(sizeof(*hold), GFP_KERNEL | __GFP_NOWARN);
	if (!hold)
		return -ENOMEM;
	qp->hold = hold;
	hold->size = caps->max_send;
	hold->max_sge = max(caps->max_send_sge, 1u);
	hold->max_inline = caps->max_inline;
	hold->stride = sizeof(struct held) + max(hold->max_sge * sizeof(struct ib_sge),
						 sizeof(struct ib_sge) + ALIGN(hold->max_inline, sizeof(struct ib_sge)));
	hold->ring = kvmalloc_array(hold->size, hold->stride, GFP_KERNEL | __GFP_NOWARN);
	if (!hold->ring)
		return -ENOMEM;
	hold->never = ib_alloc_mr(pd->ib, IB_MR_TYPE_MEM_REG, 1);
	if (IS_ERR(hold->never))
		return PTR_ERR(hold->never);
	hold->marker.wr_id = KAPI_MARKER;
	hold->marker.opcode = IB_WR_LOCAL_INV;
	hold->marker.send_flags = IB_SEND_SIGNALED;
	hold->marker.ex.invalidate_rkey = hold->never->rkey;
	return 0;
}

/* There is room for what is held and for markers, no more. */
void kapi_hold_limit(const struct kapi_qp *qp, struct kapi_qp_caps *caps)
{
	if (!qp->hold)
		return;
	caps->max_send = min(caps->max_send, qp->hold->size);
	caps->max_send_sge = min(caps->max_send_sge, qp->hold->max_sge);
	caps->max_inline = min(caps->max_inline, qp->hold->max_inline);
}

void kapi_hold_free(struct kapi_qp *qp)
{
	struct kapi_hold *hold = qp->hold;

	if (!hold)
		return;
	if (!IS_ERR_OR_NULL(hold->never) && ib_dereg_mr(hold->never))
		pr_err("hawser: %s does not give up a region\n", dev_name(&hold->never->device->dev));
	kvfree(hold->ring);
	kfree(hold);
	qp->hold = NULL;
}

static void copy_inline(struct held *held, const struct ib_send_wr *wr)
{
	char *begin = (char *)&held->sges[1], *end = begin;
	int i;

	for (i = 0; i < wr->num_sge; i++) {
		memcpy(end, (const void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
		end += wr->sg_list[i].length;
	}
	held->sges[0] = (struct ib_sge){ .addr = (uintptr_t)begin, .length = end - begin };
	held->wr.plain.num_sge = 1;
}

/* Returns what there is no room for. */
static const struct ib_send_wr *hold_all(struct kapi_hold *hold, const struct ib_send_wr *wr)
{
	for (; wr && hold->count < hold->size; wr = wr->next) {
		struct held *held = held_at(hold, hold->count++);

		held->wr = *container_of(wr, const union kapi_wr_inside, plain);
		if (wr->send_flags & IB_SEND_INLINE)
			copy_inline(held, wr);
		else
			memcpy(held->sges, wr->sg_list, wr->num_sge * sizeof(struct ib_sge));
		held->wr.plain.sg_list = held->sges;
	}
	return wr;
}

static void mark(struct kapi_hold *hold, struct ib_send_wr **list)
{
	hold->marker.next = *list;
	hold->marked = true;
	*list = &hold->marker;
}

/*
 * Takes from what is held what can be posted now. A registration whose completion is reported does not pass others, and none
 * passes an invalidation, which may be of the same region; what follows that needs no marker.
 */
static struct ib_send_wr *take_held(struct kapi_hold *hold)
{
	struct ib_send_wr *list = NULL, **end = &list, **place = &list;
	bool registers = false, fenced = false;
	u32 i;

	for (i = 0; i < hold->count; i++) {
		struct ib_send_wr *wr = &held_at(hold, i)->wr.plain;

		if (wr->opcode != IB_WR_REG_MR || hold->closing) {
			wr->next = NULL;
			*end = wr;
			end = &wr->next;
			if (wr->opcode == IB_WR_LOCAL_INV) {
				place = end;
				fenced = true;
			}
			continue;
		}
		if (place != end && wr->send_flags & IB_SEND_SIGNALED)
			break;
		registers |= !fenced;
		wr->next = *place;
		*place = wr;
		if (place == end)
			end = &wr->next;
		place = &wr->next;
	}
	hold->first = (hold->first + i) % hold->size;
	hold->count -= i;
	if (!hold->closing && (registers || hold->count))
		mark(hold, &list);
	return list;
}

/* What is held was taken for posted, so its failure is one of the queue pair. */
static void post_held(struct kapi_qp *qp)
{
	struct ib_send_wr *list = take_held(qp->hold);
	const struct ib_send_wr *failed;

	if (list && WARN_ON_ONCE(ib_post_send(qp->ib, list, &failed)))
		queue_work(kapi_verbs_works, &qp->cm->failed);
}

/* The list up to the first registration that does not begin it. Returns the others. */
static struct ib_send_wr *cut(struct ib_send_wr *list)
{
	bool fresh = true;

	for (; list->next; list = list->next) {
		if (list->opcode != IB_WR_REG_MR)
			fresh = false;
		if (!fresh && list->next->opcode == IB_WR_REG_MR) {
			struct ib_send_wr *rest = list->next;

			list->next = NULL;
			return rest;
		}
	}
	return NULL;
}

int kapi_hold_post(struct kapi_qp *qp, struct ib_send_wr *list, const struct ib_send_wr **failed)
{
	struct kapi_hold *hold = qp->hold;
	struct ib_send_wr *rest = NULL;

	if (!hold->marked || hold->closing) {
		bool registers = list->opcode == IB_WR_REG_MR;
		int error;

		rest = hold->closing ? NULL : cut(list);
		if (!hold->closing && (registers || rest))
			mark(hold, &list);
		error = ib_post_send(qp->ib, list, failed);
		if (error) {
			if (*failed == &hold->marker) {
				hold->marked = false;
				*failed = hold->marker.next;
			}
			return error;
		}
		list = rest;
	}
	*failed = hold_all(hold, list);
	return *failed ? -ENOMEM : 0;
}

/* The marker has completed, or was flushed. */
void kapi_hold_end(struct kapi_qp *qp)
{
	unsigned long flags;

	spin_lock_irqsave(&qp->lock, flags);
	qp->hold->marked = false;
	post_held(qp);
	spin_unlock_irqrestore(&qp->lock, flags);
}

/* The queue pair has failed: what is held is flushed, too. */
void kapi_hold_close(struct kapi_qp *qp)
{
	unsigned long flags;

	if (!qp->hold)
		return;
	spin_lock_irqsave(&qp->lock, flags);
	qp->hold->closing = true;
	post_held(qp);
	spin_unlock_irqrestore(&qp->lock, flags);
}
