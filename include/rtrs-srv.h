/* SPDX-License-Identifier: GPL-2.0 */
/* What RNBD's tracepoints read of a request that its server has; upstream's header of this name has all of RTRS's server. */
#ifndef RTRS_SRV_H
#define RTRS_SRV_H

#include <rtrs.h>

struct rtrs_srv_op {
	u32 dir; /* READ or WRITE. The first member of core's Operation */
};

#endif
