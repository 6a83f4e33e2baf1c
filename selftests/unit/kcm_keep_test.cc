// SPDX-License-Identifier: GPL-2.0
// A socket keeps the connection that it sent on for its next message. Nobody notices: not who wants that connection, not who
// takes it away, and not who counts.
#include <algorithm>

#include "kcm_test.h"

namespace {

constexpr unsigned kBatch = KCM_ABI_MSG_BATCH, kMore = KCM_ABI_MSG_MORE, kNow = KCM_ABI_MSG_DONTWAIT;

/** With the order of what happens at once. */
class KcmKeep : public KcmTest, public testing::WithParamInterface<std::uint64_t> {
protected:
    KcmKeep() : KcmTest(GetParam()) {}

    /** A socket that has sent on its one connection. */
    Ends open_and_send(KcmSocket &socket)
    {
        Ends ends = open_with_one(socket);
        EXPECT_EQ(send(socket, "."), 1);
        EXPECT_EQ(peer_reads(ends, 1), ".");
        return ends;
    }
    kcm_abi_connection_stats only_connection(KcmSocket &socket)
    {
        kcm_abi_connection_stats row{};
        run(a, [&] { row = socket.connections().at(0); });
        return row;
    }
    kcm_totals totals()
    {
        kcm_totals sum{};
        run(a, [&] { kcm_net_totals(host.net(a.initial_net()), &sum); });
        return sum;
    }
};

TEST_P(KcmKeep, each_message__is_one_reservation)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_and_send(socket);
    for (unsigned i = 0; i < 5; i++)
        EXPECT_EQ(send(socket, "."), 1);
    EXPECT_EQ(peer_reads(ends, 5), ".....");
    auto row = only_connection(socket);
    EXPECT_EQ(row.tx_reserved, 6u);
    EXPECT_FALSE(row.state & KCM_ABI_CONN_RESERVED);
    EXPECT_EQ(totals().unreserved, 6u);
}

TEST_P(KcmKeep, messages_that_wait__are_one_reservation_each_time_the_queue_is_empty)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_and_send(socket);
    EXPECT_EQ(send(socket, "a", kBatch), 1);
    EXPECT_EQ(send(socket, "b"), 1);
    EXPECT_EQ(send(socket, "."), 1);
    EXPECT_EQ(peer_reads(ends, 3), "ab.");
    EXPECT_EQ(only_connection(socket).tx_reserved, 3u);
    EXPECT_EQ(totals().reserved, totals().unreserved);
}

TEST_P(KcmKeep, another_socket__gets_it)
{
    KcmSocket &socket = new_socket(), &other = new_socket();
    Ends ends = open_and_send(socket);
    std::uint64_t connection = only_connection(socket).id;
    run(a, [&] { ASSERT_EQ(other.open_as_clone(socket), 0); });
    EXPECT_EQ(send(other, "1"), 1);
    EXPECT_EQ(send(socket, "2"), 1);
    EXPECT_EQ(send(other, "3", 0, connection), 1); // by its queue
    EXPECT_EQ(send(socket, "4"), 1);
    EXPECT_EQ(send(other, "5", kBatch), 1);
    EXPECT_EQ(send(other, "6"), 1);
    EXPECT_EQ(peer_reads(ends, 6), "123456");
    EXPECT_EQ(totals().reserved, totals().unreserved);
}

TEST_P(KcmKeep, begun_message__lets_others_have_it)
{
    // A program that never ends its message delays no other.
    KcmSocket &socket = new_socket(), &other = new_socket();
    Ends ends = open_and_send(socket);
    run(a, [&] { ASSERT_EQ(other.open_as_clone(socket), 0); });
    EXPECT_EQ(send(socket, "begun ", kMore), 6);
    EXPECT_EQ(send(other, "other "), 6);
    EXPECT_EQ(peer_reads(ends, 6), "other ");
    EXPECT_EQ(send(socket, "ended"), 5);
    EXPECT_EQ(peer_reads(ends, 11), "begun ended");
}

TEST_P(KcmKeep, more_connections__take_turns)
{
    KcmSocket &socket = new_socket();
    Ends first = open_and_send(socket), second = connect();
    run(a, [&] { ASSERT_EQ(socket.attach(second.here, by_length), 0); });
    for (unsigned i = 0; i < 10; i++)
        EXPECT_EQ(send(socket, "x"), 1);
    EXPECT_EQ(peer_reads(first, 5), "xxxxx");
    EXPECT_EQ(peer_reads(second, 5), "xxxxx");
}

TEST_P(KcmKeep, unattach__need_not_wait)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_and_send(socket);
    run(a, [&] { EXPECT_EQ(socket.unattach(ends.here, true), 0); });
    EXPECT_EQ(totals().unattach_reserved, 0u);
    EXPECT_EQ(send(socket, "later", kNow), 5);
    run(a, [&] { EXPECT_EQ(socket.attach(ends.here, by_length), 0); });
    EXPECT_EQ(peer_reads(ends, 5), "later");
}

