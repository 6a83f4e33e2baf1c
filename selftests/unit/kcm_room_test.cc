// SPDX-License-Identifier: GPL-2.0
// Notifications of room and of messages: each within a few milliseconds, without other calls meanwhile.
#include "kcm_test.h"

#include <kapi/sim/wake.h>

#include <functional>

namespace {

constexpr unsigned kNow = KCM_ABI_MSG_DONTWAIT;

class KcmRoom : public KcmTest {
protected:
    Ends attach_another(KcmSocket &socket)
    {
        Ends ends = connect();
        run(a, [&] { ASSERT_EQ(socket.attach(ends.here, by_length), 0); });
        return ends;
    }
    /** Messages of the connections, in the order in which they were attached, that were delivered so far. */
    std::vector<std::uint64_t> delivered(KcmSocket &socket)
    {
        std::vector<std::uint64_t> counts;
        run(a, [&] {
            for (const auto &row : socket.connections())
                counts.push_back(row.rx_msgs);
        });
        return counts;
    }
    /** Messages to read, as /proc/net/kcm shows them: of the first socket. */
    unsigned unread()
    {
        static constexpr kcm_rows rows = {
            .mux = [](void *, const kcm_mux_row *) { return 0; },
            .socket =
                [](void *context, const kcm_socket_row *row) {
                    *static_cast<unsigned *>(context) = row->recv_q;
                    return 1;
                },
            .connection = [](void *, const kcm_connection_row *) { return 0; },
        };
        unsigned count = 0;
        run(a, [&] { kcm_net_show(host.net(a.initial_net()), &rows, &count); });
        return count;
    }
    /** How many such messages a peer that does not read leaves room for. */
    unsigned fill(KcmSocket &socket, const std::string &message)
    {
        unsigned count = 0;
        for (; send(socket, message, kNow) > 0; count++)
            settle(); // TCP takes some
        return count;
    }
    /** Threads whose calls wait. */
    std::vector<sim::TaskRef> spawn(unsigned count, const char *name, const std::function<void()> &call)
    {
        std::vector<sim::TaskRef> threads;
        for (unsigned i = 0; i < count; i++)
            threads.push_back(world.spawn(a, name, call));
        settle();
        return threads;
    }
    /** A thread in poll() until the event comes, which has yet to. */
    sim::TaskRef spawn_poller(KcmSocket &socket, unsigned event)
    {
        auto poller = world.spawn(a, "poller", [this, &socket, event] {
            sim::PollWatch watch;
            kapi_poll poll{&watch, event};
            EXPECT_FALSE(kcm_socket_poll(socket.core(), &poll) & event);
            while (!poll.woken)
                world.sleep(sim::kMillisecond);
        });
        settle();
        EXPECT_FALSE(poller->is_done());
        return poller;
    }
    /** The socket has no room left, and they wait for some. */
    std::vector<sim::TaskRef> blocked_senders(KcmSocket &socket)
    {
        const std::string large = framed(text(20'000));
        fill(socket, large);
        return spawn(10, "sender", [&socket, large] { socket.send(large.data(), large.size()); });
    }
    /** Ends their calls, which still wait. */
    void interrupt(const std::vector<sim::TaskRef> &threads)
    {
        for (const sim::TaskRef &thread : threads) {
            EXPECT_FALSE(thread->is_done());
            world.signal(*thread);
            EXPECT_TRUE(world.run_until([&] { return thread->is_done(); }, sim::kSecond));
        }
    }
    /** A reader whose memory takes so long, and then faults. */
    sim::TaskRef faulting_reader(KcmSocket &socket, std::uint64_t after_ns)
    {
        auto reader = world.spawn(a, "reader", [&socket, after_ns] {
            static char bytes[100];
            socket.trouble = {.fault_at = 2, .stall_at = 1, .stall_ns = after_ns};
            EXPECT_EQ(socket.receive(bytes, sizeof(bytes)), -KAPI_EFAULT);
        });
        world.run_for(10 * sim::kMillisecond);
        return reader;
    }
};

// The reader of one message wakes the next thread that polls, and none that waits in a call: for room here.
TEST_F(KcmRoom, reader__wakes_no_thread_that_does_not_poll)
{
    constexpr unsigned kMessages = 64;
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    auto senders = blocked_senders(socket);
    run(a, [&] { EXPECT_EQ(kcm_socket_poll(socket.core(), nullptr) & (KAPI_IN | KAPI_OUT), 0u); });
    std::string stream;
    for (unsigned i = 0; i < kMessages; i++)
        stream += framed("message");
    peer_writes(ends, stream);
    settle();
    sim::threads_woken();
    for (unsigned i = 0; i < kMessages; i++)
        EXPECT_EQ(receive(socket), framed("message"));
    EXPECT_EQ(sim::threads_woken(), 0u);
    interrupt(senders);
}

TEST_F(KcmRoom, message__wakes_no_thread_that_waits_for_room)
{
    constexpr unsigned kMessages = 64;
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    auto senders = blocked_senders(socket);
    sim::threads_woken();
    for (unsigned i = 0; i < kMessages; i++) {
        peer_writes(ends, framed("message"));
        settle();
        EXPECT_EQ(receive(socket), framed("message"));
    }
    EXPECT_EQ(sim::threads_woken(), 0u);
    interrupt(senders);
}

TEST_F(KcmRoom, room__wakes_no_thread_that_waits_for_a_message)
{
    constexpr unsigned kReaders = 10;
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    const std::string large = framed(text(20'000));
    unsigned sent = fill(socket, large);
    char byte;
    auto readers = spawn(kReaders, "reader", [&] { socket.receive(&byte, 1); });
    sim::threads_woken();
    peer_reads(ends, sent * large.size());
    settle();
    EXPECT_GT(send(socket, large, kNow), 0);
    EXPECT_EQ(sim::threads_woken(), 0u);
    interrupt(readers);
}

TEST_F(KcmRoom, poll__is_woken_by_a_message_and_by_an_error)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    for (unsigned event : {KAPI_IN, KAPI_ERR}) {
        auto poller = spawn_poller(socket, event);
        if (event == KAPI_IN)
            peer_writes(ends, framed("message"));
        else
            run(b, [&] { close(ends.there); });
        EXPECT_TRUE(world.run_until([&] { return poller->is_done(); }, 20 * sim::kMillisecond));
        EXPECT_EQ(receive(socket), event == KAPI_IN ? framed("message") : "error 32");
    }
}

TEST_F(KcmRoom, poll__is_woken_by_room)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    const std::string large = framed(text(20'000));
    unsigned sent = fill(socket, large);
    auto poller = spawn_poller(socket, KAPI_OUT);
    peer_reads(ends, sent * large.size());
    EXPECT_TRUE(world.run_until([&] { return poller->is_done(); }, 20 * sim::kMillisecond));
}

// A queue refuses because it is full itself. When it has been read empty, all queues for connections are full together, so that
// there is room when another one is read: that one stays full itself.
TEST_F(KcmRoom, queue__that_has_refused_is_signalled_by_room_in_another_one)
{
    constexpr kapi_u32 kSndbuf = 5000;
    KcmSocket &socket = new_socket();
    Ends first = open_narrow(socket), second = connect_narrow();
    attach(socket, second);
    std::uint64_t first_id = 0, second_id = 0;
    run(a, [&] {
        first_id = static_cast<std::uint64_t>(socket.id_of(first.here));
        second_id = static_cast<std::uint64_t>(socket.id_of(second.here));
        socket.sk().sndbuf = kSndbuf;
    });
    const std::string small = framed(text(20'000)), large = text(64 * kSndbuf + 20'000);
    EXPECT_EQ(send(socket, small, kNow, first_id), static_cast<long>(small.size()));
    settle();
    EXPECT_EQ(send(socket, "refused", kNow, first_id), -KAPI_EAGAIN);
    long result = 0;
    auto waits = world.spawn(a, "waits", [&] { result = socket.send("waited", 6, 0, first_id); });
    settle();
    EXPECT_EQ(send(socket, large, kNow, second_id), static_cast<long>(large.size()));
    EXPECT_EQ(peer_reads(first, small.size()), small);
    settle();
    auto signals = socket.sk().signals_out;
    EXPECT_FALSE(waits->is_done());
    const std::size_t most = 100'000;
    EXPECT_EQ(peer_reads(second, most), large.substr(0, most));
    settle();
    EXPECT_EQ(send(socket, "full", kNow, second_id), -KAPI_EAGAIN);
    EXPECT_EQ(socket.sk().signals_out, signals + 1);
    EXPECT_TRUE(waits->is_done());
    EXPECT_EQ(result, 6);
    EXPECT_EQ(peer_reads(first, 6), "waited");
    EXPECT_EQ(peer_reads(second, large.size() - most), large.substr(most));
}

TEST_F(KcmRoom, connection__that_waits_goes_on_when_a_socket_is_enabled)
{
    // Several messages are held for the socket and go to it at once; then there is room for what waits with TCP.
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    for (unsigned i = 0; i < 3; i++) {
        peer_writes(ends, framed(text(100, i)));
        settle();
    }
    run(a, [&] { EXPECT_EQ(socket.set_option(KCM_ABI_RECV_DISABLE, 1), 0); });
    peer_writes(ends, framed("waits"));
    settle();
    EXPECT_EQ(delivered(socket), (std::vector<std::uint64_t>{3}));
    run(a, [&] { EXPECT_EQ(socket.set_option(KCM_ABI_RECV_DISABLE, 0), 0); });
    world.run_for(5 * sim::kMillisecond);
    EXPECT_EQ(delivered(socket), (std::vector<std::uint64_t>{4}));
}

TEST_F(KcmRoom, next_connection__has_its_turn_when_the_first_one_had_nothing_whole)
{
    KcmSocket &socket = new_socket();
    Ends first = open_with_one(socket), second = attach_another(socket);
    run(a, [&] { socket.sk().rcvbuf = 2000; });
    peer_writes(first, framed(text(3000)));
    settle();
    peer_writes(first, framed("not whole").substr(0, 6));
    settle();
    peer_writes(second, framed("whole"));
    settle();
    EXPECT_EQ(receive(socket), framed(text(3000)));
    world.run_for(5 * sim::kMillisecond);
    EXPECT_EQ(receive(socket), framed("whole"));
}

TEST_F(KcmRoom, socket__that_was_full_receives_again_when_half_of_its_buffer_is_free)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    run(a, [&] { socket.sk().rcvbuf = 200'000; });
    for (unsigned i = 0; i < 30; i++) {
        peer_writes(ends, framed(text(9996, i))); // each a bundle
        settle();
    }
    std::uint64_t full = delivered(socket).at(0);
    EXPECT_GE(full, 10u);
    EXPECT_LT(full, 20u);
    for (unsigned i = 0; i <= full / 2; i++) {
        EXPECT_EQ(delivered(socket).at(0), full) << i;
        EXPECT_EQ(receive(socket), framed(text(9996, i)));
        settle();
    }
    EXPECT_GT(delivered(socket).at(0), full);
}

TEST_F(KcmRoom, message__whose_end_comes_when_nobody_has_room_waits)
{
    KcmSocket &socket = new_socket();
    Ends first = open_with_one(socket), second = attach_another(socket);
    run(a, [&] { socket.sk().rcvbuf = 2000; });
    std::string message = framed(text(5000, 3));
    peer_writes(second, message.substr(0, 3000)); // taken: there is room
    settle();
    peer_writes(first, framed(text(3000)));
    settle();
    peer_writes(second, message.substr(3000));
    settle();
    EXPECT_EQ(delivered(socket), (std::vector<std::uint64_t>{1, 0}));
    EXPECT_EQ(receive(socket), framed(text(3000)));
    world.run_for(5 * sim::kMillisecond);
    EXPECT_EQ(receive(socket), message);
}

TEST_F(KcmRoom, messages__put_back_after_their_socket_was_disabled_are_nobodys)
{
    // Two messages of one bundle, which both readers fail to copy. There is no other reader.
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    peer_writes(ends, framed("one") + framed("two"));
    settle();
    EXPECT_EQ(unread(), 2u);
    auto one = faulting_reader(socket, sim::kSecond), two = faulting_reader(socket, 2 * sim::kSecond);
    EXPECT_EQ(unread(), 0u);
    run(a, [&] { EXPECT_EQ(socket.set_option(KCM_ABI_RECV_DISABLE, 1), 0); });
    EXPECT_TRUE(world.run_until([&] { return one->is_done() && two->is_done(); }, 3 * sim::kSecond));
    EXPECT_EQ(unread(), 0u);
    run(a, [&] { EXPECT_EQ(socket.set_option(KCM_ABI_RECV_DISABLE, 0), 0); });
    EXPECT_EQ(unread(), 2u);
    EXPECT_EQ(receive(socket), framed("one"));
    EXPECT_EQ(receive(socket), framed("two"));
    EXPECT_EQ(unread(), 0u);
}

TEST_F(KcmRoom, rest__that_is_put_back_beside_another_rest_replaces_nothing)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket, -1, KCM_ABI_SOCK_SEQPACKET);
    const std::vector<std::string> messages{framed("message 0"), framed("message 1"), framed("message 2")};
    peer_writes(ends, messages[0] + messages[1] + messages[2]); // one bundle
    settle();
    auto first = faulting_reader(socket, sim::kSecond); // has message 0
    EXPECT_EQ(receive(socket, 5), messages[1].substr(0, 5));
    auto second = faulting_reader(socket, 2 * sim::kSecond); // has the rest of message 1
    EXPECT_EQ(receive(socket, 5), messages[2].substr(0, 5));
    EXPECT_TRUE(world.run_until([&] { return first->is_done() && second->is_done(); }, 3 * sim::kSecond));
    EXPECT_EQ(receive(socket), messages[1].substr(5)); // begun, so it is next, and older than the other
    EXPECT_EQ(receive(socket), messages[2].substr(5));
    EXPECT_EQ(receive(socket), messages[0]);
    EXPECT_EQ(receive(socket, 100, kNow), kNothing);
}

} // namespace
