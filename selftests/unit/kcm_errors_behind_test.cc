// SPDX-License-Identifier: GPL-2.0
// The error of the last connection, which comes behind all messages: what ends while it is held back, and for how long it is.
#include <kapi/sim/slow.h>

#include "kcm_users_test.h"

namespace {

class KcmErrorsHeldBack : public KcmUsers {
protected:
    ~KcmErrorsHeldBack() override { sim::stand_still_after(nullptr, 0); }

    void open(unsigned connections)
    {
        for (unsigned i = 0; i < connections; i++)
            attach(socket, ends.emplace_back(connect()));
    }
    static std::string message(unsigned number) { return framed(std::to_string(number) + text(9000)); }
    void send_more_than_there_is_room_for()
    {
        std::uint64_t delivered = 0;
        for (; sent_ < delivered + 3; sent_++) {
            ASSERT_LT(sent_, 1000u) << "there is room for all";
            peer_writes(ends[0], message(sent_));
            settle();
            run(a, [&] { delivered = socket.connections().at(0).rx_msgs; });
        }
    }
    void end(unsigned connection)
    {
        run(b, [&] { close(ends[connection].there); });
    }
    /** What is there now, in order; then what the last call returned. */
    std::string take_what_is_there()
    {
        for (;;) {
            std::string got = receive(socket);
            if (got.starts_with("error"))
                return got;
            EXPECT_TRUE(next_ < sent_ && got == message(next_));
            next_++;
        }
    }
    void expect_the_rest_and_then_the_error()
    {
        std::string last = kNothing;
        for (unsigned i = 0; i < 100 && last == kNothing; i++) {
            settle();
            last = take_what_is_there();
        }
        EXPECT_EQ(last, "error 32"); // EPIPE
        EXPECT_EQ(next_, sent_);
    }
    /** The socket is empty, and the rest is with TCP for so long: a program has the lock. */
    void hold_the_rest(std::uint64_t duration_ns)
    {
        send_more_than_there_is_room_for();
        end(0);
        settle();
        holder_ = start_to_hold(ends[0], duration_ns);
        world.run_for(sim::kMillisecond);
        EXPECT_EQ(take_what_is_there(), kNothing);
        EXPECT_LT(next_, sent_);
    }
    sim::TaskRef start_to_receive(unsigned flags, long &result)
    {
        return world.spawn(a, "reader", [this, flags, &result] {
            static std::string room(1 << 20, 0);
            result = socket.receive(room.data(), room.size(), flags);
        });
    }
    unsigned poll()
    {
        unsigned events = 0;
        run(a, [&] { events = socket.poll(); });
        return events;
    }
    void disable(int on)
    {
        run(a, [&] { EXPECT_EQ(socket.set_option(KCM_ABI_RECV_DISABLE, on), 0); });
    }

