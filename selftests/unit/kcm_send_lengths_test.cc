// SPDX-License-Identifier: GPL-2.0
// Many messages in one call: KCM_LENGTHS.
#include "kcm_lengths_test.h"

namespace {

class KcmSendLengths : public KcmLengthsTest {};

TEST_F(KcmSendLengths, messages_of_one_call__are_counted_each)
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

TEST_F(KcmSendLengths, messages_for_a_connection__take_that)
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

TEST_F(KcmSendLengths, lengths_that_are_not_those_of_the_call__are_refused)
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
    for (int level : {KCM_ABI_SOL_KCM, KCM_ABI_SOL_KCM + 1})
        for (kapi_u64 length : {kapi_u64{0}, kapi_u64{15}, kapi_u64{25}, ~kapi_u64{0}}) {
            control.first_head = {length, level, KCM_ABI_LENGTHS};
            EXPECT_EQ(send_with(24), -KAPI_EINVAL) << "no control message: " << length;
        }
    control.first_head.level = KCM_ABI_SOL_KCM;
    control.first_head.length = sizeof(control.first_head);
    EXPECT_EQ(send_with(sizeof(control.first_head)), -KAPI_EINVAL) << "none, and nothing behind it";
    settle();
    EXPECT_FALSE(peer_has_unread(ends));
    control.first_head.length = 24;
    EXPECT_EQ(send_with(24), 29);
    for (kapi_u64 length : {24, 21, 17}) { // the next one is aligned
        control.first_head = {length, KCM_ABI_SOL_KCM + 1, KCM_ABI_LENGTHS};
        EXPECT_EQ(send_with(sizeof(control)), 29) << "another protocol's, before ours: " << length;
    }
    EXPECT_EQ(totals().mux.tx_msgs, 8u);
    control.first_head = {sizeof(control.first_head), KCM_ABI_SOL_KCM + 1, 0};
    EXPECT_EQ(send_with(sizeof(control.first_head)), 29) << "another protocol's, which is empty";
    EXPECT_EQ(totals().mux.tx_msgs, 9u);
}

// Small ones are copied together up to 32 KiB.
TEST_F(KcmSendLengths, large_message__is_not_copied_with_those_behind_it)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    for (std::size_t size : {32'000, 32'768, 40'000}) {
        std::vector<std::string> messages{framed(std::string(size, 'x')), framed("second"), framed("third")};
        EXPECT_EQ(send_each(socket, messages), static_cast<long>(joined(messages).size()));
        EXPECT_EQ(peer_reads(ends, joined(messages).size()), joined(messages));
    }
}

TEST_F(KcmSendLengths, message_that_was_begun__does_not_go_on_with_them)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    EXPECT_EQ(send(socket, framed("first").substr(0, 3), KCM_ABI_MSG_MORE), 3);
    EXPECT_EQ(send_each(socket, some(2)), -KAPI_EINVAL);
    EXPECT_EQ(send(socket, framed("first").substr(3)), 6);
    EXPECT_EQ(send_each(socket, some(2), KCM_ABI_MSG_MORE), 29) << "each is whole, whatever the flags";
    EXPECT_EQ(peer_reads(ends, 9 + 29), framed("first") + joined(some(2)));
}

TEST_F(KcmSendLengths, full_send_buffer__takes_whole_messages)
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

// Messages of together 32 KiB are one call; with a byte more they are not.
TEST_F(KcmSendLengths, fault__leaves_what_was_copied_together)
{
    KcmSocket &socket = new_socket();
    open_with_one(socket);
    std::vector<std::string> messages(32, framed(text(1020)));
    ASSERT_EQ(joined(messages).size(), 32'768u);
    socket.trouble = {.fault_at = 32'767};
    EXPECT_EQ(send_each(socket, messages), -KAPI_EFAULT);
    messages[0] += 'x';
    socket.trouble = {.fault_at = 32'767};
    EXPECT_EQ(send_each(socket, messages), 32'768 - 1024 + 1);
    settle();
    EXPECT_EQ(totals().mux.tx_msgs, 31u);
}

TEST_F(KcmSendLengths, fault__leaves_the_messages_before)
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

// The next copy may take for ever, as may the next call.
TEST_F(KcmSendLengths, messages_that_are_queued__wait_for_the_others_for_a_short_time)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    std::vector<std::string> messages(64 + 3, framed("small"));
    socket.trouble = {.stall_at = 65 * messages[0].size(), .stall_ns = 2 * sim::kSecond};
    auto sender = world.spawn(a, "sender", [&] { socket.send_each(joined(messages).data(), 67 * 9, lengths_of(messages)); });
    world.run_for(20 * sim::kMillisecond);
    EXPECT_TRUE(peer_has_unread(ends));
    EXPECT_FALSE(sender->is_done());
    EXPECT_EQ(peer_reads(ends, 67 * 9), joined(messages));
    messages.resize(3); // of which none waits for another copy
    EXPECT_EQ(send_each(socket, messages, KCM_ABI_MSG_BATCH), 3 * 9);
    world.run_for(20 * sim::kMillisecond);
    EXPECT_TRUE(peer_has_unread(ends));
    EXPECT_EQ(peer_reads(ends, 3 * 9), joined(messages));
}

// Of messages that were copied together, those that TCP has whole do not go again when their connection ends.
TEST_F(KcmSendLengths, connection_that_ends_between_them__gets_no_message_twice)
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
TEST_F(KcmSendLengths, unattaching__waits_for_one_message)
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
TEST_F(KcmSendLengths, memory_that_stalls__keeps_nobody_waiting_for_room)
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

TEST_F(KcmSendLengths, tiny_messages_of_many_calls__are_accounted_for_in_pieces)
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

TEST_F(KcmSendLengths, waitall__is_refused)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    EXPECT_EQ(send_each(socket, some(2), KCM_ABI_MSG_WAITALL), -KAPI_EINVAL);
    EXPECT_FALSE(peer_has_unread(ends));
}

// What a call that has sent something would report is left to the next one.
TEST_F(KcmSendLengths, error__is_returned_by_a_call_that_sends_nothing)
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
