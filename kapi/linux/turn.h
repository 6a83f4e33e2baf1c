/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The turn of hawser's callbacks on a processor, of all streams and completion queues together: each alone may be short, and a
 * softirq make any number of them.
 */
#ifndef KAPI_LINUX_TURN_H
#define KAPI_LINUX_TURN_H

#include <linux/sched/clock.h>
#include <linux/types.h>

/*
 * A callback begins. Returns its beginning, for kapi_turn_end() on the same processor, and in *until when its turn is over, on
 * this processor's local_clock(); 0: it is over already. Bottom halves are off; else it is a task's, which is not counted: 0.
 */
u64 kapi_turn_begin(u64 *until);
void kapi_turn_end(u64 began);
static inline bool kapi_is_past(u64 until)
{
	return local_clock() >= until;
}

#endif
