// SPDX-License-Identifier: GPL-2.0
// What bounds the RTRS server: parameters, small devices, memory; and devices that copy, or do nothing any more.
#include "drivers/infiniband/ulp/rtrs/server/context.h"
#include "kapi/sim/slow.h"
#include "kapi/sim/sysfs.h"
#include "kapi/sim/threads.h"
#include "rtrs_srv_test.h"

#include <algorithm>

namespace {

class SrvLimits : public SrvTest {
protected:
    void serve_some(SrvPath &path)
    {
        write(path, 1, 0, contents(900, 1), "wx");
        EXPECT_EQ(answer(path, 0), 0);
        read(path, 1, 1, 900, "rx");
        EXPECT_EQ(answer(path, 1), 0);
        EXPECT_TRUE(path.fetched(1, 900) == contents(900, 1));
    }
};
INSTANTIATE_TEST_SUITE_P(Seeds, SrvLimits, ::testing::Range(1, 4));

TEST_P(SrvLimits, parameters)
{
    struct {
        long depth, chunk;
        int error;
    } const rows[] = {
        {512, 131072, 0},
        {2048, 131072, 0},
        {1, 8192, 0},
        {65535, 8192, -KAPI_EINVAL},
        {0, 131072, -KAPI_EINVAL},
        {-1, 131072, -KAPI_EINVAL},
        {65536, 131072, -KAPI_EINVAL},
        {4096, 131072, -KAPI_EINVAL},
        {512, 1 << 20, -KAPI_EINVAL},
        {512, 4096, -KAPI_EINVAL},
        {512, 100000, -KAPI_EINVAL},
        {512, -8192, -KAPI_EINVAL},
    };
    for (const auto &row : rows)
        run(b, [&] {
            rtrs_srv_core_params params{row.chunk, row.depth, 1};
            EXPECT_EQ(init(params), row.error) << row.depth << " of " << row.chunk;
            if (module) {
                EXPECT_TRUE(b.start_unload(*module));
                rtrs_srv_core_exit();
                b.unload_done(*std::exchange(module, nullptr));
            }
        });
}

TEST_P(SrvLimits, answers_wait_for_room_in_a_small_send_queue)
{
    run(b, [&] { sim::unplug_rdma(*dev_b); });
    dev_b = &sim::plug_rdma(b.initial_net(), "small", 2, [](kapi_rdma_attrs &attrs) { attrs.max_wr = 64; });
    for (bool always_invalidate : {true, false}) {
        load(always_invalidate, 48);
        establish(first);
        user.keeps = true;
        user.calls.clear();
        for (unsigned chunk = 0; chunk < 48; chunk++)
            read(first, 1, chunk, 300, "rx");
        ASSERT_TRUE(wait([&] { return user.calls.size() == 48; }));
        user.disk["x"] = contents(300, 9);
        run(b, [&] {
            for (const auto &call : user.calls)
                user.answer(call);
        });
        for (unsigned chunk = 0; chunk < 48; chunk++) {
            EXPECT_EQ(answer(first, chunk), 0);
            EXPECT_TRUE(first.fetched(chunk, 300) == contents(300, 9));
        }
        drop(first);
        unload();
    }
}

TEST_P(SrvLimits, memory_that_clients_make_the_host_hold)
{
    load(true);
    unload();
    b.total_memory = 2 * (kDepth * kChunk + 1000); // of which half is for clients: not enough
    load(true);
    EXPECT_EQ(rejected(ask(first, request(0, 1))), KAPI_ENOMEM);
    EXPECT_EQ(std::count(b.log.begin(), b.log.end(),
                         "rtrs_server: a client is refused: there is no memory, or clients have all that they may have"), 1);
    EXPECT_TRUE(wait([&] { return b.live_rdma["queue pair"] == 0; }));
    unload();
    drop(first);
    b.total_memory = 2 * 4'000'000; // for two sessions
    load(true);
    unsigned served = 0;
    for (unsigned char i = 0; i < 8; i++)
        served += ask(i % 2 ? second : first, request(0, 1, i, static_cast<unsigned char>(100 + i))).established;
    EXPECT_GE(served, 1u);
    EXPECT_LT(served, 8u);
}

/** As Soft-RoCE has them: in rings of powers of two, and longer than it is asked for, so that what is held for it has room. */
TEST_P(SrvLimits, queues_are_counted_as_the_device_has_them)
{
    auto left = [&] {
        rtrs_srv::Budget &budget = rtrs_srv::Module::get().budget;
        std::uint64_t fits = 0;
        for (std::uint64_t step = b.total_memory; step; step /= 2)
            if (budget.take(fits + step)) {
                budget.give(fits + step);
                fits += step;
            }
        return fits;
    };
    b.total_memory = 1 << 30;
    load(true, 103); // of 104 receives and 516 sends: the least beyond a power of two, as twice as many are
    EXPECT_TRUE(ask(first, request(0, 2)).established);
    std::uint64_t before = 0, after = 0;
    run(b, [&] { before = left(); });
    EXPECT_TRUE(ask(first, request(1, 2)).established);
    run(b, [&] { after = left(); });
    EXPECT_EQ(before - after, 2048 * 256 + 516 * (88 + 16) + 128 * 64 + 2048 * 128u) << "sends, held ones, receives, completions";
}

/** There is no memory for its chunks, which is found out with the last of three that were asked for: the server refuses each. */
TEST_P(SrvLimits, a_path_that_fails_has_all_its_connections_refused)
{
    b.total_memory = 2 * (kDepth * kChunk + 1000); // of which half is for clients: not enough
    load(true);
    run(b, [] { sim::leave_one_thread(*rtrs_srv::Module::get().workqueue); });
    sim::stand_still_after("rtrs_srv path", 100 * sim::kMillisecond); // when the first one has its place
    for (unsigned i = 0; i < 3; i++)
        begin(first, request(i, 3));
    world.run_for(50 * sim::kMillisecond);
    sim::stand_still_after(nullptr, 0);
    std::vector<int> errors;
    for (auto &link : first.links) {
        ASSERT_TRUE(wait([&] { return link->end.has_value(); }));
        EXPECT_FALSE(link->data.empty()) << "the server itself does";
        errors.push_back(rejected(*link));
    }
    EXPECT_EQ(errors, (std::vector<int>{KAPI_ECONNRESET, KAPI_ECONNRESET, KAPI_ENOMEM}));
}

/** Beyond that a client is refused as it is when its session is ending: it tries again. */
TEST_P(SrvLimits, paths_of_a_session)
{
    load(true);
    std::vector<std::string> from;
    for (unsigned i = 0; i <= rtrs::max_paths; i++) {
        from.push_back("10.0.0." + std::to_string(100 + i));
        a.initial_net().add(sim::address(from.back().c_str()));
    }
    for (unsigned i = 0; i <= rtrs::max_paths; i++) {
        first.from = from[i].c_str();
        int expected = i < rtrs::max_paths ? 0 : KAPI_ECONNRESET;
        ASSERT_EQ(rejected(ask(first, request(0, 2, static_cast<unsigned char>(i), 100, i == 0))), expected) << i;
    }
}

/** More than are placed at once. */
TEST_P(SrvLimits, closing_does_not_wait_for_connections_that_wait_for_the_end_of_a_path)
{
    constexpr unsigned kWaiting = 40;
    load(true);
    establish(first);
    keep_write(first);
    drop(first);
    world.run_for(sim::kSecond);
    SrvPath many(a, "10.0.0.1", "10.0.0.2");
    for (unsigned i = 0; i < kWaiting; i++)
        begin(many, request(0, 1, static_cast<unsigned char>(2 + i)));
    world.run_for(sim::kSecond / 10);
    const auto before = b.works_run;
    auto closes = world.spawn(b, "closes", [&] { rtrs_srv_core_close(std::exchange(server, nullptr)); });
    auto works = [&] { return b.works_run - before; };
    auto refused = [&] { return std::ranges::all_of(many.links, [](const auto &link) { return link->end.has_value(); }); };
    EXPECT_TRUE(wait([&] { return refused() || works() >= 100; }));
    world.run_for(sim::kSecond);
    EXPECT_TRUE(refused());
    EXPECT_LT(works(), 100u);
    EXPECT_FALSE(closes->is_done()) << "the user still has a request";
    answer_call();
    EXPECT_TRUE(wait([&] { return closes->is_done(); }));
    drop(many);
}

TEST_P(SrvLimits, other_ports_and_namespaces)
{
    kapi_net &other = b.add_net();
    load(true);
    rtrs_srv_core *more = nullptr;
    run(b, [&] {
        EXPECT_EQ(rtrs_srv_core_open(&b.initial_net(), &SrvUser::ops, &user, kPort, &more), -KAPI_EADDRINUSE);
        ASSERT_EQ(rtrs_srv_core_open(&other, &SrvUser::ops, &user, kPort, &more), 0) << "a namespace has its own ports";
    });
    establish(first);
    close();
    EXPECT_TRUE(ends(first));
    drop(first);
    EXPECT_FALSE(ask(first, request(0, 1)).established) << "the one that is left is of another namespace";
    run(b, [&] { rtrs_srv_core_close(more); });
}

TEST_P(SrvLimits, a_host_without_IPv6)
{
    b.initial_net().ipv6 = false;
    load(true);
    establish(first);
    serve_some(first);
}

TEST_P(SrvLimits, a_device_that_copies)
{
    sim::make_bounce(*dev_b);
    for (bool always_invalidate : {true, false}) {
        load(always_invalidate);
        establish(first);
        for (unsigned i = 0; i < 3; i++)
            serve_some(first);
        drop(first);
        unload();
    }
}

TEST_P(SrvLimits, a_device_that_does_nothing_any_more)
{
    load(true);
    establish(first);
    establish(second, 2, 2);
    keep_write(first);
    sim::make_stuck(*dev_b);
    answer_call();
    EXPECT_TRUE(wait([&] { return b.live_rdma["queue pair"] == 2; }, 20 * sim::kSecond)) << "each waits, but not ten seconds";
    world.run_for(150 * sim::kSecond); // no answer to its heartbeats
    EXPECT_EQ(user.links.size(), 1u);
    user.keeps = false;
    serve_some(second);
    drop(first);
    drop(second);
    unload();
    b.crash(); // what was posted is never freed
    server = nullptr;
}

// The client is to try its other paths meanwhile.
TEST_P(SrvLimits, a_device_that_does_nothing_any_more__delays_no_notice_of_the_end)
{
    load(true);
    establish(first);
    sim::make_stuck(*dev_b);
    auto ends = world.spawn(b, "disconnect", [] {
        sim::sysfs_write("/sys/class/rtrs-server/session/paths/ip:10.0.0.1@ip:10.0.0.2/disconnect", "1\n");
    });
    EXPECT_TRUE(wait([&] {
        return std::all_of(first.links.begin(), first.links.end(), [](const auto &link) { return link->end.has_value(); });
    }, sim::kSecond));
    EXPECT_TRUE(wait([&] { return ends->is_done(); }, 60 * sim::kSecond));
    drop(first);
    unload();
    b.crash(); // as above
    server = nullptr;
}

/** A request is about to begin: the invalidation of its key never completes, and the user never has it. */
TEST_P(SrvLimits, a_device_that_does_nothing_any_more_with_a_request_that_has_just_come)
{
    load(true);
    establish_both();
    user.keeps = true;
    write(second, 1, 1, "other", "wy");
    ASSERT_TRUE(wait([&] { return user.calls.size() == 1; }));
    world.run_for(sim::kMillisecond * 100);
    auto calls = b.faults().count;
    write(first, 1, 0, "data", "wx");
    ASSERT_TRUE(wait([&] { return b.faults().count == calls + 2; })) << "the next receive, and the invalidation";
    sim::make_stuck(*dev_b);
    EXPECT_TRUE(wait([&] { return b.live_rdma["queue pair"] == 2; }, 150 * sim::kSecond));
    EXPECT_EQ(user.calls.size(), 1u);
    answer_call();
    EXPECT_EQ(answer(second, 1), 0);
    drop(first);
    drop(second);
    unload();
    b.crash(); // as above
    server = nullptr;
}

} // namespace
