// SPDX-License-Identifier: GPL-2.0
// How long requests of the RTRS client may be without an answer.
#include "rtrs_clt_unanswered_test.h"

namespace {

class RtrsClientTimeout : public RtrsClientUnanswered {};

TEST_P(RtrsClientTimeout, a_late_request_ends_and_its_path_is_connected_again)
{
    ready();
    EXPECT_EQ(put(root + "io_timeout_ms", "1500"), 0);
    for (bool read : {false, true}) {
        links.clear();
        swallow("late");
        std::uint64_t begun = world.now_ns();
        std::string data(5000, '-');
        EXPECT_EQ(request(read, "late", data), -KAPI_ETIMEDOUT);
        EXPECT_GE(world.now_ns() - begun, 1500 * sim::kMillisecond);
        EXPECT_LT(world.now_ns() - begun, 2200 * sim::kMillisecond) << "the server is given half a second to end its side";
        EXPECT_TRUE(data == std::string(5000, '-'));
        EXPECT_EQ(get(path() + "last_error"), std::to_string(-KAPI_ETIMEDOUT) + "\n");
        ASSERT_TRUE(world.run_until([&] { return links == std::vector<int>({0, 1}); }, 5 * kSecond));
    }
    EXPECT_EQ(write("block", contents(4096, 1)), 0);
    EXPECT_EQ(get(path() + "stats/reconnects"), "3 0\n");
}

TEST_P(RtrsClientTimeout, in_whichever_chunk_it_is)
{
    ready();
    EXPECT_EQ(put(root + "io_timeout_ms", "1500"), 0);
    for (unsigned i = 0; i < depth() - 1; i++)
        permits.push_back(permit());
    swallow("late");
    Ended ended;
    begin_one(ended, "late");
    EXPECT_TRUE(until(ended, 2200 * sim::kMillisecond));
    EXPECT_EQ(ended.error, -KAPI_ETIMEDOUT);
    give_all();
}

TEST_P(RtrsClientTimeout, without_a_limit_it_waits)
{
    ready();
    swallow("late");
    Ended ended;
    begin_one(ended, "late");
    world.run_for(100 * kSecond);
    EXPECT_FALSE(ended.done);
    run(b, [&] { server.answer(*swallowed[0].on, swallowed[0].chunk, 0); });
    EXPECT_TRUE(until(ended, kSecond));
    EXPECT_EQ(ended.error, 0);
    give_all();
}

TEST_P(RtrsClientTimeout, a_limit_that_is_set_meanwhile_holds_at_once)
{
    ready();
    EXPECT_EQ(put(root + "heartbeat_interval_ms", "60000"), 0);
    world.run_for(kSecond);
    swallow("late");
    Ended ended;
    begin_one(ended, "late");
    world.run_for(5 * kSecond);
    EXPECT_EQ(put(root + "io_timeout_ms", "6000"), 0);
    EXPECT_FALSE(ended.done);
    EXPECT_TRUE(until(ended, 1700 * sim::kMillisecond));
    EXPECT_EQ(ended.error, -KAPI_ETIMEDOUT);
    give_all();
}

TEST_P(RtrsClientTimeout, younger_ones_go_to_the_other_path_which_stays)
{
    ready(2);
    EXPECT_EQ(put(root + "io_timeout_ms", "2000"), 0);
    EXPECT_EQ(put(root + "mp_policy", "rr"), 0);
    std::optional<unsigned> bad;
    unsigned lost = 0;
    server.on_request = [&](WireServer::Request &request) {
        if (request.message == "late")
            bad = path_of(request);
        if (path_of(request) != bad)
            return false;
        lost++;
        return true;
    };
    Ended late, young[6];
    begin_one(late, "late");
    world.run_for(kSecond);
    for (auto &one : young)
        begin_one(one, "young");
    EXPECT_TRUE(until(late, 1700 * sim::kMillisecond));
    EXPECT_EQ(late.error, -KAPI_ETIMEDOUT);
    for (auto &one : young) {
        EXPECT_TRUE(until(one, kSecond));
        EXPECT_EQ(one.error, 0);
        EXPECT_EQ(one.times, 1u);
    }
    EXPECT_GT(lost, 1u) << "some went over that path";
    EXPECT_EQ(get(path(1 - *bad) + "stats/reconnects"), "1 0\n");
    EXPECT_TRUE(links.empty());
    give_all();
}

/** One that waits for a path is as late as one that was sent. */
TEST_P(RtrsClientTimeout, it_ends_also_while_it_waits_for_a_path)
{
    ready();
    EXPECT_EQ(put(root + "no_path_timeout_ms", "60000"), 0);
    EXPECT_EQ(put(root + "io_timeout_ms", "3000"), 0);
    EXPECT_EQ(put(path() + "disconnect", "1"), 0);
    ASSERT_TRUE(world.run_until([&] { return links == std::vector<int>{0}; }, kSecond));
    world.run_for(sim::kMillisecond); // until that call has returned
    std::uint64_t begun = world.now_ns();
    EXPECT_EQ(write("block", contents(4096, 1)), -KAPI_ETIMEDOUT);
    EXPECT_LT(world.now_ns() - begun, 3100 * sim::kMillisecond);
}

/** One that was sent is not sent again over the next path, for whose session at the server it was not made. */
TEST_P(RtrsClientTimeout, a_request_waits_for_a_path_once)
{
    ready();
    EXPECT_EQ(put(root + "no_path_timeout_ms", "3000"), 0);
    EXPECT_EQ(put(path() + "disconnect", "1"), 0);
    ASSERT_TRUE(world.run_until([&] { return links == std::vector<int>{0}; }, kSecond));
    world.run_for(sim::kMillisecond); // until that call has returned
    swallow("block");
    Ended ended;
    begin_one(ended, "block");
    world.run_for(2 * kSecond);
    EXPECT_EQ(put(path() + "reconnect", "1"), 0);
    ASSERT_TRUE(world.run_until([&] { return !swallowed.empty(); }, kSecond));
    std::uint64_t lost = world.now_ns();
    EXPECT_EQ(put(path() + "disconnect", "1"), 0);
    ASSERT_TRUE(until(ended, 10 * kSecond));
    EXPECT_EQ(ended.error, -KAPI_ECONNABORTED);
    EXPECT_LT(world.now_ns() - lost, kSecond);
    give_all();
}

/** Nothing goes to another path, so it does not matter whether the server has ended this one. */
TEST_P(RtrsClientTimeout, the_server_is_not_asked_for_the_end_of_a_path_whose_requests_are_all_late)
{
    ready(2);
    server.keeps_paths = KAPI_ECONNRESET;
    EXPECT_EQ(put(root + "io_timeout_ms", "1000"), 0);
    swallow("late");
    Ended ended;
    begin_one(ended, "late");
    ASSERT_TRUE(until(ended, 2 * kSecond));
    EXPECT_EQ(ended.error, -KAPI_ETIMEDOUT);
    EXPECT_EQ(server.queries, 0u);
    server.keeps_paths = 0;
    give_all();
}

TEST_P(RtrsClientTimeout, the_chunk_of_a_late_request_waits_for_no_path_but_its_own)
{
    ready(2);
    EXPECT_EQ(put(root + "io_timeout_ms", "1000"), 0);
    Ended ended;
    unsigned bad = begin_late(ended);
    server.reject = KAPI_EBUSY;
    ASSERT_TRUE(until(ended, 2 * kSecond));
    give_all();
    EXPECT_EQ(put(path(1 - bad) + "remove_path", "1"), 0);
    EXPECT_EQ(free_permits(), depth() - 1);
    server.reject = 0;
    EXPECT_EQ(put(path(bad) + "reconnect", "1"), 0);
    EXPECT_EQ(free_permits(), depth());
}

INSTANTIATE_TEST_SUITE_P(Seeds, RtrsClientTimeout, ::testing::Range(1, 5));

} // namespace
