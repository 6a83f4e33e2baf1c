// SPDX-License-Identifier: GPL-2.0
/*
 * Registrations on Soft-RoCE, and requests that it forgets.
 *
 * Soft-RoCE of 6.1 and 6.12 executes a registration once more when a request before it has to be sent again
 * (drivers/infiniband/sw/rxe/rxe_req.c: req_retry(); what is done is not skipped). It is refused then, and the queue pair stands
 * still for ever if the request is lost once more; or it makes a region valid again that the peer has invalidated meanwhile. So
 * nothing may be under way when one is executed. An invalidation waits there until all before it has completed: each registration
 * goes behind one, the marker, of a region that is never valid.
 *
 * If every registration had one, requests would go one by one. So what is posted while a marker has not completed is held here,
 * and posted when it has, with one marker: first the registrations that are KAPI_WR_EARLY, then the others in order. A
 * registration needs none when all before it are known to have completed.
 *
 * Soft-RoCE may forget requests that wait: its requester sees that it must wait, and then notes that it does; what it waits for
 * may end between the two, sees no note, and wakes nobody. No timer runs when what was sent before has been acknowledged.
 * - 6.1, at a fence: a request before it has not completed (rxe_req.c: wait_fence; rxe_comp.c: do_complete()).
 * - 6.1 and 6.12, anywhere: more than 64 packets of the queue pair have not left this host (rxe_req.c: need_req_skb; rxe_net.c:
 *   rxe_skb_tx_dtor()). A write of 64 KiB and what follows it are just as many.
 * Whatever is posted wakes the requester, but nothing may be. So the device is woken now and then, by a list of requests that is
 * empty, until all that was posted is known to have completed, or the queue pair has failed.
 */

#include <kapi/linux.h>

#include "verbs.h"

/* Soft-RoCE grants less. */
#define MAX_INLINE 4096
/* Posted at once, for interrupts are off. */
#define MOST_AT_ONCE 256
#define WAKE_AFTER msecs_to_jiffies(10)
/*
 * So often if the success of what was posted last is not reported, or is not to come. It may have been forgotten when what goes
 * before was sent again, a time-out later, so a report of that begins it anew.
 */
#define MOST_WAKES 16

struct held {
	union kapi_wr_inside wr;
	struct ib_sge sges[]; /* or one, and inline bytes */
};

/* qp->lock guards it. */
struct kapi_hold {
	struct ib_mr *never;
	struct ib_send_wr marker;
	bool marked; /* the marker has not completed. Without it nothing is held. */
	bool last_signalled;
	bool failed; /* a completion had an error, so all that follow have one */
	u32 signalled; /* how many were posted whose success is reported */
	u32 ended; /* how many of these were reported; the poller of the queue counts them */
	u32 wakes; /* since something was posted or reported */
	u32 woken_at; /* ended at the last one */
	u32 size, first, count;
	u32 max_sge, max_inline;
	size_t stride;
	char *ring; /* of held, in the order of posting */
	struct delayed_work wake;
	struct kapi_qp *qp;
};

static struct held *held_at(const struct kapi_hold *hold, u32 index)
{
	return (struct held *)(hold->ring + (hold->first + index) % hold->size * hold->stride);
}

/* Nothing waits, as far as is known. */
static bool is_settled(const struct kapi_hold *hold)
{
	bool reported = READ_ONCE(hold->ended) == hold->signalled;

	if (hold->wakes > MOST_WAKES)
		return reported || READ_ONCE(hold->failed);
	return reported && hold->last_signalled;
}

