// SPDX-License-Identifier: GPL-2.0
// How long the RTRS client waits: for a server while a path is made, for the next attempt, for the end of a path at the server.
#include "rtrs_clt_unanswered_test.h"

namespace {

class RtrsClientTimes : public RtrsClientUnanswered {
protected:
    static constexpr std::uint64_t kMs = sim::kMillisecond;
};

TEST_P(RtrsClientTimes, five_seconds_for_each_step_of_a_path)
{
    load();
    serve();
    server.silent_info = true;
    std::uint64_t begun = world.now_ns();
    run(a, [&] { EXPECT_EQ(try_open(), -KAPI_ETIMEDOUT); });
    EXPECT_GE(world.now_ns() - begun, 5 * kSecond);
    EXPECT_LT(world.now_ns() - begun, 5500 * kMs);
    server.silent_info = false;
    server.poll_ns = 4 * kSecond; // of which there are three or four, each of which has its time
    run(a, [&] { EXPECT_EQ(try_open(), 0); });
    server.poll_ns = kMs;
}

TEST_P(RtrsClientTimes, two_seconds_for_an_address_that_does_not_answer)
{
    ready();
    std::uint64_t begun = world.now_ns();
    EXPECT_LT(put(root + "add_path", "ip:10.0.0.99"), 0);
    EXPECT_GE(world.now_ns() - begun, 1900 * kMs);
    EXPECT_LT(world.now_ns() - begun, 3 * kSecond);
}

/** Twice as long after each, up to the limit, and up to a quarter more or less. */
TEST_P(RtrsClientTimes, between_attempts)
{
    ready();
    server.reject = KAPI_EBUSY;
    run(b, [&] { server.disconnect_all(); });
    std::uint64_t last = world.now_ns(), least = ~0ull, most = 0;
    for (unsigned n = 0; n < 60; n++) {
        unsigned before = server.asked;
        ASSERT_TRUE(world.run_until([&] { return server.asked > before; }, 5 * kSecond));
        std::uint64_t delay = world.now_ns() - last, nominal = std::min(500u << std::min(n, 2u), 2000u) * kMs;
        last += delay;
        EXPECT_GE(delay, nominal * 3 / 4) << n;
        EXPECT_LT(delay, nominal * 5 / 4 + 400 * kMs) << n; // until the server was asked
        if (n >= 2)
            least = std::min(least, delay), most = std::max(most, delay);
    }
    EXPECT_LT(least, 1600 * kMs) << "the clients of a server do not come all at once";
    EXPECT_GT(most, 2400 * kMs);
}

TEST_P(RtrsClientTimes, a_path_whose_server_was_silent_is_as_good_as_a_new_one)
{
    ready();
    for (unsigned round = 0; round < 3; round++) {
        server.mute = true;
        ASSERT_TRUE(world.run_until([&] { return links == std::vector<int>{0}; }, 6 * kSecond));
        server.mute = false;
        ASSERT_TRUE(world.run_until([&] { return links == std::vector<int>({0, 1}); }, 10 * kSecond));
        world.run_for(10 * kSecond);
        EXPECT_EQ(links.size(), 2u) << "it stays";
        links.clear();
    }
}

/** It does not end a path for the question of the client, as the kernel's own. */
TEST_P(RtrsClientTimes, half_a_second_for_the_end_of_a_path_at_the_server)
{
    ready(2);
    Ended ended;
    begin_over_first(ended);
    server.on_request = nullptr;
    server.poll_ns = 3 * kSecond; // so long it does not answer the request to disconnect
    world.run_for(kMs);
    std::uint64_t begun = world.now_ns();
    world.spawn(a, "disconnect", [&] { EXPECT_EQ(sim::sysfs_write(path(0) + "disconnect", "1"), 0); });
    ASSERT_TRUE(until(ended, 10 * kSecond));
    server.poll_ns = kMs;
    EXPECT_EQ(ended.error, 0);
    EXPECT_GE(server.requests.back().came_ns - begun, 500 * kMs);
    EXPECT_LT(server.requests.back().came_ns - begun, 1100 * kMs) << "a question that is under way then may end first";
    give_all();
}

/** The service connection of the next path has the next number. */
TEST_P(RtrsClientTimes, a_late_request_ends_no_other_path)
{
    ready(2);
    swallow("kept");
    EXPECT_EQ(put(root + "mp_policy", "rr"), 0);
    std::vector<Ended> ended(2);
    run(a, [&] {
        for (Ended &one : ended) {
            one.data = contents(100, 1);
            permits.push_back(rtrs_clt_core_get_permit(session, 1, 1));
            EXPECT_EQ(begin(permits.back(), one, false, "kept"), 0);
        }
    });
    ASSERT_TRUE(world.run_until([&] { return swallowed.size() == 2; }, kSecond));
    auto of_first = std::ranges::find_if(swallowed, [&](const auto &request) { return path_of(request) == 0; });
    ASSERT_NE(of_first, swallowed.end());
    run(b, [&] { server.answer(*of_first->on, of_first->chunk, 0); });
    world.run_for(900 * kMs);
    EXPECT_EQ(put(root + "io_timeout_ms", "1000"), 0);
    world.run_for(3 * kSecond);
    EXPECT_TRUE(ended[0].done && ended[1].done);
    EXPECT_EQ(ended[0].error + ended[1].error, -KAPI_ETIMEDOUT);
    EXPECT_EQ(get(path(0) + "stats/reconnects"), "1 0\n");
    EXPECT_NE(get(path(1) + "stats/reconnects"), "1 0\n");
    give_all();
}

/** The service connection of the next path has the next number. */
TEST_P(RtrsClientTimes, the_end_of_a_path_is_none_of_requests_over_another)
{
    ready(2);
    swallow("kept");
    EXPECT_EQ(put(root + "mp_policy", "rr"), 0);
    std::vector<Ended> ended(2);
    std::vector<rtrs_clt_chunk *> taken(2);
    run(a, [&] {
        for (unsigned i = 0; i < 2; i++) {
            ended[i].data = contents(100, i);
            taken[i] = rtrs_clt_core_get_permit(session, 1, 1);
            EXPECT_EQ(begin(taken[i], ended[i], false, "kept"), 0);
        }
    });
    ASSERT_TRUE(world.run_until([&] { return swallowed.size() == 2; }, kSecond));
    EXPECT_NE(path_of(swallowed[0]), path_of(swallowed[1]));
    std::erase_if(swallowed, [&](const auto &request) { return path_of(request) == 0; });
    EXPECT_EQ(put(path(0) + "disconnect", "1"), 0);
    ASSERT_TRUE(world.run_until([&] { return swallowed.size() == 2; }, 5 * kSecond)) << "one goes to the other path";
    world.run_for(kSecond);
    EXPECT_EQ(swallowed.size(), 2u);
    EXPECT_EQ(get(path(1) + "stats/reconnects"), "1 0\n");
    run(b, [&] {
        for (auto &request : swallowed)
            server.answer(*request.on, request.chunk, 0);
    });
    for (Ended &one : ended) {
        EXPECT_TRUE(until(one, kSecond));
        EXPECT_EQ(one.error, 0);
        EXPECT_EQ(one.times, 1u);
    }
    run(a, [&] {
        for (auto *one : taken)
            rtrs_clt_core_put_permit(session, one);
    });
}

/** It lives, and may stand still for any time before that. */
TEST_P(RtrsClientTimes, for_a_server_that_has_no_receives__as_long_as_it_takes)
{
    server.geometry = *rtrs::Geometry::create(128, 8192);
    ready();
    EXPECT_EQ(put(root + "heartbeat_interval_ms", "60000"), 0);
    server.poll_ns = 20 * kSecond; // then it takes what it has received, and can receive more
    world.run_for(kMs);
    std::vector<Ended> ended(100);
    std::vector<rtrs_clt_chunk *> taken;
    run(a, [&] {
        for (auto &one : ended) {
            one.data = contents(100, 1);
            taken.push_back(rtrs_clt_core_get_permit(session, 1, 1));
            EXPECT_EQ(begin(taken.back(), one, false, "block"), 0);
        }
    });
    EXPECT_TRUE(world.run_until([&] { return std::ranges::all_of(ended, &Ended::done); }, 50 * kSecond));
    server.poll_ns = kMs;
    EXPECT_TRUE(std::ranges::all_of(ended, [](const Ended &one) { return one.error == 0; }));
    EXPECT_EQ(get(path() + "stats/reconnects"), "1 0\n");
    run(a, [&] {
        for (auto *one : taken)
            rtrs_clt_core_put_permit(session, one);
    });
}

/** Four times an interval and one: it may have stood still for that long. */
TEST_P(RtrsClientTimes, a_host_that_stands_still_for_three_and_a_half_seconds_loses_no_path)
{
    ready();
    EXPECT_EQ(write("block", contents(4096, 1)), 0);
    world.run_for(kMs);
    b.pause(3500 * kMs, false);
    EXPECT_EQ(write("block", contents(4096, 2)), 0);
    world.run_for(5 * kSecond);
    EXPECT_EQ(get(path() + "stats/reconnects"), "1 0\n");
}

INSTANTIATE_TEST_SUITE_P(Seeds, RtrsClientTimes, ::testing::Range(1, 3));

} // namespace
