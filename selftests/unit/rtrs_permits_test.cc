// SPDX-License-Identifier: GPL-2.0
// The permits of a session of the RTRS client: each is taken once, by those of different processors far from each other.
#include "kapi_sim_test.h"

#include <kapi/sim/wake.h>

#include <optional>
#include <set>

#include "drivers/infiniband/ulp/rtrs/client/permits.h"

namespace {

class RtrsPermits : public SimTest, public ::testing::WithParamInterface<unsigned> {
protected:
    RtrsPermits() : SimTest(GetParam()) // which also determines how often tasks are switched
    {
        run(a, [&] { ASSERT_TRUE(permits.emplace().make(count)); });
    }
    ~RtrsPermits() override
    {
        run(a, [&] { permits.reset(); });
    }
    std::set<hw::s32> take_all(unsigned hint)
    {
        std::set<hw::s32> taken;
        run(a, [&] {
            for (hw::s32 one; (one = permits->take(hint)) >= 0;) {
                ASSERT_TRUE(taken.insert(one).second) << one;
                ASSERT_LE(taken.size(), count);
            }
        });
        return taken;
    }
    /** As a session waits. */
    template <class InVain> hw::s32 wait_and_take(hw::u32 hint, InVain in_vain)
    {
        hw::s32 taken = -1;
        permits->wait([&] { return (taken = permits->take(hint)) >= 0 || in_vain(); });
        return taken;
    }
    static bool never() { return false; }
    const unsigned count = GetParam();
    std::optional<rtrs_clt::Permits> permits;
};

TEST_P(RtrsPermits, each_is_taken_once_and_again_when_it_was_given)
{
    for (unsigned hint : {0u, 1u, 7u}) {
        std::set<hw::s32> taken = take_all(hint);
        EXPECT_EQ(taken.size(), count);
        EXPECT_EQ(*taken.begin(), 0);
        EXPECT_EQ(*taken.rbegin(), static_cast<hw::s32>(count) - 1);
        EXPECT_EQ(permits->taken(), count);
        run(a, [&] {
            for (hw::s32 one : taken) {
                permits->give(static_cast<hw::u32>(one));
                EXPECT_EQ(permits->take(hint), one) << "the only one";
            }
            for (hw::s32 one : taken)
                permits->give(static_cast<hw::u32>(one));
        });
        EXPECT_EQ(permits->taken(), 0u);
    }
}

TEST_P(RtrsPermits, those_of_two_processors_share_no_cache_line)
{
    run(a, [&] {
        hw::s32 first = permits->take(0), second = permits->take(1), again = permits->take(0);
        EXPECT_EQ(first / 64 != second / 64, count > 64) << first << " " << second;
        EXPECT_EQ(first / 64, again / 64);
        for (hw::s32 one : {first, second, again})
            permits->give(static_cast<hw::u32>(one));
    });
}

TEST_P(RtrsPermits, at_the_same_time)
{
    for (unsigned round = 0; round < 20; round++) {
        std::vector<hw::s32> taken;
        std::vector<sim::TaskRef> tasks;
        for (unsigned i = 0; i < 3; i++)
            tasks.push_back(world.spawn(a, "takes", [&] {
                for (unsigned n = 0; n < count / 3; n++)
                    taken.push_back(permits->take(0));
            }));
        auto done = [&] { return std::ranges::all_of(tasks, [](auto &task) { return task->is_done(); }); };
        EXPECT_TRUE(world.run_until(done, sim::kSecond));
        ASSERT_EQ(std::set<hw::s32>(taken.begin(), taken.end()).size(), count / 3 * 3) << "round " << round;
        EXPECT_EQ(permits->taken(), count / 3 * 3);
        run(a, [&] {
            for (hw::s32 one : taken)
                permits->give(static_cast<hw::u32>(one));
        });
    }
}

TEST_P(RtrsPermits, who_waits_gets_the_next_one)
{
    run(a, [&] { EXPECT_EQ(wait_and_take(0, never), 0) << "without waiting"; });
    EXPECT_EQ(permits->taken(), 1u);
    take_all(0);
    hw::s32 got = 0;
    auto waits = world.spawn(a, "waits", [&] { got = wait_and_take(3, never); });
    world.run_for(sim::kSecond);
    EXPECT_FALSE(waits->is_done());
    run(a, [&] { permits->give(count - 1); });
    EXPECT_TRUE(world.run_until([&] { return waits->is_done(); }, sim::kMillisecond));
    EXPECT_EQ(got, static_cast<hw::s32>(count) - 1);
}

TEST_P(RtrsPermits, as_many_are_woken_as_were_given)
{
    constexpr unsigned kWaiters = 20, kGiven = 3;
    take_all(0);
    std::vector<hw::u32> got;
    std::vector<sim::TaskRef> tasks;
    for (unsigned i = 0; i < kWaiters; i++)
        tasks.push_back(world.spawn(a, "waits", [&, i] {
            got.push_back(static_cast<hw::u32>(wait_and_take(i, never)));
        }));
    world.run_for(sim::kSecond);
    sim::threads_woken();
    run(a, [&] {
        for (unsigned i = 0; i < kGiven; i++)
            permits->give(i);
    });
    world.run_for(sim::kMillisecond);
    EXPECT_EQ(sim::threads_woken(), kGiven);
    EXPECT_EQ(std::set<hw::u32>(got.begin(), got.end()), (std::set<hw::u32>{0, 1, 2}));
    for (unsigned round = 0; got.size() < kWaiters && round < kWaiters; round++) {
        run(a, [&] { permits->give(got.back()); });
        world.run_for(sim::kMillisecond);
    }
    EXPECT_EQ(got.size(), kWaiters) << "each has its turn";
    EXPECT_TRUE(std::ranges::all_of(tasks, [](auto &task) { return task->is_done(); }));
}

/** And another one, which goes on waiting, finds what was given back. */
TEST_P(RtrsPermits, who_waits_in_vain_gets_none)
{
    take_all(0);
    bool in_vain = false;
    hw::s32 got = 0, other = -1;
    auto waits = world.spawn(a, "waits", [&] { got = wait_and_take(3, [&] { return in_vain; }); });
    auto waits_on = world.spawn(a, "waits on", [&] { other = wait_and_take(3, never); });
    world.run_for(2 * sim::kSecond);
    EXPECT_FALSE(waits->is_done());
    in_vain = true;
    EXPECT_TRUE(world.run_until([&] { return waits->is_done(); }, sim::kSecond));
    EXPECT_EQ(got, -1);
    world.run_for(2 * sim::kSecond);
    EXPECT_FALSE(waits_on->is_done());
    run(a, [&] { permits->give(1); });
    EXPECT_TRUE(world.run_until([&] { return waits_on->is_done(); }, sim::kMillisecond));
    EXPECT_EQ(other, 1);
}

TEST_P(RtrsPermits, the_end_waits_for_all)
{
    take_all(0);
    auto waits = world.spawn(a, "waits", [&] { permits->wait_for_all(); });
    for (unsigned i = 0; i < count; i++) {
        EXPECT_FALSE(waits->is_done());
        run(a, [&] { permits->give(i); });
    }
    EXPECT_TRUE(world.run_until([&] { return waits->is_done(); }, 30 * sim::kMillisecond));
    run(a, [&] { permits->give(static_cast<hw::u32>(permits->take(0))); }); // nobody waits any more
}

INSTANTIATE_TEST_SUITE_P(Counts, RtrsPermits, ::testing::Values(3u, 64u, 65u, 128u, 130u));

} // namespace
