// SPDX-License-Identifier: GPL-2.0
// include/hawser/lock.h: guards, guarded data, ranks.
#include "kapi_sim_test.h"

#include <hawser/lock.h>

namespace {

struct FirstLock {
    static constexpr const char *name = "first";
    static constexpr unsigned rank = 10;
};
struct SecondLock {
    static constexpr const char *name = "second";
    static constexpr unsigned rank = 20;
};

TEST_F(SimTest, guarded__excludes_and_returns)
{
    hw::Guarded<int, FirstLock> sum;
    for (int task = 0; task < 4; task++)
        world.spawn(a, "t", [&] {
            for (int i = 0; i < 50; i++)
                sum.with([](int &value) {
                    int seen = value;
                    sim::world().point("between");
                    value = seen + 1;
                });
        });
    world.run_idle();
    EXPECT_EQ(sum.with([](int &value) { return value; }), 200);
}

/** The analysis is right that this never unlocks: the run fails before. */
template <class Lock> void lock_unchecked(Lock &lock) HW_NO_TSA
{
    lock.lock();
}

TEST_F(SimTest, guard__knows_its_rank)
{
    hw::Spin<FirstLock> first;
    hw::Spin<SecondLock> second;
    {
        hw::Guard outer(first);
        hw::Guard inner(second);
        EXPECT_TRUE(first.is_held());
    }
    EXPECT_FALSE(first.is_held());
    hw::Guard outer(second);
    EXPECT_DEATH(lock_unchecked(first), "lock first .rank 10. is taken while second");
}

} // namespace
