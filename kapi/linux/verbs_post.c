// SPDX-License-Identifier: GPL-2.0
/* Posting: kapi's requests become the kernel's, in room that they have for it. */

#include <linux/module.h>

#include <kapi/linux.h>

#include "opaque.h"
#include "verbs.h"

static void check_layout(void)
{
	BUILD_BUG_ON(sizeof(struct kapi_sge) != sizeof(struct ib_sge));
	BUILD_BUG_ON(offsetof(struct kapi_sge, address) != offsetof(struct ib_sge, addr));
	BUILD_BUG_ON(offsetof(struct kapi_sge, length) != offsetof(struct ib_sge, length));
	BUILD_BUG_ON(offsetof(struct kapi_sge, key) != offsetof(struct ib_sge, lkey));
	BUILD_BUG_ON(offsetof(union kapi_wr_inside, rdma.wr) || offsetof(union kapi_wr_inside, atomic.wr) ||
		     offsetof(union kapi_wr_inside, reg.wr));
}

static struct ib_sge *sges_of(const struct kapi_sge *sges)
{
	return (struct ib_sge *)sges;
}

static int flags_of(const struct kapi_wr *wr)
{
	return (wr->flags & KAPI_WR_SIGNALED ? IB_SEND_SIGNALED : 0) | (wr->flags & KAPI_WR_SOLICITED ? IB_SEND_SOLICITED : 0) |
	       (wr->flags & KAPI_WR_FENCE ? IB_SEND_FENCE : 0) | (wr->flags & KAPI_WR_INLINE ? IB_SEND_INLINE : 0);
}

static int access_of(const struct kapi_wr *wr)
{
	return (wr->access & KAPI_ACCESS_LOCAL_WRITE ? IB_ACCESS_LOCAL_WRITE : 0) |
	       (wr->access & KAPI_ACCESS_REMOTE_WRITE ? IB_ACCESS_REMOTE_WRITE : 0) |
	       (wr->access & KAPI_ACCESS_REMOTE_READ ? IB_ACCESS_REMOTE_READ : 0) |
	       (wr->access & KAPI_ACCESS_REMOTE_ATOMIC ? IB_ACCESS_REMOTE_ATOMIC : 0);
}

static bool is_local(const struct kapi_wr *wr)
{
	return wr->op == KAPI_WR_REGISTER || wr->op == KAPI_WR_INVALIDATE;
}

static u64 length_of(const struct kapi_wr *wr)
{
	u64 length = 0;
	u32 i;

	for (i = 0; i < wr->n_sges; i++)
		length += wr->sges[i].length;
	return length;
}

static bool is_inline_possible(const struct kapi_qp *qp, const struct kapi_wr *wr)
{
	return wr->op <= KAPI_WR_WRITE_IMM && length_of(wr) <= qp->max_inline;
}

/* What Soft-RoCE refuses, which would come too late for what is held (rxe_verbs.c: validate_send_wr()). */
static bool can_hold(const struct kapi_wr *wr)
{
	bool is_atomic = wr->op >= KAPI_WR_ATOMIC_ADD && wr->op <= KAPI_WR_MASKED_SWAP;

	return !(is_atomic && wr->remote % sizeof(u64)) && length_of(wr) <= SZ_2G;
}

static bool is_atomic_possible(const struct kapi_qp *qp, const struct kapi_wr *wr, u32 flag)
{
	return qp->flags & flag && wr->n_sges == 1 && wr->sges[0].length == sizeof(u64);
}

/* Drivers do not agree on what they check. */
static bool can_do(const struct kapi_qp *qp, const struct kapi_wr *wr)
{
	if (wr->n_sges > qp->max_send_sge || wr->cookie >= KAPI_COOKIES)
		return false;
	if (wr->flags & KAPI_WR_INLINE && !is_inline_possible(qp, wr))
		return false;
	if (qp->hold && !is_local(wr) && !can_hold(wr))
		return false;
	switch (wr->op) {
	case KAPI_WR_WRITE_IMM:
		return !(qp->flags & KAPI_RDMA_IWARP);
	case KAPI_WR_READ:
		return wr->n_sges <= qp->max_read_sge;
	case KAPI_WR_ATOMIC_ADD:
	case KAPI_WR_ATOMIC_SWAP:
		return is_atomic_possible(qp, wr, KAPI_RDMA_ATOMICS);
	case KAPI_WR_MASKED_ADD:
	case KAPI_WR_MASKED_SWAP:
		return is_atomic_possible(qp, wr, KAPI_RDMA_MASKED_ATOMICS);
	case KAPI_WR_REGISTER:
		return wr->mr->mapped;
	default:
		return true;
	}
}

