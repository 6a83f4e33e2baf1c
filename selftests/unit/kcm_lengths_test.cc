// SPDX-License-Identifier: GPL-2.0
// Many messages in one call: KCM_RECV_LENGTHS.
#include <kapi/sim/lock.h>

#include "kcm_lengths_test.h"

namespace {

class KcmLengths : public KcmLengthsTest {};

TEST_F(KcmLengths, what_has_come__is_returned_by_one_call)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_option(socket);
    auto messages = some(200); // more than a bundle has
    peer_writes(ends, joined(messages));
    settle();
    auto got = receive_each(socket);
    EXPECT_EQ(bytes_, joined(messages));
    EXPECT_EQ(all_lengths(got), lengths_of(messages));
    EXPECT_EQ(got.flags, unsigned{KCM_ABI_MSG_EOR});
    EXPECT_FALSE(got.control_truncated);
    EXPECT_EQ(receive(socket), kNothing);
    EXPECT_EQ(totals().mux.rx_msgs, messages.size());
}

// What comes one by one are runs of one message.
TEST_F(KcmLengths, runs__are_so_many_in_a_call_at_most)
{
    constexpr unsigned kMost = 64;
    KcmSocket &socket = new_socket();
    Ends ends = open_with_option(socket);
    for (unsigned i = 0; i < kMost + 1; i++) {
        peer_writes(ends, framed("one"));
        settle();
    }
    EXPECT_EQ(receive_each(socket, 1 << 20, 64 * kMuch).runs.size(), kMost);
    EXPECT_EQ(receive_each(socket, 1 << 20, 64 * kMuch).runs.size(), 1u);
}

// All that are left of a bundle are one piece. Under the lock nothing is looked at one by one, as long as none is missing.
TEST_F(KcmLengths, all_of_a_bundle__are_taken_in_one_step)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_option(socket);
    auto messages = some(64);
    peer_writes(ends, joined(messages));
    settle();
    EXPECT_EQ(receive(socket).size(), 14u) << "the first";
    sim::forget_steps();
    auto got = receive_each(socket);
    EXPECT_EQ(all_lengths(got).size(), 63u);
    EXPECT_LE(sim::most_steps_under("kcm receive"), 4u);
    peer_writes(ends, joined(messages));
    settle();
    sim::forget_steps();
    EXPECT_EQ(all_lengths(receive_each(socket, joined(messages).size() - 1)).size(), 63u) << "no room for the last";
    EXPECT_GE(sim::most_steps_under("kcm receive"), 63u) << "steps are counted";
}

TEST_F(KcmLengths, buffer__is_filled_with_whole_messages)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_option(socket);
    std::vector<std::string> messages(10, framed(text(20)));
    peer_writes(ends, joined(messages));
    settle();
    for (unsigned count : {3u, 3u, 3u, 1u}) {
        auto got = receive_each(socket, 3 * 24 + 23);
        EXPECT_EQ(all_lengths(got), Lengths(count, 24));
        EXPECT_EQ(bytes_.size(), count * 24);
    }
    EXPECT_EQ(receive(socket), kNothing);
}

// Of each run what the runs before it have left is the room.
TEST_F(KcmLengths, buffer__is_filled_with_whole_messages_of_many_runs)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_option(socket);
    std::vector<std::string> messages(5, framed(text(20)));
    for (unsigned run = 0; run < 3; run++) {
        peer_writes(ends, joined(messages));
        settle();
    }
    auto got = receive_each(socket, (5 + 5 + 3) * 24 + 23);
    EXPECT_EQ(got.runs.size(), 3u);
    EXPECT_EQ(all_lengths(got), Lengths(5 + 5 + 3, 24));
    EXPECT_EQ(all_lengths(receive_each(socket)), Lengths(2, 24));
}

TEST_F(KcmLengths, room_for_lengths__is_the_limit)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_option(socket);
    auto messages = some(12);
    peer_writes(ends, joined(messages));
    settle();
    for (unsigned count : {1u, 2u, 4u, 5u}) {
        auto got = receive_each(socket, 1 << 20, kHead + count * 4);
        EXPECT_EQ(all_lengths(got).size(), count);
        EXPECT_FALSE(got.control_truncated);
    }
    EXPECT_EQ(receive(socket), kNothing);
}

