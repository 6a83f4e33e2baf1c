// SPDX-License-Identifier: GPL-2.0
// Many messages in one call: KCM_RECV_LENGTHS and KCM_LENGTHS.
#include "kcm_test.h"

#include <numeric>

namespace {

constexpr unsigned kNow = KCM_ABI_MSG_DONTWAIT;
constexpr std::size_t kHead = sizeof(kcm_abi_cmsghdr), kMuch = 4096;

using Lengths = std::vector<std::uint32_t>;

class KcmLengths : public KcmTest {
protected:
    Ends open_with_option(KcmSocket &socket, int type = KCM_ABI_SOCK_DGRAM)
    {
        Ends ends = open_with_one(socket, -1, type);
        run(a, [&] { EXPECT_EQ(socket.set_option(KCM_ABI_RECV_LENGTHS, 1), 0); });
        return ends;
    }
    KcmSocket::Received receive_each(KcmSocket &socket, std::size_t room = 1 << 20, std::size_t control_room = kMuch,
                                     unsigned flags = kNow)
    {
        KcmSocket::Received got;
        bytes_.assign(room, '\0');
        run(a, [&] { got = socket.receive_each(bytes_.data(), room, flags, control_room); });
        bytes_.resize(got.result > 0 ? static_cast<std::size_t>(got.result) : 0);
        return got;
    }
    long send_each(KcmSocket &socket, const std::vector<std::string> &messages, unsigned flags = 0, std::uint64_t connection = 0)
    {
        return send_as(socket, joined(messages), lengths_of(messages), flags, connection);
    }
    long send_as(KcmSocket &socket, const std::string &bytes, const Lengths &lengths, unsigned flags = 0,
                 std::uint64_t connection = 0)
    {
        long result = 0;
        run(a, [&] { result = socket.send_each(bytes.data(), bytes.size(), lengths, flags, connection); }, 300 * sim::kSecond);
        return result;
    }
    static std::string joined(const std::vector<std::string> &messages)
    {
        return std::accumulate(messages.begin(), messages.end(), std::string());
    }
    static Lengths lengths_of(const std::vector<std::string> &messages)
    {
        Lengths lengths;
        for (const std::string &message : messages)
            lengths.push_back(static_cast<std::uint32_t>(message.size()));
        return lengths;
    }
    static std::vector<std::string> some(unsigned count, std::size_t size = 10)
    {
        std::vector<std::string> messages;
        for (unsigned i = 0; i < count; i++)
            messages.push_back(framed(text(size + i % 3, i)));
        return messages;
    }
    static Lengths all_lengths(const KcmSocket::Received &got)
    {
        Lengths all;
        for (const auto &run : got.runs)
            all.insert(all.end(), run.lengths.begin(), run.lengths.end());
        return all;
    }
    kcm_totals totals()
    {
        kcm_totals all{};
        run(a, [&] { kcm_net_totals(host.net(a.initial_net()), &all); });
        return all;
    }

    std::string bytes_; // that were received last
};

// ---- receiving

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

// ---- sending

TEST_F(KcmLengths, messages_of_one_call__are_counted_each)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    auto messages = some(300);
    EXPECT_EQ(send_each(socket, messages), static_cast<long>(joined(messages).size()));
    EXPECT_EQ(peer_reads(ends, joined(messages).size()), joined(messages));
    EXPECT_EQ(totals().mux.tx_msgs, messages.size());
    EXPECT_EQ(send_each(socket, some(1)), 14) << "one is as good";
    EXPECT_EQ(peer_reads(ends, 14), some(1)[0]);
}

TEST_F(KcmLengths, messages_for_a_connection__take_that)
{
    KcmSocket &socket = new_socket();
    Ends first = open_with_one(socket), second = connect();
    attach(socket, second);
    auto messages = some(20);
    std::int64_t id = 0;
    run(a, [&] { id = socket.id_of(second.here); });
    EXPECT_EQ(send_each(socket, messages, 0, static_cast<std::uint64_t>(id)), static_cast<long>(joined(messages).size()));
    EXPECT_EQ(peer_reads(second, joined(messages).size()), joined(messages));
    EXPECT_FALSE(peer_has_unread(first));
}

