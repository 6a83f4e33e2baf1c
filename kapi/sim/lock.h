// SPDX-License-Identifier: GPL-2.0
// What is inside a kapi_spin in the simulator.
#pragma once

#include <kapi/lock.h>

#include "task.h"

namespace sim {

struct Spin {
    kapi_lock_class *cls;
    Task *holder;
    WaitList *waiters; // made when somebody has to wait, gone with the last of them
};
static_assert(sizeof(Spin) <= KAPI_SIZE_SPIN);

const char *lock_name(const Spin &lock);

} // namespace sim
