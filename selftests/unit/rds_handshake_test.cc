// SPDX-License-Identifier: GPL-2.0
// Exactly once, when hosts and streams come and go: the situations that the argument at the head of net/rds/path.h is
// about, each built by hand with a peer that says what the test wants.
#include "kapi_sim_test.h"

#include <algorithm>
#include <functional>
#include <string>

#include "net/rds/uapi.h"
#include "selftests/sim/rds_host.h"
#include "selftests/sim/wire_peer.h"

namespace {

constexpr kapi_u32 kGeneration = 0x1001, kNextGeneration = 0x1002;
constexpr kapi_u32 kMemory = 0x2001, kNextMemory = 0x2002;
constexpr kapi_u16 kPeersPort = 500;

/** A local port whose messages take this path, when there are eight. */
kapi_u16 port_of_path(unsigned path, kapi_u16 from = 1000)
{
    while (((from * 2654435761u) >> 16) % rds::max_paths != path)
        from++;
    return from;
}

bool is_reply(const WireStream::Heard &heard)
{
    auto kind = rds::classify(heard.header);
    return kind && *kind == rds::MessageKind::probe_reply;
}

bool is_probe(const WireStream::Heard &heard)
{
    auto kind = rds::classify(heard.header);
    return kind && *kind == rds::MessageKind::probe;
}

/** The peer has the smaller address, so it opens the streams; the victim runs RDS. */
class Handshake : public SimTest {
protected:
    Handshake() : host(b), socket(host)
    {
        run(b, [this] { ASSERT_EQ(host.load(), 0); });
    }
    ~Handshake() override
    {
        run(b, [this] {
            socket.close();
            EXPECT_TRUE(host.unload_soon());
        });
    }

    void open_socket(kapi_u16 port)
    {
        run(b, [&] {
            ASSERT_EQ(socket.open(), 0);
            ASSERT_EQ(socket.bind(sim::address("10.0.0.2", port)), 0);
            socket.sk().rcvtimeo_ns = socket.sk().sndtimeo_ns = sim::kSecond;
        });
    }
    /** A program of the victim sends text to the peer. */
    void victim_sends(const std::string &text)
    {
        run(b, [&] {
            EXPECT_EQ(socket.send(text.data(), text.size(), sim::address("10.0.0.1", kPeersPort)),
                      static_cast<long>(text.size()));
        });
    }
    std::string victim_receives()
    {
        std::string text;
        run(b, [&] {
            std::string buffer(1 << 20, '\0');
            long size = socket.receive(buffer.data(), buffer.size(), nullptr);
            text = size < 0 ? "error " + std::to_string(size) : buffer.substr(0, static_cast<std::size_t>(size));
        });
        return text;
    }
    bool connect(WireStream &stream, unsigned path)
    {
        next_port = static_cast<kapi_u16>(next_port + 8);
        return stream.connect(sim::address("10.0.0.1", static_cast<kapi_u16>(next_port + path)),
                              sim::address("10.0.0.2", 16385));
    }
    /** Connects and does what one of ours does, up to where messages may go in both directions. The victim's answer. */
    rds::Handshake shake_hands(WireStream &stream, unsigned path, kapi_u32 generation = kGeneration,
                               kapi_u32 memory = kMemory)
    {
        EXPECT_TRUE(connect(stream, path));
        EXPECT_TRUE(stream.handshake(false, generation, path, memory));
        EXPECT_TRUE(is_probe(stream.next()));
        auto answer = stream.next();
        EXPECT_TRUE(is_reply(answer));
        EXPECT_TRUE(stream.handshake(true, generation, path, memory));
        world.sleep(5 * sim::kMillisecond); // until it is there
        return rds::parse_handshake(answer.header);
    }
    /** A message of the victim goes into a stream that ends before anything arrives. */
    void victim_sends_in_vain(const std::string &text)
    {
        world.network().cut(a, b);
        victim_sends(text);
        world.network().reset(a, b, sim::Sees::both);
        world.run_for(sim::kMillisecond);
        world.network().cut(a, b, false);
    }

