// SPDX-License-Identifier: GPL-2.0
// What wake-ups cost in the simulator, and those that do not come.
#pragma once

#include <kapi/wait.h>

#include <cstddef>
#include <functional>

namespace sim {

/** Most waiters that one kapi_wake() went through, with interrupts off, since the last call. */
std::size_t most_woken_at_once();
/** Threads that slept and were woken, since the last call. */
std::size_t threads_woken();

/**
 * For a call that looks by itself now and then, which would hide lost wake-ups: a wait of this task that ends by time
 * fails the run if what it waits for in the queue is there, and nobody wakes it.
 */
class ExpectWakeups {
public:
    using IsDue = std::function<bool(kapi_waitq &)>;
    explicit ExpectWakeups(IsDue is_due);
    ~ExpectWakeups();
    ExpectWakeups(const ExpectWakeups &) = delete;
    ExpectWakeups &operator=(const ExpectWakeups &) = delete;
};

} // namespace sim
