// SPDX-License-Identifier: GPL-2.0
// What is inside a kapi_spin in the simulator.
#pragma once

#include <kapi/lock.h>

#include "task.h"

namespace sim {

struct Spin {
    kapi_lock_class *cls;
    Task *holder;
    WaitList *waiters; // made for the first waiter, freed with the last
    bool irqs_off;     // of the holder
};
static_assert(sizeof(Spin) <= KAPI_SIZE_SPIN);

const char *lock_name(const Spin &lock);

/** Most HW_STEP()s between taking and releasing a lock of this name, since the last forget_steps(). */
std::uint64_t most_steps_under(const char *name);
/** How often programs were signalled while a lock of this name was held, since then. */
std::uint64_t signals_under(const char *name);
void note_signal(); // there is one
/** Most HW_STEP()s of a task without kapi_resched() between them, since then. */
std::uint64_t most_steps_without_pause();
/** HW_STEP()s of all tasks, since then. */
std::uint64_t all_steps();
void forget_steps();

} // namespace sim
