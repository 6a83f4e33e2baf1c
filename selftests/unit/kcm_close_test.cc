// SPDX-License-Identifier: GPL-2.0
// What closing the sockets of KCM leaves to send, and what becomes of the connections.
#include "kcm_test.h"

#include "kapi/sim/stream.h"

namespace {

class KcmClose : public KcmTest, public ::testing::WithParamInterface<int> {
protected:
    KcmClose() : KcmTest(static_cast<std::uint64_t>(GetParam())) {}

    int peer_error(const Ends &ends)
    {
        int error = 0;
        run(b, [&] { error = -sim::program_error(ends.there); });
        return error;
    }
};

TEST_P(KcmClose, close__without_a_descriptor_delivers_what_tcp_had_accepted)
{
    KcmSocket &socket = new_socket();
    Ends ends = connect_narrow();
    attach(socket, ends);
    run(a, [&] { close(ends.here); });
    peer_writes(ends, framed(text(1000)).substr(0, 300)); // is read, and never whole
    std::string sent;
    for (unsigned i = 0; i < 6; i++) {
        sent += framed(text(1000, i));
        EXPECT_EQ(send(socket, framed(text(1000, i))), 1004);
    }
    settle();
    run(a, [&] { socket.close(); });
    settle();
    EXPECT_EQ(peer_reads(ends, sent.size() + 1), sent);
    EXPECT_EQ(peer_error(ends), 0);
}

TEST_P(KcmClose, close__of_the_last_socket_gives_the_connection_back)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    std::string partial = framed(text(500)).substr(0, 300);
    peer_writes(ends, partial);
    settle();
    run(a, [&] {
        socket.close();
        EXPECT_EQ(read(ends.here, partial.size()), partial);
        EXPECT_EQ(sim::program_write(ends.here, "mine", 4), 4);
    });
    EXPECT_EQ(peer_reads(ends, 4), "mine");
}

