// SPDX-License-Identifier: GPL-2.0
// Links that are cut and hosts that stop without notice: which peers are taken for dead, and how soon traffic resumes.
#include "rds_test.h"

#include <algorithm>

#include "kapi/sim/network.h"
#include "kapi/sim/tcp.h"
#include "net/rds/net.h"

namespace {

constexpr std::uint64_t kDeadPeer = 10 * sim::kSecond; // rds_tcp_dead_peer_ms
constexpr std::uint64_t kSlack = 2 * sim::kSecond;     // until the missing answers are noticed, and until the next look

class Outage : public RdsTest {
protected:
    explicit Outage(std::uint64_t seed = 1) : RdsTest(seed), from(host_a), to(host_b)
    {
        run(b, [&] {
            EXPECT_EQ(to.open(), 0);
            EXPECT_EQ(to.bind(sim::address("10.0.0.2", 4000)), 0);
        });
        run(a, [&] {
            EXPECT_EQ(from.open(), 0);
            EXPECT_EQ(from.bind(sim::address("10.0.0.1", 4000)), 0);
        });
        send_one("first");
        run(b, [&] { EXPECT_EQ(receive(to), "first"); });
    }
    ~Outage() override
    {
        world.network().heal_all();
        run(a, [&] { from.close(); });
        run(b, [&] { to.close(); });
    }

    void send_one(const std::string &text)
    {
        run(a, [&] { EXPECT_EQ(send(from, text, "10.0.0.2", 4000), static_cast<long>(text.size())); });
    }
    static kapi_u64 counted(RdsHost &host, rds::Stat stat)
    {
        return reinterpret_cast<rds::Net *>(host.net().rds)->counted(stat);
    }

    /** Has a stream of this machine nothing on its way and more to send? */
    bool meets_closed_window(const sim::Node &node)
    {
        const auto &tcbs = world.network().tcbs();
        return std::any_of(tcbs.begin(), tcbs.end(), [&](const sim::TcbRef &tcb) {
            return tcb->node == &node && tcb->una == tcb->next && tcb->next != tcb->write_seq;
        });
    }
    void fill_receiver()
    {
        const std::string large(256 * 1024, 'x');
        run(a, [&] {
            from.sk().sndbuf = 64 << 20;
            for (int i = 0; i < 40; i++) // the receiver's map comes too late to stop all of them
                send(from, large, "10.0.0.2", 4000, RDS_ABI_MSG_DONTWAIT);
        });
        EXPECT_TRUE(world.run_until([&] { return meets_closed_window(a); }, 10 * sim::kSecond));
    }

    RdsSocket from, to;
};

TEST_F(Outage, peer_that_answers_nothing_is_found_dead)
{
    world.network().cut(a, b);
    send_one("never arrives");
    world.run_for(kDeadPeer - sim::kSecond);
    EXPECT_EQ(counted(host_a, rds::Stat::path_dead_peer), 0u);
    EXPECT_TRUE(world.run_until([&] { return counted(host_a, rds::Stat::path_dead_peer) == 1; }, kSlack + sim::kSecond));
    world.run_for(4500 * sim::kMillisecond); // its end of the stream is not waited for, so an attempt to connect has failed
    EXPECT_EQ(counted(host_a, rds::Stat::conn_reset), 2u);
}

// TCP's keepalive, which probes five times after 5 s: nothing is waiting, so there is no reason to detect it earlier.
TEST_F(Outage, idle_peer_that_answers_nothing_is_found_dead)
{
    world.run_for(sim::kSecond);
    send_one("last");
    world.run_for(100 * sim::kMillisecond);
    world.network().cut(a, b);
    world.run_for(28 * sim::kSecond);
    EXPECT_EQ(counted(host_a, rds::Stat::conn_reset), 0u);
    world.run_for(3 * sim::kSecond);
    EXPECT_EQ(counted(host_a, rds::Stat::conn_reset), 8u);
}

// So often it is tried meanwhile, so that a link that is healed is found soon.
TEST_F(Outage, peer_that_answers_nothing_is_sent_some_packets_in_a_second)
{
    world.run_for(sim::kSecond);
    world.network().cut(a, b);
    send_one("waits");
    world.run_for(sim::kSecond);
    std::uint64_t before = world.network().packets();
    world.run_for(3 * sim::kSecond);
    std::uint64_t sent = world.network().packets() - before;
    EXPECT_TRUE(sent > 20 && sent < 30) << sent;
}

// It was silent for up to 5 s before, and longer than the bound would be.
TEST_F(Outage, peer_that_was_idle_has_the_whole_time)
{
    world.run_for(60 * sim::kSecond);
    world.network().cut(a, b);
    world.run_for(4 * sim::kSecond);
    send_one("late");
    world.run_for(kDeadPeer - sim::kSecond);
    EXPECT_EQ(counted(host_a, rds::Stat::path_dead_peer), 0u);
    world.network().heal_all();
    run(b, [&] { EXPECT_EQ(receive(to), "late"); });
    EXPECT_EQ(counted(host_a, rds::Stat::conn_reset), 0u);
}

// Its socket is full, so its window is closed. It answers each probe.
TEST_F(Outage, peer_with_a_closed_window_lives)
{
    fill_receiver();
    world.run_for(600 * sim::kSecond);
    EXPECT_EQ(counted(host_a, rds::Stat::path_dead_peer), 0u);
    EXPECT_EQ(counted(host_a, rds::Stat::conn_reset), 0u);
}

// TCP's interval between probes would have grown to minutes, and the packet that opens the window is lost.
TEST_F(Outage, closed_window_that_opens_during_an_outage)
{
    fill_receiver();
    world.run_for(300 * sim::kSecond);
    world.network().cut(a, b);
    run(b, [&] {
        to.sk().rcvtimeo_ns = sim::kMillisecond;
        while (receive(to).size() == 256 * 1024)
            ;
        to.sk().rcvtimeo_ns = KAPI_FOREVER;
    });
    world.run_for(2 * sim::kSecond);
    world.network().cut(a, b, false);
    std::uint64_t back_ns = world.now_ns();
    run(b, [&] { EXPECT_EQ(receive(to).size(), 256u * 1024); });
    EXPECT_LE(world.now_ns() - back_ns, 500 * sim::kMillisecond);
    EXPECT_EQ(counted(host_a, rds::Stat::conn_reset), 0u);
}

class OutageOfSeconds : public Outage, public ::testing::WithParamInterface<int> {
protected:
    OutageOfSeconds() : Outage(static_cast<std::uint64_t>(GetParam()) + 1) {}

    std::uint64_t outage_ns = 1700 * sim::kMillisecond + static_cast<unsigned>(GetParam()) * 450 * sim::kMillisecond;
};

// TCP alone would wait up to as long again as the outage took. One pause of 200 to 300 ms, and a retransmission or two for
// what followed the first packet.
TEST_P(OutageOfSeconds, traffic_goes_on_soon)
{
    world.network().cut(a, b);
    send_one("waits");
    world.run_for(outage_ns);
    world.network().cut(a, b, false);
    std::uint64_t back_ns = world.now_ns();
    run(b, [&] { EXPECT_EQ(receive(to), "waits"); });
    EXPECT_LE(world.now_ns() - back_ns, 500 * sim::kMillisecond);
    EXPECT_EQ(counted(host_a, rds::Stat::conn_reset), 0u);
}

INSTANTIATE_TEST_SUITE_P(Lengths, OutageOfSeconds, ::testing::Range(0, 18));

} // namespace
