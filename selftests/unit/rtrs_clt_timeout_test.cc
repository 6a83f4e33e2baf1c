// SPDX-License-Identifier: GPL-2.0
// Requests of the RTRS client that are not answered: how long they may take, and when the server's chunk is used again.
#include "rtrs_clt_test.h"

namespace {

class RtrsClientTimeout : public RtrsClientTest {
protected:
    static constexpr std::uint64_t kSecond = sim::kSecond;

    /** The server takes requests with this message and does not answer them. */
    void swallow(const std::string &message)
    {
        server.on_request = [this, message](WireServer::Request &request) {
            if (request.message != message)
                return false;
            swallowed.push_back(request);
            return true;
        };
    }
    rtrs_clt_chunk *permit(bool wait = true)
    {
        rtrs_clt_chunk *taken = nullptr;
        run(a, [&] { taken = rtrs_clt_core_get_permit(session, 0, wait); });
        return taken;
    }
    void give(rtrs_clt_chunk *taken)
    {
        run(a, [&] { rtrs_clt_core_put_permit(session, taken); });
    }
    void begin_one(Ended &ended, const std::string &message, bool read = false)
    {
        ended.data = contents(4096, 1);
        ended.data.resize(4096);
        permits.push_back(permit());
        run(a, [&] { EXPECT_EQ(begin(permits.back(), ended, read, message), 0); });
    }
    /** Of two paths, the first one has it, and its answer does not come. */
    void begin_over_first(Ended &ended)
    {
        swallowed.clear();
        swallow("late");
        EXPECT_EQ(put(path(1) + "disconnect", "1"), 0);
        begin_one(ended, "late");
        EXPECT_TRUE(world.run_until([&] { return swallowed.size() == 1; }, kSecond));
        EXPECT_EQ(put(path(1) + "reconnect", "1"), 0);
    }
    /** It ends for its time, and the permits are given back. */
    void end_late(Ended &ended)
    {
        EXPECT_EQ(put(root + "io_timeout_ms", "1000"), 0);
        EXPECT_TRUE(until(ended, 5 * kSecond));
        EXPECT_EQ(ended.error, -KAPI_ETIMEDOUT);
        give_all();
    }
    bool until(Ended &ended, std::uint64_t limit_ns)
    {
        return world.run_until([&] { return ended.done; }, limit_ns);
    }
    void give_all()
    {
        for (auto *taken : std::exchange(permits, {}))
            give(taken);
    }
    /** How many permits there are at once. */
    unsigned free_permits()
    {
        std::vector<rtrs_clt_chunk *> taken;
        while (auto *one = permit(false))
            taken.push_back(one);
        for (auto *one : taken)
            give(one);
        return static_cast<unsigned>(taken.size());
    }
    unsigned depth() const { return server.geometry.queue_depth(); }
    /** The path that a request came over: 0 or 1. */
    unsigned path_of(const WireServer::Request &request)
    {
        kapi_cm_info info;
        kapi_cm_describe(request.on->cm, &info);
        return info.local.ip[14];
    }

    std::vector<WireServer::Request> swallowed;
    std::vector<rtrs_clt_chunk *> permits;
};

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
    EXPECT_TRUE(until(ended, 1200 * sim::kMillisecond));
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
    EXPECT_TRUE(until(late, 1200 * sim::kMillisecond));
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
    std::uint64_t begun = world.now_ns();
    EXPECT_EQ(write("block", contents(4096, 1)), -KAPI_ETIMEDOUT);
    EXPECT_LT(world.now_ns() - begun, 3100 * sim::kMillisecond);
}

