// SPDX-License-Identifier: GPL-2.0
// Connections that have ended, and that no program can unattach: it has closed their TCP sockets.
#include "kcm_test.h"

#include "kapi/sim/stream.h"

namespace {

constexpr unsigned kKept = 64; // as in net/kcm/mux.h

class KcmEnded : public KcmTest, public testing::WithParamInterface<int> {
protected:
    KcmEnded() : KcmTest(static_cast<std::uint64_t>(GetParam())) {}

    std::vector<Ends> attach_some(KcmSocket &socket, unsigned count)
    {
        std::vector<Ends> all;
        for (unsigned i = 0; i < count; i++)
            attach(socket, all.emplace_back(connect()));
        return all;
    }
    void close_here(const std::vector<Ends> &all)
    {
        run(a, [&] {
            for (const Ends &ends : all)
                close(ends.here);
        });
    }
    void end_by_peer(const std::vector<Ends> &all)
    {
        run(b, [&] {
            for (const Ends &ends : all)
                close(ends.there);
        });
        settle();
    }
    std::size_t connections(KcmSocket &socket)
    {
        std::size_t count = 0;
        run(a, [&] { count = socket.connections().size(); });
        return count;
    }
};

TEST_P(KcmEnded, connections__without_a_descriptor_do_not_stay)
{
    KcmSocket &socket = new_socket();
    std::vector<Ends> open = attach_some(socket, 10), closed = attach_some(socket, 3 * kKept);
    close_here(closed);
    EXPECT_EQ(connections(socket), 10 + 3 * kKept);
    end_by_peer(open);
    end_by_peer(closed);
    EXPECT_EQ(connections(socket), kKept); // programs see why the last ones ended
    run(a, [&] {
        for (const Ends &ends : open)
            EXPECT_EQ(socket.unattach(ends.here), 0);
    });
    EXPECT_EQ(connections(socket), kKept - 10);
    EXPECT_EQ(receive(socket), "error 32"); // EPIPE, of the last one
    std::vector<Ends> last = attach_some(socket, 1);
    EXPECT_EQ(send(socket, "still works"), 11);
    EXPECT_EQ(peer_reads(last[0], 11), "still works");
}

TEST_P(KcmEnded, connections__with_a_descriptor_stay)
{
    KcmSocket &socket = new_socket();
    std::vector<Ends> open = attach_some(socket, kKept + 20);
    end_by_peer(open);
    EXPECT_EQ(connections(socket), open.size());
    close_here(open);
    std::vector<Ends> more = attach_some(socket, 20);
    close_here(more);
    end_by_peer(more);
    EXPECT_EQ(connections(socket), kKept);
}

TEST_P(KcmEnded, connections__without_a_descriptor_are_read_to_their_end)
{
    KcmSocket &socket = new_socket();
    std::vector<Ends> all = attach_some(socket, 2 * kKept);
    run(a, [&] { socket.sk().rcvbuf = 2000; });
    const std::string filler = framed(text(3000)), one = framed("one"), two = framed("two");
    peer_writes(all[0], filler);
    settle();
    peer_writes(all[1], one); // stays with TCP
    close_here(all);
    peer_writes(all[2], two);
    end_by_peer(all);
    EXPECT_EQ(connections(socket), kKept);
    EXPECT_EQ(receive(socket), filler);
    settle();
    std::set<std::string> rest{receive(socket)};
    settle();
    rest.insert(receive(socket));
    EXPECT_EQ(rest, (std::set<std::string>{one, two}));
}

// Nobody reads for a while. No other one ends when all has been read.
TEST_P(KcmEnded, connections__that_are_read_to_their_end_later_do_not_stay)
{
    constexpr unsigned kMore = 20;
    KcmSocket &socket = new_socket();
    std::vector<Ends> all = attach_some(socket, kKept + kMore);
    run(a, [&] { socket.sk().rcvbuf = 2000; });
    const std::string filler = framed(text(3000));
    peer_writes(all[0], filler);
    settle();
    for (unsigned i = 1; i < all.size(); i++)
        peer_writes(all[i], framed("one")); // stays with TCP
    close_here(all);
    end_by_peer(all);
    // None goes that has yet to be read. The first one has no rest, but the looks may pass over it when its end is reported late.
    EXPECT_GE(connections(socket), kKept + kMore - 1);
    unsigned messages = 0;
    for (unsigned i = 0; i < 2 * all.size(); i++) {
        std::string one = receive(socket); // or the last error
        messages += one == filler || one == framed("one");
        settle();
    }
    EXPECT_EQ(messages, kKept + kMore);
    EXPECT_EQ(connections(socket), kKept);
}

// The others that have ended before have descriptors, so they stay, and it is to be found among them.
TEST_P(KcmEnded, connection__that_is_read_to_its_end_later_goes_whatever_others_there_are)
{
    KcmSocket &socket = new_socket();
    end_by_peer(attach_some(socket, kKept));
    std::vector<Ends> last = attach_some(socket, 2);
    run(a, [&] { socket.sk().rcvbuf = 2000; });
    peer_writes(last[0], framed(text(3000)));
    settle();
    peer_writes(last[1], framed("one"));
    close_here({last[1]});
    end_by_peer(last);
    EXPECT_EQ(connections(socket), kKept + 2);
    EXPECT_TRUE(receive(socket) == framed(text(3000)));
    settle();
    EXPECT_EQ(receive(socket), framed("one"));
    settle();
    EXPECT_EQ(connections(socket), kKept + 1);
}

// The program closes them when they have ended already: one that it attaches later has them looked at.
TEST_P(KcmEnded, connections__closed_afterwards_go_when_another_is_attached)
{
    KcmSocket &socket = new_socket();
    std::vector<Ends> all = attach_some(socket, 3 * kKept);
    end_by_peer(all);
    close_here(all);
    EXPECT_EQ(connections(socket), 3 * kKept);
    attach_some(socket, 1);
    settle();
    EXPECT_EQ(connections(socket), kKept + 1);
}

// The end comes while they are being attached, and the report of it may be faster.
TEST_P(KcmEnded, connections__that_end_while_they_are_attached_do_not_stay)
{
    KcmSocket &socket = new_socket();
    run(a, [&] { ASSERT_EQ(socket.open(), 0); });
    for (unsigned i = 0; i < 2 * kKept; i++) {
        Ends ends = connect();
        sim::TcbRef tcb;
        run(a, [&] { tcb = sim::program_socket_of(ends.here).tcb; });
        auto attacher = world.spawn(a, "attacher", [&] { EXPECT_EQ(socket.attach(ends.here, by_length), 0); });
        ASSERT_TRUE(world.run_until([&] { return tcb->attached; }, sim::kSecond));
        tcb->post({sim::Tcb::Input::lost, nullptr, -KAPI_ECONNRESET});
        ASSERT_TRUE(world.run_until([&] { return attacher->is_done(); }, sim::kSecond));
        run(a, [&] { close(ends.here); });
        settle();
    }
    attach_some(socket, 1);
    settle();
    EXPECT_EQ(connections(socket), kKept + 1);
}

// Clients that say something and go, before the server attaches their connection. No packet says that they are gone.
TEST_P(KcmEnded, connections__whose_peers_had_closed_before_do_not_stay)
{
    KcmSocket &socket = new_socket();
    run(a, [&] { ASSERT_EQ(socket.open(), 0); });
    for (unsigned i = 0; i < 2 * kKept; i++) {
        Ends ends = connect();
        peer_writes(ends, framed("log"));
        run(b, [&] { close(ends.there); });
        settle();
        attach(socket, ends);
        settle();
        bool before = i % 2 != 0; // the program closes it
        if (before) {
            EXPECT_EQ(receive(socket), framed("log"));
        }
        run(a, [&] { close(ends.here); });
        if (!before) {
            EXPECT_EQ(receive(socket), framed("log"));
        }
    }
    world.run_for(300 * sim::kSecond);
    EXPECT_EQ(connections(socket), kKept);
}

// Clients that ask, close their side, and wait for the answer.
TEST_P(KcmEnded, connections__whose_peers_wait_for_an_answer_stay)
{
    KcmSocket &socket = new_socket();
    run(a, [&] { ASSERT_EQ(socket.open(), 0); });
    std::vector<std::pair<Ends, std::uint64_t>> all;
    for (unsigned i = 0; i < 2 * kKept; i++) {
        Ends ends = connect();
        peer_writes(ends, framed("question"));
        run(b, [&] { sim::program_shutdown_write(ends.there); });
        settle();
        attach(socket, ends);
        run(a, [&] { all.emplace_back(ends, socket.id_of(ends.here)); });
        settle();
        EXPECT_EQ(receive(socket), framed("question"));
        run(a, [&] { close(ends.here); });
    }
    world.run_for(300 * sim::kSecond);
    for (const auto &[ends, id] : all)
        EXPECT_EQ(send(socket, framed("answer"), KCM_ABI_MSG_DONTWAIT, id), 10);
    for (const auto &[ends, id] : all)
        EXPECT_EQ(peer_reads(ends, 10), framed("answer"));
}

// It is probed, and its host is gone. No message was late.
TEST_P(KcmEnded, connection__whose_host_is_gone_counts_as_no_late_message)
{
    KcmSocket &socket = new_socket();
    run(a, [&] { ASSERT_EQ(socket.open(), 0); });
    Ends ends = connect();
    run(b, [&] { sim::program_shutdown_write(ends.there); });
    settle();
    attach(socket, ends);
    world.network().cut(a, b);
    world.run_for(300 * sim::kSecond);
    world.network().cut(a, b, false);
    EXPECT_EQ(receive(socket), "error 110"); // ETIMEDOUT
    kcm_totals totals{};
    run(a, [&] { kcm_net_totals(host.net(a.initial_net()), &totals); });
    EXPECT_EQ(totals.rx_aborts, 1u);
    EXPECT_EQ(totals.rx_timeouts, 0u);
}

// As before, but nothing has been read: it is not lost.
TEST_P(KcmEnded, connections__whose_peers_had_closed_before_are_read_to_their_end)
{
    KcmSocket &socket = new_socket();
    run(a, [&] { socket.open(), socket.sk().rcvbuf = 2000; });
    const std::string filler = framed(text(3000));
    Ends first = connect();
    attach(socket, first);
    peer_writes(first, filler);
    settle();
    for (unsigned i = 0; i < 2 * kKept; i++) {
        Ends ends = connect();
        peer_writes(ends, framed(std::to_string(i)));
        run(b, [&] { close(ends.there); });
        settle();
        attach(socket, ends);
        run(a, [&] { close(ends.here); });
    }
    EXPECT_EQ(receive(socket), filler);
    std::set<std::string> seen;
    for (unsigned i = 0; i < 2 * kKept; i++) {
        settle();
        seen.insert(receive(socket));
    }
    EXPECT_EQ(seen.size(), 2 * kKept);
    EXPECT_EQ(seen.count(framed("127")), 1u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, KcmEnded, ::testing::Range(1, 5));

// One that is being taken away is on no list when the last socket is closed, and still delivers.
class KcmForgotten : public KcmEnded {};

TEST_P(KcmForgotten, forgotten_connection__delivers_after_the_last_socket)
{
    bool slow = false;
    int filter = -1;
    run(a, [&] {
        filter = sim::program_filter([&](const unsigned char *, std::size_t size) -> kapi_s32 {
            for (unsigned i = 0; slow && i < 20'000; i++) // 64 messages, 0.1 ms each
                world.point("program");
            return size ? 1 : 0;
        });
    });
    KcmSocket &socket = new_socket();
    Ends zero = connect();
    run(a, [&] {
        ASSERT_EQ(socket.open(), 0);
        ASSERT_EQ(socket.attach(zero.here, filter), 0);
    });
    std::vector<Ends> all;
    for (unsigned i = 0; i < 63; i++)
        attach(socket, all.emplace_back(connect()));
    Ends trigger = connect();
    attach(socket, trigger);
    settle();
    std::int64_t id = 0;
    run(a, [&] { id = socket.id_of(zero.here); sim::program_shutdown_write(zero.here); });
    send(socket, "x", 0, static_cast<std::uint64_t>(id));
    settle();
    run(a, [&] { close(zero.here); });
    run(b, [&] { for (auto &e : all) close(e.there); });
    settle();
    run(a, [&] { EXPECT_EQ(socket.connections().size(), 65u); EXPECT_EQ(socket.connections()[0].error, 32); });
    slow = true;
    auto t1 = world.spawn(b, "end", [&] { close(trigger.there); });
    std::uint64_t pause = static_cast<std::uint64_t>(GetParam()) % 40 * 5'000;
    auto t2 = world.spawn(b, "data", [&, pause] { world.sleep(pause); sim::program_write(zero.there, "y", 1); });
    auto t3 = world.spawn(a, "close", [&] {
        world.sleep(static_cast<std::uint64_t>(GetParam()) / 40 % 10 * 20'000 + 100'000);
        socket.close();
    });
    world.run_for(sim::kSecond);
    slow = false;
    EXPECT_TRUE(t3->is_done());
    EXPECT_TRUE(t1->is_done());
    EXPECT_TRUE(t2->is_done());
    run(a, [&] { sim::program_close(filter); });
}

INSTANTIATE_TEST_SUITE_P(Seeds, KcmForgotten, ::testing::Range(100, 200));

// TCP has several buffers of one that was reset. There is room again, the first ones are read, and meanwhile others end.
class KcmReadOn : public KcmEnded {};

TEST_P(KcmReadOn, reset_connection__is_read_to_its_end_while_others_end)
{
    unsigned slow = 0, runs = 0; // so many of the filter's runs are slow
    int filter = -1;
    run(a, [&] {
        filter = sim::program_filter([&](const unsigned char *, std::size_t size) -> kapi_s32 {
            for (unsigned i = 0; runs < slow && i < 20'000; i++)
                world.point("program");
            runs++;
            return size ? 1 : 0;
        });
    });
    KcmSocket &socket = new_socket();
    run(a, [&] { socket.open(), socket.sk().rcvbuf = 2000; });
    Ends full = connect(), paused = connect();
    attach(socket, full);
    run(a, [&] { ASSERT_EQ(socket.attach(paused.here, filter), 0); });
    std::vector<Ends> others = attach_some(socket, kKept + 16);
    std::vector<std::uint64_t> ids;
    std::uint64_t id = 0;
    run(a, [&] {
        id = static_cast<std::uint64_t>(socket.id_of(paused.here));
        for (const Ends &ends : others) {
            ids.push_back(static_cast<std::uint64_t>(socket.id_of(ends.here)));
            sim::program_shutdown_write(ends.here);
        }
    });
    const std::string filler = framed(text(3000)), sent = "abcdefgh";
    peer_writes(full, filler);
    settle();
    for (char byte : sent)
        peer_writes(paused, std::string(1, byte));
    EXPECT_EQ(send(socket, "x", 0, id), 1); // which the peer does not read, so it resets the connection
    settle();
    run(a, [&] { close(paused.here); });
    run(b, [&] { close(paused.there); });
    settle();
    runs = 0;
    slow = 2;
    auto end = world.spawn(a, "end", [&] {
        while (!runs)
            world.point("not yet");
        for (std::uint64_t other : ids)
            for (unsigned i = 0; i < 2; i++) // the first one may return the error of the one before
                socket.send("x", 1, KCM_ABI_MSG_DONTWAIT, other);
    });
    EXPECT_EQ(receive(socket), filler);
    EXPECT_TRUE(world.run_until([&] { return end->is_done(); }, sim::kSecond));
    std::string received;
    for (unsigned i = 0; i < 2 * sent.size(); i++) {
        settle();
        std::string one = receive(socket); // or the last error
        received += one.size() == 1 ? one : "";
    }
    EXPECT_EQ(received, sent);
    run(a, [&] { sim::program_close(filter); });
}

INSTANTIATE_TEST_SUITE_P(Seeds, KcmReadOn, ::testing::Range(1, 11));

} // namespace
