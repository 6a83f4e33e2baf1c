// SPDX-License-Identifier: GPL-2.0
#pragma once

#include "world.h"

namespace sim {

/**
 * While one lives, the running task is in a hard interrupt, as a disk that has done what it was asked for: it must not sleep, and
 * of locks it may take those alone that are always taken with interrupts off.
 */
class HardInterrupt {
public:
    HardInterrupt();
    ~HardInterrupt();
    HardInterrupt(const HardInterrupt &) = delete;
    HardInterrupt &operator=(const HardInterrupt &) = delete;

private:
    AtomicScope nothing_sleeps_;
};

bool in_hard_interrupt(const Task &task);

} // namespace sim