    KcmSocket &socket = new_socket();
    std::vector<Ends> ends;
    unsigned sent_ = 0, next_ = 0;

private:
    sim::TaskRef holder_;
};

TEST_P(KcmErrorsHeldBack, error__does_not_overtake_what_is_delivered_while_a_reader_looks)
{
    open(1);
    hold_the_rest(500 * sim::kMillisecond);
    sim::stand_still_after("kcm receive", sim::kSecond);
    long result = 0;
    auto reader = start_to_receive(KCM_ABI_MSG_DONTWAIT, result);
    world.run_for(sim::kMillisecond);
    sim::stand_still_after(nullptr, 0);
    EXPECT_FALSE(reader->is_done());
    EXPECT_TRUE(world.run_until([&] { return reader->is_done(); }, 2 * sim::kSecond));
    EXPECT_TRUE(result == -KAPI_EAGAIN || result == static_cast<long>(message(next_).size())) << result;
    next_ += result > 0;
    expect_the_rest_and_then_the_error();
}

TEST_P(KcmErrorsHeldBack, thread_in_recvmsg__gets_the_error_when_its_socket_is_to_receive_nothing_more)
{
    open(1);
    hold_the_rest(500 * sim::kMillisecond);
    long result = 0;
    auto reader = start_to_receive(0, result);
    world.run_for(sim::kMillisecond);
    EXPECT_FALSE(reader->is_done());
    disable(1);
    EXPECT_TRUE(world.run_until([&] { return reader->is_done(); }, 100 * sim::kMillisecond));
    EXPECT_EQ(result, -KAPI_EPIPE);
    disable(0); // lets it go where the test has failed
    world.run_for(sim::kSecond);
}

TEST_P(KcmErrorsHeldBack, poller__gets_the_error_when_its_socket_is_to_receive_nothing_more)
{
    open(1);
    hold_the_rest(500 * sim::kMillisecond);
    bool came = false;
    auto poller = world.spawn(a, "poller", [&] {
        auto edges = socket.poller(KAPI_IN | KAPI_ERR, sim::Poller::Kind::epoll_edge);
        came = edges.wait(200 * sim::kMillisecond);
    });
    world.run_for(sim::kMillisecond);
    EXPECT_FALSE(poller->is_done());
    disable(1);
    EXPECT_TRUE(world.run_until([&] { return poller->is_done(); }, sim::kSecond));
    EXPECT_TRUE(came);
    EXPECT_EQ(receive(socket), "error 32");
}

// The end of the first one is noticed, and not yet counted.
TEST_P(KcmErrorsHeldBack, error__of_one_connection_does_not_overtake_what_came_on_another)
{
    open(2);
    send_more_than_there_is_room_for();
    sim::stand_still_after("kcm members", sim::kSecond);
    end(0);
    world.run_for(2 * sim::kMillisecond);
    sim::stand_still_after(nullptr, 0);
    end(1);
    world.run_for(20 * sim::kMillisecond);
    expect_the_rest_and_then_the_error();
}

// Another socket's program has it all, and does not read.
TEST_P(KcmErrorsHeldBack, error__waits_a_limited_time_for_what_there_is_no_memory_for)
{
    open(1);
    KcmSocket &other = new_socket();
    Ends others = open_with_one(other);
    for (unsigned i = 0; i < 5; i++)
        peer_writes(others, message(i));
    settle();
    a.kept_limit = a.kept;
    peer_writes(ends[0], message(sent_++));
    end(0);
    long result = 0;
    auto reader = start_to_receive(0, result);
    settle();
    EXPECT_FALSE(reader->is_done());
    EXPECT_TRUE(world.run_until([&] { return reader->is_done(); }, 2 * sim::kSecond));
    EXPECT_EQ(result, -KAPI_EPIPE);
    a.kept_limit = ~std::size_t{0};
    settle();
    EXPECT_TRUE(receive(socket) == message(0)); // it is not lost
}

TEST_P(KcmErrorsHeldBack, error__waits_while_others_give_memory_back)
{
    open(1);
    KcmSocket &other = new_socket();
    Ends others = open_with_one(other);
    for (unsigned i = 0; i < 5; i++)
        peer_writes(others, message(i));
    settle();
    a.kept_limit = a.kept;
    peer_writes(ends[0], message(sent_++));
    end(0);
    world.run_for(500 * sim::kMillisecond);
    EXPECT_EQ(receive(socket), kNothing);
    for (unsigned i = 0; i < 5; i++)
        EXPECT_TRUE(receive(other) == message(i));
    expect_the_rest_and_then_the_error();
}

TEST_P(KcmErrorsHeldBack, poll__reports_an_error_when_a_call_returns_it)
{
    open(1);
    hold_the_rest(500 * sim::kMillisecond);
    EXPECT_FALSE(poll() & (KAPI_IN | KAPI_ERR));
    EXPECT_EQ(receive(socket), kNothing);
    world.run_for(sim::kSecond);
    EXPECT_EQ(poll() & (KAPI_IN | KAPI_ERR), unsigned{KAPI_IN | KAPI_ERR}); // behind what is there to read
    expect_the_rest_and_then_the_error();
    EXPECT_FALSE(poll() & KAPI_ERR);
}

// Which takes it by SO_ERROR, and never reads: a part of the rest stays with TCP for ever.
TEST_P(KcmErrorsHeldBack, poller_for_room__gets_an_error_that_was_held_back)
{
    open(1);
    hold_the_rest(500 * sim::kMillisecond);
    run(a, [&] { socket.sk().rcvbuf = 2000; });
    unsigned events = 0;
    auto poller = world.spawn(a, "poller", [&] {
        events = socket.poller(KAPI_ERR, sim::Poller::Kind::epoll_edge).wait(5 * sim::kSecond);
    });
    world.run_for(sim::kMillisecond);
    EXPECT_FALSE(poller->is_done());
    EXPECT_TRUE(world.run_until([&] { return poller->is_done(); }, sim::kSecond));
    EXPECT_TRUE(events & KAPI_ERR);
    world.run_for(5 * sim::kSecond);
    expect_the_rest_and_then_the_error();
}

// TLS offers nothing for a while, and then reads on in work of its own.
TEST_P(KcmErrorsHeldBack, error__comes_behind_what_was_read_when_nobody_had_asked)
{
    open(1);
    send_more_than_there_is_room_for();
    end(0);
    settle();
    sim::TcbRef tcb = socket_behind(ends[0]);
    tcb->attached = false;
    EXPECT_EQ(take_what_is_there(), kNothing);
    settle();
    EXPECT_LT(next_, sent_);
    tcb->attached = true;
    run(a, [&] {
        sim::Locked locked(*tcb);
        tcb->declined = false;
        tcb->deliver();
    });
    EXPECT_EQ(tcb->unread, 0u);
    expect_the_rest_and_then_the_error();
}

INSTANTIATE_TEST_SUITE_P(Seeds, KcmErrorsHeldBack, ::testing::Range(1, 51));

} // namespace
