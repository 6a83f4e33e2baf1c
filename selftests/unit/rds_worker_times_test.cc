// SPDX-License-Identifier: GPL-2.0
// How long a path's worker waits for what: connections, their ends, and for those who may want them.
#include "rds_worker_test.h"

#include <kapi/errno.h>

namespace {

constexpr std::uint64_t kSecond = sim::kSecond;

class PathTimes : public PathWorker {
protected:
    PathTimes() { set_delays(1, 1); }
    void in_node(const std::function<void()> &body) { run(a, body, 3600 * kSecond); }
    void set_delays(unsigned long shortest_ms, unsigned long longest_ms)
    {
        auto *settings = rds_net_sysctl(host.net().rds);
        settings->reconnect_min_delay_ms = shortest_ms;
        settings->reconnect_max_delay_ms = longest_ms;
    }
    /** How long after this moment the next attempt to connect begins. */
    std::uint64_t next_attempt_after(std::uint64_t limit_ns)
    {
        std::uint64_t began = world.now_ns();
        std::size_t before = noted.connected_ns.size();
        while (noted.connected_ns.size() == before && world.now_ns() - began < limit_ns)
            world.sleep(kMs);
        return noted.connected_ns.size() == before ? ~0ull : noted.connected_ns[before] - began;
    }
};

// "Then a new attempt, so that a healed link is noticed soon."
TEST_F(PathTimes, attempt_without_an_answer__ends_after_three_seconds)
{
    in_node([&] {
        ASSERT_TRUE(path().enqueue(message()));
        path().notify(RDS_PATH_SEND);
        world.sleep(kMs);
        ASSERT_EQ(noted.connected_ns.size(), 1u);
        std::uint64_t took = next_attempt_after(10 * kSecond);
        EXPECT_GE(took, 2950 * kMs);
        EXPECT_LE(took, 3050 * kMs);
    });
}

// A short stream was taken as a request: the peer connects, or did not hear it.
TEST_F(PathTimes, request_that_was_heard__is_repeated_after_a_second)
{
    in_node([&] {
        noted.established = 0;
        ASSERT_TRUE(path().enqueue(message()));
        path().notify(RDS_PATH_SEND);
        world.sleep(kMs);
        path().notify(RDS_PATH_ESTABLISHED);
        std::uint64_t took = next_attempt_after(10 * kSecond);
        EXPECT_GE(took, 950 * kMs);
        EXPECT_LE(took, 1050 * kMs);
    });
}

// What the peer has yet to close is looked after twenty times in a second; what waits for memory, once.
TEST_F(PathTimes, stream_that_closes__is_looked_after)
{
    in_node([&] {
        for (auto [closing, apart] : {std::pair{RDS_CLOSING, 50 * kMs}, {RDS_CLOSE_UNREAD, 1000 * kMs}}) {
            come_up();
            noted.close = closing;
            path().notify(RDS_PATH_LOST);
            world.sleep(kMs);
            noted.closed_ns.clear();
            world.sleep(10 * kSecond);
            EXPECT_GE(noted.closed_ns.size(), 9 * kSecond / apart) << closing;
            EXPECT_LE(noted.closed_ns.size(), 10 * kSecond / apart) << closing;
            noted.close = RDS_CLOSED;
            path().notify(RDS_PATH_LOST);
            world.sleep(kMs);
        }
    });
}

// A peer that requests a stream without having one of its own repeats that.
TEST_F(PathTimes, path_that_a_peer_requests__is_tried_for_five_seconds)
{
    in_node([&] {
        noted.connect = -KAPI_ECONNREFUSED;
        set_delays(100, 100);
        path().notify(RDS_PATH_WANTED);
        world.sleep(4500 * kMs);
        EXPECT_LE(next_attempt_after(kSecond), 200 * kMs);
        world.sleep(kSecond);
        EXPECT_EQ(next_attempt_after(20 * kSecond), ~0ull);
    });
}

// "A lost path is connected again as long as a message or a socket needs it, and otherwise for one minute."
TEST_F(PathTimes, path_that_was_lost__is_tried_for_a_minute)
{
    in_node([&] {
        come_up();
        noted.connect = -KAPI_ECONNREFUSED;
        set_delays(100, 100);
        path().notify(RDS_PATH_LOST);
        world.sleep(55 * kSecond);
        EXPECT_LE(next_attempt_after(kSecond), 200 * kMs);
        world.sleep(5 * kSecond);
        EXPECT_EQ(next_attempt_after(100 * kSecond), ~0ull);
    });
}

// A stream that is lost at once is another failure; one that lasted for a second is not, and is opened again soon.
TEST_F(PathTimes, back_off__begins_anew_after_a_stream_of_a_second)
{
    in_node([&] {
        set_delays(10, 100'000);
        ASSERT_TRUE(path().enqueue(message()));
        for (bool lasted : {false, true}) {
            noted.connect = -KAPI_ECONNREFUSED;
            path().notify(RDS_PATH_SEND);
            while (next_attempt_after(100 * kSecond) < 10 * kSecond)
                ;
            noted.connect = 0;
            ASSERT_LT(next_attempt_after(300 * kSecond), 300 * kSecond);
            path().notify(RDS_PATH_ESTABLISHED);
            world.sleep(lasted ? 1050 * kMs : 900 * kMs);
            ASSERT_TRUE(path().is_up());
            path().notify(RDS_PATH_LOST);
            std::uint64_t next = next_attempt_after(300 * kSecond);
            EXPECT_EQ(next < 50 * kMs, lasted) << next / kMs;
            path().notify(RDS_PATH_LOST);
            world.sleep(kMs);
        }
    });
}

} // namespace
