// SPDX-License-Identifier: GPL-2.0
// A lock is taken and not given back.
#include <hawser/lock.h>

struct ExampleLock {
    static constexpr const char *name = "example";
    static constexpr unsigned rank = 10;
};

void lock_it(hw::Spin<ExampleLock> &lock)
{
    lock.lock();
}
