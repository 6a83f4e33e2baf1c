// SPDX-License-Identifier: GPL-2.0
// net/rds/pull, net/rds/one_way: messages that wait in the stream for the program that is about to receive them.
#include "rds_test.h"

#include "net/rds/net.h"
#include "net/rds/one_way.h"

#include <kapi/errno.h>

#include <cstdint>
#include <string>

namespace {

constexpr unsigned kOneWay = 8;                          // messages after which traffic goes one way
constexpr std::uint64_t kWait = 4 * sim::kMillisecond;   // for a program

class Pull : public RdsTest {
protected:
    Pull()
    {
        run(a, [&] { open(from, "10.0.0.1", 5); });
        run(b, [&] {
            open(to, "10.0.0.2", 70);
            open(other, "10.0.0.2", 71);
        });
        run(a, [&] {
            for (unsigned i = 0; i < kOneWay; i++)
                EXPECT_EQ(send(from, "early", "10.0.0.2", 70), 5);
        });
        run(b, [&] {
            for (unsigned i = 0; i < kOneWay; i++)
                EXPECT_EQ(receive(to), "early");
            EXPECT_EQ(receive(to, RDS_ABI_MSG_DONTWAIT), again);
        });
        world.run_for(sim::kSecond);
    }
    ~Pull() override
    {
        for (RdsSocket *socket : {&to, &other})
            run(b, [&] { socket->close(); });
        run(a, [&] { from.close(); });
    }

    static void open(RdsSocket &socket, const char *address, kapi_u16 port)
    {
        ASSERT_EQ(socket.open(), 0);
        ASSERT_EQ(socket.bind(sim::address(address, port)), 0);
    }
    void send_to(kapi_u16 port, const std::string &text)
    {
        run(a, [&] { EXPECT_EQ(send(from, text, "10.0.0.2", port), static_cast<long>(text.size())); });
    }
    /** So many have been left by now, this one among them or not. */
    void send_and_expect_left(const std::string &text, std::uint64_t count)
    {
        send_to(70, text);
        world.run_for(kWait / 2);
        EXPECT_EQ(left(host_b), count);
    }
    /** With another program's message behind it. */
    void leave_two()
    {
        send_to(70, "left");
        send_to(71, "behind");
        world.run_for(kWait / 2);
        EXPECT_EQ(left(host_b), 1u);
    }
    static std::uint64_t left(RdsHost &host)
    {
        return reinterpret_cast<rds::Net *>(host.net().rds)->counted(rds::Stat::recv_left);
    }
    /** A program that polls a socket and does not come when it is woken, until this ends. */
    struct Watcher {
        Watcher(Pull &test, RdsSocket &socket) : test_(test)
        {
            task_ = test.world.spawn(test.b, "watcher", [this, &socket] {
                sim::PollWatch watch;
                kapi_poll poll{&watch, KAPI_IN};
                rds_socket_poll(socket.core(), &poll);
                while (!ends_) {
                    test_.world.sleep(200 * sim::kMicrosecond);
                    woken_ = poll.woken;
                }
                watch.end();
            });
            test.world.run_for(sim::kMicrosecond);
        }
        ~Watcher() { end(); }
        void end()
        {
            ends_ = true;
            EXPECT_TRUE(test_.world.run_until([this] { return task_->is_done(); }, sim::kSecond));
        }
        bool woken() const { return woken_; }

    private:
        Pull &test_;
        sim::TaskRef task_;
        bool ends_ = false, woken_ = false;
    };