TEST_F(KcmLengths, room_for_lengths__is_beside_that_for_the_connection)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_option(socket);
    run(a, [&] { socket.set_option(KCM_ABI_RECV_CONNECTION, 1); });
    auto messages = some(5);
    peer_writes(ends, joined(messages));
    settle();
    auto got = receive_each(socket, 1 << 20, kHead + 8 + kHead + 3 * 4);
    EXPECT_EQ(all_lengths(got).size(), 3u);
    EXPECT_NE(got.runs.at(0).connection, 0u);
    EXPECT_FALSE(got.control_truncated);
}

TEST_F(KcmLengths, no_room_for_lengths__is_one_message_and_reported)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_option(socket);
    peer_writes(ends, joined(some(3)));
    settle();
    for (std::size_t room : {std::size_t{0}, kHead, kHead + 3}) {
        auto got = receive_each(socket, 1 << 20, room);
        EXPECT_EQ(bytes_.size(), got.result > 0 ? 4 + text(10 + (room == kHead ? 1 : room ? 2 : 0)).size() : 0);
        EXPECT_TRUE(got.control_truncated);
    }
}

TEST_F(KcmLengths, without_the_option__each_call_returns_one)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    run(a, [&] {
        EXPECT_EQ(socket.get_option(KCM_ABI_RECV_LENGTHS), 0);
        socket.set_option(KCM_ABI_RECV_LENGTHS, 5);
        EXPECT_EQ(socket.get_option(KCM_ABI_RECV_LENGTHS), 1);
        socket.set_option(KCM_ABI_RECV_LENGTHS, 0);
    });
    peer_writes(ends, joined(some(3)));
    settle();
    EXPECT_EQ(receive_each(socket).result, 14);
    EXPECT_EQ(receive_each(socket).result, 15);
}

TEST_F(KcmLengths, message_longer_than_the_buffer__is_returned_alone)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_option(socket);
    std::string large = framed(text(100)), small = framed("small");
    peer_writes(ends, small + large + small + small);
    settle();
    EXPECT_EQ(all_lengths(receive_each(socket, 50)), Lengths{9}) << "the large one stays whole";
    auto got = receive_each(socket, 50);
    EXPECT_EQ(all_lengths(got), Lengths{50});
    EXPECT_EQ(got.flags, unsigned{KCM_ABI_MSG_EOR | KCM_ABI_MSG_TRUNC});
    EXPECT_EQ(bytes_, large.substr(0, 50));
    EXPECT_EQ(all_lengths(receive_each(socket, 50)), (Lengths{9, 9}));
}

TEST_F(KcmLengths, message_longer_than_the_buffer__is_read_in_parts)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_option(socket, KCM_ABI_SOCK_SEQPACKET);
    std::string large = framed(text(100)), small = framed("small");
    peer_writes(ends, small + large + small + small);
    settle();
    EXPECT_EQ(all_lengths(receive_each(socket, 50)), Lengths{9});
    auto got = receive_each(socket, 50);
    EXPECT_EQ(all_lengths(got), Lengths{50});
    EXPECT_EQ(got.flags, 0u);
    got = receive_each(socket);
    EXPECT_EQ(all_lengths(got), (Lengths{54, 9, 9})) << "the end of the one, and what follows";
    EXPECT_EQ(bytes_, large.substr(50) + small + small);
    EXPECT_EQ(got.flags, unsigned{KCM_ABI_MSG_EOR});
}

