// SPDX-License-Identifier: GPL-2.0
// What happens at the moment at which a path of the RTRS client comes up or goes.
#include "rtrs_clt_unanswered_test.h"

namespace {

class RtrsClientReturn : public RtrsClientUnanswered {
protected:
    static constexpr unsigned kSenders = 8;

    /** Each sends one request as soon as there is a path. */
    void spawn_senders()
    {
        for (unsigned i = 0; i < kSenders; i++) {
            ended[i].data = contents(100, i);
            permits.push_back(permit());
            world.spawn(a, "sender", [this, i] {
                while (begin(permits[i], ended[i], false, "late") == -KAPI_ECONNABORTED)
                    world.sleep(world.random().below(sim::kMicrosecond));
            });
        }
    }

    std::vector<Ended> ended{kSenders};
};

// That a path returns says that nothing is left at the server of what was sent over it before, but not of this.
TEST_P(RtrsClientReturn, a_request_that_is_sent_at_once_keeps_its_chunk)
{
    ready();
    EXPECT_EQ(put(root + "io_timeout_ms", "1000"), 0);
    swallow("late");
    EXPECT_EQ(put(path() + "disconnect", "1"), 0);
    world.run_for(kSecond);
    spawn_senders();
    EXPECT_EQ(put(path() + "reconnect", "1"), 0);
    ASSERT_TRUE(world.run_until([&] { return swallowed.size() == kSenders; }, kSecond));
    server.reject = KAPI_EBUSY;
    for (Ended &one : ended) {
        ASSERT_TRUE(until(one, 5 * kSecond));
        EXPECT_EQ(one.error, -KAPI_ETIMEDOUT);
    }
    give_all();
    EXPECT_EQ(free_permits(), depth() - kSenders);
}

// The server needs a moment to end the old path, too. At times it needs longer, and refuses the first attempt.
TEST_P(RtrsClientReturn, is_0_3_seconds_after_the_end)
{
    ready();
    std::uint64_t fastest_ns = ~0ull;
    for (unsigned round = 0; round < 5; round++) {
        EXPECT_EQ(put(path() + "disconnect", "1"), 0);
        std::uint64_t begun = world.now_ns();
        EXPECT_EQ(put(path() + "reconnect", "1"), 0);
        fastest_ns = std::min(fastest_ns, world.now_ns() - begun);
    }
    EXPECT_GE(fastest_ns, 290 * sim::kMillisecond);
    EXPECT_LT(fastest_ns, 400 * sim::kMillisecond);
}

// As that of a client with many processors may be, whose connections are made one after the other.
TEST_P(RtrsClientReturn, a_server_is_slow_with_each_connection)
{
    load();
    serve();
    server.change_acceptance = [&](rtrs::wire::ConnectResponse &) { world.sleep(1500 * sim::kMillisecond); };
    std::uint64_t begun = world.now_ns();
    open();
    EXPECT_GT(world.now_ns() - begun, 7 * kSecond);
    server.change_acceptance = nullptr;
    EXPECT_EQ(write("block", contents(100, 1)), 0);
}

// But not for ever. What it has accepted before shows nothing.
TEST_P(RtrsClientReturn, a_server_stops_in_between)
{
    load();
    serve();
    unsigned accepted = 0;
    server.change_acceptance = [&](rtrs::wire::ConnectResponse &) { world.sleep(accepted++ < 2 ? 0 : 20 * kSecond); };
    std::uint64_t begun = world.now_ns();
    run(a, [&] { EXPECT_EQ(try_open(), -KAPI_ETIMEDOUT); }, 20 * kSecond);
    EXPECT_LT(world.now_ns() - begun, 6 * kSecond);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RtrsClientReturn, ::testing::Range(1, 11));

} // namespace
