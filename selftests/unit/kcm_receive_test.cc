// SPDX-License-Identifier: GPL-2.0
// From the receive queue to recvmsg: what a short buffer, a peek, a fault and a splice leave; waiting; poll.
#include "kcm_test.h"

namespace {

constexpr unsigned kPeek = KCM_ABI_MSG_PEEK, kNow = KCM_ABI_MSG_DONTWAIT;

using KcmReceive = KcmTest;

TEST_F(KcmReceive, datagram__of_which_a_part_was_read_is_cut)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    peer_writes(ends, framed(text(96)) + framed("next"));
    settle();
    unsigned flags;
    EXPECT_EQ(receive(socket, 40, kNow, &flags), framed(text(96)).substr(0, 40));
    EXPECT_EQ(flags, KCM_ABI_MSG_EOR | KCM_ABI_MSG_TRUNC);
    EXPECT_EQ(receive(socket, 100, kNow, &flags), framed("next"));
    EXPECT_EQ(flags, KCM_ABI_MSG_EOR);
}

TEST_F(KcmReceive, seqpacket__of_which_a_part_was_read_keeps_the_rest)
{
    for (std::size_t size : {96u, 10'000u}) { // in one piece, and in several
        KcmSocket &socket = new_socket();
        Ends ends = open_with_one(socket, -1, KCM_ABI_SOCK_SEQPACKET);
        std::string message = framed(text(size));
        peer_writes(ends, framed("before") + message + framed("after"));
        settle();
        unsigned flags;
        EXPECT_EQ(receive(socket, 100, kNow, &flags), framed("before"));
        for (std::size_t at = 0; at < message.size(); at += 30) {
            ASSERT_EQ(receive(socket, 30, kNow, &flags), message.substr(at, 30));
            ASSERT_EQ(flags, at + 30 < message.size() ? 0u : KCM_ABI_MSG_EOR);
        }
        EXPECT_EQ(receive(socket, 100, kNow, &flags), framed("after"));
    }
}

TEST_F(KcmReceive, splice__keeps_the_rest_of_a_datagram)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    std::string message = framed(text(100));
    peer_writes(ends, message + framed("next"));
    settle();
    socket.spliced = true;
    EXPECT_EQ(receive(socket, 50), message.substr(0, 50));
    socket.spliced = false;
    EXPECT_EQ(receive(socket), message.substr(50));
    EXPECT_EQ(receive(socket), framed("next"));
}

TEST_F(KcmReceive, peek__leaves_the_message)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    peer_writes(ends, framed("first") + framed("second"));
    settle();
    for (unsigned i = 0; i < 3; i++) {
        EXPECT_EQ(receive(socket, 100, kNow | kPeek), framed("first"));
        EXPECT_EQ(receive(socket, 6, kNow | kPeek), framed("first").substr(0, 6));
    }
    EXPECT_EQ(receive(socket), framed("first"));
    EXPECT_EQ(receive(socket, 100, kNow | kPeek), framed("second"));
    EXPECT_EQ(receive(socket), framed("second"));
    EXPECT_EQ(receive(socket, 100, kNow | kPeek), kNothing);
}