TEST_F(KcmLengths, messages_of_two_connections__are_runs_of_their_own)
{
    KcmSocket &socket = new_socket();
    Ends first = open_with_option(socket), second = connect();
    attach(socket, second);
    run(a, [&] { socket.set_option(KCM_ABI_RECV_CONNECTION, 1); });
    std::uint64_t ids[2] = {};
    run(a, [&] {
        ids[0] = static_cast<std::uint64_t>(socket.id_of(first.here));
        ids[1] = static_cast<std::uint64_t>(socket.id_of(second.here));
    });
    auto messages = some(3);
    peer_writes(first, joined(messages));
    settle();
    peer_writes(second, joined(messages));
    settle();
    auto got = receive_each(socket);
    ASSERT_EQ(got.runs.size(), 2u);
    for (unsigned i = 0; i < 2; i++) {
        EXPECT_EQ(got.runs[i].connection, ids[i]);
        EXPECT_EQ(got.runs[i].lengths, lengths_of(messages));
    }
    EXPECT_EQ(bytes_, joined(messages) + joined(messages));
}

TEST_F(KcmLengths, peek__shows_the_first_one)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_option(socket);
    auto messages = some(3);
    peer_writes(ends, joined(messages));
    settle();
    EXPECT_EQ(all_lengths(receive_each(socket, 1 << 20, kMuch, kNow | KCM_ABI_MSG_PEEK)), Lengths{14});
    EXPECT_EQ(all_lengths(receive_each(socket)), lengths_of(messages));
}

TEST_F(KcmLengths, fault__takes_nothing_that_was_not_returned)
{
    constexpr unsigned kMessages = 100;
    KcmSocket &socket = new_socket();
    Ends ends = open_with_option(socket);
    std::vector<std::string> messages(kMessages, framed("small"));
    peer_writes(ends, joined(messages));
    settle();
    socket.trouble = {.fault_at = 30};
    EXPECT_EQ(receive_each(socket).result, -KAPI_EFAULT) << "in the first run";
    socket.trouble = {.fault_at = 64 * messages[0].size() + 3};
    EXPECT_EQ(all_lengths(receive_each(socket)).size(), 64u) << "in the second";
    EXPECT_EQ(all_lengths(receive_each(socket)).size(), kMessages - 64);
    EXPECT_EQ(receive(socket), kNothing);
    EXPECT_EQ(totals().mux.rx_msgs, kMessages);
}

// One reader's copy of a run fails late. What another one took meanwhile is not there any more when the run comes back.
TEST_F(KcmLengths, run_that_comes_back__is_read_again_in_its_place)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_option(socket);
    auto messages = some(9);
    peer_writes(ends, joined(messages));
    settle();
    auto failing = world.spawn(a, "reader", [&] {
        char bytes[60]; // four
        socket.trouble = {.fault_at = 50, .stall_at = 2, .stall_ns = 100 * sim::kMillisecond};
        EXPECT_EQ(socket.receive_each(bytes, sizeof(bytes), kNow, kMuch).result, -KAPI_EFAULT);
    });
    world.run_for(sim::kMillisecond);
    EXPECT_EQ(all_lengths(receive_each(socket, 32)), (Lengths{15, 16})) << "the fifth and the sixth";
    EXPECT_TRUE(world.run_until([&] { return failing->is_done(); }, sim::kSecond));
    EXPECT_EQ(all_lengths(receive_each(socket, 1 << 20, kHead + 4 * 20)), (Lengths{14, 15, 16, 14, 14, 15, 16}));
    messages.erase(messages.begin() + 4, messages.begin() + 6);
    EXPECT_EQ(bytes_, joined(messages));
}

// Messages are not glued together because another thread changes what is reported.
TEST_F(KcmLengths, option_that_changes_while_a_reader_waits__is_that_of_the_message)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_option(socket);
    KcmSocket::Received got;
    std::string bytes(1000, '\0');
    auto reader = world.spawn(a, "reader", [&] { got = socket.receive_each(bytes.data(), bytes.size(), 0, kMuch); });
    settle();
    run(a, [&] { socket.set_option(KCM_ABI_RECV_LENGTHS, 0); });
    peer_writes(ends, joined(some(3)));
    EXPECT_TRUE(world.run_until([&] { return reader->is_done(); }, sim::kSecond));
    EXPECT_EQ(got.result, 14);
    EXPECT_EQ(receive(socket).size(), 15u);
}

} // namespace
