// SPDX-License-Identifier: GPL-2.0
// The threads that a host has for works.
#pragma once

#include <kapi/work.h>

namespace sim {

/** From now on the queue has one thread, as on a host that has no memory for another one. */
void leave_one_thread(kapi_workqueue &queue);

} // namespace sim
