// SPDX-License-Identifier: GPL-2.0
/*
 * A device that is not as Soft-RoCE: some of its operations are replaced. It may end nothing, or say that it is siw; then it is
 * watched what siw would send by reference, which can change until TCP has no more use for it (siw_qp_tx.c: use_sendpage).
 */

#include <linux/kernel_stat.h>
#include <rdma/ib_verbs.h>

#include "verbs_test.h"

static struct ib_device *changed;
static struct ib_device_ops real;
static const void *silent; /* kapi_cq */
static atomic_t large, lent;

static int poll_cq(struct ib_cq *cq, int entries, struct ib_wc *wcs)
{
	return cq->cq_context == silent ? 0 : real.poll_cq(cq, entries, wcs);
}

static int req_notify_cq(struct ib_cq *cq, enum ib_cq_notify_flags flags)
{
	return cq->cq_context == silent ? 0 : real.req_notify_cq(cq, flags);
}

static u32 length_of(const struct ib_send_wr *wr)
{
	u32 length = 0;
	int i;

	for (i = 0; i < wr->num_sge; i++)
		length += wr->sg_list[i].length;
	return length;
}

static int post_send(struct ib_qp *qp, const struct ib_send_wr *list, const struct ib_send_wr **failed)
{
	const struct ib_send_wr *wr;

	for (wr = list; wr; wr = wr->next) {
		bool is_large = (wr->opcode == IB_WR_SEND || wr->opcode == IB_WR_RDMA_WRITE) && length_of(wr) >= PAGE_SIZE;

		atomic_add(is_large, &large);
		atomic_add(is_large && !(wr->send_flags & IB_SEND_SIGNALED), &lent);
	}
	return real.post_send(qp, list, failed);
}

static int change(const char *name)
{
	changed = ib_device_get_by_name(name, RDMA_DRIVER_UNKNOWN);
	if (!changed)
		return -ENODEV;
	real = changed->ops;
	return 0;
}

int verbs_test_silence(const char *name, const struct kapi_cq *cq)
{
	int error = change(name);

	if (error)
		return error;
	silent = cq;
	changed->ops.poll_cq = poll_cq;
	changed->ops.req_notify_cq = req_notify_cq;
	return 0;
}

int verbs_test_be_siw(const char *name)
{
	int error = change(name);

	if (error)
		return error;
	atomic_set(&large, 0);
	atomic_set(&lent, 0);
	changed->ops.driver_id = RDMA_DRIVER_SIW;
	changed->ops.post_send = post_send;
	return 0;
}

void verbs_test_be_soft(void)
{
	changed->ops.driver_id = real.driver_id;
}

void verbs_test_be_real(void)
{
	if (!changed)
		return;
	changed->ops.driver_id = real.driver_id;
	changed->ops.post_send = real.post_send;
	changed->ops.poll_cq = real.poll_cq;
	changed->ops.req_notify_cq = real.req_notify_cq;
	ib_device_put(changed);
	changed = NULL;
}

unsigned int verbs_test_large(unsigned int *of_them_lent)
{
	*of_them_lent = atomic_read(&lent);
	return atomic_read(&large);
}

kapi_u64 verbs_test_visit(void)
{
	unsigned int cpu = smp_processor_id();

	return (kapi_u64)cpu << 32 | kstat_softirqs_cpu(IRQ_POLL_SOFTIRQ, cpu);
}
