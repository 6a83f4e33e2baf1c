// SPDX-License-Identifier: GPL-2.0
// The same, when there are more streams than places, or more than a path needs.
#include "rds_handshake_test.h"

namespace {

// Sixteen wait at most; what comes then is reset, not forgotten.
TEST_F(Handshake, streams_that_find_no_place_are_reset)
{
    open_socket(port_of_path(0));
    WireStream first(a);
    std::vector<std::unique_ptr<WireStream>> more;
    run(a, [&] {
        shake_hands(first, 0);
        for (int i = 0; i < 18; i++) {
            more.push_back(std::make_unique<WireStream>(a));
            ASSERT_TRUE(connect(*more.back(), 0));
            // Not abandoned: it has a message.
            ASSERT_TRUE(more.back()->message(1, kPeersPort, port_of_path(0), "x"));
            world.sleep(sim::kMillisecond);
        }
        unsigned gone = 0;
        for (auto &stream : more)
            gone += stream->wait([&] { return stream->is_gone(); }, 10 * sim::kMillisecond);
        EXPECT_EQ(gone, 2u);
        EXPECT_EQ(b.live_streams, 17u);
        first.close(true), more.clear();
    });
}

// For those in the queue behind it no other notice comes.
TEST_F(Handshake, streams_behind_one_that_cannot_be_accepted_are_accepted_ten_milliseconds_later)
{
    WireStream streams[3] = {WireStream(a), WireStream(a), WireStream(a)};
    run(a, [&] {
        for (kapi_u16 i = 0; i < 3; i++)
            ASSERT_TRUE(streams[i].start(sim::address("10.0.0.1", static_cast<kapi_u16>(30000 + i)),
                                         sim::address("10.0.0.2", 16385)));
        b.faults().fail_at = b.faults().count + 1;
        world.sleep(9 * sim::kMillisecond);
        EXPECT_EQ(b.live_streams, 0u);
        world.sleep(3 * sim::kMillisecond);
        EXPECT_EQ(b.live_streams, 2u);
        for (auto &stream : streams)
            stream.close(true);
    });
}

TEST_F(Handshake, a_stream_taken_for_another_path_is_not_answered)
{
    open_socket(port_of_path(0));
    WireStream third(a), first(a);
    run(a, [&] {
        ASSERT_TRUE(connect(third, 3)); // the victim has no peer yet, and assigns it to its first path
        third.handshake(false, kGeneration, 3, kMemory);
        EXPECT_TRUE(third.wait([&] { return third.is_gone(); }, 50 * sim::kMillisecond));
        for (const auto &arrived : third.received())
            EXPECT_FALSE(is_reply(arrived));
        shake_hands(first, 0);
        first.message(1, kPeersPort, port_of_path(0), "hello");
        third.close(true);
    });
    EXPECT_EQ(victim_receives(), "hello");
    run(a, [&] { first.close(true); });
}

// They came before it was known that the peer's ports encode the path.
TEST_F(Handshake, streams_that_wait_for_the_first_handshake_get_the_paths_of_their_ports)
{
    WireStream first(a), another(a), seventh(a), third(a);
    run(a, [&] {
        ASSERT_TRUE(connect(first, 0));
        world.sleep(5 * sim::kMillisecond);
        ASSERT_TRUE(connect(another, 0));
        ASSERT_TRUE(connect(seventh, 7));
        ASSERT_TRUE(connect(third, 3));
        world.sleep(5 * sim::kMillisecond);
        EXPECT_TRUE(first.handshake(false, kGeneration, 0, kMemory));
        for (auto [stream, path] : {std::pair{&seventh, 7u}, std::pair{&third, 3u}}) {
            auto probe = stream->next();
            EXPECT_TRUE(is_probe(probe));
            EXPECT_EQ(rds::parse_handshake(probe.header).path, path);
        }
        world.sleep(5 * sim::kMillisecond);
        EXPECT_FALSE(another.is_gone()) << "it waits for the first path";
        EXPECT_TRUE(another.received().empty());
        first.close(true), another.close(true), seventh.close(true), third.close(true);
    });
}

// Simulator seed 1199: the path kept a reference to the socket that had kept it from being read.
TEST_F(Handshake, a_path_that_goes_on_lets_go_of_the_full_socket)
{
    const kapi_u16 port = port_of_path(0);
    open_socket(port);
    socket.sk().rcvbuf = 4096;
    WireStream stream(a);
    run(a, [&] {
        shake_hands(stream, 0);
        world.spawn(a, "flood", [&] {
            for (kapi_u64 i = 1; i <= 6; i++)
                stream.message(i, kPeersPort, port, std::string(1 << 20, 'x'));
        });
        world.sleep(sim::kSecond);
    });
    for (int i = 0; i < 6; i++)
        EXPECT_EQ(victim_receives().size(), 1u << 20);
    run(b, [&] {
        socket.close();
        EXPECT_TRUE(host.unload_soon()) << "while the stream is up";
        EXPECT_EQ(host.load(), 0);
    });
    run(a, [&] { stream.close(true); });
}

// A peer sends short streams of empty messages: each stream once brought some more past the hard limit.
TEST_F(Handshake, full_socket__many_streams_bring_no_more_than_one)
{
    const kapi_u16 port = port_of_path(0);
    open_socket(port);
    run(a, [&] {
        std::string burst;
        for (kapi_u64 i = 1; i <= 5000; i++) {
            rds::Header header{};
            header.sequence = i, header.sport = kPeersPort, header.dport = port;
            burst.append(reinterpret_cast<const char *>(&header), sizeof(header));
        }
        std::uint64_t when_full = 0;
        for (int round = 0; round < 40; round++) {
            WireStream stream(a);
            stream.patience_ns = 20 * sim::kMillisecond;
            if (connect(stream, 0))
                stream.send(burst.data(), burst.size());
            stream.close(false);
            world.sleep(20 * sim::kMillisecond);
            if (when_full == 0 && counted(rds::Stat::recv_stalled))
                when_full = queued();
        }
        EXPECT_GT(when_full, 0u);
        EXPECT_EQ(queued(), when_full);
    }, 600 * sim::kSecond);
}

TEST_F(Handshake, full_socket__what_its_ended_stream_still_holds_waits)
{
    const kapi_u16 port = port_of_path(0);
    open_socket(port);
    WireStream stream(a);
    kapi_u64 count = 0;
    run(a, [&] {
        shake_hands(stream, 0);
        count = fill(stream, port);
        for (kapi_u64 i = count + 1; i <= count + 3; i++)
            ASSERT_TRUE(stream.message(i, kPeersPort, port, "late"));
        stream.close(false);
        world.sleep(10 * sim::kSecond);
        EXPECT_EQ(queued(), count);
    });
    for (kapi_u64 i = 1; i <= count + 3; i++)
        EXPECT_EQ(victim_receives().size(), i <= count ? 10000u : 4u) << i;
}

TEST_F(Handshake, full_socket__the_next_stream_is_answered_and_its_messages_wait)
{
    const kapi_u16 port = port_of_path(0);
    open_socket(port);
    WireStream first(a), second(a);
    kapi_u64 count = 0;
    run(a, [&] {
        shake_hands(first, 0);
        count = fill(first, port);
        first.close(true);
        shake_hands(second, 0);
        world.spawn(b, "sender", [&] { socket.send("out", 3, sim::address("10.0.0.1", kPeersPort)); });
        EXPECT_EQ(second.next().payload, "out"); // the other direction continues
        ASSERT_TRUE(second.message(count + 1, kPeersPort, port, "next"));
        world.sleep(sim::kSecond);
        EXPECT_EQ(queued(), count);
    });
    for (kapi_u64 i = 0; i < count; i++)
        EXPECT_EQ(victim_receives().size(), 10000u);
    EXPECT_EQ(victim_receives(), "next");
    run(a, [&] { second.close(true); });
}

// Any user of the peer's host can connect.
TEST_F(Handshake, live_stream__another_does_not_replace_it_before_it_is_reset)
{
    open_socket(port_of_path(0));
    run(a, [&] {
        WireStream live(a), other(a);
        shake_hands(live, 0);
        ASSERT_TRUE(connect(other, 0));
        other.handshake(false, kNextGeneration, 0, kNextMemory);
        EXPECT_TRUE(is_probe(live.next(sim::kSecond))); // a dead one would be reset by this
        world.sleep(10 * sim::kSecond);
        EXPECT_TRUE(live.is_usable());
        world.spawn(b, "sender", [&] { socket.send("hello", 5, sim::address("10.0.0.1", kPeersPort)); });
        EXPECT_TRUE(live.wait([&] { return !live.received().empty() && live.received().back().payload == "hello"; }));
        EXPECT_TRUE(other.received().empty());
    });
}

TEST_F(Handshake, live_stream__one_that_only_its_peer_knows_to_be_dead_is_replaced_at_once)
{
    open_socket(port_of_path(0));
    run(a, [&] {
        WireStream dead(a), anew(a);
        shake_hands(dead, 0);
        world.network().reset(a, b, sim::Sees::first);
        std::uint64_t before = world.now_ns();
        ASSERT_TRUE(connect(anew, 0));
        anew.handshake(false, kGeneration, 0, kMemory);
        EXPECT_TRUE(is_probe(anew.next()));
        EXPECT_TRUE(is_reply(anew.next()));
        EXPECT_LT(world.now_ns() - before, 5 * sim::kMillisecond);
    });
}

} // namespace
