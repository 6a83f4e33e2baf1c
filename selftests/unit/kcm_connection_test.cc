// SPDX-License-Identifier: GPL-2.0
// The life of a connection: attaching, errors, what is sent again over another one, giving back.
#include "kcm_test.h"

#include "kapi/sim/stream.h"

namespace {

constexpr unsigned kNow = KCM_ABI_MSG_DONTWAIT;

class KcmConnection : public KcmTest, public ::testing::WithParamInterface<int> {
protected:
    KcmConnection() : KcmTest(static_cast<std::uint64_t>(GetParam())) {}

    kcm_totals totals()
    {
        kcm_totals totals{};
        run(a, [&] { kcm_net_totals(host.net(a.initial_net()), &totals); });
        return totals;
    }
    int peer_error(const Ends &ends)
    {
        int error = 0;
        run(b, [&] { error = -sim::program_error(ends.there); });
        return error;
    }
    unsigned events(KcmSocket &socket)
    {
        unsigned events = 0;
        run(a, [&] { events = socket.poll(); });
        return events;
    }
};

TEST_P(KcmConnection, attach__refuses_what_does_not_fit)
{
    KcmSocket &socket = new_socket(), &other = new_socket();
    Ends ends = connect();
    run(a, [&] {
        ASSERT_EQ(socket.open(), 0);
        ASSERT_EQ(other.open(), 0);
        int pipe = sim::program_pipe(), udp = sim::program_other_socket();
        EXPECT_EQ(socket.attach(-1, by_length), -KAPI_ENOENT);
        EXPECT_EQ(socket.attach(pipe, by_length), -KAPI_ENOENT);
        EXPECT_EQ(socket.attach(udp, by_length), -KAPI_EOPNOTSUPP);
        EXPECT_EQ(socket.attach(ends.here, -1), -KAPI_EBADF);
        EXPECT_EQ(socket.attach(ends.here, pipe), -KAPI_EINVAL);
        EXPECT_EQ(socket.attach(ends.here, by_length), 0);
        EXPECT_EQ(socket.attach(ends.here, by_length), -KAPI_EALREADY);
        EXPECT_EQ(other.attach(ends.here, by_length), -KAPI_EALREADY);
        EXPECT_EQ(socket.unattach(pipe), -KAPI_ENOENT);
        EXPECT_EQ(socket.unattach(udp), -KAPI_ENOENT);
        EXPECT_EQ(other.unattach(ends.here), -KAPI_ENOENT);
        EXPECT_EQ(socket.unattach(ends.here), 0);
        EXPECT_EQ(socket.unattach(ends.here), -KAPI_ENOENT);
        EXPECT_EQ(other.attach(ends.here, by_length), 0);
        kapi_optval bad{nullptr, 0};
        for (unsigned command : {KCM_ABI_ATTACH, KCM_ABI_UNATTACH})
            EXPECT_EQ(kcm_socket_ioctl(socket.core(), command, &bad, 0), -KAPI_EFAULT);
        EXPECT_EQ(kcm_socket_ioctl(socket.core(), KCM_ABI_CLONE + 1, &bad, 0), -KAPI_ENOIOCTLCMD);
        sim::program_close(pipe);
        sim::program_close(udp);
    });
    world.network().reset(a, b, sim::Sees::both);
    settle();
    run(a, [&] {
        EXPECT_EQ(other.unattach(ends.here), 0);
        EXPECT_EQ(other.attach(ends.here, by_length), -KAPI_EOPNOTSUPP);
    });
}

TEST_P(KcmConnection, end_of_the_peer__is_told_after_its_last_message)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    peer_writes(ends, framed("last"));
    run(b, [&] { sim::program_shutdown_write(ends.there); });
    settle();
    EXPECT_EQ(error_of(ends), KAPI_EPIPE);
    EXPECT_TRUE(events(socket) & KAPI_ERR);
    EXPECT_EQ(receive(socket), framed("last"));
    EXPECT_EQ(receive(socket), "error 32");
    EXPECT_EQ(receive(socket), kNothing);
    EXPECT_FALSE(events(socket) & KAPI_ERR);
}

