// SPDX-License-Identifier: GPL-2.0
// A lock whose holder may sleep.
#pragma once

#include <hawser/atomic.h>
#include <hawser/wait.h>

namespace rtrs_srv {

using namespace hw;

class HW_CAPABILITY("sleep lock") SleepLock : Pinned {
public:
    // Sleeps.
    void lock() HW_ACQUIRE() HW_NO_TSA
    {
        free_.wait_for([&] { return !taken_.exchange(true); });
    }
    void unlock() HW_RELEASE() HW_NO_TSA
    {
        taken_.exchange(false);
        free_.wake();
    }

private:
    Atomic<bool> taken_{false};
    WaitQueue free_;
};

} // namespace rtrs_srv
