// SPDX-License-Identifier: GPL-2.0
// Any number of threads in recvmsg() of one socket: a message wakes one, and nothing is left while one sleeps.
#include "rds_test.h"
#include "readers.h"

#include <kapi/sim/wake.h>

#include <string>

namespace {

constexpr unsigned kThreads = 300, kAtOnce = 64;
constexpr kapi_u16 kPort = 70;

class RdsHerd : public RdsTest, public ::testing::WithParamInterface<unsigned> {
protected:
    RdsHerd() : RdsTest(GetParam()), from(host_a), to(host_b)
    {
        run(b, [&] {
            ASSERT_EQ(to.open(), 0);
            ASSERT_EQ(to.bind(sim::address("10.0.0.2", kPort)), 0);
        });
        run(a, [&] {
            ASSERT_EQ(from.open(), 0);
            ASSERT_EQ(from.bind(sim::address("10.0.0.1", 5)), 0);
            EXPECT_EQ(send(from, "up", "10.0.0.2", kPort), 2);
        });
        run(b, [&] { EXPECT_EQ(receive(to), "up"); });
        world.run_for(sim::kSecond);
    }
    ~RdsHerd() override
    {
        run(a, [&] { from.close(); });
        run(b, [&] { to.close(); });
    }
    Readers readers_of(sim::Node &node, RdsSocket &socket)
    {
        return Readers(world, node, socket.sk(), socket.trouble, [&socket](unsigned flags) {
            char bytes[16];
            return socket.receive(bytes, sizeof(bytes), nullptr, flags);
        });
    }
    void send_some(unsigned count)
    {
        run(a, [&] {
            for (unsigned i = 0; i < count; i++)
                EXPECT_EQ(send(from, "message", "10.0.0.2", kPort), 7);
        });
    }

    RdsSocket from, to;
};

TEST_P(RdsHerd, message__wakes_one_thread)
{
    Readers readers = readers_of(b, to);
    readers.spawn_once(kThreads);
    world.run_for(10 * sim::kMillisecond);
    sim::most_woken_at_once(), sim::threads_woken();
    for (unsigned i = 0; i < kThreads; i++) {
        send_some(1);
        world.run_for(2 * sim::kMillisecond);
        EXPECT_EQ(readers.got, i + 1);
    }
    EXPECT_LE(sim::most_woken_at_once(), kAtOnce);
    EXPECT_LE(sim::threads_woken(), 2 * kThreads) << "by its beginning in the stream, and by itself";
}

TEST_P(RdsHerd, messages__that_come_at_once_wake_as_many_threads)
{
    Readers readers = readers_of(b, to);
    readers.spawn_once(kThreads);
    world.run_for(10 * sim::kMillisecond);
    sim::most_woken_at_once(), sim::threads_woken();
    send_some(kThreads);
    world.run_for(10 * sim::kMillisecond);
    EXPECT_EQ(readers.got, kThreads);
    EXPECT_LE(sim::most_woken_at_once(), kAtOnce);
    EXPECT_LE(sim::threads_woken(), 3 * kThreads);
}

// It is for those that poll, and senders.
TEST_P(RdsHerd, room__wakes_none)
{
    Readers readers = readers_of(a, from);
    readers.spawn_once(kThreads);
    run(b, [&] { to.sk().rcvbuf = 16 << 20; }); // no congestion
    run(a, [&] { from.sk().sndbuf = 2 * 4096; });
    world.run_for(10 * sim::kMillisecond);
    sim::most_woken_at_once(), sim::threads_woken();
    run(a, [&] {
        for (int i = 0; i < 64; i++)
            EXPECT_EQ(send(from, std::string(4096, 'x'), "10.0.0.2", kPort), 4096);
    });
    world.run_for(sim::kSecond);
    EXPECT_LE(sim::most_woken_at_once(), kAtOnce);
    EXPECT_LE(sim::threads_woken(), 4 * 64u) << "the sender itself";
    EXPECT_EQ(readers.got, 0u);
    run(b, [&] {
        for (unsigned i = 0; i < kThreads; i++)
            EXPECT_EQ(send(to, "end", "10.0.0.1", 5), 3);
    });
    world.run_for(sim::kSecond);
    EXPECT_EQ(readers.got, kThreads);
}

TEST_P(RdsHerd, thread__that_peeks_wakes_the_next)
{
    Readers readers = readers_of(b, to);
    readers.spawn_peekers(10);
    world.run_for(sim::kMillisecond);
    readers.spawn_once(1);
    world.run_for(sim::kMillisecond);
    send_some(1);
    world.run_for(5 * sim::kMillisecond);
    EXPECT_EQ(readers.got, 1u);
    readers.end();
}

// Threads that are woken and take nothing, or not all: nothing stays while another one sleeps.
TEST_P(RdsHerd, thread__that_leaves_messages_wakes_the_next)
{
    Readers readers = readers_of(b, to);
    readers.spawn_steady(3);
    unsigned sent = 0;
    for (unsigned round = 0; round < 60; round++) {
        for (std::uint64_t others = world.random().below(6); others > 0; others--)
            readers.spawn_other();
        world.run_for(world.random().below(200) * sim::kMicrosecond);
        unsigned count = static_cast<unsigned>(world.random().between(1, 4));
        send_some(count);
        sent += count;
        world.run_for(5 * sim::kMillisecond);
        ASSERT_EQ(readers.got, sent) << round;
    }
    readers.end();
}

// One error that is no message's: what ended a recvmmsg() behind its first messages stays with the kernel's socket.
TEST_P(RdsHerd, end_of_a_recvmmsg__is_no_error_of_the_socket)
{
    run(b, [&] {
        to.poll();
        kapi_sk_set_error(&to.sk(), KAPI_ETIMEDOUT);
        EXPECT_EQ(to.poll(), KAPI_OUT | KAPI_WRNORM);
    });
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsHerd, ::testing::Range(1u, 9u));

} // namespace
