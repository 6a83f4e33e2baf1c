/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The turn of hawser's callbacks on a processor, of all streams and completion queues together: each alone may be short, and a
 * softirq make any number of them.
 */
#ifndef KAPI_LINUX_TURN_H
#define KAPI_LINUX_TURN_H

#include <linux/sched/clock.h>
#include <linux/timex.h>
#include <linux/types.h>

/*
 * This processor's clock, which is read several times for each packet. local_clock() takes some fifty instructions. Ticks of the
 * time stamp counter may be inexact, and others on another processor: a turn is short or long then.
 */
static inline u64 kapi_turn_clock(void)
{
	return IS_ENABLED(CONFIG_X86_64) ? get_cycles() : local_clock();
}

/*
 * A callback begins. Returns its beginning, for kapi_turn_end() on the same processor, and in *until when its turn is over, on
 * kapi_turn_clock(); 0: it is over already. Bottom halves are off; else it is a task's, which is not counted: 0.
 */
u64 kapi_turn_begin(u64 *until);
void kapi_turn_end(u64 began);
/* Whether what has begun then has taken a whole turn by itself. */
bool kapi_turn_is_taken(u64 began);
static inline bool kapi_is_past(u64 until)
{
	return !until || kapi_turn_clock() >= until;
}

#endif