TEST_P(KcmKeep, unattach__among_messages_cuts_none)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_and_send(socket);
    auto writer = world.spawn(a, "writer", [&] {
        for (unsigned i = 0; i < 40; i++)
            EXPECT_EQ(socket.send("message.", 8), 8);
    });
    run(a, [&] {
        EXPECT_EQ(socket.unattach(ends.here), 0);
        EXPECT_EQ(sim::program_write(ends.here, "mine", 4), 4);
        EXPECT_EQ(socket.attach(ends.here, by_length), 0);
    });
    std::string got = peer_reads(ends, 40 * 8 + 4);
    EXPECT_TRUE(writer->is_done());
    EXPECT_EQ(got.find("mine") % 8, 0u);
}

TEST_P(KcmKeep, close__lets_go_of_it)
{
    KcmSocket &socket = new_socket(), &other = new_socket();
    Ends ends = open_and_send(socket);
    run(a, [&] {
        ASSERT_EQ(other.open_as_clone(socket), 0);
        socket.close();
    });
    EXPECT_EQ(send(other, "x"), 1);
    EXPECT_EQ(peer_reads(ends, 1), "x");
    run(a, [&] { other.close(); });
    settle();
    run(a, [&] { EXPECT_EQ(sim::program_write(ends.here, "y", 1), 1); });
    EXPECT_EQ(peer_reads(ends, 1), "y");
}

TEST_P(KcmKeep, connection_that_ends__is_kept_by_nobody)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_and_send(socket), next = connect();
    run(b, [&] { close(ends.there); });
    settle();
    EXPECT_EQ(send(socket, "x", kNow), -KAPI_EPIPE);
    run(a, [&] { EXPECT_EQ(socket.attach(next.here, by_length), 0); });
    EXPECT_EQ(send(socket, "x"), 1);
    EXPECT_EQ(peer_reads(next, 1), "x");
}

INSTANTIATE_TEST_SUITE_P(Orders, KcmKeep, testing::Range<std::uint64_t>(1, 9));

/** Of threads that meet by chance alone. */
class KcmKeepAtOnce : public KcmKeep {};

TEST_P(KcmKeepAtOnce, threads_of_one_socket__stay_behind_what_tcp_has_no_room_for)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_narrow(socket);
    constexpr unsigned kThreads = 3, kRounds = 40;
    std::string message = framed(text(3000));
    for (unsigned round = 0; round < kRounds; round++) {
        for (unsigned thread = 0; thread < kThreads; thread++)
            world.spawn(a, "writer", [&] { EXPECT_EQ(socket.send(message.data(), message.size()), 3004); });
        for (unsigned thread = 0; thread < kThreads; thread++)
            ASSERT_EQ(peer_reads(ends, message.size()), message) << round;
    }
}

TEST_P(KcmKeepAtOnce, sockets__get_it_from_each_other)
{
    KcmSocket &socket = new_socket(), &other = new_socket();
    Ends ends = open_and_send(socket);
    run(a, [&] { ASSERT_EQ(other.open_as_clone(socket), 0); });
    for (unsigned round = 0; round < 40; round++) {
        for (KcmSocket *each : {&socket, &other})
            world.spawn(a, "writer", [each] { EXPECT_EQ(each->send("x", 1), 1); });
        ASSERT_EQ(peer_reads(ends, 2), "xx") << round;
    }
}

TEST_P(KcmKeepAtOnce, message__of_which_tcp_took_a_part_does_not_wait_with_a_batch)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_narrow(socket);
    std::string large = framed(text(6000)), batched = framed("batched");
    for (unsigned round = 0; round < 10; round++) {
        auto writer = world.spawn(a, "writer", [&] { EXPECT_EQ(socket.send(large.data(), large.size()), 6004); });
        auto other = world.spawn(a, "other", [&] {
            EXPECT_EQ(socket.send(batched.data(), batched.size(), kBatch), 11);
        });
        // One that is put into the queue before the large one goes with it.
        std::string got = peer_reads(ends, large.size());
        ASSERT_EQ(got.size(), large.size()) << round;
        ASSERT_TRUE(writer->is_done() && other->is_done());
        EXPECT_EQ(send(socket, ""), 0); // ends the batch
        got += peer_reads(ends, batched.size());
        ASSERT_TRUE(got == large + batched || got == batched + large) << round;
    }
}

// A program that never ends its batch delays no other, also when it began it while its message before was being sent.
TEST_P(KcmKeepAtOnce, batch__that_waits_keeps_no_connection)
{
    KcmSocket &socket = new_socket(), &other = new_socket();
    Ends ends = open_and_send(socket);
    run(a, [&] { ASSERT_EQ(other.open_as_clone(socket), 0); });
    for (unsigned round = 0; round < 40; round++) {
        world.spawn(a, "writer", [&] { EXPECT_EQ(socket.send("x", 1), 1); });
        world.spawn(a, "batch", [&] { EXPECT_EQ(socket.send("y", 1, kBatch), 1); });
        world.spawn(a, "other", [&] { EXPECT_EQ(other.send("z", 1), 1); });
        std::string got = peer_reads(ends, 2);
        ASSERT_EQ(got.size(), 2u) << round;
        EXPECT_EQ(send(socket, ""), 0); // ends the batch
        got += peer_reads(ends, 1);
        std::sort(got.begin(), got.end());
        ASSERT_EQ(got, "xyz") << round;
    }
}

INSTANTIATE_TEST_SUITE_P(Orders, KcmKeepAtOnce, testing::Range<std::uint64_t>(1, 121));

} // namespace