    const std::string again = "error " + std::to_string(-KAPI_EAGAIN);
    RdsSocket from{host_a}, to{host_b}, other{host_b};
};

TEST_F(Pull, one_way__is_traffic_without_messages_the_other_way)
{
    rds::OneWay way;
    way.sent(kOneWay - 1);
    EXPECT_FALSE(way.sends());
    way.sent(1);
    EXPECT_TRUE(way.sends());
    EXPECT_FALSE(way.receives());
    for (unsigned i = 0; i < kOneWay; i++) {
        EXPECT_FALSE(way.receives());
        way.received();
    }
    EXPECT_TRUE(way.receives());
    EXPECT_FALSE(way.sends());
    way.sent(1);
    EXPECT_FALSE(way.receives());
}

TEST_F(Pull, waiting_program__reads_itself_what_has_come)
{
    std::string got;
    auto reader = world.spawn(b, "reader", [&] {
        for (int i = 0; i < 20; i++)
            got += receive(to);
    });
    std::string sent;
    run(a, [&] {
        for (char c = 'a'; c < 'a' + 20; c++) {
            EXPECT_EQ(send(from, std::string(1, c), "10.0.0.2", 70), 1);
            sent += c;
        }
    });
    EXPECT_TRUE(world.run_until([&] { return reader->is_done(); }, sim::kSecond));
    EXPECT_EQ(got, sent);
    EXPECT_GT(left(host_b), 0u);
}

TEST_F(Pull, answered_requests__are_never_left)
{
    auto server = world.spawn(b, "server", [&] {
        for (int i = 0; i < 50; i++) {
            EXPECT_EQ(receive(to), "request");
            EXPECT_EQ(send(to, "answer", "10.0.0.1", 5), 6);
        }
    });
    send_to(70, "request"); // the first one after what went one way may be
    run(a, [&] { EXPECT_EQ(receive(from), "answer"); });
    std::uint64_t before = left(host_b);
    run(a, [&] {
        for (int i = 1; i < 50; i++) {
            EXPECT_EQ(send(from, "request", "10.0.0.2", 70), 7);
            EXPECT_EQ(receive(from), "answer");
        }
    });
    world.run_for(sim::kSecond);
    EXPECT_TRUE(server->is_done());
    EXPECT_EQ(left(host_b), before);
    EXPECT_EQ(left(host_a), 0u);
}

TEST_F(Pull, program_that_polls__is_woken_and_finds_it)
{
    Watcher watcher(*this, to);
    send_and_expect_left("text", 1u);
    EXPECT_TRUE(watcher.woken());
    run(b, [&] {
        EXPECT_NE(to.poll() & KAPI_IN, 0u);
        EXPECT_EQ(receive(to, RDS_ABI_MSG_DONTWAIT), "text");
    });
}

TEST_F(Pull, call_that_does_not_wait__finds_it)
{
    Watcher watcher(*this, to);
    send_and_expect_left("text", 1u);
    run(b, [&] { EXPECT_EQ(receive(to, RDS_ABI_MSG_DONTWAIT), "text"); });
}

TEST_F(Pull, program_that_nobody_waits_for__gets_it_pushed)
{
    send_and_expect_left("text", 0u);
    run(b, [&] { EXPECT_EQ(receive(to, RDS_ABI_MSG_DONTWAIT), "text"); });
}

TEST_F(Pull, program_that_is_late__holds_up_others_for_milliseconds)
{
    Watcher watcher(*this, to);
    leave_two();
    run(b, [&] { EXPECT_EQ(receive(other, RDS_ABI_MSG_DONTWAIT), again); });
    world.run_for(2 * kWait);
    run(b, [&] {
        EXPECT_EQ(receive(other, RDS_ABI_MSG_DONTWAIT), "behind");
        EXPECT_EQ(receive(to, RDS_ABI_MSG_DONTWAIT), "left");
    });
}

// A user may have any number of sockets whose programs do not come.
TEST_F(Pull, programs_that_are_late__hold_up_others_for_a_small_part_of_the_time)
{
    Watcher one(*this, to), two(*this, other);
    for (int i = 0; i < 60; i++) {
        send_to(i % 2 ? 70 : 71, "text");
        world.run_for(2 * kWait);
        run(b, [&] { EXPECT_EQ(receive(i % 2 ? to : other, RDS_ABI_MSG_DONTWAIT), "text"); });
    }
    EXPECT_GT(left(host_b), 10u);
    EXPECT_LT(left(host_b), 30u);
    std::uint64_t before = left(host_b);
    send_and_expect_left("pushed", before);
    world.run_for(2 * sim::kSecond);
    run(b, [&] { EXPECT_EQ(receive(to, RDS_ABI_MSG_DONTWAIT), "pushed"); });
    send_and_expect_left("left", before + 1);
}

// One that comes in the end, but long after it was woken, holds up others as one that does not come. So it is also with a program
// that does nothing wrong, and works for some milliseconds on each message.
TEST_F(Pull, program_that_comes_late__holds_up_others_for_a_small_part_of_the_time)
{
    Watcher watcher(*this, to);
    for (int i = 0; i < 120; i++) {
        send_to(70, "text");
        world.run_for(kWait - 500 * sim::kMicrosecond);
        run(b, [&] { EXPECT_EQ(receive(to, RDS_ABI_MSG_DONTWAIT), "text"); });
    }
    EXPECT_GT(left(host_b), 10u);
    EXPECT_LT(left(host_b), 60u);
}

// The timer of each first wait runs out soon after the second one has begun.
TEST_F(Pull, earlier_timer__counts_only_what_was_waited)
{
    constexpr std::uint64_t kSoon = 800 * sim::kMicrosecond;
    Watcher watcher(*this, to);
    std::uint64_t before = left(host_b);
    for (int i = 0; i < 40; i++) {
        send_to(70, "first");
        world.run_for(kSoon);
        run(b, [&] { EXPECT_EQ(receive(to, RDS_ABI_MSG_DONTWAIT), "first"); });
        world.run_for(kWait - kSoon - 300 * sim::kMicrosecond);
        send_to(70, "second");
        world.run_for(kWait / 2);
        run(b, [&] { EXPECT_EQ(receive(to, RDS_ABI_MSG_DONTWAIT), "second"); });
    }
    EXPECT_EQ(left(host_b), before + 80);
}

TEST_F(Pull, socket_that_wants_times__gets_it_when_it_comes)
{
    Watcher watcher(*this, to);
    to.sk().timestamps = 1;
    send_and_expect_left("text", 0u);
}

TEST_F(Pull, socket_that_wants_traces__gets_it_when_it_comes)
{
    Watcher watcher(*this, to);
    rds_abi_rx_trace_so wanted{};
    wanted.rx_traces = 1;
    run(b, [&] { ASSERT_EQ(to.set_option(RDS_ABI_SO_MSG_RXPATH_LATENCY, &wanted, sizeof(wanted)), 0); });
    send_and_expect_left("text", 0u);
}

// Programs that come at once do not pay for those that are late.
TEST_F(Pull, programs_that_are_prompt_beside_late_ones__pay_nothing_back)
{
    Watcher watcher(*this, to);
    for (int i = 0; i < 400; i++) {
        send_to(70, "text");
        world.run_for(i % 4 ? 500 * sim::kMicrosecond : kWait - 500 * sim::kMicrosecond);
        run(b, [&] { EXPECT_EQ(receive(to), "text"); }); // which another may be about to take
    }
    EXPECT_GT(left(host_b), 40u);
    EXPECT_LT(left(host_b), 250u);
}

TEST_F(Pull, large_message__is_read_as_it_comes)
{
    Watcher watcher(*this, to);
    send_to(70, std::string(20'000, 'x'));
    world.run_for(sim::kSecond);
    EXPECT_EQ(left(host_b), 0u);
    run(b, [&] { EXPECT_EQ(receive(to, RDS_ABI_MSG_DONTWAIT).size(), 20'000u); });
}

TEST_F(Pull, closed_socket__lets_the_stream_go_on)
{
    Watcher watcher(*this, to);
    leave_two();
    watcher.end();
    run(b, [&] { to.close(); });
    world.run_for(kWait / 4);
    run(b, [&] { EXPECT_EQ(receive(other, RDS_ABI_MSG_DONTWAIT), "behind"); });
}

TEST_F(Pull, stream_that_ends__is_read_to_its_end)
{
    Watcher watcher(*this, to);
    send_and_expect_left("left", 1u);
    run(a, [&] { from.close(); });
    run(a, [&] { EXPECT_TRUE(host_a.unload_soon()); });
    run(b, [&] { EXPECT_EQ(receive(to), "left"); });
    run(a, [&] {
        ASSERT_EQ(host_a.load(), 0);
        open(from, "10.0.0.1", 5);
    });
}

// What was waited for in vain is only what a message waited.
TEST_F(Pull, stream_that_ends_long_after_a_message_was_left__holds_up_nothing)
{
    Watcher watcher(*this, to);
    send_and_expect_left("text", 1u);
    run(b, [&] { EXPECT_EQ(receive(to, RDS_ABI_MSG_DONTWAIT), "text"); });
    world.run_for(2 * sim::kSecond);
    world.network().reset(a, b, sim::Sees::both);
    world.run_for(sim::kSecond);
    for (unsigned i = 0; i <= kOneWay; i++) {
        send_to(70, "text");
        world.run_for(kWait / 2);
        run(b, [&] { EXPECT_EQ(receive(to, RDS_ABI_MSG_DONTWAIT), "text"); });
    }
    EXPECT_GT(left(host_b), 1u);
}

TEST_F(Pull, unloading__forgets_what_was_left)
{
    Watcher watcher(*this, to);
    send_and_expect_left("left", 1u);
    watcher.end();
    run(b, [&] {
        to.close();
        other.close();
        EXPECT_TRUE(host_b.unload_soon());
        ASSERT_EQ(host_b.load(), 0);
        open(to, "10.0.0.2", 70);
        open(other, "10.0.0.2", 71);
    });
}

// Threads of one program, one of which transmits on the path: the others have it read by the path's worker.
TEST_F(Pull, many_readers__get_each_message_once)
{
    unsigned got = 0;
    std::vector<sim::TaskRef> readers;
    for (int i = 0; i < 4; i++)
        readers.push_back(world.spawn(b, "reader", [&] {
            while (receive(to) == "text")
                got++;
        }));
    auto sender = world.spawn(b, "sender", [&] {
        for (int i = 0; i < 20; i++)
            EXPECT_EQ(send(other, std::string(3000, 'x'), "10.0.0.1", 5, RDS_ABI_MSG_DONTWAIT), 3000);
    });
    for (int i = 0; i < 100; i++)
        send_to(70, "text");
    EXPECT_TRUE(world.run_until([&] { return got == 100; }, 10 * sim::kSecond));
    for (int i = 0; i < 4; i++)
        send_to(70, "end");
    world.run_for(sim::kSecond);
    for (const sim::TaskRef &reader : readers)
        EXPECT_TRUE(reader->is_done());
    EXPECT_EQ(got, 100u);
    run(a, [&] {
        for (int i = 0; i < 20; i++)
            EXPECT_EQ(receive(from).size(), 3000u);
    });
}

// What a stream of small messages is for: fewer packets.
TEST_F(Pull, small_messages__share_packets)
{
    auto packets = [&](unsigned messages, unsigned apart_us) {
        auto reader = world.spawn(b, "reader", [&, messages] {
            for (unsigned i = 0; i < messages; i++)
                EXPECT_EQ(receive(to).size(), 100u);
        });
        std::uint64_t before = world.network().packets();
        run(a, [&] {
            for (unsigned i = 0; i < messages; i++) {
                EXPECT_EQ(send(from, std::string(100, 'x'), "10.0.0.2", 70), 100);
                world.sleep(apart_us * sim::kMicrosecond);
            }
        });
        EXPECT_TRUE(world.run_until([&] { return reader->is_done(); }, 10 * sim::kSecond));
        return world.network().packets() - before;
    };
    EXPECT_LT(packets(200, 1), 200u);
    EXPECT_GE(packets(20, 20'000), 40u) << "but none waits for another when nothing is on its way";
}

} // namespace
