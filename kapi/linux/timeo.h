/* SPDX-License-Identifier: GPL-2.0 */
/* SO_RCVTIMEO and SO_SNDTIMEO. */
#ifndef KAPI_LINUX_TIMEO_H
#define KAPI_LINUX_TIMEO_H

#include <linux/jiffies.h>

#include <kapi/wait.h>

/* A century is for ever: nanoseconds that are added to it, or more jiffies made nanoseconds, would come out small. */
static inline u64 kapi_timeo_ns(long timeo)
{
	return timeo >= 100ULL * 366 * 86400 * HZ ? KAPI_FOREVER : jiffies64_to_nsecs(timeo);
}

#endif
