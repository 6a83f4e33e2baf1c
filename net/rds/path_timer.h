// SPDX-License-Identifier: GPL-2.0
// Events that a path's worker is informed of later: one timer, and a time for each.
#pragma once

#include "transport.h"

#include <hawser/atomic.h>
#include <hawser/lock.h>
#include <hawser/work.h>

#include "../lock_order.h"

namespace rds {

using namespace hw;

class Path;

class PathTimer : Pinned {
public:
    explicit PathTimer(Path& path) : path_(path) {}

    // Any context. Informs the worker of events at time_ns. Those that are due before stay so. None comes before its time: a path
    // that waits for its turn to get memory would ask for it more often, because it also has something to send.
    void add(u32 events, u64 time_ns);
    bool has(u32 event) const { return due_ns_[place_of(event)].load_relaxed() != never; }
    // Sleeps. For good: no call of the timer follows, and nothing is queued.
    void stop();

private:
    static constexpr u32 kinds[] = {RDS_PATH_TICK, RDS_PATH_SEND, RDS_PATH_RESUME, RDS_PATH_PROBE};
    static constexpr unsigned count = sizeof(kinds) / sizeof(kinds[0]);
    static constexpr u32 all = RDS_PATH_TICK | RDS_PATH_SEND | RDS_PATH_RESUME | RDS_PATH_PROBE;
    static constexpr u64 never = ~u64{0};

    static constexpr unsigned place_of(u32 event)
    {
        unsigned i = 0;
        while (i + 1 < count && kinds[i] != event)
            i++;
        return i;
    }
    void run();
    u32 take(u64 now) HW_REQUIRES(lock_);
    u64 first() const HW_REQUIRES(lock_);
    void set(u64 time_ns) HW_REQUIRES(lock_);

    Path& path_;
    Spin<PathTimerLock> lock_;
    Atomic<u64> due_ns_[count]{never, never, never, never}; // of each kind; changed under the lock
    u64 set_ns_ HW_GUARDED_BY(lock_) = never;               // when the timer runs out, or later
    bool stopped_ HW_GUARDED_BY(lock_) = false;
    Work<PathTimer, &PathTimer::run> work_{*this};
};

} // namespace rds
