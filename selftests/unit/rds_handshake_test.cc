// SPDX-License-Identifier: GPL-2.0
// Exactly once, when hosts and streams come and go: the situations that the argument at the head of
// net/rds/receiver_memory.h is about, each built by hand with a peer that sends what the test needs.
#include "rds_handshake_test.h"

namespace {

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
        EXPECT_TRUE(stream.received().empty());
        stream.handshake(true, kGeneration, 0, kMemory);
        EXPECT_EQ(stream.next().payload, "hello");
    });
}

// Simulator seed 206408: a hawser peer that stopped for some seconds was taken for foreign, and got messages with a
// number before it had named its memory.
TEST_F(Handshake, one_of_ours_may_stand_still_before_it_answers)
{
    open_socket(port_of_path(0));
    run(a, [&] {
        WireStream stream(a);
        ASSERT_TRUE(connect(stream, 0));
        answer_after(stream, 20 * sim::kSecond);
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
        EXPECT_TRUE(stream.wait([&] { return !stream.received().empty() && stream.received().back().payload == "hello"; }));
    });
}

// Found by the fuzzer of sequences: the paths that were up when the peer proved to run hawser were never probed.
TEST_F(Handshake, a_peer_taken_for_another_is_asked_on_all_its_paths)
{
    open_socket(port_of_path(1));
    run(a, [&] {
        WireStream first(a), second(a);
        ASSERT_TRUE(connect(first, 0));
        // As Linux 7.x does: eight paths, identified by the port, and no name of a memory.
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
        EXPECT_TRUE(second.received().empty());
        first.handshake(false, kGeneration, 0, kMemory);
        EXPECT_TRUE(is_probe(second.next()));
        second.handshake(false, kGeneration, 1, kMemory);
        second.handshake(true, kGeneration, 1, kMemory);
        first.handshake(true, kGeneration, 0, kMemory);
        world.spawn(b, "sender", [&] {
            socket.send("hello", 5, sim::address("10.0.0.1", kPeersPort), RDS_ABI_MSG_DONTWAIT);
        });
        EXPECT_TRUE(second.wait([&] { return !second.received().empty() && second.received().back().payload == "hello"; }));
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
        EXPECT_TRUE(first.received().empty());
        first.close(true), third.close(true);
    });
}

// A peer that offers eight paths and then one moves messages to path 0. Who cancels one must hold the lock of the queue
// that it is on now: with a lock for each path it was the lock of the path that the message was sent on.
TEST_F(Handshake, cancelling_holds_the_lock_of_the_queue_that_a_message_was_moved_to)
{
    open_socket(port_of_path(3));
    WireStream first(a);
    run(a, [&] { shake_hands(first, 0); });
    victim_sends("hello");
    unsigned moved = 0;
    run(a, [&] {
        rds::Header header{};
        header.sport = rds::probe_port;
        rds::write_handshake(header, kGeneration, 0, kMemory);
        constexpr kapi_u8 kPaths = 5;
        kapi_u8 *paths = std::find(header.extensions, std::end(header.extensions), kPaths);
        ASSERT_NE(paths, std::end(header.extensions));
        paths[1] = 0, paths[2] = 1;
        ASSERT_EQ(rds::parse_handshake(header).paths, 1u);
        world.network().link(b, a).cut = true; // what path 0 sends is not acknowledged
        ASSERT_TRUE(first.send(&header, sizeof(header)));
        world.sleep(100 * sim::kMillisecond);
        sim::NodeScope scope(b);
        auto &net = *reinterpret_cast<rds::Net *>(host.net().rds);
        net.connections.for_each([&](rds::Connection &connection) {
            for (bool sent : {false, true}) {
                connection.path(0).for_each_message(sent, [&](rds::Message &message) {
                    moved += message.length() == 5;
                    EXPECT_TRUE(message.connection->path_lock().is_held());
                });
            }
        });
    });
    EXPECT_EQ(moved, 1u);
    run(b, [&] { socket.close(); }); // cancels it
    world.network().link(b, a).cut = false;
    run(a, [&] { first.close(true); });
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

// Simulator seed 1153: a handshake on path 0 reset the numbers of path 1, whose old stream still had unread messages. Here
// it waits behind a full socket.
TEST_F(Handshake, a_new_sender_on_one_path_does_not_touch_the_numbers_of_another)
{
    const kapi_u16 port = port_of_path(0);
    open_socket(port);
    WireStream first(a), second(a), anew(a);
    kapi_u64 count = 0;
    run(a, [&] {
        shake_hands(first, 0);
        shake_hands(second, 1);
        count = fill(second, port);
        ASSERT_TRUE(second.message(1, kPeersPort, port, "again", rds::flag_retransmitted));
        ASSERT_TRUE(second.message(count + 1, kPeersPort, port, "new"));
        first.close(true);
        shake_hands(anew, 0, kNextGeneration, kNextMemory);
    });
    for (kapi_u64 i = 0; i < count; i++)
        EXPECT_EQ(victim_receives().size(), 10000u);
    EXPECT_EQ(victim_receives(), "new");
    EXPECT_EQ(counted(rds::Stat::recv_drop_old_seq), 1u);
    run(a, [&] { second.close(true), anew.close(true); });
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
        EXPECT_TRUE(stream.received().empty());
        b.faults().one_in = 0;
        EXPECT_TRUE(is_reply(stream.next(50 * sim::kMillisecond)));
        stream.close(true);
    });
}

// A peer that reads an old stream to its end first, and has a full socket, is silent for an unlimited time.
TEST_F(Handshake, known_hawser__silence_does_not_make_it_foreign)
{
    open_socket(port_of_path(0));
    run(a, [&] {
        WireStream stream(a);
        shake_hands(stream, 0);
        ASSERT_TRUE(connect(stream, 0));
        answer_after(stream, 200 * sim::kSecond);
    }, 300 * sim::kSecond);
}

} // namespace
