// SPDX-License-Identifier: GPL-2.0
// The kernel's own RDS as a peer: it has no names of memories, its older versions number their paths in the order in which
// streams arrive, and its congestion maps can overtake each other.
#include "rds_peer_test.h"

#include <kapi/errno.h>

#include <string>
#include <vector>

namespace {

using Foreign = PeerTest;

TEST_F(Foreign, a_ping_is_answered)
{
    open_socket(port_of_path(0));
    run(a, [&] {
        WireStream stream(a);
        shake_hands(stream, 0);
        stream.take();
        EXPECT_TRUE(stream.message(1, 5, 0, ""));
        auto pong = stream.next();
        EXPECT_EQ(kapi_u16{pong.header.dport}, 5);
        EXPECT_EQ(kapi_u16{pong.header.sport}, 0);
    });
}

TEST_F(Foreign, memory_is_nothing_that_it_says_over_TCP)
{
    open_socket(port_of_path(0));
    WireStream stream(a);
    run(a, [&] {
        shake_hands(stream, 0);
        rds::Header header{};
        header.sequence = 1;
        header.sport = kPeersPort;
        header.dport = port_of_path(0);
        rds::write_cookie(header, 0x123456789);
        EXPECT_TRUE(stream.send(&header, sizeof(header)));
    });
    run(b, [&] {
        char byte = 0;
        kapi_msg msg = sim::make_msg(&byte, 1, {});
        msg.control_room = 256;
        rds_receive call{};
        call.msg = &msg;
        call.size = 1;
        EXPECT_EQ(rds_socket_recvmsg(socket.core(), &call), 0);
        EXPECT_TRUE(msg.control.empty());
    });
}

TEST_F(Foreign, who_asks_is_told_the_map)
{
    open_socket(port_of_path(0));
    run(a, [&] {
        WireStream stream(a);
        shake_hands(stream, 0);
        world.sleep(10 * sim::kMillisecond);
        unsigned before = stream.maps();
        EXPECT_TRUE(stream.handshake(false, kGeneration, 0, kMemory));
        EXPECT_TRUE(stream.wait([&] { return stream.maps() > before; }, 10 * sim::kMillisecond));
    });
}

// Another kernel's stream that was lost and comes again under another generation is another life: what the stream of the
// former life may have brought is not sent to it.
TEST_F(Foreign, restart__what_was_sent_and_waits_is_given_up)
{
    open_socket(port_of_path(0));
    socket.sk().sndbuf = 64 << 20;
    constexpr unsigned kMessages = 600;
    WireStream stream(a), next(a);
    run(a, [&] {
        ASSERT_TRUE(connect(stream, 0));
        foreign_handshake(stream, false, 1, kGeneration);
        world.sleep(10 * sim::kMillisecond);
        stream.deaf = true;
    });
    std::string text(1000, 'x');
    for (unsigned i = 0; i < kMessages; i++)
        victim_sends(std::to_string(i) + " " + text);
    run(a, [&] {
        world.sleep(sim::kSecond);
        stream.close(true);
        int small = 4608;
        {
            sim::NodeScope scope(b);
            rds_tcp_net_sysctl(host.net().tcp)->rds_tcp_sndbuf = small;
        }
        // Its buffer is small and acknowledgements are late: little is sent again before the peer names itself.
        world.network().link(a, b).delay_ns = world.network().link(b, a).delay_ns = 50 * sim::kMillisecond;
        ASSERT_TRUE(connect(next, 0));
        foreign_handshake(next, false, 1, kNextGeneration);
        std::vector<unsigned> again;
        unsigned last = 0;
        while (last + 1 < kMessages) {
            auto arrived = next.next(sim::kSecond);
            if (arrived.payload.empty() && !kapi_u16{arrived.header.dport})
                break;
            if (arrived.payload.empty())
                continue;
            last = static_cast<unsigned>(std::stoul(arrived.payload));
            if (arrived.header.flags & rds::flag_retransmitted)
                again.push_back(last);
        }
        EXPECT_EQ(last, kMessages - 1);
        EXPECT_LE(again.size(), 30u); // what the small buffer took before the map, of some hundred
        next.close(true);
    }, 200 * sim::kSecond);
}

// What is given up is in TCP's queue, with the program's memory.
TEST_F(Foreign, restart__memory_of_programs_is_free_when_the_stream_has_done)
{
    open_socket(port_of_path(0));
    socket.sk().zerocopy = true;
    WireStream stream(a), next(a);
    run(a, [&] {
        ASSERT_TRUE(connect(stream, 0));
        foreign_handshake(stream, false, 1, kGeneration);
        world.sleep(10 * sim::kMillisecond);
    });
    world.network().cut(a, b);
    run(b, [&] { EXPECT_EQ(socket.send_pinned("hello", 5, sim::address("10.0.0.1", kPeersPort), 77), 5); });
    world.run_for(10 * sim::kMillisecond);
    world.network().reset(a, b, sim::Sees::both);
    world.network().cut(a, b, false);
    world.network().link(a, b).delay_ns = world.network().link(b, a).delay_ns = 50 * sim::kMillisecond;
    auto is_notified = [&] {
        bool notified = false;
        run(b, [&] { notified = socket.poll() & KAPI_IN; });
        return notified;
    };
    run(a, [&] {
        ASSERT_TRUE(connect(next, 0));
        world.sleep(20 * sim::kMillisecond);
        foreign_handshake(next, false, 1, kNextGeneration);
    });
    EXPECT_FALSE(is_notified());
    EXPECT_TRUE(world.run_until([&] { return counted(rds::Stat::peer_restarted) == 1; }, sim::kSecond));
    EXPECT_FALSE(is_notified()) << "TCP may send it again";
    world.run_for(sim::kSecond);
    EXPECT_TRUE(is_notified());
    run(a, [&] { next.close(true); });
}

// The connection is of no use any more when the program is gone, and a deaf peer could keep it for ever.
TEST_F(Foreign, restart__memory_that_a_deaf_peer_has_not_read_goes_with_the_program)
{
    static const std::string text(1 << 20, 'x');
    open_socket(port_of_path(0));
    socket.sk().zerocopy = true;
    socket.sk().sndbuf = 4 << 20;
    WireStream stream(a), next(a);
    run(a, [&] {
        ASSERT_TRUE(connect(stream, 0));
        foreign_handshake(stream, false, 1, kGeneration);
        world.sleep(10 * sim::kMillisecond);
    });
    world.network().cut(a, b);
    run(b, [&] {
        EXPECT_EQ(socket.send_pinned(text.data(), text.size(), sim::address("10.0.0.1", kPeersPort), 77), long{1 << 20});
    });
    world.network().reset(a, b, sim::Sees::both);
    world.network().cut(a, b, false);
    run(a, [&] {
        ASSERT_TRUE(connect(next, 0));
        next.deaf = true;
        world.sleep(20 * sim::kMillisecond);
        foreign_handshake(next, false, 1, kNextGeneration);
    });
    EXPECT_TRUE(world.run_until([&] { return counted(rds::Stat::peer_restarted) == 1; }, sim::kSecond));
    run(b, [&] { socket.close(); });
    EXPECT_NE(b.live_pages, 0u) << "the stream has a part";
    world.run_for(3 * 3600 * sim::kSecond);
    EXPECT_EQ(b.live_pages, 0u);
    run(b, [&] { EXPECT_EQ(reinterpret_cast<rds::Net *>(host.net().rds)->connections.size(), 0u); });
    run(a, [&] { next.close(true); });
}

// Linux logs a line for each unknown extension header.
TEST_F(Foreign, answer_to_another_says_only_what_it_knows)
{
    open_socket(port_of_path(0));
    auto names = [](const WireStream::Received &arrived) { return rds::parse_handshake(arrived.header).hawser; };
    auto port = [](const WireStream::Received &arrived) { return rds::parse_handshake(arrived.header).source_port_index; };
    for (bool by_port : {false, true}) {
        WireStream stream(a);
        run(a, [&] {
            ASSERT_TRUE(connect(stream, 0));
            auto first = stream.next();
            EXPECT_TRUE(is_probe(first) && names(first)); // a hawser peer would recognise it
            for (int i = 0; i < 3; i++) {
                ASSERT_TRUE(foreign_handshake(stream, false, 8, kGeneration, by_port));
                ASSERT_TRUE(stream.wait([&] { return !stream.received().empty() && is_reply(stream.received().back()); }));
                for (const auto &arrived : stream.take()) {
                    EXPECT_FALSE(names(arrived));
                    EXPECT_EQ(port(arrived), by_port);
                    EXPECT_EQ(rds::parse_handshake(arrived.header).paths, 8u);
                }
            }
            stream.close(true);
            world.sleep(10 * sim::kMillisecond);
        });
    }
    // After its next restart that host may run hawser.
    WireStream stream(a);
    run(a, [&] {
        ASSERT_TRUE(connect(stream, 0));
        ASSERT_TRUE(stream.handshake(false, kNextGeneration, 0, kMemory));
        EXPECT_TRUE(stream.wait([&] { return !stream.received().empty() && is_reply(stream.received().back()); }));
        for (const auto &arrived : stream.received())
            EXPECT_TRUE(names(arrived));
        stream.close(true);
    });
}

// A kernel of 6.1 numbers its messages and does not name itself. When its host loads hawser, the numbers begin again.
TEST_F(Foreign, numbers_without_a_name_are_not_those_of_a_hawser)
{
    const kapi_u16 port = port_of_path(0);
    open_socket(port);
    WireStream old(a), first(a), second(a);
    run(a, [&] {
        ASSERT_TRUE(connect(old, 0));
        ASSERT_TRUE(foreign_handshake(old, false, 8, 0, false, 1));
        for (unsigned i = 2; i <= 100; i++)
            ASSERT_TRUE(old.message(i, kPeersPort, port, "old"));
        world.sleep(100 * sim::kMillisecond);
        old.close(false);
        world.sleep(sim::kSecond);
        // What was given to the first stream did not arrive, and is sent again.
        kapi_u32 memory = 0;
        for (WireStream *stream : {&first, &second}) {
            ASSERT_TRUE(connect(*stream, 0));
            ASSERT_TRUE(stream->handshake(false, kGeneration, 0, kMemory));
            WireStream::Received arrived;
            do
                arrived = stream->next();
            while (!is_reply(arrived));
            kapi_u32 name = rds::parse_handshake(arrived.header).memory;
            if (stream == &second) {
                EXPECT_EQ(name, memory);
                EXPECT_TRUE(stream->handshake(true, kGeneration, 0, kMemory));
                EXPECT_TRUE(stream->message(1, kPeersPort, port, "new", rds::flag_retransmitted));
                world.sleep(sim::kSecond);
            }
            memory = name;
            stream->close(true);
            world.sleep(2 * sim::kSecond);
        }
    });
    EXPECT_EQ(counted(rds::Stat::recv_drop_old_seq), 0u);
    EXPECT_EQ(queued(), 100u);
}

// ---- streams that only the peer still has

// It keeps the stream, and connects no other, until its keepalive ends it after five seconds.
TEST_F(Foreign, a_stream_that_was_lost_here_alone_ends_there_at_once)
{
    open_socket(port_of_path(0));
    WireStream stream(a), next(a);
    run(a, [&] {
        ASSERT_TRUE(connect(stream, 0));
        foreign_handshake(stream, false, 1);
        world.sleep(10 * sim::kMillisecond);
        EXPECT_EQ(world.network().reset(a, b, sim::Sees::second), 1u);
        world.spawn(b, "sender", [&] {
            EXPECT_EQ(socket.send("x", 1, sim::address("10.0.0.1", kPeersPort)), 1);
        });
        EXPECT_TRUE(stream.wait([&] { return stream.is_gone(); }, 100 * sim::kMillisecond));
        stream.close(true);
        ASSERT_TRUE(connect(next, 0));
        foreign_handshake(next, false, 1);
        EXPECT_EQ(next.next().payload, "x");
        next.close(true);
    });
}

// ---- congestion

// ---- the victim opens the streams

// The others wait for an answer over the first path, which may never come: it is the one that can be opened again.
TEST_F(Connecting, path_is_missing_that_waits_for_an_answer__the_first_is_opened_again)
{
    run(b, [&] {
        ASSERT_EQ(accept(), 0);
        EXPECT_TRUE(foreign_handshake(*streams[0], true, 8));
        for (int i = 1; i < static_cast<int>(rds::max_paths); i++)
            ASSERT_EQ(accept(), i);
        streams[0]->close(false);
        ASSERT_EQ(accept(2 * sim::kSecond), 0);
        streams[3]->close(false);
        EXPECT_EQ(accept(2 * sim::kSecond), -1);
        EXPECT_TRUE(send_map(*streams[8], {kPeersPort}));
        world.sleep(10 * sim::kMillisecond);
    });
    run(a, [&] {
        EXPECT_EQ(socket.send("y", 1, sim::address("10.0.0.2", kPeersPort), RDS_ABI_MSG_DONTWAIT), -KAPI_ENOBUFS);
    });
    run(b, [&] {
        EXPECT_TRUE(streams[8]->wait([&] { return streams[8]->is_gone(); }, 5 * sim::kSecond));
        for (int i : {1, 2, 4, 5, 6, 7})
            EXPECT_TRUE(streams[i]->is_usable()) << i;
        streams[8]->close(false);
        EXPECT_EQ(accept(2 * sim::kSecond), 0);
    }, 20 * sim::kSecond);
}

// ---- silence

// Each new stream of a silent peer is probed for a minute again before the peer is taken for foreign.
TEST_F(Foreign, silence_is_counted_for_each_stream)
{
    open_socket(port_of_path(0));
    WireStream stream(a);
    run(a, [&] {
        for (int i = 0; i < 3; i++) {
            ASSERT_TRUE(connect(stream, 0));
            world.sleep(40 * sim::kSecond);
            for (const auto &arrived : stream.take())
                EXPECT_TRUE(is_probe(arrived));
            if (i == 0)
                world.spawn(b, "sender", [&] {
                    socket.send("hello", 5, sim::address("10.0.0.1", kPeersPort), RDS_ABI_MSG_DONTWAIT);
                });
        }
        stream.handshake(false, kGeneration, 0, kMemory);
        stream.handshake(true, kGeneration, 0, kMemory);
        EXPECT_TRUE(stream.wait([&] { return !stream.received().empty() && stream.received().back().payload == "hello"; }));
        stream.close(true);
    }, 300 * sim::kSecond);
}

} // namespace