TEST_P(KcmConnection, end_of_one__is_not_told_unless_asked_for)
{
    KcmSocket &socket = new_socket(), &asks = new_socket();
    Ends first = open_with_one(socket), second = connect();
    attach(socket, second);
    run(a, [&] {
        ASSERT_EQ(asks.open_as_clone(socket), 0);
        ASSERT_EQ(asks.set_option(KCM_ABI_ERRORS, 1), 0);
    });
    run(b, [&] { close(first.there); });
    settle();
    EXPECT_FALSE(events(socket) & KAPI_ERR);
    EXPECT_EQ(receive(asks), "error 32");
    EXPECT_EQ(send(socket, "to the other"), 12);
    EXPECT_EQ(peer_reads(second, 12), "to the other");
    run(b, [&] { close(second.there); });
    settle();
    EXPECT_EQ(receive(socket), "error 32"); // that was the last
    EXPECT_EQ(receive(asks), "error 32");
}

TEST_P(KcmConnection, reset__sends_the_message_it_cut_over_another_from_its_start)
{
    KcmSocket &socket = new_socket();
    Ends first = connect_narrow(), second = connect();
    attach(socket, first);
    std::string message = framed(text(30'000));
    EXPECT_EQ(send(socket, message), 30'004);
    settle();
    attach(socket, second);
    EXPECT_FALSE(peer_has_unread(second));
    run(a, [&] { sim::program_socket_of(first.here).tcb->post({sim::Tcb::Input::lost, nullptr, -KAPI_ECONNRESET}); });
    EXPECT_EQ(peer_reads(second, message.size()), message);
    EXPECT_EQ(error_of(first), KAPI_ECONNRESET);
    EXPECT_EQ(totals().tx_retries, 1u);
    EXPECT_EQ(totals().tx_aborts, 1u);
}

TEST_P(KcmConnection, reset__ends_the_wait_for_room_with_its_error)
{
    KcmSocket &socket = new_socket();
    Ends ends = connect_narrow();
    attach(socket, ends);
    std::string message = framed(text(30'000));
    long result = 0;
    auto sender = world.spawn(a, "sender", [&] {
        do
            result = socket.send(message.data(), message.size(), 0);
        while (result > 0);
    });
    settle();
    EXPECT_FALSE(sender->is_done());
    run(a, [&] { sim::program_socket_of(ends.here).tcb->post({sim::Tcb::Input::lost, nullptr, -KAPI_ECONNRESET}); });
    EXPECT_TRUE(world.run_until([&] { return sender->is_done(); }, sim::kSecond));
    EXPECT_EQ(result, -KAPI_ECONNRESET);
}

TEST_P(KcmConnection, totals__are_the_sums_of_all_connections)
{
    KcmSocket &socket = new_socket();
    Ends first = connect(), second = connect();
    attach(socket, first);
    attach(socket, second);
    std::string message = framed(text(1000));
    for (int i = 0; i < 4; i++) {
        EXPECT_EQ(send(socket, message), 1004);
        peer_writes(i % 2 ? first : second, message);
        settle();
        EXPECT_EQ(receive(socket), message);
    }
    settle();
    kcm_totals sum = totals();
    EXPECT_EQ(sum.connections.tx_msgs, 4u);
    EXPECT_EQ(sum.connections.tx_bytes, 4 * 1004u);
    EXPECT_EQ(sum.connections.rx_msgs, 4u);
    EXPECT_EQ(sum.connections.rx_bytes, 4 * 1004u);
}

// Between the error and its handling, a sender finds a connection that has failed and is still there.
TEST_P(KcmConnection, reset__gives_the_connection_to_nobody_any_more)
{
    constexpr unsigned kConnections = 50;
    KcmSocket &socket = new_socket();
    for (unsigned i = 1; i <= kConnections; i++) {
        Ends ends = connect();
        attach(socket, ends);
        bool over = false;
        auto sender = world.spawn(a, "sender", [&] {
            while (!over) {
                socket.send("message", 7, kNow);
                world.sleep(sim::kMicrosecond);
            }
        });
        run(a, [&] {
            auto tcb = sim::program_socket_of(ends.here).tcb;
            tcb->post({sim::Tcb::Input::lost, nullptr, -KAPI_ECONNRESET});
            world.sleep(sim::kMillisecond);
            over = true;
        });
        EXPECT_TRUE(world.run_until([&] { return sender->is_done(); }, sim::kSecond));
        EXPECT_LE(totals().tx_aborts, i);
    }
}

TEST_P(KcmConnection, receive_error__does_not_leave_the_peer_with_a_cut_message)
{
    KcmSocket &socket = new_socket();
    Ends first = connect_narrow(), second = connect();
    attach(socket, first);
    std::string message = framed(text(30'000));
    EXPECT_EQ(send(socket, message), 30'004);
    settle();
    attach(socket, second);
    peer_writes(first, std::string("\x80\0\0\0", 4)); // a negative length
    settle();
    EXPECT_EQ(peer_reads(second, message.size()), message);
    EXPECT_EQ(peer_error(first), KAPI_ECONNRESET);
}

TEST_P(KcmConnection, unattach__gives_back_what_was_not_delivered)
{
    for (std::size_t seen : {2u, 4u, 50u, 9000u}) {
        SCOPED_TRACE(std::to_string(seen) + " bytes were there");
        KcmSocket &socket = new_socket();
        Ends ends = open_with_one(socket);
        std::string message = framed(text(10'000));
        peer_writes(ends, framed("whole") + message.substr(0, seen));
        settle();
        run(a, [&] { EXPECT_EQ(socket.unattach(ends.here), 0); });
        peer_writes(ends, message.substr(seen));
        EXPECT_EQ(receive(socket), framed("whole"));
        run(a, [&] { EXPECT_EQ(read(ends.here, message.size()), message); });
        run(a, [&] { EXPECT_EQ(socket.attach(ends.here, by_length), 0); });
        peer_writes(ends, framed("again"));
        settle();
        EXPECT_EQ(receive(socket), framed("again"));
    }
}

TEST_P(KcmConnection, unattach__gives_back_what_nobody_had_room_for)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    run(a, [&] { EXPECT_EQ(socket.set_option(KCM_ABI_RECV_DISABLE, 1), 0); });
    std::string stream = framed(text(100)) + framed(text(9000)) + framed("x");
    peer_writes(ends, stream);
    settle();
    run(a, [&] {
        EXPECT_EQ(socket.unattach(ends.here), 0);
        EXPECT_EQ(read(ends.here, stream.size()), stream);
    });
}

TEST_P(KcmConnection, unattach__waits_for_the_end_of_a_message)
{
    KcmSocket &socket = new_socket();
    Ends ends = connect_narrow();
    attach(socket, ends);
    std::string first = framed(text(30'000)), second = framed(text(100));
    EXPECT_EQ(send(socket, first), 30'004);
    EXPECT_EQ(send(socket, second), 104);
    run(a, [&] { EXPECT_EQ(socket.unattach(ends.here, true), -KAPI_EAGAIN); });
    run(a, [&] { EXPECT_EQ(socket.attach(ends.here, by_length), -KAPI_EALREADY); });
    int result = -1;
    auto task = world.spawn(a, "unattach", [&] { result = socket.unattach(ends.here); });
    world.run_for(sim::kSecond);
    EXPECT_FALSE(task->is_done());
    EXPECT_EQ(peer_reads(ends, first.size()), first);
    EXPECT_TRUE(world.run_until([&] { return task->is_done(); }, sim::kSecond));
    EXPECT_EQ(result, 0);
    run(a, [&] { EXPECT_EQ(sim::program_write(ends.here, "mine", 4), 4); });
    std::string rest = peer_reads(ends, 4);
    if (rest == second.substr(0, 4)) // it went with the first one
        EXPECT_EQ(rest + peer_reads(ends, 104), second + "mine");
    else
        EXPECT_EQ(rest, "mine");
}

TEST_P(KcmConnection, unattach__that_gives_up_refuses_nobody)
{
    // Another socket waits for this connection and no other when unattaching it begins, and when that gives up.
    KcmSocket &socket = new_socket(), &other = new_socket();
    Ends ends = connect_narrow();
    attach(socket, ends);
    std::string first = framed(text(30'000)), second = framed("to you");
    std::uint64_t connection = 0;
    run(a, [&] {
        ASSERT_EQ(other.open_as_clone(socket), 0);
        connection = socket.connections().at(0).id;
        socket.sk().sndtimeo_ns = sim::kSecond;
    });
    EXPECT_EQ(send(socket, first), 30'004);
    EXPECT_EQ(send(other, second, 0, connection), 10);
    std::uint64_t begun_ns = world.now_ns();
    run(a, [&] { EXPECT_EQ(socket.unattach(ends.here), -KAPI_EAGAIN); }, 10 * sim::kSecond);
    EXPECT_GE(world.now_ns() - begun_ns, sim::kSecond);
    EXPECT_EQ(peer_reads(ends, first.size()), first);
    EXPECT_EQ(peer_reads(ends, second.size()), second);
    EXPECT_FALSE(events(other) & KAPI_ERR);
}

TEST_P(KcmConnection, unattach__refuses_whoever_waits_for_that_connection)
{
    KcmSocket &socket = new_socket(), &other = new_socket();
    Ends ends = connect_narrow();
    attach(socket, ends);
    std::string first = framed(text(30'000));
    std::uint64_t connection = 0;
    run(a, [&] {
        ASSERT_EQ(other.open_as_clone(socket), 0);
        connection = socket.connections().at(0).id;
    });
    EXPECT_EQ(send(socket, first), 30'004);
    EXPECT_EQ(send(other, framed("to you"), 0, connection), 10);
    int result = -1;
    auto task = world.spawn(a, "unattach", [&] { result = socket.unattach(ends.here); });
    EXPECT_EQ(peer_reads(ends, first.size()), first);
    EXPECT_TRUE(world.run_until([&] { return task->is_done(); }, sim::kSecond));
    EXPECT_EQ(result, 0);
    settle();
    EXPECT_EQ(receive(other), "error 107"); // ENOTCONN
}

TEST_P(KcmConnection, peer_that_had_closed__is_read_to_its_end)
{
    KcmSocket &socket = new_socket();
    Ends ends = connect();
    std::string stream;
    for (unsigned i = 0; i < 50; i++)
        stream += framed(text(500, i));
    peer_writes(ends, stream);
    run(b, [&] { sim::program_shutdown_write(ends.there); });
    settle();
    run(a, [&] {
        ASSERT_EQ(socket.open(), 0);
        socket.sk().rcvbuf = 3000;
        ASSERT_EQ(socket.attach(ends.here, by_length), 0);
    });
    for (unsigned i = 0; i < 50; i++) {
        settle();
        ASSERT_EQ(receive(socket), framed(text(500, i))) << i;
    }
    EXPECT_EQ(send(socket, "answer"), 6);
    EXPECT_EQ(peer_reads(ends, 6), "answer");
}

TEST_P(KcmConnection, closed_descriptor__changes_nothing)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    run(a, [&] { close(ends.here); });
    peer_writes(ends, framed("in"));
    settle();
    EXPECT_EQ(receive(socket), framed("in"));
    EXPECT_EQ(send(socket, "out"), 3);
    EXPECT_EQ(peer_reads(ends, 3), "out");
}

// The peer reads a part and the end, maybe, and the message arrives once, as a whole.
TEST_P(KcmConnection, shutdown_by_the_program__sends_the_message_it_cut_over_another)
{
    KcmSocket &socket = new_socket();
    Ends first = connect_narrow(), second = connect();
    attach(socket, first);
    std::string message = framed(text(30'000));
    EXPECT_EQ(send(socket, message), 30'004);
    settle();
    attach(socket, second);
    run(a, [&] { sim::program_shutdown_write(first.here); });
    settle();
    EXPECT_LT(peer_reads(first, message.size()).size(), message.size());
    EXPECT_EQ(peer_reads(second, message.size()), message);
    EXPECT_EQ(totals().tx_retries, 1u);
    EXPECT_EQ(error_of(first), KAPI_EPIPE);
    settle();
    EXPECT_FALSE(peer_has_unread(second));
}

TEST_P(KcmConnection, end_of_the_peer__while_attaching_is_noticed)
{
    for (unsigned i = 0; i < 20; i++) {
        KcmSocket &socket = new_socket();
        Ends ends = connect();
        sim::TcbRef tcb;
        run(a, [&] {
            ASSERT_EQ(socket.open(), 0);
            tcb = sim::program_socket_of(ends.here).tcb;
        });
        auto attacher = world.spawn(a, "attacher", [&] { EXPECT_EQ(socket.attach(ends.here, by_length), 0); });
        ASSERT_TRUE(world.run_until([&] { return tcb->attached; }, sim::kSecond));
        sim::Packet end{.from = tcb->remote, .to = tcb->local, .ack = true, .fin = true, .seq = tcb->rcv_next, .acked = tcb->una,
                        .window = 10'000, .payload = {}};
        tcb->post({sim::Tcb::Input::packet, std::make_shared<const sim::Packet>(end), 0});
        ASSERT_TRUE(world.run_until([&] { return attacher->is_done(); }, sim::kSecond));
        settle();
        EXPECT_EQ(error_of(ends), KAPI_EPIPE) << i;
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, KcmConnection, ::testing::Range(1, 9));

} // namespace
