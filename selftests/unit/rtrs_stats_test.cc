// SPDX-License-Identifier: GPL-2.0
// What RTRS counts, read while it is set to 0.
#include "kapi_sim_test.h"

#include <algorithm>
#include <optional>

#include "drivers/infiniband/ulp/rtrs/client/stats.h"
#include "drivers/infiniband/ulp/rtrs/server/stats.h"

namespace {

class RtrsStats : public SimTest, public ::testing::WithParamInterface<int> {
protected:
    RtrsStats() : SimTest(static_cast<std::uint64_t>(GetParam())) {}

    /** Counting, resetting and reading, beside each other; the largest number that is read. */
    std::uint64_t largest(const std::function<void()> &count, const std::function<void()> &reset,
                          const std::function<std::uint64_t()> &read)
    {
        std::uint64_t largest = 0;
        std::vector<sim::TaskRef> tasks;
        auto repeat = [&](const char *name, const std::function<void()> &once) {
            tasks.push_back(world.spawn(a, name, [this, once] {
                for (int i = 0; i < 500; i++) {
                    once();
                    world.sleep(1);
                }
            }));
        };
        repeat("count", count);
        repeat("reset", reset);
        repeat("read", [&] { largest = std::max(largest, read()); });
        auto done = [&] { return std::all_of(tasks.begin(), tasks.end(), [](auto &task) { return task->is_done(); }); };
        EXPECT_TRUE(world.run_until(done, sim::kSecond));
        return largest;
    }
};

TEST_P(RtrsStats, of_the_client_are_not_below_zero)
{
    std::optional<rtrs_clt::Stats> stats;
    run(a, [&] { ASSERT_TRUE(stats.emplace().make()); });
    EXPECT_LE(largest([&] { stats->request(0, true, 1, 1); }, [&] { stats->reset_all(); },
                      [&] { return stats->read(rtrs_clt::Stats::reads); }), 500u);
    run(a, [&] { stats.reset(); });
}

TEST_P(RtrsStats, of_the_server_are_not_below_zero)
{
    std::optional<rtrs_srv::Stats> stats;
    run(a, [&] { ASSERT_TRUE(stats.emplace().make()); });
    EXPECT_LE(largest([&] { stats->request(true, 1); }, [&] { stats->reset(); },
                      [&] { return stats->read(rtrs_srv::Stat::reads); }), 500u);
    run(a, [&] { stats.reset(); });
}

TEST_P(RtrsStats, of_the_client_show_where_completions_were_handled)
{
    std::optional<rtrs_clt::Stats> stats;
    run(a, [&] {
        ASSERT_TRUE(stats.emplace().make());
        ASSERT_GE(stats->cpus(), 2u);
        stats->completions(3, 1, 1);
        stats->completions(5, 0, 1);
        stats->completions(2, 0, 1);
        EXPECT_EQ(stats->read(rtrs_clt::Stats::completed), 10u);
        EXPECT_EQ(stats->read(rtrs_clt::Stats::handled), 3u);
        EXPECT_EQ(stats->most_at_once(), 5u);
        EXPECT_EQ(stats->of_cpu(0).migrated_from.load_relaxed(), 2u);
        EXPECT_EQ(stats->of_cpu(0).migrated_to.load_relaxed(), 0u);
        EXPECT_EQ(stats->of_cpu(1).migrated_from.load_relaxed(), 0u);
        EXPECT_EQ(stats->of_cpu(1).migrated_to.load_relaxed(), 2u);
    });
    run(a, [&] { stats.reset(); });
}

INSTANTIATE_TEST_SUITE_P(Seeds, RtrsStats, ::testing::Range(1, 6));

} // namespace
