// SPDX-License-Identifier: GPL-2.0
/*
 * Probes in the connection manager: one delays an address request between the state that rdma_resolve_addr() sets and the request
 * that it then makes, which is a few instructions otherwise; one counts how often a request that was made is worked on. And one
 * that counts delayed works.
 */

#include <linux/delay.h>
#include <linux/kprobes.h>

#include "verbs_test.h"

static const volatile unsigned int *until;
static atomic_t worked_on, timed_works;

/* With preemption off, so no longer than a machine that stands still for a moment needs. */
static int delay(struct kprobe *probe, struct pt_regs *regs)
{
	int i;

	for (i = 0; i < 10000 && !*until; i++)
		mdelay(1);
	mdelay(50);
	return 0;
}

static int count(struct kprobe *probe, struct pt_regs *regs)
{
	atomic_inc(&worked_on);
	return 0;
}

static struct kprobe on_request = { .symbol_name = "rdma_resolve_ip", .pre_handler = delay };
static struct kprobe on_work = { .symbol_name = "process_one_req", .pre_handler = count };

int verbs_test_probe(const volatile unsigned int *delayed_until)
{
	int error;

	until = delayed_until;
	atomic_set(&worked_on, 0);
	error = register_kprobe(&on_work);
	if (error)
		return error;
	error = register_kprobe(&on_request);
	if (error)
		unregister_kprobe(&on_work);
	return error;
}

unsigned int verbs_test_unprobe(void)
{
	unregister_kprobe(&on_request);
	unregister_kprobe(&on_work);
	/* A probe that was registered once has its address, and would be refused with the name again. */
	on_request.addr = NULL;
	on_work.addr = NULL;
	return atomic_read(&worked_on);
}

static int count_timed_work(struct kprobe *probe, struct pt_regs *regs)
{
	atomic_inc(&timed_works);
	return 0;
}

int verbs_test_count_timed_works(unsigned int ms)
{
	struct kprobe on_timer = { .symbol_name = "delayed_work_timer_fn", .pre_handler = count_timed_work };
	int error;

	atomic_set(&timed_works, 0);
	error = register_kprobe(&on_timer);
	if (error)
		return error;
	msleep(ms);
	unregister_kprobe(&on_timer);
	return atomic_read(&timed_works);
}
