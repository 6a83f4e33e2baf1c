// SPDX-License-Identifier: GPL-2.0
// Which socket gets a message, what happens when none has room, and what a socket leaves to the others.
#include "kcm_test.h"

namespace {

class KcmDistributor : public KcmTest {
protected:
    /** Sockets of one multiplexor with one connection. */
    Ends open(std::size_t count, kapi_u32 rcvbuf = 212'992)
    {
        for (std::size_t i = 0; i < count; i++)
            sockets.push_back(&new_socket());
        Ends ends = open_with_one(*sockets[0]);
        run(a, [&] {
            for (std::size_t i = 1; i < count; i++)
                EXPECT_EQ(sockets[i]->open_as_clone(*sockets[0]), 0);
            for (KcmSocket *socket : sockets)
                socket->sk().rcvbuf = rcvbuf;
        });
        return ends;
    }
    static std::string number(unsigned i) { return framed("message " + std::to_string(i)); }
    /** Writes these messages, each alone. */
    void write_one_by_one(const Ends &ends, unsigned from, unsigned to)
    {
        for (unsigned i = from; i < to; i++) {
            peer_writes(ends, number(i));
            world.run_for(5 * sim::kMillisecond);
        }
    }
    std::vector<std::string> drain(KcmSocket &socket)
    {
        std::vector<std::string> all;
        for (std::string got; (got = receive(socket)) != kNothing;)
            all.push_back(got);
        return all;
    }

    std::vector<KcmSocket *> sockets;
};

TEST_F(KcmDistributor, round_robin__goes_to_each_in_turn)
{
    Ends ends = open(3);
    write_one_by_one(ends, 0, 9);
    for (KcmSocket *socket : sockets)
        EXPECT_EQ(drain(*socket).size(), 3u);
}

TEST_F(KcmDistributor, round_robin__prefers_who_has_nothing_to_read)
{
    Ends ends = open(2);
    write_one_by_one(ends, 0, 2);
    drain(*sockets[1]);
    write_one_by_one(ends, 2, 3);
    EXPECT_EQ(drain(*sockets[0]).size(), 1u);
    EXPECT_EQ(drain(*sockets[1]).size(), 1u);
}

TEST_F(KcmDistributor, least_loaded__goes_to_who_has_fewest_bytes)
{
    Ends ends = open(3);
    run(a, [&] { EXPECT_EQ(sockets[1]->set_option(KCM_ABI_STEERING, KCM_ABI_STEER_LEAST_LOADED), 0); });
    peer_writes(ends, framed(text(50'000)));
    settle();
    peer_writes(ends, framed(text(20'000)));
    settle();
    write_one_by_one(ends, 0, 6);
    std::vector<std::size_t> counts;
    for (KcmSocket *socket : sockets)
        counts.push_back(drain(*socket).size());
    std::sort(counts.begin(), counts.end());
    EXPECT_EQ(counts, (std::vector<std::size_t>{1, 1, 6}));
}

TEST_F(KcmDistributor, cpu__goes_to_who_receives_there)
{
    Ends ends = open(3);
    int arrives_on = 0;
    run(a, [&] {
        arrives_on = static_cast<int>(sim::program_socket_of(ends.here).tcb->id % sim::kCpus);
        EXPECT_EQ(sockets[0]->set_option(KCM_ABI_STEERING, KCM_ABI_STEER_CPU), 0);
        char byte;
        for (std::size_t i = 0; i < 3; i++) { // the last one is there, the others are not
            sim::World::current_task()->cpu = i == 2 ? arrives_on : (arrives_on + 1) % static_cast<int>(sim::kCpus);
            EXPECT_EQ(sockets[i]->receive(&byte, 1, KCM_ABI_MSG_DONTWAIT), -KAPI_EAGAIN);
        }
    });
    write_one_by_one(ends, 0, 5);
    EXPECT_EQ(drain(*sockets[0]).size(), 0u);
    EXPECT_EQ(drain(*sockets[1]).size(), 0u);
    EXPECT_EQ(drain(*sockets[2]).size(), 5u);
}

TEST_F(KcmDistributor, full_sockets__leave_messages_with_tcp_until_somebody_reads)
{
    Ends ends = open(2, 4000);
    std::string stream;
    for (unsigned i = 0; i < 2000; i++)
        stream += number(i);
    auto writer = world.spawn(b, "writer", [&] {
        sim::program_write(ends.there, stream.data(), stream.size());
    });
    world.run_for(sim::kSecond);
    run(a, [&] {
        auto rows = sockets[0]->connections();
        ASSERT_EQ(rows.size(), 1u);
        EXPECT_TRUE(rows[0].state & KCM_ABI_CONN_PAUSED);
        EXPECT_LT(rows[0].rx_msgs, 500u);
    });
    std::set<std::string> got;
    for (unsigned i = 0; i < 2000 && got.size() < 2000; i++) {
        for (KcmSocket *socket : sockets)
            for (std::string &message : drain(*socket))
                EXPECT_TRUE(got.insert(message).second);
        settle();
    }
    EXPECT_EQ(got.size(), 2000u);
    EXPECT_TRUE(writer->is_done());
}

TEST_F(KcmDistributor, close__leaves_messages_to_the_others_in_order)
{
    Ends ends = open(2);
    write_one_by_one(ends, 0, 10);
    run(a, [&] { sockets[0]->close(); });
    std::vector<std::string> expected;
    for (unsigned i = 0; i < 10; i++)
        expected.push_back(number(i));
    EXPECT_EQ(drain(*sockets[1]), expected);
}

TEST_F(KcmDistributor, disabled__gets_nothing_and_leaves_what_it_had)
{
    Ends ends = open(3);
    write_one_by_one(ends, 0, 9);
    run(a, [&] { EXPECT_EQ(sockets[1]->set_option(KCM_ABI_RECV_DISABLE, 7), 0); });
    write_one_by_one(ends, 9, 12);
    EXPECT_TRUE(drain(*sockets[1]).empty());
    std::vector<std::string> first = drain(*sockets[0]), third = drain(*sockets[2]);
    EXPECT_EQ(first.size() + third.size(), 12u);
    EXPECT_TRUE(std::is_sorted(first.begin(), first.end(), [](auto &a, auto &b) { return a.size() < b.size(); }));
    EXPECT_EQ(send(*sockets[1], "still sends"), 11);
    EXPECT_EQ(peer_reads(ends, 11), "still sends");
}

TEST_F(KcmDistributor, all_disabled__hold_messages_until_one_is_not)
{
    Ends ends = open(2);
    write_one_by_one(ends, 0, 4);
    run(a, [&] {
        for (KcmSocket *socket : sockets)
            EXPECT_EQ(socket->set_option(KCM_ABI_RECV_DISABLE, 1), 0);
    });
    write_one_by_one(ends, 4, 8);
    for (KcmSocket *socket : sockets)
        EXPECT_TRUE(drain(*socket).empty());
    run(a, [&] { EXPECT_EQ(sockets[1]->set_option(KCM_ABI_RECV_DISABLE, 0), 0); });
    settle();
    std::vector<std::string> expected;
    for (unsigned i = 0; i < 8; i++)
        expected.push_back(number(i));
    EXPECT_EQ(drain(*sockets[1]), expected);
}

TEST_F(KcmDistributor, fault__on_a_socket_that_closes_leaves_the_message_to_another)
{
    // A reader whose memory is slow and then faults: meanwhile its socket receives no more.
    Ends ends = open(2);
    write_one_by_one(ends, 0, 1);
    KcmSocket &holder = *(receive(*sockets[0], 100, KCM_ABI_MSG_DONTWAIT | KCM_ABI_MSG_PEEK) == kNothing ? sockets[1]
                                                                                                         : sockets[0]);
    KcmSocket &other = *(&holder == sockets[0] ? sockets[1] : sockets[0]);
    char bytes[100];
    holder.trouble.stall_at = 1;
    holder.trouble.stall_ns = sim::kSecond;
    holder.trouble.fault_at = 2;
    auto reader = world.spawn(a, "reader", [&] { EXPECT_EQ(holder.receive(bytes, 100), -KAPI_EFAULT); });
    world.run_for(100 * sim::kMillisecond);
    run(a, [&] { EXPECT_EQ(holder.set_option(KCM_ABI_RECV_DISABLE, 1), 0); });
    EXPECT_EQ(receive(other), kNothing);
    EXPECT_TRUE(world.run_until([&] { return reader->is_done(); }, 2 * sim::kSecond));
    EXPECT_EQ(receive(other), number(0));
}

} // namespace