// After a minute it gives up. The multiplexor stays, but the peer is not to wait for the rest of the message.
TEST_P(KcmClose, closed_socket__that_gives_up_resets_the_connection_of_a_cut_message)
{
    KcmSocket &open = new_socket(), &sender = new_socket();
    Ends ends = open_narrow(open);
    run(a, [&] { ASSERT_EQ(sender.open_as_clone(open), 0); });
    EXPECT_EQ(send(sender, framed(text(30'000))), 30'004);
    run(a, [&] { sender.close(); });
    world.run_for(59 * sim::kSecond);
    EXPECT_EQ(peer_error(ends), 0);
    world.run_for(2 * sim::kSecond);
    EXPECT_EQ(peer_error(ends), 104); // ECONNRESET
}

TEST_P(KcmClose, close__sends_what_was_sent_before)
{
    KcmSocket &socket = new_socket();
    Ends ends = connect_narrow();
    attach(socket, ends);
    run(a, [&] { socket.sk().sndbuf = 1 << 24; });
    std::string all;
    for (unsigned i = 0; i < 47; i++) {
        std::string message = framed(text(60'000, i));
        ASSERT_EQ(send(socket, message), 60'004);
        all += message;
    }
    EXPECT_EQ(send(socket, "unfinished", KCM_ABI_MSG_MORE), 10);
    run(a, [&] {
        socket.close();
        close(ends.here);
        EXPECT_FALSE(host.unload());
    });
    EXPECT_EQ(peer_reads(ends, all.size() + 1), all);
    EXPECT_EQ(peer_error(ends), 0);
}

TEST_P(KcmClose, close__drops_what_was_unfinished_for_a_certain_connection)
{
    KcmSocket &socket = new_socket();
    Ends ends = connect();
    attach(socket, ends);
    std::uint64_t connection = 0;
    run(a, [&] { connection = socket.connections().at(0).id; });
    EXPECT_EQ(send(socket, "unfinished", KCM_ABI_MSG_MORE, connection), 10);
    run(a, [&] {
        socket.close();
        close(ends.here);
    });
    settle();
    run(a, [&] {
        EXPECT_TRUE(host.unload());
        ASSERT_EQ(host.load(), 0);
    });
}

TEST_P(KcmClose, close__gives_up_a_peer_that_does_not_read)
{
    KcmSocket &socket = new_socket();
    Ends ends = connect_narrow();
    attach(socket, ends);
    for (unsigned i = 0; i < 3; i++)
        ASSERT_EQ(send(socket, framed(text(60'000))), 60'004);
    run(a, [&] { socket.close(); });
    world.run_for(59 * sim::kSecond);
    run(a, [&] { EXPECT_FALSE(host.unload()); });
    EXPECT_EQ(peer_error(ends), 0);
    world.run_for(3 * sim::kSecond);
    EXPECT_EQ(peer_error(ends), KAPI_ECONNRESET); // and no cut message
    run(a, [&] {
        EXPECT_TRUE(host.unload());
        ASSERT_EQ(host.load(), 0);
    });
}

TEST_P(KcmClose, close__without_a_connection_does_not_wait_for_one)
{
    KcmSocket &socket = new_socket();
    run(a, [&] { ASSERT_EQ(socket.open(), 0); });
    EXPECT_EQ(send(socket, "to nobody"), 9);
    run(a, [&] {
        socket.close();
        EXPECT_TRUE(host.unload_soon());
        ASSERT_EQ(host.load(), 0);
    });
}

TEST_P(KcmClose, close__ends_soon_when_the_last_connection_does)
{
    KcmSocket &socket = new_socket();
    Ends ends = connect_narrow();
    attach(socket, ends);
    for (unsigned i = 0; i < 3; i++)
        ASSERT_EQ(send(socket, framed(text(60'000))), 60'004);
    run(a, [&] { socket.close(); });
    world.run_for(sim::kSecond);
    run(b, [&] { close(ends.there); }); // with unread bytes: a reset
    world.run_for(sim::kSecond);
    run(a, [&] {
        EXPECT_TRUE(host.unload_soon());
        ASSERT_EQ(host.load(), 0);
    });
}

// What is left goes while close() is under way: nothing is left to wait a minute for.
TEST_P(KcmClose, close__while_the_rest_goes_holds_nothing)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_narrow(socket);
    std::string message = framed(text(9000));
    sim::TcbRef tcb;
    run(a, [&] { tcb = sim::program_socket_of(ends.here).tcb; });
    unsigned before = a.live_sockets;
    for (unsigned i = 0; i < 300; i++) {
        KcmSocket sender(host);
        run(a, [&] {
            ASSERT_EQ(sender.open_as_clone(socket), 0);
            ASSERT_EQ(sender.send(message.data(), message.size()), 9004);
        });
        settle();
        // TCP has room for all at the moment in which close() begins.
        auto closer = world.spawn(a, "closer", [&] { sender.close(); });
        auto room = world.spawn(a, "room", [&] {
            sim::Locked locked(*tcb);
            tcb->options.sndbuf = 100'000;
            tcb->ops.acked(tcb->context, tcb->una);
        }, sim::TaskKind::softirq);
        ASSERT_TRUE(world.run_until([&] { return closer->is_done() && room->is_done(); }, 10 * sim::kSecond));
        world.run_for(100 * sim::kMillisecond);
        EXPECT_EQ(a.live_sockets, before) << i;
        tcb->options.sndbuf = 4000;
        EXPECT_EQ(peer_reads(ends, message.size()), message);
    }
}

// Nobody is there to send it to, and nobody can attach another one.
TEST_P(KcmClose, unattach__of_the_last_one_ends_what_closed_sockets_have)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_narrow(socket);
    unsigned before = a.live_sockets;
    std::string message = framed(text(9000));
    run(a, [&] {
        KcmSocket sender(host);
        ASSERT_EQ(sender.open_as_clone(socket), 0);
        for (int i = 0; i < 3; i++)
            ASSERT_EQ(sender.send(message.data(), message.size(), KCM_ABI_MSG_DONTWAIT), 9004);
        sender.close();
    });
    settle();
    EXPECT_EQ(a.live_sockets, before + 1);
    auto unattaches = world.spawn(a, "unattaches", [&] { EXPECT_EQ(socket.unattach(ends.here), 0); });
    EXPECT_EQ(peer_reads(ends, message.size()), message);
    world.run_for(sim::kSecond);
    EXPECT_TRUE(unattaches->is_done());
    EXPECT_EQ(a.live_sockets, before);
}

INSTANTIATE_TEST_SUITE_P(Seeds, KcmClose, ::testing::Range(1, 9));

} // namespace
