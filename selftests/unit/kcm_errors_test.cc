// SPDX-License-Identifier: GPL-2.0
// Which sockets are notified that a connection ended, and the cost of that when there are many.
#include <kapi/sim/lock.h>

#include "kcm_test.h"

namespace {

class KcmErrors : public KcmTest {
protected:
    void open(unsigned count, unsigned connections)
    {
        for (unsigned i = 0; i < connections; i++)
            ends.push_back(connect());
        for (unsigned i = 0; i < count; i++)
            sockets.push_back(&new_socket());
        run(a, [&] {
            ASSERT_EQ(sockets[0]->open(), 0);
            for (unsigned i = 1; i < count; i++)
                ASSERT_EQ(sockets[i]->open_as_clone(*sockets[0]), 0);
            for (const Ends &each : ends)
                ASSERT_EQ(sockets[0]->attach(each.here, by_length), 0);
        });
    }
    void end(unsigned connection)
    {
        run(b, [&] { close(ends[connection].there); });
        settle();
    }
    /** How many have an error to report; it is taken. */
    unsigned take_errors()
    {
        unsigned count = 0;
        for (KcmSocket *socket : sockets)
            count += receive(*socket) == "error 32"; // EPIPE
        return count;
    }
    void watch(KcmSocket &socket, int on)
    {
        run(a, [&] { EXPECT_EQ(socket.set_option(KCM_ABI_ERRORS, on), 0); });
    }

    std::vector<KcmSocket *> sockets;
    std::vector<Ends> ends;
};

TEST_F(KcmErrors, end_of_one_connection__visits_no_socket_when_none_wants_to_know)
{
    open(200, 3);
    watch(*sockets[7], 1);
    watch(*sockets[7], 0);
    watch(*sockets[8], 1);
    watch(*sockets[8], 1);
    run(a, [&] { sockets[8]->close(); });
    sockets.erase(sockets.begin() + 8);
    sim::forget_steps();
    end(0);
    EXPECT_LE(sim::most_steps_under("kcm members"), 2u);
    EXPECT_EQ(take_errors(), 0u);
}

TEST_F(KcmErrors, end_of_one_connection__is_reported_to_those_that_want_to_know)
{
    open(200, 3);
    for (unsigned i : {0u, 63u, 64u, 65u, 199u})
        watch(*sockets[i], 1);
    for (unsigned connection : {0u, 1u}) {
        end(connection);
        EXPECT_EQ(take_errors(), 5u);
    }
}

TEST_F(KcmErrors, end_of_the_last_connection__is_reported_to_all_at_a_few_steps_a_time)
{
    open(200, 2);
    end(0);
    sim::forget_steps();
    end(1);
    EXPECT_LE(sim::most_steps_under("kcm members"), 64u + 2);
    EXPECT_EQ(sim::signals_under("kcm members"), 0u);
    EXPECT_EQ(take_errors(), 200u);
    EXPECT_EQ(take_errors(), 0u);
}

TEST_F(KcmErrors, end_of_the_last_connection__is_reported_when_others_were_unattached)
{
    open(3, 4);
    run(a, [&] { EXPECT_EQ(sockets[0]->unattach(ends[0].here), 0); });
    end(1);
    EXPECT_EQ(take_errors(), 0u);
    run(a, [&] { EXPECT_EQ(sockets[0]->unattach(ends[1].here), 0); }); // which has ended
    run(a, [&] { EXPECT_EQ(sockets[0]->unattach(ends[2].here), 0); });
    EXPECT_EQ(take_errors(), 0u);
    end(3);
    EXPECT_EQ(take_errors(), 3u);
}

TEST_F(KcmErrors, end_of_the_last_connection__is_reported_behind_the_messages_that_wait)
{
    open(1, 1);
    peer_writes(ends[0], framed("first") + framed("second"));
    end(0);
    EXPECT_EQ(receive(*sockets[0]), framed("first"));
    EXPECT_EQ(receive(*sockets[0]), framed("second"));
    EXPECT_EQ(take_errors(), 1u);
    EXPECT_EQ(receive(*sockets[0]), kNothing);
}

// With the number that the end of the wait has, which send() reports as EAGAIN.
TEST_F(KcmErrors, time_out_of_the_last_connection__is_returned_to_a_thread_that_waits_for_room)
{
    for (bool with_lengths : {false, true}) {
        sockets.clear();
        ends.clear();
        open(1, 1);
        KcmSocket &socket = *sockets[0];
        run(a, [&] { sim::program_socket_of(ends[0].here).rcvtimeo_ns = sim::kSecond; });
        const std::string large = framed(text(20'000));
        while (send(socket, large, KCM_ABI_MSG_DONTWAIT) > 0)
            settle();
        long result = 0;
        auto sender = world.spawn(a, "sender", [&] {
            result = with_lengths ? socket.send_each(large.data(), large.size(), {static_cast<std::uint32_t>(large.size())})
                                  : socket.send(large.data(), large.size());
        });
        settle();
        EXPECT_FALSE(sender->is_done());
        peer_writes(ends[0], framed(text(100)).substr(0, 50)); // the rest does not come in time
        EXPECT_TRUE(world.run_until([&] { return sender->is_done(); }, 3 * sim::kSecond));
        EXPECT_EQ(result, -KAPI_ETIMEDOUT);
        EXPECT_EQ(receive(socket), kNothing); // once
    }
}

TEST_F(KcmErrors, thread_that_waits_for_room__ends_when_the_peers_host_is_gone)
{
    open(1, 1);
    const std::string large = framed(text(20'000));
    while (send(*sockets[0], large, KCM_ABI_MSG_DONTWAIT) > 0)
        settle();
    long result = 0;
    auto sender = world.spawn(a, "sender", [&] { result = sockets[0]->send(large.data(), large.size()); });
    settle();
    world.network().cut(a, b);
    EXPECT_TRUE(world.run_until([&] { return sender->is_done(); }, 3000 * sim::kSecond));
    EXPECT_EQ(result, -KAPI_ETIMEDOUT);
    world.network().cut(a, b, false);
}

} // namespace