TEST_F(KcmReceive, fault__leaves_the_message_in_its_place)
{
    for (int type : {KCM_ABI_SOCK_DGRAM, KCM_ABI_SOCK_SEQPACKET}) {
        KcmSocket &socket = new_socket();
        Ends ends = open_with_one(socket, -1, type);
        std::string stream;
        for (unsigned i = 0; i < 70; i++) // more than a bundle
            stream += framed(text(20, i));
        stream += framed(text(20'000, 70));
        peer_writes(ends, stream);
        settle();
        for (unsigned i = 0; i <= 70; i++) {
            socket.trouble.fault_at = 10;
            ASSERT_EQ(receive(socket), "error 14");
            socket.trouble.fault_at = 10;
            ASSERT_EQ(receive(socket, 100, kNow | kPeek), "error 14");
            ASSERT_EQ(receive(socket), framed(text(i < 70 ? 20 : 20'000, i)));
        }
        EXPECT_EQ(receive(socket), kNothing);
    }
}

TEST_F(KcmReceive, empty_message__is_a_message)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    peer_writes(ends, framed("") + framed("x"));
    settle();
    EXPECT_EQ(receive(socket, 0), "");
    EXPECT_EQ(receive(socket), framed("x"));
}

TEST_F(KcmReceive, reader__waits_until_a_message_is_whole)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    EXPECT_EQ(receive(socket), kNothing);
    socket.sk().rcvtimeo_ns = 200 * sim::kMillisecond;
    EXPECT_EQ(receive(socket, 100, 0), kNothing);
    socket.sk().rcvtimeo_ns = KAPI_FOREVER;
    std::string got(100, '\0');
    long size = 0;
    auto reader = world.spawn(a, "reader", [&] { size = socket.receive(got.data(), got.size()); });
    peer_writes(ends, framed("whole").substr(0, 7));
    world.run_for(sim::kSecond);
    EXPECT_FALSE(reader->is_done());
    peer_writes(ends, framed("whole").substr(7));
    EXPECT_TRUE(world.run_until([&] { return reader->is_done(); }, sim::kSecond));
    EXPECT_EQ(got.substr(0, static_cast<std::size_t>(size)), framed("whole"));
}

TEST_F(KcmReceive, signal__ends_the_wait)
{
    KcmSocket &socket = new_socket();
    open_with_one(socket);
    for (bool timed : {false, true}) {
        socket.sk().rcvtimeo_ns = timed ? 10 * sim::kSecond : KAPI_FOREVER;
        char byte;
        long result = 0;
        auto reader = world.spawn(a, "reader", [&] { result = socket.receive(&byte, 1); });
        world.run_for(sim::kSecond);
        world.signal(*reader);
        EXPECT_TRUE(world.run_until([&] { return reader->is_done(); }, sim::kSecond));
        EXPECT_EQ(result, timed ? -KAPI_EINTR : -KAPI_ERESTARTSYS);
    }
}

TEST_F(KcmReceive, message__is_signalled)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    EXPECT_EQ(socket.sk().signals_in, 0u);
    for (unsigned i = 1; i <= 3; i++) {
        peer_writes(ends, framed("message"));
        settle();
        EXPECT_EQ(socket.sk().signals_in, i);
    }
    EXPECT_EQ(socket.sk().signals_out, 0u);
}

// They are several bundles, which TCP offers in one call.
TEST_F(KcmReceive, messages_that_come_at_once__are_signalled_once)
{
    constexpr unsigned kMessages = 200;
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    run(a, [&] { ASSERT_EQ(socket.set_option(KCM_ABI_RECV_DISABLE, 1), 0); });
    std::string all;
    for (unsigned i = 0; i < kMessages; i++)
        all += framed("x");
    peer_writes(ends, all);
    settle();
    EXPECT_EQ(socket.sk().signals_in, 0u);
    run(a, [&] { ASSERT_EQ(socket.set_option(KCM_ABI_RECV_DISABLE, 0), 0); });
    settle();
    EXPECT_EQ(socket.sk().signals_in, 1u);
    for (unsigned i = 0; i < kMessages; i++)
        ASSERT_EQ(receive(socket), framed("x"));
    EXPECT_EQ(receive(socket), kNothing);
}

TEST_F(KcmReceive, poll__tells_what_can_be_done)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    auto poll = [&] {
        unsigned events = 0;
        run(a, [&] { events = socket.poll(); });
        return events & (KAPI_IN | KAPI_OUT | KAPI_ERR);
    };
    EXPECT_EQ(poll(), unsigned{KAPI_OUT});
    peer_writes(ends, framed("x"));
    settle();
    EXPECT_EQ(poll(), unsigned{KAPI_IN | KAPI_OUT});
    receive(socket);
    EXPECT_EQ(poll(), unsigned{KAPI_OUT});
}

} // namespace
