// SPDX-License-Identifier: GPL-2.0
// Beginnings of messages, whose length is not known yet, for which there is not enough memory.
#include <kapi/filter.h>

#include "kcm_shortage_test.h"

namespace {

class KcmShortageHeads : public KcmShortage {
protected:
    /** Connections of which each has sent a byte of a message, which use up the memory; and one that has sent nothing. */
    void fill_memory()
    {
        for (unsigned i = 0; i < kConnections; i++) {
            all.push_back(attach_large(socket));
            run(a, [&] { sim::program_socket_of(all.back().here).rcvtimeo_ns = 2 * sim::kSecond; });
        }
        healthy = open_with_one(second);
        for (const Ends &each : all)
            peer_writes(each, message.substr(0, 1));
        settle();
        EXPECT_EQ(a.kept, std::size_t{kConnections} * KAPI_FILTER_VIEW);
        a.kept_limit = 2 * a.kept; // one user has half of it
    }
    void write_lengths()
    {
        for (const Ends &each : all)
            peer_writes(each, message.substr(1, 3));
        settle();
        peer_writes(healthy, message);
    }

    static constexpr unsigned kConnections = 50;
    const std::string message = framed(text(60));
    KcmSocket &socket = new_socket(), &second = new_socket();
    std::vector<Ends> all;
    Ends healthy;
};

TEST_F(KcmShortageHeads, beginnings__do_not_wait_for_each_other_for_ever)
{
    fill_memory();
    write_lengths();
    world.run_for(500 * sim::kMillisecond);
    EXPECT_EQ(failed(all, 0), kConnections);
    world.run_for(sim::kSecond);
    EXPECT_EQ(failed(all, 12), 1u); // ENOMEM
    EXPECT_TRUE(receive(second) == message);
    world.run_for(60 * sim::kSecond);
    EXPECT_EQ(failed(all, 110), kConnections - 1); // ETIMEDOUT: the rest does not come
}

TEST_F(KcmShortageHeads, beginnings__of_peers_that_have_gone_do_not_wait_for_each_other_for_ever)
{
    fill_memory();
    write_lengths();
    for (const Ends &each : all)
        run(b, [&] { close(each.there); });
    world.run_for(2 * sim::kSecond);
    EXPECT_TRUE(receive(second) == message);
}

TEST_F(KcmShortageHeads, beginnings__that_do_not_go_on_time_out)
{
    fill_memory();
    peer_writes(healthy, message);
    world.run_for(5 * sim::kSecond);
    EXPECT_EQ(failed(all, 110), kConnections); // ETIMEDOUT
    for (const Ends &each : all)
        run(a, [&] { EXPECT_EQ(socket.unattach(each.here), 0); });
    settle();
    EXPECT_TRUE(receive(second) == message);
}

TEST_F(KcmShortageHeads, beginning__waits_alone_for_two_minutes)
{
    Ends ends = attach_large(socket);
    peer_writes(ends, message.substr(0, 1));
    settle();
    a.kept_limit = a.kept;
    peer_writes(ends, message.substr(1));
    world.run_for(119 * sim::kSecond);
    EXPECT_EQ(error_of(ends), 0);
    world.run_for(2 * sim::kSecond);
    EXPECT_EQ(error_of(ends), 12);
    EXPECT_EQ(a.kept, 0u);
}

// It has got memory, and waits for more: its time begins again.
TEST_F(KcmShortageHeads, beginning__whose_message_has_got_memory_does_not_end_for_others)
{
    const std::string large = framed(text(60'000));
    Ends beginning = attach_large(socket), part = attach_large(socket);
    peer_writes(beginning, large.substr(0, 1));
    peer_writes(part, large.substr(0, 3000));
    settle();
    a.kept_limit = a.kept;
    start_to_write(beginning, large.substr(1));
    start_to_write(part, large.substr(3000));
    world.run_for(600 * sim::kMillisecond);
    a.kept_limit = 2 * a.kept + 6000; // enough for a message of which a byte is kept
    settle();
    a.kept_limit = 0;
    world.run_for(600 * sim::kMillisecond);
    EXPECT_EQ(error_of(beginning), 0);
    EXPECT_EQ(error_of(part), 12);
    a.kept_limit = ~std::size_t{0};
    settle();
    EXPECT_TRUE(receive(socket) == large);
}

// Else it would hold that for as long as there is no memory: who holds nothing of a message does not give way.
TEST_F(KcmShortageHeads, message__of_which_nothing_can_be_kept_keeps_nothing)
{
    const std::string large = framed(text(60'000));
    Ends ends = attach_large(socket);
    a.kept_limit = 4096; // enough for what is known of the message, not for its bytes
    start_to_write(ends, large.substr(0, 30'000));
    settle();
    EXPECT_EQ(a.kept, 0u);
    a.kept_limit = ~std::size_t{0};
    start_to_write(ends, large.substr(30'000));
    settle();
    EXPECT_TRUE(receive(socket) == large);
}

// The rest may join it in TCP's queue before it is tried again, and then nothing asks for the room that was paid for.
TEST_F(KcmShortageHeads, beginning__without_memory_is_charged_to_nobody)
{
    Ends ends = open_with_one(second);
    unsigned refused = 0;
    for (bool failed = true; failed; settle()) { // each of the allocations that it takes
        auto before = a.faults().failed;
        a.faults().fail_at = a.faults().count + refused + 1;
        peer_writes(ends, message.substr(0, 3));
        world.run_for(sim::kMillisecond);
        a.faults().fail_at = 0;
        failed = a.faults().failed != before;
        refused += failed;
        EXPECT_EQ(a.kept, failed ? 0 : KAPI_FILTER_VIEW) << refused;
        peer_writes(ends, message.substr(3));
        settle();
        EXPECT_TRUE(receive(second) == message);
    }
    EXPECT_GE(refused, 2u);
    EXPECT_EQ(a.kept, 0u);
}

} // namespace
