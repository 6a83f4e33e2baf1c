// SPDX-License-Identifier: GPL-2.0
// A host of the kernel's own with net.rds.ping_enable at 0: it begins with its handshake and its map, and answers no probe.
#include "rds_peer_test.h"

#include <algorithm>
#include <string>

namespace {

constexpr std::uint64_t kMinute = 60 * sim::kSecond;

// ---- we connect

class SilentListener : public Connecting {
protected:
    SilentListener() : other(host)
    {
        run(a, [&] {
            ASSERT_EQ(other.open(), 0);
            ASSERT_EQ(other.bind(sim::address("10.0.0.1", port_of_path(3))), 0);
        });
    }
    ~SilentListener() override
    {
        run(a, [&] { other.close(); });
    }
    /** What it says when it accepts the first stream of its life. */
    static void begin(WireStream &stream)
    {
        EXPECT_TRUE(foreign_handshake(stream, false, 8, 0, false, 1));
        EXPECT_TRUE(send_map(stream, {}));
    }
    /** A message that goes over path 3. */
    void send_over_the_fourth(const std::string &text)
    {
        world.spawn(a, "sender", [this, text] {
            EXPECT_EQ(other.send(text.data(), text.size(), sim::address("10.0.0.2", kPeersPort), RDS_ABI_MSG_DONTWAIT),
                      static_cast<long>(text.size()));
        });
    }
    static bool has_received(WireStream &stream, const std::string &text)
    {
        return stream.wait([&] { return !stream.received().empty() && stream.received().back().payload == text; });
    }

    RdsSocket other;
};

TEST_F(SilentListener, its_other_paths_come_up_in_order_after_five_seconds)
{
    run(b, [&] {
        ASSERT_EQ(accept(), 0);
        std::uint64_t began = world.now_ns();
        begin(*streams[0]);
        world.sleep(100 * sim::kMillisecond);
        send_over_the_fourth("y");
        EXPECT_EQ(accept(4 * sim::kSecond), -1); // the answer may be on its way
        ASSERT_EQ(accept(2 * sim::kSecond), 1);
        for (int i = 2; i < static_cast<int>(rds::max_paths); i++)
            ASSERT_EQ(accept(), i);
        EXPECT_TRUE(has_received(*streams[3], "y"));
        EXPECT_LT(world.now_ns() - began, 6500 * sim::kMillisecond);
    });
}

// It says nothing of itself over the next stream, for it knows how many paths there are.
TEST_F(SilentListener, a_path_that_is_lost_with_the_first_comes_up_after_five_seconds)
{
    run(b, [&] {
        ASSERT_EQ(accept(), 0);
        begin(*streams[0]);
        ASSERT_EQ(accept(6 * sim::kSecond), 1);
        for (int i = 2; i < static_cast<int>(rds::max_paths); i++)
            ASSERT_EQ(accept(), i);
        streams[0]->close(true);
        world.sleep(sim::kMillisecond); // else the other loss may be noticed first
        streams[3]->close(true);
        ASSERT_EQ(accept(), 0);
        std::uint64_t began = world.now_ns();
        EXPECT_TRUE(send_map(*streams.back(), {}));
        send_over_the_fourth("z");
        EXPECT_EQ(accept(4 * sim::kSecond), -1); // the silence of the stream before proves nothing about this one
        ASSERT_EQ(accept(2 * sim::kSecond), 3);
        EXPECT_TRUE(has_received(*streams.back(), "z"));
        EXPECT_LT(world.now_ns() - began, 6500 * sim::kMillisecond);
    });
}

// One that has its paths from an earlier life of ours does not ask how many we have. Nothing says that it has several.
TEST_F(SilentListener, says_only_its_map__a_sender_does_not_wait_after_five_seconds)
{
    run(b, [&] {
        ASSERT_EQ(accept(), 0);
        EXPECT_TRUE(send_map(*streams[0], {}));
        world.sleep(6 * sim::kSecond);
        std::uint64_t began = world.now_ns();
        auto sender = world.spawn(a, "sender", [&] { EXPECT_EQ(other.send("y", 1, sim::address("10.0.0.2", 9)), 1); });
        EXPECT_TRUE(has_received(*streams[0], "y"));
        EXPECT_LT(world.now_ns() - began, 10 * sim::kMillisecond);
        EXPECT_TRUE(sender->is_done());
    });
}

// ---- it connects

class SilentPeer : public PeerTest {
protected:
    void begin(WireStream &stream)
    {
        ASSERT_TRUE(connect(stream, 0));
        EXPECT_TRUE(send_map(stream, {}));
    }
    unsigned connections()
    {
        sim::NodeScope scope(b);
        return reinterpret_cast<rds::Net *>(host.net().rds)->connections.size();
    }
};

TEST_F(SilentPeer, each_stream_is_probed_for_a_minute)
{
    open_socket(port_of_path(0));
    run(a, [&] {
        for (int i = 0; i < 6; i++) {
            WireStream stream(a);
            begin(stream);
            world.sleep(90 * sim::kSecond);
            auto probes = std::ranges::count_if(stream.take(), is_probe);
            EXPECT_GE(probes, 55);
            EXPECT_LE(probes, 65);
            world.sleep(10 * sim::kSecond);
            EXPECT_TRUE(stream.received().empty());
            stream.close(true);
            world.sleep(sim::kSecond);
        }
    }, 20 * kMinute);
}

TEST_F(SilentPeer, everything_idle_for_an_hour__is_gone_although_streams_were_replaced)
{
    for (int round = 0; round < 4; round++) {
        WireStream stream(a);
        run(a, [&] {
            for (int i = 0; i < 2; i++) {
                begin(stream);
                world.sleep(2500 * sim::kMillisecond);
                stream.close(true);
            }
            begin(stream);
            world.sleep(60 * kMinute);
        }, 70 * kMinute);
        EXPECT_EQ(connections(), 0u);
        EXPECT_EQ(b.live_streams, 0u);
        run(a, [&] { stream.close(true); });
    }
}

// So many that there is no room for the probes among them.
TEST_F(SilentPeer, everything_idle_for_an_hour__is_gone_although_answers_to_pings_were_not_read)
{
    run(b, [&] { rds_tcp_net_sysctl(host.net().tcp)->rds_tcp_sndbuf = 4608; });
    WireStream stream(a);
    run(a, [&] {
        begin(stream);
        world.sleep(100 * sim::kMillisecond);
        stream.close(true);
        begin(stream);
        world.sleep(100 * sim::kMillisecond);
        stream.deaf = true;
        for (kapi_u64 i = 1; i <= 20000; i++)
            ASSERT_TRUE(stream.message(i, kPeersPort, 0, ""));
        world.sleep(60 * kMinute);
    }, 70 * kMinute);
    EXPECT_GT(counted(rds::Stat::recv_drop_pong), 0u);
    EXPECT_EQ(connections(), 0u);
    run(a, [&] { stream.close(true); });
}

} // namespace
