// SPDX-License-Identifier: GPL-2.0
// From sendmsg to TCP: messages of several calls, messages for one connection, full buffers, faults.
#include "kcm_test.h"

namespace {

constexpr unsigned kMore = KCM_ABI_MSG_MORE, kEor = KCM_ABI_MSG_EOR;
constexpr unsigned kNow = KCM_ABI_MSG_DONTWAIT;

class KcmSend : public KcmTest {
protected:
    /** Sends until neither the socket nor TCP takes more. How many. */
    unsigned fill(KcmSocket &socket, const std::string &message)
    {
        unsigned sent = 0;
        for (bool more = true; more; settle())
            for (more = false; send(socket, message, kNow) == static_cast<long>(message.size()); more = true)
                sent++;
        return sent;
    }
    std::vector<std::string> peer_reads_messages(const Ends &ends, std::size_t count)
    {
        std::vector<std::string> messages;
        auto reader = world.spawn(b, "reader", [&] {
            while (messages.size() < count) {
                std::string head = read(ends.there, 4);
                if (head.size() < 4)
                    break;
                std::size_t size = 0;
                for (char byte : head)
                    size = size << 8 | static_cast<unsigned char>(byte);
                if (size > 10'000'000)
                    break; // not where a message begins
                messages.push_back(head + read(ends.there, size));
            }
        });
        if (!world.run_until([&] { return reader->is_done(); }, 300 * sim::kSecond))
            world.fail("the peer got %zu messages of %zu", messages.size(), count);
        return messages;
    }
};

TEST_F(KcmSend, message__is_sent_as_it_is)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    EXPECT_EQ(send(socket, "xyz"), 3);
    EXPECT_EQ(send(socket, ""), 0);
    EXPECT_EQ(peer_reads(ends, 3), "xyz");
    EXPECT_EQ(send(socket, text(900'000), kNow), 900'000); // whatever the send buffer
    EXPECT_EQ(peer_reads(ends, 900'000), text(900'000));
    EXPECT_FALSE(peer_has_unread(ends));
}

TEST_F(KcmSend, message_alone__needs_no_new_memory_after_the_first_time)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    auto allocations = [&](std::size_t size) {
        std::uint64_t before = a.faults().count;
        EXPECT_EQ(send(socket, text(size)), static_cast<long>(size));
        EXPECT_EQ(peer_reads(ends, size), text(size));
        return a.faults().count - before;
    };
    auto first = allocations(500), again = allocations(500);
    EXPECT_LT(again, first);
    EXPECT_EQ(allocations(1), again);
    EXPECT_EQ(allocations(4096), again);
    EXPECT_EQ(allocations(4097), first); // needs another page
    EXPECT_EQ(allocations(5000), again);
}

TEST_F(KcmSend, small_messages__fill_the_buffer_too)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_narrow(socket);
    run(a, [&] { socket.sk().sndbuf = 20'000; });
    EXPECT_EQ(send(socket, framed(text(30'000)), kNow), 30'004);
    peer_reads(ends, 30'000); // 4 are left, maybe with TCP
    unsigned sent = 0;
    while (send(socket, framed(""), kNow) == 4)
        ASSERT_LT(++sent, 5000u);
    settle();
    EXPECT_EQ(peer_reads(ends, 4 + 4 * sent).size(), 4 + 4 * sent);
}

TEST_F(KcmSend, message__that_tcp_takes_a_part_of_stays_before_later_ones)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_narrow(socket);
    std::vector<std::string> messages{framed(text(30'000)), framed("second"), framed(text(500, 3))};
    for (const std::string &message : messages)
        EXPECT_EQ(send(socket, message, kNow), static_cast<long>(message.size()));
    EXPECT_EQ(peer_reads_messages(ends, 3), messages);
}

TEST_F(KcmSend, datagram__goes_on_with_more)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    EXPECT_EQ(send(socket, "one ", kMore), 4);
    settle();
    EXPECT_FALSE(peer_has_unread(ends));
    EXPECT_EQ(send(socket, "message", 0), 7);
    EXPECT_EQ(peer_reads(ends, 11), "one message");
}

TEST_F(KcmSend, seqpacket__goes_on_until_end_of_record)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket, -1, KCM_ABI_SOCK_SEQPACKET);
    EXPECT_EQ(send(socket, "one "), 4);
    EXPECT_EQ(send(socket, "long "), 5);
    settle();
    EXPECT_FALSE(peer_has_unread(ends));
    EXPECT_EQ(send(socket, "message", kEor), 7);
    EXPECT_EQ(peer_reads(ends, 16), "one long message");
    EXPECT_EQ(send(socket, "x"), 1);
    EXPECT_EQ(send(socket, "", kEor), 0);
    EXPECT_EQ(peer_reads(ends, 1), "x");
    socket.spliced = true;
    EXPECT_EQ(send(socket, "y", kMore), 1);
    EXPECT_EQ(send(socket, "z"), 1); // the end of a file
    EXPECT_EQ(peer_reads(ends, 2), "yz");
}

// sendfile() has returned what was sent before: there is no result for this.
TEST_F(KcmSend, end_of_a_spliced_file__takes_no_error)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    socket.spliced = true;
    EXPECT_EQ(send(socket, "y", kMore), 1);
    run(a, [&] { kapi_sk_set_error(&socket.sk(), KAPI_ECONNRESET); });
    EXPECT_EQ(send(socket, ""), 0);
    EXPECT_EQ(peer_reads(ends, 1), "y");
    EXPECT_EQ(send(socket, "z"), -KAPI_ECONNRESET);
}

TEST_F(KcmSend, connection__that_is_named_is_taken)
{
    KcmSocket &socket = new_socket();
    Ends first = open_with_one(socket), second = connect();
    run(a, [&] { ASSERT_EQ(socket.attach(second.here, by_length), 0); });
    std::uint64_t ids[2] = {}, from = 0;
    run(a, [&] {
        auto rows = socket.connections();
        ASSERT_EQ(rows.size(), 2u);
        ids[0] = rows[0].id;
        ids[1] = rows[1].id;
        ASSERT_EQ(socket.set_option(KCM_ABI_RECV_CONNECTION, 1), 0);
    });
    EXPECT_NE(ids[0], ids[1]);
    for (unsigned i = 0; i < 10; i++) {
        EXPECT_EQ(send(socket, "1", 0, ids[0]), 1);
        EXPECT_EQ(send(socket, "2", 0, ids[1]), 1);
    }
    EXPECT_EQ(peer_reads(first, 10), "1111111111");
    EXPECT_EQ(peer_reads(second, 10), "2222222222");
    peer_writes(second, framed("whose?"));
    settle();
    EXPECT_EQ(receive(socket, 100, kNow, nullptr, &from), framed("whose?"));
    EXPECT_EQ(from, ids[1]);
    EXPECT_EQ(send(socket, "x", 0, 777), -KAPI_ENOTCONN);
    run(a, [&] { EXPECT_EQ(socket.unattach(second.here), 0); });
    EXPECT_EQ(send(socket, "x", 0, ids[1]), -KAPI_ENOTCONN);
    EXPECT_EQ(send(socket, "3", 0, ids[0]), 1);
    EXPECT_EQ(peer_reads(first, 1), "3");
}

TEST_F(KcmSend, control_data__that_is_damaged_is_refused)
{
    KcmSocket &socket = new_socket();
    open_with_one(socket);
    run(a, [&] {
        auto with = [&](kapi_u64 length, int level, int type, std::size_t given) {
            struct {
                kcm_abi_cmsghdr head;
                kapi_u64 id;
            } control{{length, level, type}, 1};
            unsigned char byte = 'x';
            kapi_msg msg = sim::make_msg(&byte, 1, {});
            kcm_send call{&msg, 1, &control, given, 0, 0};
            return kcm_socket_sendmsg(socket.core(), &call);
        };
        EXPECT_EQ(with(24, KCM_ABI_SOL_KCM, KCM_ABI_CONNECTION, 24), 1);
        EXPECT_EQ(with(24, 1, 2, 24), 1); // of another protocol
        EXPECT_EQ(with(15, KCM_ABI_SOL_KCM, KCM_ABI_CONNECTION, 24), -KAPI_EINVAL);
        EXPECT_EQ(with(25, KCM_ABI_SOL_KCM, KCM_ABI_CONNECTION, 24), -KAPI_EINVAL);
        EXPECT_EQ(with(20, KCM_ABI_SOL_KCM, KCM_ABI_CONNECTION, 24), -KAPI_EINVAL);
        EXPECT_EQ(with(24, KCM_ABI_SOL_KCM, 7, 24), -KAPI_EINVAL);
        EXPECT_EQ(with(~0ull, KCM_ABI_SOL_KCM, KCM_ABI_CONNECTION, 24), -KAPI_EINVAL);
        EXPECT_EQ(with(24, KCM_ABI_SOL_KCM, KCM_ABI_CONNECTION, 15), 1); // less than a head is nothing
    });
}

TEST_F(KcmSend, control_message__is_found_behind_another)
{
    KcmSocket &socket = new_socket();
    Ends first = open_with_one(socket), second = connect();
    std::uint64_t id = 0;
    run(a, [&] {
        ASSERT_EQ(socket.attach(second.here, by_length), 0);
        id = socket.connections().at(1).id;
    });
    // The other one is of another protocol. Its length is no multiple of 8, so there is padding behind it; then it is one.
    for (kapi_u64 size : {1u, 4u, 8u}) {
        struct {
            kcm_abi_cmsghdr other;
            unsigned char data[8];
            kcm_abi_cmsghdr head;
            kcm_abi_connection connection;
        } control{{sizeof(kcm_abi_cmsghdr) + size, 1, 2},
                  {},
                  {sizeof(kcm_abi_cmsghdr) + 8, KCM_ABI_SOL_KCM, KCM_ABI_CONNECTION},
                  {id}};
        for (unsigned i = 0; i < 3; i++)
            run(a, [&] {
                kapi_msg msg = sim::make_msg("x", 1, {});
                kcm_send call{&msg, 1, &control, sizeof(control), kNow, 0};
                EXPECT_EQ(kcm_socket_sendmsg(socket.core(), &call), 1);
            });
    }
    EXPECT_EQ(peer_reads(second, 9), "xxxxxxxxx");
    EXPECT_FALSE(peer_has_unread(first));
}

TEST_F(KcmSend, message__has_a_largest_size)
{
    KcmSocket &socket = new_socket();
    run(a, [&] {
        ASSERT_EQ(socket.open(), 0);
        for (kapi_size size : {kapi_size{64 << 20} + 1, kapi_size{1} << 32, (kapi_size{1} << 32) + 1}) {
            char byte = 'x';
            kapi_msg msg = sim::make_msg(&byte, 1, {});
            kcm_send call{&msg, size, nullptr, 0, kNow, 0};
            EXPECT_EQ(kcm_socket_sendmsg(socket.core(), &call), -KAPI_EMSGSIZE);
        }
    });
}

TEST_F(KcmSend, fault__leaves_nothing_behind)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    EXPECT_EQ(send(socket, "begun ", kMore), 6);
    socket.trouble.fault_at = 50'000;
    EXPECT_EQ(send(socket, text(100'000), kMore), -KAPI_EFAULT);
    EXPECT_EQ(send(socket, "and ended"), 9);
    EXPECT_EQ(peer_reads(ends, 15), "begun and ended");
}

TEST_F(KcmSend, slow_memory__delays_nobody_else)
{
    KcmSocket &socket = new_socket(), &other = new_socket();
    Ends ends = open_with_one(socket);
    run(a, [&] { ASSERT_EQ(other.open_as_clone(socket), 0); });
    socket.trouble.stall_at = 10;
    socket.trouble.stall_ns = 10 * sim::kSecond;
    std::string late = text(20);
    auto stalled = world.spawn(a, "stalled", [&] { EXPECT_EQ(socket.send(late.data(), late.size()), 20); });
    world.run_for(sim::kSecond);
    EXPECT_EQ(send(other, "in time"), 7);
    EXPECT_EQ(peer_reads(ends, 7), "in time");
    EXPECT_FALSE(stalled->is_done());
    EXPECT_EQ(peer_reads(ends, 20), late);
    EXPECT_TRUE(world.run_until([&] { return stalled->is_done(); }, sim::kSecond));
}

TEST_F(KcmSend, no_connection__lets_messages_wait_for_one)
{
    KcmSocket &socket = new_socket();
    run(a, [&] { ASSERT_EQ(socket.open(), 0); });
    EXPECT_EQ(send(socket, "early"), 5);
    Ends ends = connect();
    run(a, [&] { ASSERT_EQ(socket.attach(ends.here, by_length), 0); });
    EXPECT_EQ(peer_reads(ends, 5), "early");
}

TEST_F(KcmSend, full_buffer__blocks_until_there_is_room)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_narrow(socket);
    run(a, [&] { socket.sk().sndbuf = 20'000; });
    std::string message = framed(text(9996));
    unsigned sent = fill(socket, message);
    EXPECT_GE(sent, 2u);
    EXPECT_LE(sent, 5u);
    EXPECT_EQ(send(socket, message, kNow), -KAPI_EAGAIN);
    run(a, [&] { EXPECT_FALSE(socket.poll() & KAPI_OUT); });
    socket.sk().sndtimeo_ns = sim::kSecond;
    EXPECT_EQ(send(socket, message), -KAPI_EAGAIN);
    socket.sk().sndtimeo_ns = KAPI_FOREVER;
    auto writer = world.spawn(a, "writer", [&] { EXPECT_EQ(socket.send(message.data(), 10'000), 10'000); });
    world.run_for(30 * sim::kSecond);
    EXPECT_FALSE(writer->is_done());
    for (const std::string &got : peer_reads_messages(ends, sent + 1))
        EXPECT_EQ(got, message);
    EXPECT_TRUE(writer->is_done());
    run(a, [&] { EXPECT_TRUE(socket.poll() & KAPI_OUT); });
}

TEST_F(KcmSend, larger_buffer__lets_a_blocked_writer_go_on)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_narrow(socket);
    run(a, [&] { socket.sk().sndbuf = 5000; });
    std::string message = framed(text(9996));
    unsigned sent = fill(socket, message);
    auto writer = world.spawn(a, "writer", [&] { EXPECT_EQ(socket.send(message.data(), 10'000), 10'000); });
    world.run_for(sim::kSecond);
    EXPECT_FALSE(writer->is_done());
    run(a, [&] { socket.set_sndbuf(500'000); });
    EXPECT_TRUE(world.run_until([&] { return writer->is_done(); }, sim::kSecond));
    EXPECT_EQ(peer_reads_messages(ends, sent + 1).size(), sent + 1);
}

TEST_F(KcmSend, room__is_signalled_to_who_missed_it)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_narrow(socket);
    run(a, [&] { socket.sk().sndbuf = 20'000; });
    std::string message = framed(text(9996));
    EXPECT_EQ(send(socket, message), 10'000);
    EXPECT_EQ(socket.sk().signals_out, 0u); // no program missed one
    unsigned sent = 1 + fill(socket, message);
    EXPECT_EQ(peer_reads_messages(ends, sent).size(), sent);
    EXPECT_EQ(socket.sk().signals_out, 1u);
    EXPECT_EQ(send(socket, message), 10'000);
    EXPECT_EQ(peer_reads_messages(ends, 1).size(), 1u);
    EXPECT_EQ(socket.sk().signals_out, 1u);
    // A program that calls poll() misses it, too.
    sent = 0;
    run(a, [&] {
        for (; socket.poll() & KAPI_OUT; sent++)
            ASSERT_EQ(socket.send(message.data(), message.size()), 10'000);
    });
    EXPECT_EQ(peer_reads_messages(ends, sent).size(), sent);
    EXPECT_EQ(socket.sk().signals_out, 2u);
}

TEST_F(KcmSend, signal__ends_the_wait_for_room)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_narrow(socket);
    run(a, [&] { socket.sk().sndbuf = 5000; });
    std::string message = framed(text(9996));
    unsigned sent = fill(socket, message);
    auto writer = world.spawn(a, "writer", [&] {
        EXPECT_EQ(socket.send(message.data(), 10'000), -KAPI_ERESTARTSYS);
    });
    world.run_for(sim::kSecond);
    world.signal(*writer);
    EXPECT_TRUE(world.run_until([&] { return writer->is_done(); }, sim::kSecond));
    EXPECT_EQ(peer_reads_messages(ends, sent).size(), sent);
}

TEST_F(KcmSend, message_of_many_parts__is_not_interrupted)
{
    // Another queue gets the connection between messages only, however many calls to TCP a message takes.
    KcmSocket &socket = new_socket(), &other = new_socket();
    Ends ends = open_narrow(socket);
    run(a, [&] { ASSERT_EQ(other.open_as_clone(socket), 0); });
    std::string first = framed(text(20'000)), second = framed(text(20'000, 5)), third = framed("third");
    EXPECT_EQ(send(socket, first), 20'004); // keeps the connection busy
    for (std::size_t at = 0; at < second.size(); at += 100)
        send(socket, second.substr(at, 100), at + 100 < second.size() ? kMore : 0);
    EXPECT_EQ(send(other, third), 9);
    run(a, [&] { sim::program_set_buffers(ends.here, 1 << 20, 0); });
    run(b, [&] { sim::program_set_buffers(ends.there, 0, 1 << 20); });
    auto got = peer_reads_messages(ends, 3);
    std::sort(got.begin(), got.end());
    std::vector<std::string> sent{first, second, third};
    std::sort(sent.begin(), sent.end());
    EXPECT_EQ(got, sent);
}

TEST_F(KcmSend, waiting_sockets__take_turns)
{
    KcmSocket &socket = new_socket(), &other = new_socket();
    Ends ends = open_narrow(socket);
    run(a, [&] { ASSERT_EQ(other.open_as_clone(socket), 0); });
    for (unsigned i = 0; i < 20; i++) {
        EXPECT_EQ(send(socket, framed(text(3000, 1))), 3004);
        EXPECT_EQ(send(other, framed(text(3000, 2))), 3004);
    }
    auto messages = peer_reads_messages(ends, 40);
    ASSERT_EQ(messages.size(), 40u);
    unsigned changes = 0;
    for (std::size_t i = 1; i < messages.size(); i++)
        changes += messages[i] != messages[i - 1];
    EXPECT_GE(changes, 10u);
}

} // namespace
