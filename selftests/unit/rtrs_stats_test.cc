// SPDX-License-Identifier: GPL-2.0
// What RTRS counts, read while it is set to 0.
#include "kapi_sim_test.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

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

/** Each is the first of the sizes, and the first of the times, that it is not beyond. */
TEST_P(RtrsStats, of_the_client_count_lists_by_their_sizes_and_requests_by_their_time)
{
    using rtrs_clt::Stats;
    std::optional<Stats> stats;
    run(a, [&] {
        ASSERT_TRUE(stats.emplace().make());
        const std::pair<unsigned, unsigned> sizes[] = {{0, 0}, {1, 1}, {2, 2}, {3, 3}, {4, 3}, {5, 4}, {8, 4}, {9, 5}, {16, 5},
                                                       {17, 6}, {32, 6}, {33, 7}, {128, 7}};
        unsigned lists[Stats::list_sizes] = {};
        for (auto [entries, place] : sizes) {
            stats->request(1, entries % 2, 100, entries);
            EXPECT_EQ(stats->of_cpu(1).lists[place].load_relaxed(), ++lists[place]) << entries;
            EXPECT_EQ(stats->of_cpu(0).lists[place].load_relaxed(), 0u);
        }
        EXPECT_EQ(stats->read(Stats::reads), 6u);
        EXPECT_EQ(stats->read(Stats::read_bytes), 600u);
        EXPECT_EQ(stats->read(Stats::writes), 7u);
        EXPECT_EQ(stats->read(Stats::write_bytes), 700u);
        const std::pair<std::uint64_t, unsigned> times[] = {{0, 0}, {999'999, 0}, {1'000'000, 1}, {1'999'999, 1}, {2'000'000, 2},
                                                            {65'535'999'999, 16}, {65'536'000'000, 17}, {1'000'000'000'000, 17}};
        unsigned found[2][Stats::latencies] = {};
        for (bool reads : {true, false})
            for (auto [time_ns, place] : times) {
                stats->ended(reads, time_ns);
                unsigned first = reads ? Stats::latency_of_reads : Stats::latency_of_writes;
                EXPECT_EQ(stats->read(first + place), ++found[reads][place]) << time_ns;
            }
        EXPECT_EQ(stats->longest_ns(), 1'000'000'000'000u);
        stats->ended(true, 1);
        EXPECT_EQ(stats->longest_ns(), 1'000'000'000'000u);
    });
    run(a, [&] { stats.reset(); });
}

TEST_P(RtrsStats, of_the_client_are_reset_in_parts)
{
    using rtrs_clt::Stats;
    std::optional<Stats> stats;
    run(a, [&] { ASSERT_TRUE(stats.emplace().make()); });
    std::map<std::string, std::function<std::uint64_t()>> parts{
        {"requests", [&] { return stats->read(Stats::reads) + stats->read(Stats::read_bytes) + stats->read(Stats::writes) +
                                  stats->read(Stats::write_bytes) + stats->read(Stats::failovers); }},
        {"completions", [&] { return stats->read(Stats::completed) + stats->read(Stats::handled) + stats->most_at_once(); }},
        {"latencies", [&] {
            std::uint64_t sum = stats->longest_ns();
            for (unsigned i = 0; i < Stats::latencies; i++)
                sum += stats->read(Stats::latency_of_reads + i) + stats->read(Stats::latency_of_writes + i);
            return sum;
        }},
        {"lists", [&] {
            std::uint64_t sum = 0;
            for (unsigned cpu = 0; cpu < stats->cpus(); cpu++)
                for (auto &list : stats->of_cpu(cpu).lists)
                    sum += list.load_relaxed();
            return sum;
        }},
        {"migrations", [&] {
            std::uint64_t sum = 0;
            for (unsigned cpu = 0; cpu < stats->cpus(); cpu++)
                sum += stats->of_cpu(cpu).migrated_from.load_relaxed() + stats->of_cpu(cpu).migrated_to.load_relaxed();
            return sum;
        }},
        {"reconnects", [&] { return stats->connects.load_relaxed() + stats->failed_connects.load_relaxed(); }},
    };
    auto fill = [&] {
        for (unsigned cpu = 0; cpu < stats->cpus(); cpu++) {
            stats->request(cpu, true, 10, cpu);
            stats->request(cpu, false, 10, 33);
            stats->completions(2, cpu, (cpu + 1) % stats->cpus());
        }
        for (std::uint64_t time_ns : {1ull, 100'000'000'000ull}) {
            stats->ended(true, time_ns);
            stats->ended(false, time_ns);
        }
        stats->failed_over();
        stats->connects.fetch_add(1);
        stats->failed_connects.fetch_add(1);
    };
    const std::pair<const char *, void (Stats::*)()> resets[] = {
        {"requests", &Stats::reset_requests},   {"completions", &Stats::reset_completions},
        {"latencies", &Stats::reset_latencies}, {"lists", &Stats::reset_lists},
        {"migrations", &Stats::reset_migrations}, {"reconnects", &Stats::reset_reconnects},
        {"all", &Stats::reset_all},
    };
    run(a, [&] {
        for (auto [name, reset] : resets) {
            fill();
            std::map<std::string, std::uint64_t> before;
            for (auto &[part, sum] : parts)
                before[part] = sum();
            ((*stats).*reset)();
            for (auto &[part, sum] : parts)
                EXPECT_EQ(sum(), name == part || name == std::string("all") ? 0 : before[part]) << name << ": " << part;
        }
    });
    run(a, [&] { stats.reset(); });
}

INSTANTIATE_TEST_SUITE_P(Seeds, RtrsStats, ::testing::Range(1, 6));

} // namespace
