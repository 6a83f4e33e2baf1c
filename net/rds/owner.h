// SPDX-License-Identifier: GPL-2.0
// The transmitter of a path: one at a time, a thread in sendmsg or the path's worker.
#pragma once

#include <hawser/atomic.h>
#include <hawser/wait.h>

namespace rds {

using namespace hw;

class Owner : Pinned {
public:
    // Any context. False: another thread owns the path, and its release() returns true.
    [[nodiscard]] bool acquire()
    {
        for (;;) {
            u32 expected = 0;
            if (state_.compare_exchange(expected, owned))
                return true;
            if (state_.fetch_or(wanted) & owned)
                return false;
            expected = wanted;
            if (state_.compare_exchange(expected, owned))
                return true;
        }
    }
    // Any context. True when acquire() failed meanwhile: the caller sees to it that the worker looks again.
    [[nodiscard]] bool release()
    {
        bool was_wanted = (state_.exchange(0) & wanted) != 0;
        if (ending_.load()) // not before the exchange: acquire_for_good() looks the other way round
            idle_.wake();
        return was_wanted;
    }
    // Sleeps until the path is free and takes it; it is never released again.
    void acquire_for_good()
    {
        ending_.exchange(1);
        while (!acquire())
            idle_.wait_for([this] { return !is_owned(); });
    }
    bool is_owned() const { return (state_.load_acquire() & owned) != 0; }

private:
    static constexpr u32 owned = 1, wanted = 2;
    Atomic<u32> state_{0};
    Atomic<u32> ending_{0};
    WaitQueue idle_;
};

} // namespace rds
