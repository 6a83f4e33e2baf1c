// SPDX-License-Identifier: GPL-2.0
// What needs a lock is called without it.
#include <hawser/lock.h>

struct ExampleLock {
    static constexpr const char *name = "example";
    static constexpr unsigned rank = 10;
};

class Example {
public:
    void change() { change_locked(); }

private:
    void change_locked() HW_REQUIRES(lock_) { value_++; }

    hw::Spin<ExampleLock> lock_;
    int value_ HW_GUARDED_BY(lock_) = 0;
};

void change_it(Example &example)
{
    example.change();
}