TEST_P(RtrsClientTimeout, its_chunk_is_used_again_when_its_path_is_up_again)
{
    ready(2);
    EXPECT_EQ(put(root + "io_timeout_ms", "1000"), 0);
    swallow("late");
    Ended ended;
    begin_one(ended, "late");
    ASSERT_TRUE(world.run_until([&] { return !swallowed.empty(); }, kSecond));
    unsigned bad = path_of(swallowed[0]);
    server.reject = KAPI_EBUSY;
    ASSERT_TRUE(until(ended, 2 * kSecond));
    run(a, [&] { EXPECT_EQ(begin(permits[0], ended, false, "again"), -KAPI_EBUSY) << "its permit is of no use until then"; });
    give_all();
    for (unsigned i = 0; i < 3 * depth(); i++) {
        EXPECT_EQ(write("other", contents(100, i)), 0);
        EXPECT_NE(server.requests.back().chunk, swallowed[0].chunk) << "the server may still write from it to a disk";
    }
    EXPECT_EQ(free_permits(), depth() - 1);
    world.run_for(100 * kSecond);
    EXPECT_EQ(free_permits(), depth() - 1);
    server.reject = 0;
    EXPECT_EQ(put(path(bad) + "reconnect", "1"), 0);
    EXPECT_EQ(free_permits(), depth());
}

/** The server does not notice at once that a path has ended, and a path that was down before may be up sooner. */
TEST_P(RtrsClientTimeout, a_chunk_of_a_request_that_found_no_path_waits_as_well)
{
    ready(2);
    for (int way = 0; way < 3; way++) {
        SCOPED_TRACE(way);
        EXPECT_EQ(put(path(1) + "disconnect", "1"), 0);
        swallow("lost");
        Ended ended;
        begin_one(ended, "lost");
        world.run_for(sim::kMillisecond);
        EXPECT_EQ(put(path(0) + "disconnect", "1"), 0);
        ASSERT_TRUE(until(ended, kSecond));
        EXPECT_EQ(ended.error, -KAPI_ECONNABORTED);
        if (way == 1) {
            EXPECT_EQ(put(path(0) + "remove_path", "1"), 0);
        }
        EXPECT_EQ(put(path(1) + "reconnect", "1"), 0);
        give_all();
        EXPECT_EQ(free_permits(), depth() - 1);
        if (way == 1) {
            EXPECT_EQ(put(root + "add_path", path_name(0)), 0);
            EXPECT_EQ(free_permits(), depth() - 1) << "another path, in the same place";
            world.run_for(42 * kSecond);
            EXPECT_EQ(free_permits(), depth());
            continue;
        }
        if (way == 2) { // the path does not come back
            world.run_for(30 * kSecond);
            EXPECT_EQ(free_permits(), depth() - 1);
            world.run_for(12 * kSecond);
            EXPECT_EQ(free_permits(), depth());
        }
        EXPECT_EQ(put(path(0) + "reconnect", "1"), 0);
        EXPECT_EQ(free_permits(), depth());
    }
}

/** It went over a path that is removed while another one has it, which is the one that comes back. */
TEST_P(RtrsClientTimeout, a_path_that_was_removed_before_its_end_keeps_no_chunk)
{
    ready(2);
    for (bool added : {false, true}) {
        SCOPED_TRACE(added);
        EXPECT_EQ(put(root + "io_timeout_ms", "0"), 0);
        Ended ended;
        begin_over_first(ended);
        EXPECT_EQ(put(path(0) + "remove_path", "1"), 0);
        ASSERT_TRUE(world.run_until([&] { return swallowed.size() == 2; }, kSecond)) << "over the other path";
        if (added) {
            EXPECT_EQ(put(root + "add_path", path_name(0)), 0);
        }
        end_late(ended);
        EXPECT_EQ(put(path(1) + "reconnect", "1"), 0);
        EXPECT_EQ(free_permits(), depth() - 1) << "the server may not have noticed the removal";
        world.run_for(45 * kSecond);
        EXPECT_EQ(free_permits(), depth());
        if (!added) {
            EXPECT_EQ(put(root + "add_path", path_name(0)), 0);
        }
    }
}

