// SPDX-License-Identifier: GPL-2.0
// Any number of threads in recvmsg() of one KCM socket: a message wakes one, an error all, and nothing is left while one sleeps.
#include "kcm_test.h"
#include "readers.h"

#include <kapi/sim/wake.h>

namespace {

constexpr unsigned kThreads = 50;

class KcmHerd : public KcmTest, public ::testing::WithParamInterface<unsigned> {
protected:
    KcmHerd() : KcmTest(GetParam()), socket(new_socket()), ends(open_with_one(socket)) {}
    Readers readers_of(KcmSocket &of)
    {
        return Readers(world, a, of.sk(), of.trouble, [this, &of](unsigned flags) {
            char bytes[16];
            long got = of.receive(bytes, sizeof(bytes), flags);
            errors += got == -KAPI_EPIPE;
            return got;
        });
    }
    void write_some(unsigned count)
    {
        std::string bytes;
        for (unsigned i = 0; i < count; i++)
            bytes += framed("message");
        peer_writes(ends, bytes);
    }

    KcmSocket &socket;
    Ends ends;
    unsigned errors = 0;
};

TEST_P(KcmHerd, message__wakes_one_thread)
{
    Readers readers = readers_of(socket);
    readers.spawn_once(kThreads);
    settle();
    sim::most_woken_at_once(), sim::threads_woken();
    for (unsigned i = 0; i < kThreads; i++) {
        write_some(1);
        settle();
        EXPECT_EQ(readers.got, i + 1);
    }
    EXPECT_LE(sim::threads_woken(), kThreads + kThreads / 4);
}

TEST_P(KcmHerd, messages__of_one_packet_are_for_as_many_threads)
{
    Readers readers = readers_of(socket);
    readers.spawn_once(kThreads);
    settle();
    sim::most_woken_at_once(), sim::threads_woken();
    write_some(kThreads);
    settle();
    EXPECT_EQ(readers.got, kThreads);
    EXPECT_LE(sim::threads_woken(), kThreads + kThreads / 4);
}

TEST_P(KcmHerd, error__wakes_all)
{
    Readers readers = readers_of(socket);
    readers.spawn_steady(kThreads);
    settle();
    sim::threads_woken();
    run(b, [&] { close(ends.there); });
    settle();
    EXPECT_EQ(errors, 1u);
    EXPECT_GE(sim::threads_woken(), kThreads);
    readers.end();
}

TEST_P(KcmHerd, thread__that_peeks_wakes_the_next)
{
    Readers readers = readers_of(socket);
    readers.spawn_peekers(10);
    world.run_for(sim::kMillisecond);
    readers.spawn_once(1);
    world.run_for(sim::kMillisecond);
    write_some(1);
    world.run_for(5 * sim::kMillisecond);
    EXPECT_EQ(readers.got, 1u);
    readers.end();
}

TEST_P(KcmHerd, thread__that_leaves_messages_wakes_the_next)
{
    Readers readers = readers_of(socket);
    readers.spawn_steady(3);
    unsigned sent = 0;
    for (unsigned round = 0; round < 60; round++) {
        for (std::uint64_t others = world.random().below(6); others > 0; others--)
            readers.spawn_other();
        world.run_for(world.random().below(200) * sim::kMicrosecond);
        unsigned count = static_cast<unsigned>(world.random().between(1, 4));
        write_some(count);
        sent += count;
        world.run_for(5 * sim::kMillisecond);
        ASSERT_EQ(readers.got, sent) << round;
    }
    readers.end();
}

// A reader's rest, too.
TEST_P(KcmHerd, thread__that_leaves_a_part_wakes_the_next)
{
    KcmSocket &stream = new_socket();
    Ends its = open_with_one(stream, -1, KCM_ABI_SOCK_SEQPACKET);
    unsigned bytes = 0;
    auto read = [&] {
        char part[4];
        bytes += static_cast<unsigned>(stream.receive(part, sizeof(part)));
    };
    const std::string message = framed("a message of 28 bytes...");
    for (std::size_t left = message.size(); left > 0; left -= 4)
        world.spawn(a, "reader", read);
    settle();
    peer_writes(its, message);
    settle();
    EXPECT_EQ(bytes, message.size());
}

INSTANTIATE_TEST_SUITE_P(Seeds, KcmHerd, ::testing::Range(1u, 9u));

} // namespace
