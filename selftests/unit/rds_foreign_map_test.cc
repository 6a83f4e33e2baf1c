// SPDX-License-Identifier: GPL-2.0
// Congestion maps of the kernel's own RDS as a peer: lost, overtaken, asked for.
#include "rds_peer_test.h"

#include <kapi/errno.h>

#include <functional>

namespace {

class ForeignMap : public PeerTest {
protected:
    sim::TaskRef blocked_sender(RdsSocket &from, kapi_u16 port)
    {
        auto task = world.spawn(b, "sender", [&from, port] {
            EXPECT_EQ(from.send("x", 1, sim::address("10.0.0.1", port)), 1);
        });
        return task;
    }
    /** A hawser peer reports that its port is full, and a program of the victim waits for that; body; then the port is free. */
    void with_full_port(const std::function<void(WireStream &)> &body)
    {
        open_socket(port_of_path(0));
        socket.sk().sndtimeo_ns = KAPI_FOREVER;
        WireStream stream(a);
        run(a, [&] {
            shake_hands(stream, 0);
            EXPECT_TRUE(send_map(stream, {kPeersPort}));
            world.sleep(10 * sim::kMillisecond);
            stream.take();
            auto sender = blocked_sender(socket, kPeersPort);
            body(stream);
            EXPECT_TRUE(send_map(stream, {}));
            world.sleep(10 * sim::kMillisecond);
            EXPECT_TRUE(sender->is_done());
            stream.close(true);
        }, 100 * sim::kSecond);
    }
};

TEST_F(ForeignMap, silence_has_an_idle_stream_opened_again)
{
    open_socket(port_of_path(0));
    socket.sk().sndtimeo_ns = KAPI_FOREVER;
    WireStream stream(a), next(a);
    sim::TaskRef sender;
    run(a, [&] {
        ASSERT_TRUE(connect(stream, 0));
        foreign_handshake(stream, false, 1);
        EXPECT_TRUE(send_map(stream, {kPeersPort}));
        world.sleep(10 * sim::kMillisecond);
        sender = blocked_sender(socket, kPeersPort);
        world.sleep(20 * sim::kMillisecond);
        EXPECT_TRUE(stream.is_usable());
        EXPECT_TRUE(stream.wait([&] { return stream.is_gone(); }, 100 * sim::kMillisecond));
        EXPECT_EQ(counted(rds::Stat::cong_refresh), 1u);
        EXPECT_EQ(counted(rds::Stat::conn_reset), 0u); // nothing was reset
        stream.close(false);
        ASSERT_TRUE(connect(next, 0));
        EXPECT_TRUE(send_map(next, {}));
        world.sleep(100 * sim::kMillisecond);
        EXPECT_TRUE(sender->is_done());
        next.close(true);
    });
}

TEST_F(ForeignMap, silence_of_one_of_ours_has_it_asked)
{
    with_full_port([&](WireStream &stream) {
        EXPECT_TRUE(is_probe(stream.next(3 * sim::kSecond)));
        EXPECT_TRUE(stream.is_usable());
    });
}

// A peer whose socket is full for long answers each request, later than the next one would be due.
TEST_F(ForeignMap, requests_to_a_peer_that_answers_become_rare)
{
    with_full_port([&](WireStream &stream) {
        for (std::uint64_t end = world.now_ns() + 20 * sim::kSecond; world.now_ns() < end;) {
            auto arrived = stream.next(sim::kSecond);
            world.sleep(300 * sim::kMillisecond);
            if (is_probe(arrived)) {
                EXPECT_TRUE(send_map(stream, {kPeersPort}));
            }
        }
        EXPECT_GE(counted(rds::Stat::cong_refresh), 7u);
        EXPECT_LE(counted(rds::Stat::cong_refresh), 10u); // 50 ms, 100, ... 12.8 s
    });
}

// The peer's map with the second port arrived, that with the first one was overtaken: a waiting sender causes another request.
TEST_F(ForeignMap, each_full_port_is_asked_about)
{
    constexpr kapi_u16 kSecondPort = kPeersPort + 1;
    open_socket(port_of_path(0));
    socket.sk().sndtimeo_ns = KAPI_FOREVER;
    RdsSocket other(host);
    run(b, [&] {
        ASSERT_EQ(other.open(), 0);
        ASSERT_EQ(other.bind(sim::address("10.0.0.2", port_of_path(0, port_of_path(0) + 1))), 0);
    });
    WireStream stream(a);
    run(a, [&] {
        shake_hands(stream, 0);
        EXPECT_TRUE(send_map(stream, {kPeersPort, kSecondPort}));
        world.sleep(10 * sim::kMillisecond);
        auto first = blocked_sender(socket, kPeersPort);
        world.sleep(10 * sim::kMillisecond);
        auto second = blocked_sender(other, kSecondPort);
        world.sleep(10 * sim::kMillisecond);
        EXPECT_TRUE(send_map(stream, {kPeersPort}));
        world.sleep(10 * sim::kMillisecond);
        EXPECT_TRUE(second->is_done());
        stream.take();
        bool asked = false;
        for (int i = 0; i < 10 && !asked; i++)
            asked = is_probe(stream.next(sim::kSecond));
        EXPECT_TRUE(asked);
        EXPECT_TRUE(send_map(stream, {}));
        world.sleep(10 * sim::kMillisecond);
        EXPECT_TRUE(first->is_done());
        stream.close(true);
    });
    run(b, [&] { other.close(); });
}

// They do not wait in the call, so each meets its port once.
TEST_F(ForeignMap, each_full_port_that_poll_waits_for_is_asked_about)
{
    constexpr kapi_u16 kSecondPort = kPeersPort + 1;
    open_socket(port_of_path(0));
    WireStream stream(a);
    run(a, [&] {
        shake_hands(stream, 0);
        EXPECT_TRUE(send_map(stream, {kPeersPort, kSecondPort}));
        world.sleep(10 * sim::kMillisecond);
    });
    run(b, [&] {
        for (kapi_u16 port : {kPeersPort, kSecondPort})
            EXPECT_EQ(socket.send("x", 1, sim::address("10.0.0.1", port), RDS_ABI_MSG_DONTWAIT), -KAPI_ENOBUFS);
    });
    run(a, [&] {
        EXPECT_TRUE(send_map(stream, {kPeersPort})); // and the next one is lost
        stream.take();
        EXPECT_TRUE(is_probe(stream.next(sim::kSecond)));
        EXPECT_TRUE(send_map(stream, {}));
        world.sleep(sim::kSecond);
        auto requests = counted(rds::Stat::cong_refresh);
        world.sleep(60 * sim::kSecond);
        EXPECT_EQ(counted(rds::Stat::cong_refresh), requests); // it ends
        stream.close(true);
    }, 100 * sim::kSecond);
}

// Its ports show which path a stream is for, so that one that cannot come up is no reason not to request the map.
TEST_F(ForeignMap, path_of_a_peer_that_shows_it_is_missing__another_is_opened_again)
{
    open_socket(port_of_path(0));
    WireStream first(a), second(a);
    run(a, [&] {
        ASSERT_TRUE(connect(first, 0));
        foreign_handshake(first, false, 8, kGeneration, true);
        world.sleep(10 * sim::kMillisecond);
        ASSERT_TRUE(connect(second, 1));
        EXPECT_TRUE(send_map(first, {kPeersPort}));
        world.sleep(10 * sim::kMillisecond);
    });
    run(b, [&] {
        EXPECT_EQ(socket.send("y", 1, sim::address("10.0.0.1", kPeersPort), RDS_ABI_MSG_DONTWAIT), -KAPI_ENOBUFS);
    });
    run(a, [&] {
        EXPECT_TRUE(second.wait([&] { return second.is_gone(); }, sim::kSecond));
        EXPECT_TRUE(first.is_usable());
        second.close(true);
        first.close(true);
    });
}

} // namespace
