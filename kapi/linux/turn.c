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
#ifdef CONFIG_X86_64
#include <asm/tsc.h>
#endif

#include <kapi/host.h>

#include "turn.h"

/* A debt is of so many turns at most: a virtual processor whose host does something else takes time, too. */
#define MOST_TURNS 8

struct turn {
	u64 debt; /* at the end of the last callback; at the beginning of one that runs */
	u64 ended, until;
};

/* With PREEMPT_RT two tasks may be in callbacks of one processor. Then what they owe is inexact. */
static DEFINE_PER_CPU(struct turn, turn_of_cpu);

/* Of a turn, on kapi_turn_clock(). A machine may have found no rate of its counter. */
static u64 ticks(void)
{
#ifdef CONFIG_X86_64
	return (u64)(tsc_khz ?: 2000000) * (KAPI_TURN_NS / NSEC_PER_MSEC);
#else
	return KAPI_TURN_NS;
#endif
}

u64 kapi_turn_begin(u64 *until)
{
	u64 now = kapi_turn_clock(), length = ticks();
	struct turn *turn;

	if (!softirq_count()) {
		*until = now + length;
		return 0;
	}
	turn = this_cpu_ptr(&turn_of_cpu);
	turn->debt -= min(turn->debt, now - turn->ended);
	turn->until = turn->debt < length ? now + length - turn->debt : 0;
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
	turn->ended = kapi_turn_clock();
	turn->debt += turn->ended > began ? turn->ended - began : 0; /* a host may set it back */
	turn->debt = min(turn->debt, MOST_TURNS * ticks());
}
EXPORT_SYMBOL_GPL(kapi_turn_end);

bool kapi_turn_is_taken(u64 began)
{
	return (s64)(kapi_turn_clock() - began) >= (s64)ticks();
}
EXPORT_SYMBOL_GPL(kapi_turn_is_taken);

int kapi_turn_is_over(void)
{
	return softirq_count() && kapi_is_past(this_cpu_read(turn_of_cpu.until));
}
EXPORT_SYMBOL_GPL(kapi_turn_is_over);
