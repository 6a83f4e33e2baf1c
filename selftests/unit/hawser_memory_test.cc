// SPDX-License-Identifier: GPL-2.0
// include/hawser/memory.h: make, dispose, Own.
#include "kapi_sim_test.h"

#include <hawser/memory.h>

namespace {

struct Thing {
    explicit Thing(int *gone) : gone_(gone) {}
    ~Thing() { ++*gone_; }
    int *gone_;
    unsigned char tail[];
};

TEST_F(SimTest, make__zeroed_tail_and_destructor)
{
    int gone = 0;
    run(a, [&] {
        Thing *thing = hw::make_with_tail<Thing>(hw::Alloc::sleep, 10, &gone);
        ASSERT_NE(thing, nullptr);
        for (int i = 0; i < 10; i++)
            EXPECT_EQ(thing->tail[i], 0);
        hw::dispose(thing);
        hw::dispose<Thing>(nullptr);
    });
    EXPECT_EQ(gone, 1);
}

TEST_F(SimTest, make__null_when_memory_is_short)
{
    a.faults().fail_at = 1;
    int gone = 0;
    run(a, [&] { EXPECT_EQ(hw::make<Thing>(hw::Alloc::atomic, &gone), nullptr); });
    EXPECT_EQ(gone, 0);
}

TEST_F(SimTest, own__moves_and_ends_once)
{
    int gone = 0;
    run(a, [&] {
        hw::Own<Thing> first(hw::make<Thing>(hw::Alloc::sleep, &gone));
        hw::Own<Thing> second(std::move(first));
        EXPECT_FALSE(first);
        EXPECT_TRUE(second);
        first = std::move(second);
        EXPECT_EQ(gone, 0);
        EXPECT_EQ(first->gone_, &gone);
        first = hw::Own<Thing>(hw::make<Thing>(hw::Alloc::sleep, &gone));
        EXPECT_EQ(gone, 1);
        Thing *raw = first.release();
        EXPECT_FALSE(first);
        first.reset(raw);
        EXPECT_EQ(gone, 1);
    });
    EXPECT_EQ(gone, 2);
}

} // namespace