static void set_remote(union kapi_wr_inside *to, const struct kapi_wr *wr, enum ib_wr_opcode op)
{
	to->plain.opcode = op;
	to->rdma.remote_addr = wr->remote;
	to->rdma.rkey = wr->key;
}

static void set_atomic(union kapi_wr_inside *to, const struct kapi_wr *wr, enum ib_wr_opcode op)
{
	bool add = wr->op == KAPI_WR_ATOMIC_ADD || wr->op == KAPI_WR_MASKED_ADD;

	to->plain.opcode = op;
	to->atomic.remote_addr = wr->remote;
	to->atomic.rkey = wr->key;
	/* What is added is where others have what is compared. */
	to->atomic.compare_add = add ? wr->add_or_swap : wr->compare;
	to->atomic.compare_add_mask = add ? wr->add_or_swap_mask : wr->compare_mask;
	to->atomic.swap = add ? 0 : wr->add_or_swap;
	to->atomic.swap_mask = add ? 0 : wr->add_or_swap_mask;
}

static void set_register(union kapi_wr_inside *to, const struct kapi_wr *wr)
{
	to->plain.opcode = IB_WR_REG_MR;
	to->reg.mr = wr->mr->ib;
	to->reg.key = wr->mr->ib->rkey;
	to->reg.access = access_of(wr);
}

static bool set_op(union kapi_wr_inside *to, const struct kapi_wr *wr)
{
	switch (wr->op) {
	case KAPI_WR_SEND:
		to->plain.opcode = IB_WR_SEND;
		return true;
	case KAPI_WR_SEND_IMM:
		to->plain.opcode = IB_WR_SEND_WITH_IMM;
		to->plain.ex.imm_data = cpu_to_be32(wr->imm);
		return true;
	case KAPI_WR_SEND_INV:
		to->plain.opcode = IB_WR_SEND_WITH_INV;
		to->plain.ex.invalidate_rkey = wr->key;
		return true;
	case KAPI_WR_WRITE:
		set_remote(to, wr, IB_WR_RDMA_WRITE);
		return true;
	case KAPI_WR_WRITE_IMM:
		set_remote(to, wr, IB_WR_RDMA_WRITE_WITH_IMM);
		to->plain.ex.imm_data = cpu_to_be32(wr->imm);
		return true;
	case KAPI_WR_READ:
		set_remote(to, wr, IB_WR_RDMA_READ);
		return true;
	case KAPI_WR_ATOMIC_ADD:
		set_atomic(to, wr, IB_WR_ATOMIC_FETCH_AND_ADD);
		return true;
	case KAPI_WR_ATOMIC_SWAP:
		set_atomic(to, wr, IB_WR_ATOMIC_CMP_AND_SWP);
		return true;
	case KAPI_WR_MASKED_ADD:
		set_atomic(to, wr, IB_WR_MASKED_ATOMIC_FETCH_AND_ADD);
		return true;
	case KAPI_WR_MASKED_SWAP:
		set_atomic(to, wr, IB_WR_MASKED_ATOMIC_CMP_AND_SWP);
		return true;
	case KAPI_WR_REGISTER:
		set_register(to, wr);
		return true;
	case KAPI_WR_INVALIDATE:
		to->plain.opcode = IB_WR_LOCAL_INV;
		to->plain.ex.invalidate_rkey = wr->key;
		return true;
	default:
		return false;
	}
}

/*
 * Siw gives TCP references of such bytes, and takes the request for done when TCP has those. They leave, or leave once more, when
 * TCP likes, after a later completion and what is written there then. Of requests whose completion is reported it gives copies
 * (siw_qp_tx.c: use_sendpage). The queue has room for their completions, since each may fail.
 */
static bool is_sent_late(const struct kapi_wr *wr)
{
	return wr->op <= KAPI_WR_WRITE_IMM && !(wr->flags & (KAPI_WR_SIGNALED | KAPI_WR_INLINE)) && length_of(wr) >= PAGE_SIZE;
}

