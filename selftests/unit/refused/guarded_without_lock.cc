// SPDX-License-Identifier: GPL-2.0
// What a lock guards is read without it.
#include <hawser/lock.h>

struct ExampleLock {
    static constexpr const char *name = "example";
    static constexpr unsigned rank = 10;
};

class Example {
public:
    int read() { return value_; }

private:
    hw::Spin<ExampleLock> lock_;
    int value_ HW_GUARDED_BY(lock_) = 0;
};

int read_it(Example &example)
{
    return example.read();
}
