/* SPDX-License-Identifier: GPL-2.0 */
/* A place where the simulator may switch tasks that is no kapi call: every atomic operation of the host build. */
#ifndef KAPI_SIM_POINT_H
#define KAPI_SIM_POINT_H

#include <kapi/types.h>

KAPI_BEGIN

/* [any] Does nothing outside of a simulated task. */
void kapi_sim_point(void) KAPI_NOEXCEPT;

KAPI_END
#endif