static bool convert(const struct kapi_qp *qp, struct kapi_wr *wr)
{
	union kapi_wr_inside *to = KAPI_INSIDE(union kapi_wr_inside, wr);

	memset(to, 0, sizeof(*to));
	to->plain.wr_id = wr->cookie;
	to->plain.sg_list = sges_of(wr->sges);
	to->plain.num_sge = is_local(wr) ? 0 : wr->n_sges;
	to->plain.send_flags = flags_of(wr) | (qp->hold && wr->flags & KAPI_WR_EARLY ? KAPI_SEND_EARLY : 0);
	if (unlikely(qp->sends_late) && is_sent_late(wr)) {
		to->plain.send_flags |= IB_SEND_SIGNALED;
		to->plain.wr_id |= KAPI_UNASKED;
	}
	return can_do(qp, wr) && set_op(to, wr);
}

/* Of a chain: the one whose inside a driver has returned as failed, or the first that it was not given. NULL: all are posted. */
static void *not_posted(int error, const void *failed, size_t inside, void *left)
{
	return error ? (char *)failed - inside : left;
}

/*
 * Soft-RoCE of 6.1 works in softirqs, and raises them here: they run when bottom halves are on again. With none off, ksoftirqd
 * would be woken for them, and two switches of threads made. With PREEMPT_RT that is a lock, which one who has the caller's locks
 * may not take: a softirq that has it may wait for them.
 */
static int post_send(struct kapi_qp *qp, struct ib_send_wr *begin, const struct ib_send_wr **failed)
{
	bool may_run = !IS_ENABLED(CONFIG_PREEMPT_RT) && in_task() && !irqs_disabled();
	unsigned long flags;
	int error;

	if (may_run)
		local_bh_disable();
	spin_lock_irqsave(&qp->lock, flags);
	error = qp->hold ? kapi_hold_post(qp, begin, failed) : ib_post_send(qp->ib, begin, failed);
	spin_unlock_irqrestore(&qp->lock, flags);
	if (may_run)
		local_bh_enable();
	return error;
}

/* Those before one that cannot be posted are. */
int kapi_qp_send(struct kapi_qp *qp, struct kapi_wr *first, struct kapi_wr **bad)
{
	struct ib_send_wr *begin = NULL, **link = &begin;
	const struct ib_send_wr *failed;
	struct kapi_wr *wr;
	int error = 0;

	check_layout();
	for (wr = first; wr && convert(qp, wr); wr = wr->next) {
		*link = &KAPI_INSIDE(union kapi_wr_inside, wr)->plain;
		link = &(*link)->next;
	}
	failed = begin; /* not all drivers return which */
	if (begin)
		error = post_send(qp, begin, &failed);
	*bad = not_posted(error, failed, offsetof(struct kapi_wr, opaque), wr);
	return error ?: wr ? -EINVAL : 0;
}
EXPORT_SYMBOL_GPL(kapi_qp_send);

static bool can_receive(const struct kapi_qp *qp, const struct kapi_recv_wr *wr)
{
	return wr->n_sges <= qp->max_recv_sge && wr->cookie < KAPI_COOKIES;
}

int kapi_qp_recv(struct kapi_qp *qp, struct kapi_recv_wr *first, struct kapi_recv_wr **bad)
{
	struct ib_recv_wr *begin = NULL, **link = &begin;
	const struct ib_recv_wr *failed;
	unsigned long flags;
	struct kapi_recv_wr *wr;
	int error = 0;

	for (wr = first; wr && can_receive(qp, wr); wr = wr->next) {
		struct ib_recv_wr *to = KAPI_INSIDE(struct ib_recv_wr, wr);

		*to = (struct ib_recv_wr){ .wr_id = wr->cookie, .sg_list = sges_of(wr->sges), .num_sge = wr->n_sges };
		*link = to;
		link = &to->next;
	}
	failed = begin;
	if (begin) {
		spin_lock_irqsave(&qp->lock, flags);
		error = ib_post_recv(qp->ib, begin, &failed);
		spin_unlock_irqrestore(&qp->lock, flags);
	}
	*bad = not_posted(error, failed, offsetof(struct kapi_recv_wr, opaque), wr);
	return error ?: wr ? -EINVAL : 0;
}
EXPORT_SYMBOL_GPL(kapi_qp_recv);
