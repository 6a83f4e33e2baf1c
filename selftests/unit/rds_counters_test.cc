// SPDX-License-Identifier: GPL-2.0
// What each event counts, and that it counts nothing else.
#include "rds_peer_test.h"

#include <kapi/errno.h>

#include <functional>
#include <map>
#include <string>

#include "net/rds/tcp/net.h"

namespace {

const kapi_u16 kPort = port_of_path(0), kNobodysPort = port_of_path(0, static_cast<kapi_u16>(kPort + 1));

using Counts = std::map<std::string, kapi_u64>;

/** A stream of a hawser peer is up, and all that begins with it is done. Header and payload come in a packet each. */
class Counters : public PeerTest {
protected:
    Counters()
    {
        open_socket(kPort);
        run(a, [&] {
            shake_hands(stream, 0);
            world.sleep(sim::kSecond);
        });
    }
    ~Counters() override
    {
        run(a, [&] { stream.close(true); });
    }
    Counts all()
    {
        Counts counts;
        for (unsigned i = 0; i < static_cast<unsigned>(rds::Stat::count); i++)
            counts[rds::stat_names[i]] = counted(static_cast<rds::Stat>(i));
        sim::NodeScope scope(b);
        const rds_transport &tcp = rds_tcp::Module::get().transport;
        for (unsigned i = 0; i < tcp.counters; i++)
            counts[tcp.counter_names[i]] = tcp.counter(&b.initial_net(), i);
        return counts;
    }
    /** What is counted while this happens, until all is quiet again. */
    Counts while_peer(const std::function<void()> &acts) { return during(a, acts); }
    Counts while_program(const std::function<void()> &acts) { return during(b, acts); }
    bool message(kapi_u64 number, kapi_u16 port, const std::string &payload, unsigned flags = 0)
    {
        return stream.message(number, kPeersPort, port, payload, flags);
    }
    long send(const std::string &text, unsigned flags = 0, kapi_addr to = sim::address("10.0.0.1", kPeersPort))
    {
        return socket.send(text.data(), text.size(), to, flags);
    }
    std::string receive()
    {
        char buffer[100];
        long size = socket.receive(buffer, sizeof(buffer), nullptr);
        return size < 0 ? "error" : std::string(buffer, static_cast<std::size_t>(size));
    }

    WireStream stream{a};

private:
    Counts during(sim::Node &node, const std::function<void()> &acts)
    {
        Counts before = all(), changed;
        run(node, acts);
        world.run_for(20 * sim::kMillisecond);
        for (const auto &[name, count] : all())
            if (count != before[name])
                changed[name] = count - before[name];
        return changed;
    }
};

TEST_F(Counters, of_a_message_that_comes_and_is_received)
{
    EXPECT_EQ(while_peer([&] { EXPECT_TRUE(message(1, kPort, "hello")); }),
              (Counts{{"recv_queued", 1}, {"recv_bytes_added_to_sock", 5}, {"tcp_data_ready_calls", 2}}));
    EXPECT_EQ(while_program([&] { EXPECT_EQ(receive(), "hello"); }),
              (Counts{{"recv_delivered", 1}, {"copy_to_user", 5}, {"recv_bytes_freed_fromsock", 5}}));
    EXPECT_EQ(while_peer([&] { EXPECT_TRUE(message(1, kPort, "hello", rds::flag_retransmitted)); }),
              (Counts{{"recv_drop_old_seq", 1}, {"tcp_data_ready_calls", 2}}));
}

TEST_F(Counters, of_a_message_that_its_program_does_not_receive)
{
    EXPECT_EQ(while_peer([&] { EXPECT_TRUE(message(1, kNobodysPort, "hello")); }),
              (Counts{{"recv_drop_no_sock", 1}, {"tcp_data_ready_calls", 2}}));
    while_peer([&] { EXPECT_TRUE(message(2, kPort, "hello")); });
    EXPECT_EQ(while_program([&] { socket.close(); }), (Counts{{"recv_bytes_freed_fromsock", 5}}));
}

TEST_F(Counters, of_a_message_that_is_sent)
{
    EXPECT_EQ(while_program([&] { EXPECT_EQ(send("hello"), 5); }), (Counts{{"send_queued", 1}, {"copy_from_user", 5}}));
    socket.sk().sndbuf = 100;
    stream.deaf = true;
    Counts counts = while_program([&] {
        while (send("hello", RDS_ABI_MSG_DONTWAIT) == 5)
            ;
        EXPECT_EQ(send("hello", RDS_ABI_MSG_DONTWAIT), -KAPI_EAGAIN);
    });
    EXPECT_EQ(counts["send_queue_full"], 2u);
}

TEST_F(Counters, of_a_message_over_loopback)
{
    EXPECT_EQ(while_program([&] { EXPECT_EQ(send("hello", 0, sim::address("10.0.0.2", kPort)), 5); }),
              (Counts{{"send_queued", 1}, {"copy_from_user", 5}, {"recv_queued", 1}, {"recv_bytes_added_to_sock", 5}}));
}

TEST_F(Counters, of_pings)
{
    EXPECT_EQ(while_peer([&] { EXPECT_TRUE(message(1, 0, "")); }),
              (Counts{{"recv_ping", 1}, {"send_pong", 1}, {"tcp_data_ready_calls", 1}}));
}

TEST_F(Counters, of_congestion)
{
    Counts counts = while_peer([&] { EXPECT_TRUE(send_map(stream, {kPeersPort})); });
    EXPECT_GE(counts["tcp_data_ready_calls"], 1u) << "for each packet";
    counts.erase("tcp_data_ready_calls");
    EXPECT_EQ(counts, (Counts{{"cong_update_received", 1}}));
    EXPECT_EQ(while_program([&] { EXPECT_EQ(send("x", RDS_ABI_MSG_DONTWAIT), -KAPI_ENOBUFS); }),
              (Counts{{"cong_send_error", 1}, {"copy_from_user", 1}}));
    socket.sk().sndtimeo_ns = 10 * sim::kMillisecond;
    EXPECT_EQ(while_program([&] { EXPECT_EQ(send("x"), -KAPI_ETIMEDOUT); }),
              (Counts{{"cong_send_blocked", 1}, {"copy_from_user", 1}}));
}

TEST_F(Counters, of_a_stream_that_its_peer_left_before_it_was_used)
{
    EXPECT_EQ(while_peer([&] {
                  WireStream waits(a);
                  ASSERT_TRUE(connect(waits, 0));
                  world.sleep(10 * sim::kMillisecond);
                  waits.close(false);
                  world.sleep(2 * sim::kSecond);
              }),
              (Counts{{"tcp_listen_closed_stale", 1}}));
}

TEST_F(Counters, of_what_no_peer_sends)
{
    rds_net_sysctl(host.net().rds)->reconnect_min_delay_ms = 1000; // so one attempt to connect fails, which counts, too
    const std::string noise(2 * sizeof(rds::Header), 'x');
    EXPECT_EQ(while_peer([&] { EXPECT_TRUE(stream.send(noise.data(), noise.size())); }),
              (Counts{{"recv_garbage", 1}, {"conn_reset", 2}, {"tcp_data_ready_calls", 1}}));
}

} // namespace