TEST_F(KcmLengths, lengths_that_are_not_those_of_the_call__are_refused)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    std::string bytes = joined(some(2));
    for (const Lengths &wrong : {Lengths{14, 14}, Lengths{14, 16}, Lengths{14}, Lengths{29, 0}, Lengths{0},
                                 Lengths{15, 0xffffffff, 15}, Lengths{14, 15, 1}})
        EXPECT_EQ(send_as(socket, bytes, wrong), -KAPI_EINVAL);
    EXPECT_EQ(send_as(socket, "", Lengths{0}), -KAPI_EINVAL);
    struct {
        kcm_abi_cmsghdr first_head;
        kapi_u32 first[2];
        kcm_abi_cmsghdr second_head;
        kapi_u32 second[2];
    } control{{24, KCM_ABI_SOL_KCM, KCM_ABI_LENGTHS}, {14, 15}, {24, KCM_ABI_SOL_KCM, KCM_ABI_LENGTHS}, {14, 15}};
    auto send_with = [&](std::size_t length) {
        long result = 0;
        run(a, [&] {
            kapi_msg msg = sim::make_msg(bytes.data(), bytes.size(), {});
            kcm_send call{&msg, bytes.size(), &control, length, 0, 0};
            result = static_cast<long>(kcm_socket_sendmsg(socket.core(), &call));
        });
        return result;
    };
    EXPECT_EQ(send_with(sizeof(control)), -KAPI_EINVAL) << "twice";
    control.first_head.length = 22;
    EXPECT_EQ(send_with(24), -KAPI_EINVAL) << "half a length";
    control.first_head.length = 16;
    EXPECT_EQ(send_with(24), -KAPI_EINVAL) << "none";
    settle();
    EXPECT_FALSE(peer_has_unread(ends));
    control.first_head.length = 24;
    EXPECT_EQ(send_with(24), 29);
}

TEST_F(KcmLengths, message_that_was_begun__does_not_go_on_with_them)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    EXPECT_EQ(send(socket, framed("first").substr(0, 3), KCM_ABI_MSG_MORE), 3);
    EXPECT_EQ(send_each(socket, some(2)), -KAPI_EINVAL);
    EXPECT_EQ(send(socket, framed("first").substr(3)), 6);
    EXPECT_EQ(send_each(socket, some(2), KCM_ABI_MSG_MORE), 29) << "each is whole, whatever the flags";
    EXPECT_EQ(peer_reads(ends, 9 + 29), framed("first") + joined(some(2)));
}

