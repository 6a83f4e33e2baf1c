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

/** The peer has sent more than the sockets have room for, and has ended. What TCP holds then is read in work. */
class KcmErrorsBehind : public KcmErrors, public testing::WithParamInterface<bool> {
protected:
    void send_more_than_there_is_room_for()
    {
        std::uint64_t delivered = 0;
        for (; sent_ < delivered + 3; sent_++) {
            ASSERT_LT(sent_, 1000u) << "there is room for all";
            peer_writes(ends[0], message(sent_));
            settle();
            run(a, [&] { delivered = sockets[0]->connections().at(0).rx_msgs; });
        }
    }
    void end_it()
    {
        if (GetParam())
            world.network().reset(a, b, sim::Sees::both);
        else
            end(0);
        settle();
    }
    int its_error() const { return GetParam() ? KAPI_ECONNRESET : KAPI_EPIPE; }
    static std::string message(unsigned number) { return framed(std::to_string(number) + text(9000)); }
    /** All that was sent, in order, and nothing else but "there is nothing yet". */
    void take_all(KcmSocket &socket, unsigned first = 0)
    {
        for (unsigned next = first; next < sent_;) {
            std::string got = receive(socket);
            if (got == kNothing)
                settle();
            else
                ASSERT_EQ(got, message(next++));
        }
    }

    unsigned sent_ = 0;
};
INSTANTIATE_TEST_SUITE_P(, KcmErrorsBehind, testing::Bool(), [](const auto &info) { return info.param ? "reset" : "fin"; });

TEST_P(KcmErrorsBehind, error__is_reported_to_readers_behind_what_there_was_no_room_for)
{
    open(1, 1);
    send_more_than_there_is_room_for();
    end_it();
    EXPECT_EQ(error_of(ends[0]), its_error()); // at once
    unsigned events = 0;
    run(a, [&] { events = sockets[0]->poll(); });
    EXPECT_TRUE(events & KAPI_ERR);
    take_all(*sockets[0]);
    settle();
    EXPECT_EQ(receive(*sockets[0]), "error " + std::to_string(its_error()));
    EXPECT_EQ(receive(*sockets[0]), kNothing);
}

TEST_P(KcmErrorsBehind, error__is_reported_to_senders_at_once)
{
    open(1, 1);
    send_more_than_there_is_room_for();
    const std::string large = framed(text(20'000));
    while (send(*sockets[0], large, KCM_ABI_MSG_DONTWAIT) > 0)
        settle();
    long result = 0;
    auto sender = world.spawn(a, "sender", [&] { result = sockets[0]->send(large.data(), large.size()); });
    settle();
    end_it();
    EXPECT_TRUE(sender->is_done());
    EXPECT_LT(result, 0);
    take_all(*sockets[0]);
}

TEST_P(KcmErrorsBehind, thread_in_recvmsg__gets_the_rest_and_then_the_error)
{
    open(1, 1);
    send_more_than_there_is_room_for();
    std::string results;
    auto reader = world.spawn(a, "reader", [&] {
        world.sleep(sim::kSecond);
        std::string room(1 << 20, 0);
        for (long size = 1; size > 0;) {
            size = sockets[0]->receive(room.data(), room.size());
            results += size > 0 ? room.substr(0, static_cast<std::size_t>(size)) : " error " + std::to_string(-size);
        }
    });
    end_it();
    std::string all;
    for (unsigned i = 0; i < sent_; i++)
        all += message(i);
    EXPECT_TRUE(world.run_until([&] { return reader->is_done(); }, 10 * sim::kSecond));
    EXPECT_TRUE(results == all + " error " + std::to_string(its_error())) << results.size() << " bytes, expected " << all.size();
}

// Its rest is no whole message, so nothing comes that wakes the reader.
TEST_P(KcmErrorsBehind, thread_in_recvmsg__gets_the_error_when_the_rest_is_no_message)
{
    open(1, 1);
    send_more_than_there_is_room_for();
    for (bool blocked = true; blocked; run(a, [&] { blocked = sockets[0]->connections().at(0).state & KCM_ABI_CONN_PAUSED; }))
        EXPECT_NE(receive(*sockets[0]), kNothing);
    while (receive(*sockets[0]) != kNothing)
        settle();
    run(a, [&] { EXPECT_EQ(sockets[0]->set_option(KCM_ABI_RECV_DISABLE, 1), 0); });
    peer_writes(ends[0], message(0).substr(0, 100));
    settle();
    end_it();
    run(a, [&] { EXPECT_EQ(sockets[0]->set_option(KCM_ABI_RECV_DISABLE, 0), 0); });
    long result = 0;
    auto reader = world.spawn(a, "reader", [&] {
        char bytes[100];
        result = sockets[0]->receive(bytes, sizeof(bytes));
    });
    settle();
    EXPECT_TRUE(reader->is_done());
    EXPECT_EQ(result, -its_error());
}

TEST_P(KcmErrorsBehind, error__does_not_wait_for_what_the_program_has_read_itself)
{
    open(1, 1);
    run(a, [&] { EXPECT_EQ(sockets[0]->set_option(KCM_ABI_RECV_DISABLE, 1), 0); });
    peer_writes(ends[0], message(0));
    settle();
    run(a, [&] { EXPECT_EQ(read(ends[0].here, message(0).size()), message(0)); });
    run(a, [&] { EXPECT_EQ(sockets[0]->set_option(KCM_ABI_RECV_DISABLE, 0), 0); });
    settle();
    end_it();
    EXPECT_EQ(receive(*sockets[0]), "error " + std::to_string(its_error()));
}

TEST_P(KcmErrorsBehind, error__does_not_wait_in_a_socket_that_receives_nothing)
{
    open(1, 1);
    send_more_than_there_is_room_for();
    run(a, [&] { EXPECT_EQ(sockets[0]->set_option(KCM_ABI_RECV_DISABLE, 1), 0); });
    end_it();
    while (true) {
        std::string got = receive(*sockets[0]);
        ASSERT_NE(got, kNothing);
        if (got == "error " + std::to_string(its_error()))
            break;
    }
}

TEST_P(KcmErrorsBehind, error__does_not_wait_for_a_connection_that_was_unattached)
{
    open(1, 1);
    send_more_than_there_is_room_for();
    end_it();
    while (receive(*sockets[0], 100) == kNothing)
        settle();
    run(a, [&] { EXPECT_EQ(sockets[0]->unattach(ends[0].here), 0); });
    std::string got;
    do
        got = receive(*sockets[0]);
    while (got.starts_with(framed("").substr(0, 2)));
    EXPECT_EQ(got, "error " + std::to_string(its_error()));
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
