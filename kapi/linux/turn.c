// SPDX-License-Identifier: GPL-2.0
/*
 * How much of a processor hawser's callbacks take while no task can run there. What they have taken is a debt, which the time
 * between them pays off.
 */

#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/time64.h>

#include <kapi/host.h>

#include "turn.h"

/* What one callback may owe: a virtual processor whose host does something else takes time, too. */
#define MOST_NS NSEC_PER_SEC

struct turn {
	u64 debt; /* at the end of the last callback, ns; at the beginning of one that runs */
	u64 ended, until; /* on local_clock() */
};

/* With PREEMPT_RT two tasks may be in callbacks of one processor. Then what they owe is inexact. */
static DEFINE_PER_CPU(struct turn, turn_of_cpu);

u64 kapi_turn_begin(u64 *until)
{
	u64 now = local_clock();
	struct turn *turn;

	if (!softirq_count()) {
		*until = now + KAPI_TURN_NS;
		return 0;
	}
	turn = this_cpu_ptr(&turn_of_cpu);
	turn->debt -= min(turn->debt, now - turn->ended);
	turn->until = turn->debt < KAPI_TURN_NS ? now + KAPI_TURN_NS - turn->debt : 0;
	*until = turn->until;
	return now;
}
EXPORT_SYMBOL_GPL(kapi_turn_begin);

void kapi_turn_end(u64 began)
{
	struct turn *turn;

	if (!began)
		return;
	turn = this_cpu_ptr(&turn_of_cpu);
	turn->ended = local_clock();
	turn->debt += min_t(u64, turn->ended - began, MOST_NS);
	turn->debt = min_t(u64, turn->debt, MOST_NS);
}
EXPORT_SYMBOL_GPL(kapi_turn_end);

int kapi_turn_is_over(void)
{
	return softirq_count() && kapi_is_past(this_cpu_read(turn_of_cpu.until));
}
EXPORT_SYMBOL_GPL(kapi_turn_is_over);
