// SPDX-License-Identifier: GPL-2.0
// include/hawser/atomic.h: what each operation returns, and that each is a point where tasks may switch.
#include "kapi_sim_test.h"

#include <hawser/atomic.h>

namespace {

TEST(Atomic, operations__return_the_old_value)
{
    hw::Atomic<hw::u32> value(5);
    EXPECT_EQ(value.fetch_add(3), 5u);
    EXPECT_EQ(value.fetch_sub(1), 8u);
    EXPECT_EQ(value.fetch_or(0x10), 7u);
    EXPECT_EQ(value.fetch_and(0x11), 0x17u);
    EXPECT_EQ(value.exchange(40), 0x11u);
    EXPECT_EQ(value.load_acquire(), 40u);
    value.store_release(41);
    EXPECT_EQ(value.load_relaxed(), 41u);
    value.store_relaxed(42);
    hw::u32 expected = 41;
    EXPECT_FALSE(value.compare_exchange(expected, 50));
    EXPECT_EQ(expected, 42u);
    EXPECT_TRUE(value.compare_exchange(expected, 50));
    EXPECT_EQ(value.load_relaxed(), 50u);
}

TEST_F(SimTest, atomic__load_and_store_race_but_fetch_add_does_not)
{
    hw::Atomic<int> torn(0), whole(0);
    for (int task = 0; task < 4; task++)
        world.spawn(a, "t", [&] {
            for (int i = 0; i < 100; i++) {
                torn.store_relaxed(torn.load_relaxed() + 1);
                whole.fetch_add(1);
            }
        });
    world.run_idle();
    EXPECT_EQ(whole.load_relaxed(), 400);
    EXPECT_LT(torn.load_relaxed(), 400);
}

} // namespace
