// SPDX-License-Identifier: GPL-2.0
// Many small messages that came at once: others get the processor in between.
#include "kcm_test.h"

#include "net/kcm/parser.h"

namespace {

class KcmPauses : public KcmTest {
protected:
    /**
     * Most runs of its program that a connection makes in one work, for so many messages of one byte that wait in TCP. each_ns:
     * that a run takes.
     */
    unsigned most_runs(unsigned messages, std::uint64_t attached_before_ns = 0, std::uint64_t each_ns = 0)
    {
        int filter = -1;
        KcmSocket &socket = new_socket();
        Ends ends = connect();
        unsigned runs = 0, most = 0;
        std::uint64_t work = 0;
        run(a, [&] {
            filter = sim::program_filter([&](const unsigned char *, std::size_t) {
                if (std::exchange(work, a.works_run) != a.works_run)
                    runs = 0;
                most = std::max(most, ++runs);
                if (each_ns)
                    stand_still(each_ns);
                return 1;
            });
            ASSERT_EQ(socket.open(), 0);
            ASSERT_EQ(socket.set_option(KCM_ABI_RECV_DISABLE, 1), 0);
            ASSERT_EQ(socket.attach(ends.here, filter), 0);
        });
        world.run_for(attached_before_ns);
        const std::string stream = text(messages);
        peer_writes(ends, stream);
        settle();
        run(a, [&] { ASSERT_EQ(socket.set_option(KCM_ABI_RECV_DISABLE, 0), 0); });
        world.run_for(messages * each_ns);
        settle();
        std::string received;
        run(a, [&] {
            char byte;
            while (socket.receive(&byte, 1, KCM_ABI_MSG_DONTWAIT) == 1)
                received += byte;
            sim::program_close(filter);
        });
        EXPECT_EQ(received, stream);
        return most;
    }

private:
    void stand_still(std::uint64_t time_ns)
    {
        sim::WaitList list;
        world.at(world.now_ns() + time_ns, [&] { world.wake(list); });
        world.wait(list, "its processor");
    }
};

TEST_F(KcmPauses, many_messages_that_came_at_once__are_cut_in_pieces)
{
    constexpr unsigned together = 64, most = kcm::Parser::runs_at_once;
    EXPECT_EQ(most_runs(most), most);
    for (unsigned messages : {most + 1, 3 * most, 10 * most}) {
        SCOPED_TRACE(messages);
        unsigned runs = most_runs(messages);
        EXPECT_GE(runs, most); // they were there at once
        EXPECT_LT(runs, most + together);
    }
}

// So many that do not come at once wait for no work, which may have to wait for programs.
TEST_F(KcmPauses, many_messages_that_came_one_by_one__wait_for_no_work)
{
    constexpr unsigned kEach = 20; // in a second
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    settle();
    const std::uint64_t before = a.work_requests;
    for (unsigned i = 0; i < 3 * kcm::Parser::runs_at_once; i++) {
        peer_writes(ends, framed("one"));
        world.run_for(sim::kSecond / kEach);
        ASSERT_EQ(receive(socket), framed("one"));
    }
    EXPECT_EQ(a.work_requests, before);
}

// What came one by one before them counts once.
TEST_F(KcmPauses, many_messages_at_once_after_a_pause__are_cut_in_pieces)
{
    constexpr unsigned most = kcm::Parser::runs_at_once;
    EXPECT_LT(most_runs(10 * most, 5 * sim::kSecond), 2 * most + 64);
}

// A program takes as long as its user likes: the time that its own runs take is no pause.
TEST_F(KcmPauses, many_messages_at_once_of_a_slow_program__are_cut_in_pieces)
{
    constexpr unsigned most = kcm::Parser::runs_at_once;
    EXPECT_LE(most_runs(5 * most, 0, 2 * sim::kMillisecond), most + 2 * 64);
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