static void wake_device(struct work_struct *work)
{
	struct kapi_hold *hold = container_of(to_delayed_work(work), struct kapi_hold, wake);
	unsigned long flags;
	u32 ended;

	spin_lock_irqsave(&hold->qp->lock, flags);
	ended = READ_ONCE(hold->ended);
	if (ended != hold->woken_at)
		hold->wakes = 0;
	hold->woken_at = ended;
	hold->wakes++;
	if (!is_settled(hold)) {
		ib_post_send(hold->qp->ib, NULL, NULL);
		queue_delayed_work(kapi_verbs_works, &hold->wake, WAKE_AFTER);
	}
	spin_unlock_irqrestore(&hold->qp->lock, flags);
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
	hold->qp = qp;
	INIT_DELAYED_WORK(&hold->wake, wake_device);
	hold->size = caps->max_send;
	hold->max_sge = max(caps->max_send_sge, 1u);
	hold->max_inline = caps->max_inline > MAX_INLINE ? 0 : caps->max_inline;
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

void kapi_hold_stop(struct kapi_qp *qp)
{
	if (qp->hold)
		cancel_delayed_work_sync(&qp->hold->wake);
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

/* Returns the requests that did not fit. */
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

/* All that were posted have completed, as far as is known. */
static bool is_idle(const struct kapi_hold *hold)
{
	return hold->last_signalled && READ_ONCE(hold->ended) == hold->signalled;
}

/* Posts, and counts what was. */
static int post(struct kapi_qp *qp, struct ib_send_wr *list, const struct ib_send_wr **failed)
{
	struct kapi_hold *hold = qp->hold;
	int error;

	*failed = list; /* not each error says which */
	error = ib_post_send(qp->ib, list, failed);
	for (; list && !(error && list == *failed); list = list->next) {
		hold->last_signalled = list->send_flags & IB_SEND_SIGNALED;
		hold->signalled += hold->last_signalled;
	}
	hold->wakes = 0;
	queue_delayed_work(kapi_verbs_works, &hold->wake, WAKE_AFTER); /* unless it is queued */
	return error;
}

/* Before link. */
static void mark(struct kapi_hold *hold, struct ib_send_wr **link)
{
	hold->marker.next = *link;
	hold->marked = true;
	*link = &hold->marker;
}

/* One whose completion is reported has its place, and a fence is for what is before it. What passes is flushed early, too. */
static bool may_pass(const struct ib_send_wr *wr)
{
	return (wr->send_flags & (KAPI_SEND_EARLY | IB_SEND_SIGNALED | IB_SEND_FENCE)) == KAPI_SEND_EARLY;
}

/*
 * Takes from what is held what can be posted now. No registration passes an invalidation, which may be of the same region; what
 * follows that needs no marker. Should some be left, a marker says when it is their turn.
 */
static struct ib_send_wr *take_held(struct kapi_hold *hold)
{
	struct ib_send_wr *list = NULL, **end = &list, **place = &list;
	bool registers = false, fenced = is_idle(hold);
	u32 i, most = min_t(u32, hold->count, MOST_AT_ONCE);

	for (i = 0; i < most; i++) {
		struct ib_send_wr *wr = &held_at(hold, i)->wr.plain;

		if (wr->opcode != IB_WR_REG_MR) {
			wr->next = NULL;
			*end = wr;
			end = &wr->next;
			if (wr->opcode == IB_WR_LOCAL_INV) {
				place = end;
				fenced = true;
			}
			continue;
		}
		if (place != end && !may_pass(wr))
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
	if (registers)
		mark(hold, &list);
	else if (hold->count)
		mark(hold, end);
	return list;
}

/*
 * The list up to the first registration that does not begin it, and not more than will fit with what can be held meanwhile: at
 * most so many are outstanding when the marker completes. Returns the others; *end is the end of the list.
 */
static struct ib_send_wr *cut(const struct kapi_hold *hold, struct ib_send_wr *list, struct ib_send_wr ***end)
{
	bool fresh = true;
	u32 count;

	for (count = 1; list->next; list = list->next, count++) {
		fresh &= list->opcode == IB_WR_REG_MR;
		if ((!fresh && list->next->opcode == IB_WR_REG_MR) || count == hold->size) {
			struct ib_send_wr *rest = list->next;

			list->next = NULL;
			*end = &list->next;
			return rest;
		}
	}
	return NULL;
}

/* No marker is under way. Returns what is to be held in *list. */
static int post_now(struct kapi_qp *qp, struct ib_send_wr **list, const struct ib_send_wr **failed)
{
	struct kapi_hold *hold = qp->hold;
	bool marks = (*list)->opcode == IB_WR_REG_MR && !is_idle(hold);
	struct ib_send_wr *begin = *list, **end, *rest = cut(hold, begin, &end);
	int error;

	if (marks)
		mark(hold, &begin);
	else if (rest)
		mark(hold, end);
	error = post(qp, begin, failed);
	if (error && *failed == &hold->marker) {
		hold->marked = false;
		*failed = marks ? hold->marker.next : rest;
	} else if (error && hold->marked && !marks) { /* the marker is the last */
		hold->marked = false;
	}
	*list = rest;
	return error;
}

int kapi_hold_post(struct kapi_qp *qp, struct ib_send_wr *list, const struct ib_send_wr **failed)
{
	if (!qp->hold->marked) {
		int error = post_now(qp, &list, failed);

		if (error)
			return error;
	}
	*failed = hold_all(qp->hold, list);
	return *failed ? -ENOMEM : 0;
}

void kapi_hold_count(struct kapi_qp *qp)
{
	WRITE_ONCE(qp->hold->ended, qp->hold->ended + 1);
}

void kapi_hold_fail(struct kapi_qp *qp)
{
	WRITE_ONCE(qp->hold->failed, true);
}

/*
 * The marker has completed, or was flushed and may still have its place. There is room for what is held: the queue has twice as
 * much as is outstanding at most, and a place for a marker. Soft-RoCE refuses nothing else that kapi_qp_send() lets pass; if it
 * did, nothing could be reported to the caller any more.
 */
void kapi_hold_end(struct kapi_qp *qp)
{
	const struct ib_send_wr *failed;
	struct ib_send_wr *list;
	unsigned long flags;

	spin_lock_irqsave(&qp->lock, flags);
	qp->hold->marked = false;
	list = take_held(qp->hold);
	if (list && WARN_ON_ONCE(post(qp, list, &failed)))
		queue_work(kapi_verbs_works, &qp->cm->failed);
	spin_unlock_irqrestore(&qp->lock, flags);
}
