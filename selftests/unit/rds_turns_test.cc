// SPDX-License-Identifier: GPL-2.0
// Threads of a program that wait in sendmsg() for a handshake, or for room in their socket: there may be any number of them. A
// queue is woken with interrupts off, so each wakes the next one; and who would find no room is not woken each time.
#include "rds_test.h"

#include <kapi/errno.h>
#include <kapi/sim/wake.h>

#include <string>

namespace {

constexpr unsigned kThreads = 300, kAtOnce = 64;
constexpr kapi_u16 kPort = 70;

class Turns : public RdsTest, public ::testing::WithParamInterface<unsigned> {
protected:
    Turns() : RdsTest(GetParam()), from(host_a), to(host_b)
    {
        run(b, [&] {
            ASSERT_EQ(to.open(), 0);
            to.sk().rcvbuf = 16 << 20; // no congestion
            ASSERT_EQ(to.bind(sim::address("10.0.0.2", kPort)), 0);
        });
        run(a, [&] {
            ASSERT_EQ(from.open(), 0);
            ASSERT_EQ(from.bind(sim::address("10.0.0.1", 5)), 0);
        });
    }
    ~Turns() override
    {
        run(a, [&] { from.close(); });
        run(b, [&] { to.close(); });
    }
    void connect()
    {
        run(a, [&] { EXPECT_EQ(send(from, "up", "10.0.0.2", kPort), 2); });
        world.run_for(sim::kSecond);
    }
    void fill(std::size_t size)
    {
        run(a, [&] {
            from.sk().sndbuf = 2 * static_cast<int>(size);
            world.network().cut(a, b, true);
            while (send(from, std::string(size, 'x'), "10.0.0.2", kPort, RDS_ABI_MSG_DONTWAIT) > 0)
                ;
        });
    }
    /** Each sends one message. */
    void spawn_senders(std::size_t size)
    {
        for (unsigned i = 0; i < kThreads; i++)
            world.spawn(a, "thread", [this, size] {
                sent += send(from, std::string(size, 'x'), "10.0.0.2", kPort) == static_cast<long>(size);
            });
    }
    void wait_for_all(std::uint64_t limit_ns)
    {
        EXPECT_TRUE(world.run_until([&] { return sent == kThreads; }, limit_ns)) << sent;
    }

    RdsSocket from, to;
    unsigned sent = 0;
};

TEST_P(Turns, threads_that_wait_for_a_handshake__wake_one_another)
{
    sim::most_woken_at_once();
    spawn_senders(1);
    wait_for_all(4 * sim::kSecond); // none waits until it gives up
    EXPECT_LE(sim::most_woken_at_once(), kAtOnce);
}

TEST_P(Turns, threads_that_wait_for_room__are_woken_when_there_is_some)
{
    connect();
    fill(4096);
    spawn_senders(4096);
    world.run_for(10 * sim::kMillisecond);
    sim::most_woken_at_once(), sim::threads_woken();
    world.network().cut(a, b, false);
    wait_for_all(60 * sim::kSecond);
    EXPECT_LE(sim::most_woken_at_once(), kAtOnce);
    EXPECT_LE(sim::threads_woken(), 3 * kThreads) << "as many as there was room for, and one more each time";
}

// Many places at once, by one event.
TEST_P(Turns, larger_buffer__wakes_all_that_have_room_then)
{
    connect();
    fill(4096);
    spawn_senders(1000);
    world.run_for(10 * sim::kMillisecond);
    EXPECT_EQ(sent, 0u);
    sim::most_woken_at_once();
    run(a, [&] {
        from.sk().sndbuf = 16 << 20;
        rds_socket_send_limit_changed(from.core());
        world.sleep(20 * sim::kMillisecond); // none has looked by itself yet
        EXPECT_EQ(sent, kThreads);
        EXPECT_LE(sim::most_woken_at_once(), kAtOnce);
    });
    world.network().cut(a, b, false);
    world.run_for(10 * sim::kSecond);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Turns, ::testing::Range(1u, 6u));

} // namespace
