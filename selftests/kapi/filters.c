// SPDX-License-Identifier: GPL-2.0
/*
 * Others get the processor between two runs of a user's program: how many messages one call finds while they wait. And the
 * account of each processor that ends a turn.
 */

#include <linux/delay.h>
#include <linux/filter.h>
#include <linux/interrupt.h>
#include <linux/sched.h>
#include <linux/skbuff.h>
#include <linux/string.h>

#include <kapi/host.h>
#include <kapi/filter.h>

#include "../../kapi/linux/stream.h"
#include "../../kapi/linux/turn.h"
#include "kapi_test.h"

#define MESSAGES 64
/* Runs of the program in a turn that is over. */
#define LEAST 8
#define TURN_MS (KAPI_TURN_NS / NSEC_PER_MSEC)
/* An interrupt may come between the two steps that make others wait: then these have run too early. */
#define TRIES 100
/* Or others wait already: a softirq for its thread, say. They run between two tries. */
#define PAUSE_MS 1

static unsigned int softirqs;

static void count_softirq(struct tasklet_struct *unused)
{
	softirqs++;
}

static DECLARE_TASKLET(softirq, count_softirq);

static void nobody_waits(void)
{
}

static void softirq_waits(void)
{
	tasklet_schedule(&softirq);
}

static void task_waits(void)
{
	set_tsk_need_resched(current);
}

/* So many messages of one byte the first call finds, while others wait since before it. */
static u32 found_at_first(const struct kapi_filter *filter, struct sk_buff *skb, void (*make_wait)(void), u64 until)
{
	struct kapi_rx rx = { .skb = skb, .length = MESSAGES, .until = until };
	u32 lengths[MESSAGES];
	struct kapi_filter_found found = { .lengths = lengths, .most = MESSAGES, .longest = MESSAGES };
	size_t end;

	local_bh_disable();
	make_wait();
	end = kapi_filter_find(filter, &rx, 0, MESSAGES, &found);
	local_bh_enable();
	return end == found.count && !found.stopped ? found.count : 0;
}

static bool all_at_once(const struct kapi_filter *filter, struct sk_buff *skb)
{
	unsigned int i;

	for (i = 0; i < TRIES; i++, msleep(PAUSE_MS))
		if (found_at_first(filter, skb, nobody_waits, U64_MAX) == MESSAGES)
			return true;
	return false;
}

static bool few_if_the_turn_is_over(const struct kapi_filter *filter, struct sk_buff *skb)
{
	unsigned int i;

	for (i = 0; i < TRIES; i++, msleep(PAUSE_MS))
		if (found_at_first(filter, skb, nobody_waits, 0) == LEAST)
			return true;
	return false;
}

/* They run when the call has returned, behind the first message. */
static bool one_if_a_softirq_waits(const struct kapi_filter *filter, struct sk_buff *skb)
{
	unsigned int i;

	for (i = 0; i < TRIES; i++, msleep(PAUSE_MS)) {
		unsigned int before = softirqs;

		if (found_at_first(filter, skb, softirq_waits, U64_MAX) == 1 && softirqs == before + 1)
			return true;
	}
	return false;
}

static bool some_if_a_task_waits(const struct kapi_filter *filter, struct sk_buff *skb)
{
	unsigned int i;

	for (i = 0; i < TRIES; i++, msleep(PAUSE_MS)) {
		u32 count = found_at_first(filter, skb, task_waits, U64_MAX);

		if (count && count < MESSAGES)
			return true;
	}
	return false;
}

int kapi_test_filter(void)
{
	struct sock_filter one[] = { BPF_STMT(BPF_RET | BPF_K, 1) }; /* each byte is a message */
	struct sock_fprog_kern code = { .len = ARRAY_SIZE(one), .filter = one };
	struct sk_buff *skb = alloc_skb(MESSAGES, GFP_KERNEL);
	const struct kapi_filter *filter;
	struct bpf_prog *program;
	int failed = -ENOMEM;

	if (!skb)
		return failed;
	memset(skb_put(skb, MESSAGES), 0, MESSAGES);
	failed = bpf_prog_create(&program, &code);
	if (!failed) {
		filter = (const struct kapi_filter *)program;
		failed = !all_at_once(filter, skb) ? 1 : !one_if_a_softirq_waits(filter, skb) ? 2 :
			 !some_if_a_task_waits(filter, skb) ? 3 : !few_if_the_turn_is_over(filter, skb) ? 4 : 0;
		tasklet_kill(&softirq);
		bpf_prog_destroy(program);
	}
	kfree_skb(skb);
	return failed;
}

/* By the clock of turns: mdelay() of a processor that is emulated beside load may be short by two thirds. */
static void busy(u64 ticks)
{
	u64 began = kapi_turn_clock();

	while (kapi_turn_clock() - began < ticks)
		cpu_relax();
}

/* A callback that computes for so long, without bottom halves. Returns whether its turn was over when it began, and ended. */
static void compute(u64 ticks, bool *over_before, bool *over_behind)
{
	u64 began, until;

	local_bh_disable();
	began = kapi_turn_begin(&until);
	*over_before = kapi_turn_is_over();
	busy(ticks);
	*over_behind = kapi_turn_is_over() && kapi_is_past(until);
	kapi_turn_end(began);
	local_bh_enable();
}

/* The number of what it does not do. */
static int try_turn(void)
{
	bool before, behind, over, over_later, unused;
	u64 turn = kapi_turn_clock(), until;

	kapi_turn_begin(&until);
	turn = until - turn;
	migrate_disable();
	msleep(20 * TURN_MS); /* what callbacks have taken until now is paid off */
	compute(turn + turn / 4, &before, &behind);
	compute(0, &over, &unused);
	busy(4 * turn);
	compute(0, &over_later, &unused);
	migrate_enable();
	if (before || !behind)
		return 1;
	if (!over)
		return 2;
	if (over_later)
		return 3;
	return kapi_turn_begin(&until) || kapi_turn_is_over() || kapi_is_past(until) ? 4 : 0; /* in a task */
}

/* The host of a virtual processor may do something else between two steps, which is time of others, or in one of them. */
int kapi_test_turn(void)
{
	unsigned int i;
	int failed = 1;

	for (i = 0; i < TRIES && failed; i++)
		failed = try_turn();
	if (failed)
		pr_err("kapi_test: turn: %d\n", failed);
	return failed;
}
