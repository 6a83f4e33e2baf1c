// SPDX-License-Identifier: GPL-2.0
// Which socket gets a message, what happens when none has room, and what a socket leaves to the others.
#include <kapi/sim/lock.h>

#include "kcm_distributor_test.h"

namespace {

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

TEST_F(KcmDistributor, least_loaded__takes_turns_among_those_that_have_read_all)
{
    Ends ends = open(3);
    run(a, [&] { EXPECT_EQ(sockets[0]->set_option(KCM_ABI_STEERING, KCM_ABI_STEER_LEAST_LOADED), 0); });
    std::vector<unsigned> got(sockets.size());
    for (unsigned i = 0; i < 9; i++) {
        write_one_by_one(ends, i, i + 1);
        for (std::size_t s = 0; s < sockets.size(); s++)
            got[s] += static_cast<unsigned>(drain(*sockets[s]).size());
    }
    EXPECT_EQ(got, (std::vector<unsigned>{3, 3, 3}));
}

TEST_F(KcmDistributor, least_loaded__is_chosen_of_so_many_that_are_compared)
{
    constexpr unsigned kCompared = 64;
    Ends ends = open(kCompared + 2);
    for (unsigned i = 0; i < sockets.size(); i++) { // one for each
        peer_writes(ends, framed(text(i < kCompared - 1 ? 3000 : i == kCompared - 1 ? 1000 : 100)));
        settle();
    }
    run(a, [&] { EXPECT_EQ(sockets[0]->set_option(KCM_ABI_STEERING, KCM_ABI_STEER_LEAST_LOADED), 0); });
    peer_writes(ends, framed("next"));
    settle();
    for (KcmSocket *socket : sockets) {
        std::vector<std::string> got = drain(*socket);
        EXPECT_EQ(got.size(), got[0].size() == 1004 ? 2u : 1u);
    }
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

TEST_F(KcmDistributor, readers__are_woken_without_the_lock)
{
    constexpr unsigned kSockets = 20, kMessages = 100;
    sim::forget_steps();
    Ends ends = open_with_messages(kSockets, kMessages); // to one of them
    EXPECT_GT(sockets[0]->sk().signals_in, 0u);
    run(a, [&] { EXPECT_EQ(sockets[0]->set_option(KCM_ABI_RECV_DISABLE, 1), 0); }); // to all others
    std::string all;
    for (unsigned i = 0; i < kMessages; i++)
        all += number(i);
    peer_writes(ends, all); // in bundles of few
    settle();
    EXPECT_EQ(sim::signals_under("kcm receive"), 0u);
    std::size_t messages = 0;
    for (KcmSocket *socket : sockets)
        messages += drain(*socket).size();
    EXPECT_EQ(messages, 2 * kMessages);
}

TEST_F(KcmDistributor, many_messages__move_in_a_bounded_number_of_steps)
{
    // What a hostile program does: it fills many sockets, and takes them out one by one.
    constexpr unsigned kSockets = 24;
    Ends first = open(kSockets), second = connect();
    run(a, [&] { ASSERT_EQ(sockets[0]->attach(second.here, by_length), 0); });
    unsigned count = 0;
    for (; count < 200 * kSockets; count += 2) { // in turn, so that each socket has some of every part of the stream
        peer_writes(first, number(count));
        peer_writes(second, number(count + 1));
        if (count % 20 == 0)
            world.run_for(sim::kMillisecond);
    }
    settle();
    sim::forget_steps();
    for (KcmSocket *socket : sockets)
        run(a, [&] { EXPECT_EQ(socket->set_option(KCM_ABI_RECV_DISABLE, 1), 0); });
    run(a, [&] { EXPECT_EQ(sockets[0]->set_option(KCM_ABI_RECV_DISABLE, 0), 0); });
    settle();
    // 64 bundles, each of which takes two ways down a tree of some 4800 at most.
    EXPECT_LE(sim::most_steps_under("kcm receive"), 64u * 2 * 2 * 13);
    EXPECT_EQ(drain(*sockets[0]).size(), count);
}

TEST_F(KcmDistributor, many_messages__that_nobody_has_read_are_dropped_with_pauses)
{
    open_with_messages(1, 300);
    sim::forget_steps();
    run(a, [&] { sockets[0]->close(); });
    EXPECT_LE(sim::most_steps_without_pause(), 64u);
}

TEST_F(KcmDistributor, many_messages__move_with_pauses)
{
    open_with_messages(2, 300);
    sim::forget_steps();
    run(a, [&] { EXPECT_EQ(sockets[0]->set_option(KCM_ABI_RECV_DISABLE, 1), 0); });
    EXPECT_LE(sim::most_steps_without_pause(), 64u * 4 + 8); // four for each bundle
    EXPECT_EQ(drain(*sockets[1]).size(), 300u);
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

TEST_F(KcmDistributor, two_faults__leave_the_messages_in_order)
{
    // Both readers took a message and fail to copy it; the one with the first message fails first.
    Ends ends = open(1);
    write_one_by_one(ends, 0, 3);
    char bytes[2][100];
    std::vector<sim::TaskRef> readers;
    for (unsigned i = 0; i < 2; i++) {
        readers.push_back(world.spawn(a, "reader", [&, i] {
            sockets[0]->trouble = {.fault_at = 2, .stall_at = 1, .stall_ns = (i + 1) * sim::kSecond};
            EXPECT_EQ(sockets[0]->receive(bytes[i], 100), -KAPI_EFAULT);
        }));
        world.run_for(100 * sim::kMillisecond);
    }
    for (const sim::TaskRef &reader : readers)
        EXPECT_TRUE(world.run_until([&] { return reader->is_done(); }, 3 * sim::kSecond));
    EXPECT_EQ(drain(*sockets[0]), (std::vector<std::string>{number(0), number(1), number(2)}));
}

TEST_F(KcmDistributor, large_message__that_fills_the_socket_does_not_overtake_those_that_move)
{
    constexpr unsigned kMoving = 10;
    Ends ends = open_with_messages(2, kMoving);
    peer_writes(ends, framed(text(250'000))); // to the second socket, which is full now
    settle();
    run(a, [&] { EXPECT_EQ(sockets[0]->set_option(KCM_ABI_RECV_DISABLE, 1), 0); });
    for (unsigned i = 0; i < kMoving; i++)
        EXPECT_EQ(receive(*sockets[1]), number(i));
    EXPECT_EQ(receive(*sockets[1]), framed(text(250'000)));
}

/** With the order of what happens at once. */
class KcmMoving : public KcmDistributor, public testing::WithParamInterface<std::uint64_t> {
protected:
    KcmMoving() : KcmDistributor(GetParam()) {}
    /**
     * A program that reads until nothing comes any more. Messages that its socket got before others were moved there it
     * may have read; from the first one below `moved` on, it gets all in order.
     */
    sim::TaskRef ordered_reader(KcmSocket &socket, unsigned moved)
    {
        return world.spawn(a, "reader", [this, &socket, moved] {
            socket.sk().rcvtimeo_ns = 20 * sim::kMillisecond;
            bool expects_order = false;
            char bytes[100];
            unsigned before = 0;
            for (long size; (size = socket.receive(bytes, sizeof(bytes))) > 12; seen++) {
                auto now = static_cast<unsigned>(std::stoul(std::string(bytes + 12, static_cast<std::size_t>(size) - 12)));
                if (expects_order) {
                    ASSERT_GT(now, before);
                }
                expects_order |= now < moved;
                before = now;
            }
        });
    }

    /** The peer's program sends more messages, one by one. */
    sim::TaskRef write_more(const Ends &ends, unsigned first, unsigned count)
    {
        return world.spawn(b, "writer", [=, this] {
            for (unsigned i = first; i < first + count; i++) {
                std::string message = number(i);
                sim::program_write(ends.there, message.data(), message.size());
                world.sleep(1000);
            }
        });
    }
    /** The first socket's messages go to the others. */
    void leave()
    {
        if (GetParam() % 2)
            sockets[0]->close();
        else
            EXPECT_EQ(sockets[0]->set_option(KCM_ABI_RECV_DISABLE, 1), 0);
    }

    unsigned seen = 0; // by the reader
};

TEST_P(KcmMoving, new_messages__do_not_overtake_those_that_move)
{
    constexpr unsigned kSockets = 33, kMoving = 500, kNew = 300; // so that a few of a piece go to each
    Ends ends = open_with_messages(kSockets, kMoving);
    auto reader = ordered_reader(*sockets[1], kMoving);
    auto writer = write_more(ends, kMoving, kNew);
    auto leaver = world.spawn(a, "leaver", [&] {
        while (seen < 2) // the others arrive from now on
            world.sleep(1000);
        leave();
    });
    EXPECT_TRUE(world.run_until([&] { return reader->is_done() && leaver->is_done(); }, sim::kSecond));
}

// A message that comes while others are held stops its connection, which nobody's reading resumes: there is room.
TEST_P(KcmMoving, connection__that_stops_while_messages_move_goes_on)
{
    constexpr unsigned kMoving = 100, kNew = 30;
    Ends ends = open_with_messages(2, kMoving);
    auto writer = write_more(ends, kMoving, kNew);
    auto leaver = world.spawn(a, "leaver", [&] {
        while (sockets[0]->connections().at(0).rx_msgs < kMoving + 3)
            world.sleep(1000);
        leave();
    });
    EXPECT_TRUE(world.run_until([&] { return writer->is_done() && leaver->is_done(); }, sim::kSecond));
    settle();
    run(a, [&] { EXPECT_EQ(sockets[1]->connections().at(0).rx_msgs, kMoving + kNew); });
    EXPECT_EQ(drain(*sockets[1]).size(), kMoving + kNew);
}

TEST_P(KcmMoving, socket__that_is_enabled_again_at_once_reads_in_order)
{
    constexpr unsigned kMessages = 300;
    open_with_messages(1, kMessages);
    auto reader = ordered_reader(*sockets[0], kMessages);
    auto leaver = world.spawn(a, "leaver", [&] {
        for (int disabled : {1, 0, 1, 0})
            EXPECT_EQ(sockets[0]->set_option(KCM_ABI_RECV_DISABLE, disabled), 0);
    });
    EXPECT_TRUE(world.run_until([&] { return reader->is_done() && leaver->is_done(); }, sim::kSecond));
    EXPECT_EQ(seen, kMessages);
}

TEST_P(KcmMoving, connection__that_stops_while_the_last_message_is_read_goes_on)
{
    constexpr unsigned kMessages = 400;
    Ends ends = open(1, 1000); // full with one message
    std::string stream;
    for (unsigned i = 0; i < kMessages; i++)
        stream += framed(text(2000, i));
    auto writer = world.spawn(b, "writer", [&] { sim::program_write(ends.there, stream.data(), stream.size()); });
    auto reader = world.spawn(a, "reader", [&] {
        sockets[0]->sk().rcvtimeo_ns = sim::kSecond;
        char bytes[3000];
        for (unsigned i = 0; i < kMessages; i++) {
            long size = -KAPI_EAGAIN;
            for (unsigned looks = 0; looks < 50 && size == -KAPI_EAGAIN; looks++) // at the moment in which it is brought
                size = sockets[0]->receive(bytes, sizeof(bytes), KCM_ABI_MSG_DONTWAIT);
            if (size == -KAPI_EAGAIN)
                size = sockets[0]->receive(bytes, sizeof(bytes));
            ASSERT_EQ(size, 2004) << i;
        }
    });
    EXPECT_TRUE(world.run_until([&] { return reader->is_done() && writer->is_done(); }, 10 * sim::kSecond));
}

INSTANTIATE_TEST_SUITE_P(Orders, KcmMoving, testing::Range<std::uint64_t>(1, 41));

} // namespace
