// SPDX-License-Identifier: GPL-2.0
// Many small messages that came at once: others get the processor in between.
#include "kcm_test.h"

#include <kapi/host.h>

#include <algorithm>

#include "kapi/sim/turn.h"

namespace {

class KcmPauses : public KcmTest {
protected:
    /** A descriptor of a program for messages of one byte, whose runs take so long, and are counted until the next work. */
    int slow_program(std::uint64_t each_ns)
    {
        return sim::program_filter([this, each_ns](const unsigned char *, std::size_t) {
            if (std::exchange(work_, a.works_run) != a.works_run)
                runs_ = 0;
            most_ = std::max(most_, ++runs_);
            sim::spend(each_ns);
            return 1;
        });
    }
    /** Most runs of its program that a connection makes in one work, for so many messages of one byte that wait in TCP. */
    unsigned most_runs(unsigned messages, std::uint64_t each_ns, std::uint64_t attached_before_ns = 0)
    {
        int filter = -1;
        KcmSocket &socket = new_socket();
        Ends ends = connect();
        most_ = 0;
        run(a, [&] {
            filter = slow_program(each_ns);
            ASSERT_EQ(socket.open(), 0);
            ASSERT_EQ(socket.set_option(KCM_ABI_RECV_DISABLE, 1), 0);
            ASSERT_EQ(socket.attach(ends.here, filter), 0);
        });
        world.run_for(attached_before_ns);
        const std::string stream = text(messages);
        peer_writes(ends, stream);
        settle();
        run(a, [&] { ASSERT_EQ(socket.set_option(KCM_ABI_RECV_DISABLE, 0), 0); });
        settle();
        EXPECT_EQ(receive_all(socket), stream);
        run(a, [&] { sim::program_close(filter); });
        return most_;
    }

    std::string receive_all(KcmSocket &socket)
    {
        std::string received;
        run(a, [&] {
            char byte;
            while (socket.receive(&byte, 1, KCM_ABI_MSG_DONTWAIT) == 1)
                received += byte;
        });
        return received;
    }

    unsigned most_ = 0;

private:
    unsigned runs_ = 0;
    std::uint64_t work_ = 0;
};

// A program takes as long as its user likes.
TEST_F(KcmPauses, many_messages_that_came_at_once__are_cut_in_pieces)
{
    for (std::uint64_t each : {10 * sim::kMicrosecond, 100 * sim::kMicrosecond, sim::kMillisecond, 5 * sim::kMillisecond}) {
        SCOPED_TRACE(each);
        const unsigned most = static_cast<unsigned>(KAPI_TURN_NS / each) + 1;
        unsigned runs = most_runs(10 * most, each);
        EXPECT_GE(runs, most / 2); // they were there at once
        EXPECT_LE(runs, most);
    }
}

// Each packet is a call of its own, and all of them come in one softirq.
TEST_F(KcmPauses, many_messages_of_many_connections__share_the_processor)
{
    constexpr unsigned kMany = 16, kEach = 20, kMost = KAPI_TURN_NS / sim::kMillisecond;
    KcmSocket &socket = new_socket();
    std::vector<Ends> ends(kMany);
    std::generate(ends.begin(), ends.end(), [&] { return connect(); });
    run(a, [&] {
        int filter = slow_program(sim::kMillisecond);
        ASSERT_EQ(socket.open(), 0);
        for (const Ends &each : ends)
            ASSERT_EQ(socket.attach(each.here, filter), 0);
        sim::program_close(filter);
    });
    settle();
    for (const Ends &each : ends)
        peer_writes(each, text(kEach));
    settle();
    // By the order of softirqs and works each may have one more, or two; with a turn for each it would be kMany * kMost.
    EXPECT_LE(most_, kMost + 2 * kMany);
    EXPECT_EQ(receive_all(socket).size(), kMany * kEach);
}

// So many that do not come at once wait for no work, which may have to wait for programs.
TEST_F(KcmPauses, many_messages_that_came_one_by_one__wait_for_no_work)
{
    constexpr unsigned kEach = 20; // in a second
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    settle();
    const std::uint64_t before = a.work_requests;
    for (unsigned i = 0; i < 3000; i++) {
        peer_writes(ends, framed("one"));
        world.run_for(sim::kSecond / kEach);
        ASSERT_EQ(receive(socket), framed("one"));
    }
    EXPECT_EQ(a.work_requests, before);
}

// What they have not used before is not added.
TEST_F(KcmPauses, many_messages_at_once_after_a_pause__are_cut_in_pieces)
{
    constexpr std::uint64_t kEach = 10 * sim::kMicrosecond;
    EXPECT_LE(most_runs(4000, kEach, 5 * sim::kSecond), KAPI_TURN_NS / kEach + 1);
}

// A connection ends for which the queues of many sockets wait.
TEST_F(KcmPauses, end__refuses_waiting_queues_with_pauses)
{
    constexpr unsigned kMany = 500;
    KcmSocket &first = new_socket();
    Ends ends = open_narrow(first);
    std::int64_t id = 0;
    run(a, [&] { id = first.id_of(ends.here); });
    EXPECT_EQ(send(first, framed(text(30'000))), 30'004);
    for (unsigned i = 0; i < kMany; i++) {
        KcmSocket &s = new_socket();
        run(a, [&] { ASSERT_EQ(s.open_as_clone(first), 0); });
        EXPECT_EQ(send(s, "x", 0, static_cast<std::uint64_t>(id)), 1);
    }
    settle();
    sim::forget_steps();
    run(b, [&] { close(ends.there); });
    settle();
    EXPECT_LE(sim::most_steps_without_pause(), 64u * 3);
}

} // namespace
