/* SPDX-License-Identifier: GPL-2.0 */
/* SO_RCVTIMEO and SO_SNDTIMEO. */
#ifndef KAPI_LINUX_TIMEO_H
#define KAPI_LINUX_TIMEO_H

#include <linux/jiffies.h>

#include <kapi/wait.h>

/* Above a century a time-out is infinite: added to a time, or converted from jiffies to nanoseconds, it would overflow. */
static inline u64 kapi_timeo_ns(long timeo)
{
	return timeo >= 100ULL * 366 * 86400 * HZ ? KAPI_FOREVER : jiffies64_to_nsecs(timeo);
}

#endif