/** Over one path first, which was lost and came back while another one had it: nothing of it is left at the server. */
TEST_P(RtrsClientTimeout, a_path_that_came_back_before_its_end_keeps_no_chunk)
{
    ready(2);
    Ended ended;
    begin_over_first(ended);
    EXPECT_EQ(put(path(0) + "disconnect", "1"), 0);
    ASSERT_TRUE(world.run_until([&] { return swallowed.size() == 2; }, kSecond)) << "over the other path";
    EXPECT_EQ(put(path(0) + "reconnect", "1"), 0);
    end_late(ended);
    EXPECT_EQ(put(path(1) + "reconnect", "1"), 0);
    EXPECT_EQ(free_permits(), depth());
}

/** Paths of a session have numbers, of which there are 128. */
TEST_P(RtrsClientTimeout, a_path_with_the_number_of_one_that_was_removed_is_not_waited_for)
{
    ready(2);
    Ended ended;
    begin_over_first(ended);
    for (int i = 0; i < 127; i++) {
        EXPECT_EQ(put(path(0) + "remove_path", "1"), 0);
        EXPECT_EQ(put(root + "add_path", path_name(0)), 0);
    }
    end_late(ended);
    EXPECT_EQ(put(path(1) + "reconnect", "1"), 0);
    world.run_for(45 * kSecond);
    EXPECT_EQ(free_permits(), depth());
}

TEST_P(RtrsClientTimeout, permits_come_back_although_no_path_does)
{
    ready();
    swallow("lost");
    std::vector<Ended> ended(depth());
    for (auto &one : ended)
        begin_one(one, "lost");
    server.reject = KAPI_EBUSY;
    run(b, [&] { server.disconnect_all(); });
    for (auto &one : ended) {
        ASSERT_TRUE(until(one, 10 * kSecond));
        EXPECT_EQ(one.error, -KAPI_ECONNABORTED);
    }
    give_all();
    world.run_for(30 * kSecond);
    EXPECT_EQ(free_permits(), 0u);
    world.run_for(15 * kSecond);
    EXPECT_EQ(free_permits(), depth()) << "who waits for one cannot be interrupted";
}

TEST_P(RtrsClientTimeout, permits_come_back_although_no_path_is_tried)
{
    ready();
    swallow("lost");
    Ended ended;
    begin_one(ended, "lost");
    world.run_for(sim::kMillisecond);
    EXPECT_EQ(put(path() + "disconnect", "1"), 0);
    ASSERT_TRUE(until(ended, kSecond));
    give_all();
    world.run_for(30 * kSecond);
    EXPECT_EQ(free_permits(), depth() - 1);
    world.run_for(15 * kSecond);
    EXPECT_EQ(free_permits(), depth());
}

TEST_P(RtrsClientTimeout, a_session_ends_with_chunks_that_are_kept)
{
    ready();
    EXPECT_EQ(put(root + "io_timeout_ms", "1000"), 0);
    swallow("late");
    server.reject = 0;
    std::string data = contents(100, 1);
    EXPECT_EQ(request(false, "late", data), -KAPI_ETIMEDOUT);
    std::uint64_t begun = world.now_ns();
    close();
    EXPECT_LT(world.now_ns() - begun, 2 * kSecond);
}

/** The time without a path counts from its beginning, not from that of one before. */
TEST_P(RtrsClientTimeout, a_request_waits_for_a_path_each_time)
{
    ready();
    EXPECT_EQ(put(root + "no_path_timeout_ms", "3000"), 0);
    EXPECT_EQ(put(path() + "disconnect", "1"), 0);
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
    EXPECT_GE(world.now_ns() - lost, 3 * kSecond);
    EXPECT_LT(world.now_ns() - lost, 3500 * sim::kMillisecond);
    give_all();
}

INSTANTIATE_TEST_SUITE_P(Seeds, RtrsClientTimeout, ::testing::Range(1, 5));

} // namespace
