// SPDX-License-Identifier: GPL-2.0
// A machine whose connections have nothing to do does nothing: TCP probes the peer now and then, and that is
// all that happens.
#include "rds_test.h"

#include "selftests/sim/wire_peer.h"

namespace {

constexpr std::uint64_t kSettled = 90 * sim::kSecond; // for what follows a message, up to giving up an answer
constexpr std::uint64_t kIdle = 600 * sim::kSecond;
// What TCP's keepalive costs one end of a stream: a probe each five seconds, of three events with its answer.
constexpr std::uint64_t kKeepalive = kIdle / (5 * sim::kSecond) * 3;

// The collector looks once a minute whether a connection is used, in so many events at either machine.
constexpr std::uint64_t kLooks = kIdle / (60 * sim::kSecond) * 2 * 8;

class Idle : public RdsTest {
protected:
    Idle() // what is not used would end in this time
    {
        for (RdsHost *host : {&host_a, &host_b})
            rds_net_sysctl(host->net().rds)->idle_connection_ms = 0;
    }
    /** What happens anywhere in the world from now on. */
    std::uint64_t events_while_idle()
    {
        world.run_for(kSettled);
        std::uint64_t before = world.trace().count();
        world.run_for(kIdle);
        return world.trace().count() - before;
    }
};

TEST_F(Idle, no_connection)
{
    EXPECT_EQ(events_while_idle(), 0u);
}

TEST_F(Idle, paths_to_one_of_ours)
{
    RdsSocket from(host_a), to(host_b);
    run(b, [&] {
        ASSERT_EQ(to.open(), 0);
        ASSERT_EQ(to.bind(sim::address("10.0.0.2", 7)), 0);
    });
    run(a, [&] {
        ASSERT_EQ(from.open(), 0);
        ASSERT_EQ(from.bind(sim::address("10.0.0.1", 8)), 0);
        EXPECT_EQ(send(from, "x", "10.0.0.2", 7), 1);
    });
    run(b, [&] { EXPECT_EQ(receive(to), "x"); });
    EXPECT_LE(events_while_idle(), 8 * 2 * kKeepalive + kLooks);
    run(a, [&] { from.close(); });
    run(b, [&] { to.close(); });
}

// It speaks RDS, answers no probe and so is taken for another's.
TEST_F(Idle, paths_to_another)
{
    RdsSocket to(host_b);
    run(b, [&] {
        ASSERT_EQ(to.open(), 0);
        ASSERT_EQ(to.bind(sim::address("10.0.0.2", 7)), 0);
    });
    run(a, [&] { EXPECT_TRUE(host_a.unload_soon()); });
    WireStream stream(a);
    run(a, [&] {
        ASSERT_TRUE(stream.connect(sim::address("10.0.0.1", 0), sim::address("10.0.0.2", 16385)));
        ASSERT_TRUE(stream.message(1, 9, 7, "x"));
    });
    run(b, [&] { EXPECT_EQ(receive(to), "x"); });
    EXPECT_LE(events_while_idle(), kKeepalive + kLooks);
    run(a, [&] { stream.close(false); });
    run(b, [&] { to.close(); });
}

} // namespace