TEST_F(KcmLengths, full_send_buffer__takes_whole_messages)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_narrow(socket);
    run(a, [&] { socket.set_sndbuf(20'000); });
    std::vector<std::string> messages(40, framed(text(996)));
    long taken = send_each(socket, messages, kNow);
    EXPECT_GT(taken, 10'000);
    EXPECT_LT(taken, 40'000);
    EXPECT_EQ(taken % 1000, 0);
    settle();
    while (send_each(socket, {messages[0]}, kNow) == 1000) {
        taken += 1000;
        settle();
    }
    EXPECT_EQ(send_each(socket, messages, kNow), -KAPI_EAGAIN);
    long waited = 0;
    auto sender = world.spawn(a, "sender", [&] {
        std::string bytes = joined(messages);
        waited = socket.send_each(bytes.data(), bytes.size(), lengths_of(messages));
    });
    EXPECT_EQ(peer_reads(ends, static_cast<std::size_t>(taken) + 40'000).size(), static_cast<std::size_t>(taken) + 40'000);
    EXPECT_TRUE(world.run_until([&] { return sender->is_done(); }, sim::kSecond));
    EXPECT_EQ(waited, 40'000);
}

TEST_F(KcmLengths, fault__leaves_the_messages_before)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    auto messages = some(4);
    socket.trouble = {.fault_at = 30};
    EXPECT_EQ(send_each(socket, messages), -KAPI_EFAULT);
    messages = std::vector<std::string>(64 + 3, framed("small"));
    socket.trouble = {.fault_at = 65 * messages[0].size()};
    EXPECT_EQ(send_each(socket, messages, KCM_ABI_MSG_BATCH), 64 * 9) << "those that were copied together; the batch ends";
    messages.resize(64);
    EXPECT_EQ(peer_reads(ends, 64 * 9), joined(messages));
    settle();
    EXPECT_FALSE(peer_has_unread(ends));
}

// Of messages that were copied together, those that TCP has whole do not go again when their connection ends.
TEST_F(KcmLengths, connection_that_ends_between_them__gets_no_message_twice)
{
    for (std::size_t size : {1000, 999, 700, 64}) {
        KcmSocket &socket = new_socket();
        Ends narrow = open_narrow(socket), wide = connect();
        std::vector<std::string> messages;
        for (unsigned i = 0; i < 32'000 / size; i++)
            messages.push_back(framed(text(size - 4, i)));
        kapi_u64 before = totals().mux.tx_msgs;
        EXPECT_EQ(send_each(socket, messages), static_cast<long>(messages.size() * size));
        settle();
        kcm_abi_connection_stats row{};
        run(a, [&] { row = socket.connections().at(0); });
        std::size_t whole = row.tx_bytes / size;
        EXPECT_GT(whole, 0u);
        EXPECT_EQ(row.tx_msgs, whole);
        EXPECT_LT(whole, messages.size());
        attach(socket, wide);
        run(b, [&] { close(narrow.there); }); // a reset, as it has not read everything
        std::string rest = joined({messages.begin() + static_cast<std::ptrdiff_t>(whole), messages.end()});
        EXPECT_EQ(peer_reads(wide, rest.size()), rest);
        settle();
        EXPECT_FALSE(peer_has_unread(wide));
        EXPECT_EQ(totals().mux.tx_msgs - before, messages.size());
    }
}

// A peer that reads to the end of a message that was begun gets no other one while the connection is to be unattached.
TEST_F(KcmLengths, unattaching__waits_for_one_message)
{
    unsigned cut = 0;
    for (std::size_t size : {999, 700, 650}) {
        KcmSocket &socket = new_socket();
        Ends ends = open_narrow(socket);
        std::vector<std::string> messages(32, framed(text(size - 4)));
        kapi_u64 before = totals().mux.tx_msgs;
        EXPECT_EQ(send_each(socket, messages), static_cast<long>(32 * size));
        settle();
        kcm_abi_connection_stats row{};
        run(a, [&] { row = socket.connections().at(0); });
        std::size_t whole = (row.tx_bytes + size - 1) / size;
        cut += row.tx_bytes % size != 0;
        EXPECT_LT(whole, 30u);
        int result = -1;
        auto unattacher = world.spawn(a, "unattacher", [&] { result = socket.unattach(ends.here); });
        settle();
        EXPECT_EQ(peer_reads(ends, whole * size).size(), whole * size);
        EXPECT_TRUE(world.run_until([&] { return unattacher->is_done(); }, sim::kSecond));
        EXPECT_EQ(result, 0);
        settle();
        EXPECT_FALSE(peer_has_unread(ends));
        EXPECT_EQ(totals().mux.tx_msgs - before, whole);
    }
    EXPECT_GT(cut, 0u);
}

// What is copied while the buffer is full is behind messages that may go.
TEST_F(KcmLengths, memory_that_stalls__keeps_nobody_waiting_for_room)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_narrow(socket);
    run(a, [&] { socket.set_sndbuf(20'000); });
    std::vector<std::string> messages(96, framed(text(996)));
    auto stalled = world.spawn(a, "stalled", [&] {
        std::string bytes = joined(messages);
        socket.trouble = {.stall_at = 70'000, .stall_ns = 100 * sim::kSecond};
        EXPECT_EQ(socket.send_each(bytes.data(), bytes.size(), lengths_of(messages)), 96'000);
    });
    settle();
    long sent = 0;
    auto other = world.spawn(a, "other", [&] { sent = socket.send(messages[0].data(), 1000); });
    settle();
    peer_reads(ends, 64'000);
    EXPECT_TRUE(world.run_until([&] { return other->is_done(); }, 5 * sim::kSecond));
    EXPECT_EQ(sent, 1000);
    peer_reads(ends, 33'000);
    EXPECT_TRUE(world.run_until([&] { return stalled->is_done(); }, 200 * sim::kSecond));
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

TEST_F(KcmLengths, tiny_messages_of_many_calls__are_accounted_for_in_pieces)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    run(a, [&] { socket.set_sndbuf(10'000'000); });
    std::vector<std::string> messages(64, std::string(4, '\0'));
    for (unsigned i = 0; i < 100; i++)
        EXPECT_EQ(send_each(socket, messages, KCM_ABI_MSG_BATCH), 256);
    EXPECT_EQ(send(socket, std::string(4, '\0')), 4);
    EXPECT_EQ(peer_reads(ends, 25'604).size(), 25'604u);
    EXPECT_LE(sim::most_steps_under("kcm send"), 1000u);
}

TEST_F(KcmLengths, waitall__is_refused)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    EXPECT_EQ(send_each(socket, some(2), KCM_ABI_MSG_WAITALL), -KAPI_EINVAL);
    EXPECT_FALSE(peer_has_unread(ends));
}

// What a call that has sent something would report is left to the next one.
TEST_F(KcmLengths, error__is_returned_by_a_call_that_sends_nothing)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_narrow(socket);
    run(a, [&] { socket.set_sndbuf(5'000); });
    std::vector<std::string> messages(40, framed(text(996)));
    long waited = 0;
    auto sender = world.spawn(a, "sender", [&] {
        std::string bytes = joined(messages);
        waited = socket.send_each(bytes.data(), bytes.size(), lengths_of(messages));
    });
    settle();
    EXPECT_FALSE(sender->is_done());
    run(a, [&] { socket.sk().error = KAPI_ENOBUFS; });
    run(a, [&] { socket.set_sndbuf(5'001); });
    EXPECT_TRUE(world.run_until([&] { return sender->is_done(); }, sim::kSecond));
    EXPECT_GT(waited, 0);
    EXPECT_LT(waited, 40'000);
    EXPECT_EQ(send_each(socket, messages, kNow), -KAPI_ENOBUFS);
    static_cast<void>(ends);
}

} // namespace