    RdsHost host;
    RdsSocket socket;
    kapi_u16 next_port = 30000;
};

TEST_F(Handshake, nothing_with_a_number_goes_before_the_answer)
{
    open_socket(port_of_path(0));
    run(a, [&] {
        WireStream stream(a);
        ASSERT_TRUE(connect(stream, 0));
        stream.handshake(false, kGeneration, 0, kMemory);
        EXPECT_TRUE(is_probe(stream.next()));
        EXPECT_TRUE(is_reply(stream.next()));
        world.spawn(b, "sender", [&] { socket.send("hello", 5, sim::address("10.0.0.1", kPeersPort)); });
        world.sleep(500 * sim::kMillisecond);
        EXPECT_TRUE(stream.heard().empty());
        stream.handshake(true, kGeneration, 0, kMemory);
        EXPECT_EQ(stream.next().payload, "hello");
    });
}

// Simulator seed 206408: a peer of ours that stood still for some seconds was taken for another's, and got messages with a
// number before it had said by which memory it would meet them.
TEST_F(Handshake, one_of_ours_may_stand_still_before_it_answers)
{
    open_socket(port_of_path(0));
    run(a, [&] {
        WireStream stream(a);
        ASSERT_TRUE(connect(stream, 0));
        world.spawn(b, "sender", [&] {
            socket.send("hello", 5, sim::address("10.0.0.1", kPeersPort), RDS_ABI_MSG_DONTWAIT);
        });
        world.sleep(20 * sim::kSecond);
        for (const auto &heard : stream.heard())
            EXPECT_TRUE(is_probe(heard));
        stream.handshake(false, kGeneration, 0, kMemory);
        stream.handshake(true, kGeneration, 0, kMemory);
        EXPECT_TRUE(stream.wait([&] { return stream.heard().back().payload == "hello"; }));
    });
}

// The kernel's own with pings switched off answers no probe, but begins each stream with its map, unlike ours.
TEST_F(Handshake, another_is_known_by_its_map)
{
    open_socket(port_of_path(0));
    run(a, [&] {
        WireStream stream(a);
        ASSERT_TRUE(connect(stream, 0));
        EXPECT_TRUE(is_probe(stream.next()));
        ASSERT_TRUE(stream.message(0, 0, 0, std::string(rds::map_bytes, '\0'), rds::flag_congestion_map));
        world.spawn(b, "sender", [&] {
            socket.send("hello", 5, sim::address("10.0.0.1", kPeersPort), RDS_ABI_MSG_DONTWAIT);
        });
        EXPECT_TRUE(stream.wait([&] { return !stream.heard().empty() && stream.heard().back().payload == "hello"; }));
    });
}

// Found by the fuzzer of sequences: the paths that stood when the peer turned out to be one of ours were never asked.
TEST_F(Handshake, a_peer_taken_for_another_is_asked_on_all_its_paths)
{
    open_socket(port_of_path(1));
    run(a, [&] {
        WireStream first(a), second(a);
        ASSERT_TRUE(connect(first, 0));
        // As Linux 7.x says it: eight paths, told by the port, and no name of a memory.
        rds::Header header{};
        header.sport = rds::probe_port;
        rds::write_handshake(header, kGeneration, 0, 0);
        constexpr kapi_u8 kNames = 15;
        std::fill(std::find(header.extensions + 8, std::end(header.extensions), kNames), std::end(header.extensions), 0);
        ASSERT_TRUE(rds::parse_handshake(header).source_port_index && !rds::parse_handshake(header).hawser);
        ASSERT_TRUE(first.send(&header, sizeof(header)));
        world.sleep(100 * sim::kMillisecond);
        ASSERT_TRUE(connect(second, 1));
        world.sleep(100 * sim::kMillisecond);
        EXPECT_TRUE(second.heard().empty());
        first.handshake(false, kGeneration, 0, kMemory);
        EXPECT_TRUE(is_probe(second.next()));
        second.handshake(false, kGeneration, 1, kMemory);
        second.handshake(true, kGeneration, 1, kMemory);
        first.handshake(true, kGeneration, 0, kMemory);
        world.spawn(b, "sender", [&] {
            socket.send("hello", 5, sim::address("10.0.0.1", kPeersPort), RDS_ABI_MSG_DONTWAIT);
        });
        EXPECT_TRUE(second.wait([&] { return !second.heard().empty() && second.heard().back().payload == "hello"; }));
    });
}

TEST_F(Handshake, each_path_asks_for_itself)
{
    open_socket(port_of_path(3));
    WireStream first(a), third(a);
    run(a, [&] {
        shake_hands(first, 0);
        ASSERT_TRUE(connect(third, 3));
        EXPECT_TRUE(is_probe(third.next()));
    });
    victim_sends("hello");
    run(a, [&] {
        EXPECT_FALSE(is_probe(third.next(300 * sim::kMillisecond)));
        third.handshake(false, kGeneration, 3, kMemory);
        auto answer = third.next();
        EXPECT_TRUE(is_reply(answer));
        EXPECT_EQ(rds::parse_handshake(answer.header).path, 3);
        third.handshake(true, kGeneration, 3, kMemory);
        EXPECT_EQ(third.next().payload, "hello");
        EXPECT_TRUE(first.heard().empty());
        first.close(true), third.close(true);
    });
}

TEST_F(Handshake, same_memory__sent_again_and_marked)
{
    open_socket(port_of_path(0));
    WireStream stream(a);
    run(a, [&] { shake_hands(stream, 0); });
    victim_sends_in_vain("one");
    victim_sends("two");
    run(a, [&] {
        shake_hands(stream, 0);
        auto one = stream.next();
        EXPECT_EQ(one.payload, "one");
        EXPECT_EQ(one.header.flags, rds::flag_retransmitted);
        EXPECT_EQ(kapi_u64{one.header.sequence}, 1u);
        EXPECT_EQ(stream.next().payload, "two");
        stream.close(true);
    });
}

TEST_F(Handshake, another_memory__what_was_sent_is_given_up_and_the_rest_is_not)
{
    open_socket(port_of_path(0));
    WireStream stream(a);
    run(a, [&] { shake_hands(stream, 0); });
    victim_sends_in_vain("one");
    victim_sends("two");
    run(a, [&] {
        shake_hands(stream, 0, kNextGeneration, kNextMemory);
        auto two = stream.next();
        EXPECT_EQ(two.payload, "two");
        EXPECT_EQ(kapi_u64{two.header.sequence}, 2u);
        stream.close(true);
    });
}

TEST_F(Handshake, memory_is_renamed_when_another_sender_comes_and_then_only)
{
    open_socket(port_of_path(0));
    WireStream stream(a);
    run(a, [&] {
        kapi_u32 first = shake_hands(stream, 0).memory;
        EXPECT_NE(first, 0u);
        EXPECT_EQ(shake_hands(stream, 0).memory, first);
        stream.message(1, kPeersPort, port_of_path(0), "one");
        // The address moves to another host, and back to the first, which sends again what was not acknowledged to it.
        kapi_u32 second = shake_hands(stream, 0, kNextGeneration).memory;
        EXPECT_NE(second, first);
        kapi_u32 third = shake_hands(stream, 0, kGeneration).memory;
        EXPECT_NE(third, first);
        EXPECT_NE(third, second);
        stream.close(true);
    });
    EXPECT_EQ(victim_receives(), "one");
}

// Simulator seed 1153: a handshake on path 0 reset the numbers of path 1, whose old stream still had something to say.
TEST_F(Handshake, a_new_sender_on_one_path_does_not_touch_the_numbers_of_another)
{
    open_socket(port_of_path(0));
    WireStream first(a), second(a), anew(a);
    run(a, [&] {
        shake_hands(first, 0);
        shake_hands(second, 1);
        second.message(1, kPeersPort, port_of_path(0), "one");
        shake_hands(anew, 0, kNextGeneration, kNextMemory);
        second.message(1, kPeersPort, port_of_path(0), "one", rds::flag_retransmitted);
        second.message(2, kPeersPort, port_of_path(0), "two");
        world.sleep(10 * sim::kMillisecond);
        first.close(true), second.close(true), anew.close(true);
    });
    EXPECT_EQ(victim_receives(), "one");
    std::string more = victim_receives();
    EXPECT_TRUE(more == "two" || more == "error -110") << more;
}

TEST_F(Handshake, a_stream_taken_for_another_path_is_not_answered)
{
    open_socket(port_of_path(0));
    WireStream third(a), first(a);
    run(a, [&] {
        ASSERT_TRUE(connect(third, 3)); // the victim knows nobody yet, and takes it for its first path
        third.handshake(false, kGeneration, 3, kMemory);
        EXPECT_TRUE(third.wait([&] { return third.is_gone(); }));
        for (const auto &heard : third.heard())
            EXPECT_FALSE(is_reply(heard));
        shake_hands(first, 0);
        first.message(1, kPeersPort, port_of_path(0), "hello");
        third.close(true);
    });
    EXPECT_EQ(victim_receives(), "hello");
    run(a, [&] { first.close(true); });
}

// Simulator seed 5598: no memory for a message that is no more than a header; all of it had been read, so nothing was
// offered again.
TEST_F(Handshake, survives_a_moment_without_memory)
{
    WireStream stream(a);
    run(a, [&] {
        ASSERT_TRUE(connect(stream, 0));
        EXPECT_TRUE(is_probe(stream.next()));
        b.faults().one_in = 1;
        stream.handshake(false, kGeneration, 0, kMemory);
        world.sleep(100 * sim::kMillisecond);
        EXPECT_TRUE(stream.heard().empty());
        b.faults().one_in = 0;
        EXPECT_TRUE(is_reply(stream.next(50 * sim::kMillisecond)));
        stream.close(true);
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

} // namespace
