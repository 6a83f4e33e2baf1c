// SPDX-License-Identifier: GPL-2.0
// The small parts of a path, each alone: memory of numbers, back-off, probe timer.
#include "rds_test.h"

#include "net/rds/back_off.h"
#include "net/rds/probe_timer.h"
#include "net/rds/receiver_memory.h"

namespace {

constexpr kapi_u64 kMs = 1'000'000;

// ---- ReceiverMemory

TEST(ReceiverMemory, accepts_each_number_once)
{
    struct Row {
        kapi_u64 number;
        bool retransmitted, accepted;
        kapi_u64 next;
    };
    const Row table[] = {
        {1, false, true, 2},
        {2, false, true, 3},
        {1, true, false, 3}, // it was here
        {2, true, false, 3},
        {3, true, true, 4}, // sent again, and new here
        {7, false, true, 8}, // numbers 4 to 6 were cancelled
        {6, true, false, 8},
        {8, true, true, 9},
        {1, false, true, 2}, // without the mark: the peer started over
        {2, true, true, 3},
    };
    rds::ReceiverMemory memory(77);
    EXPECT_EQ(memory.next(), 1u);
    for (const Row &row : table) {
        EXPECT_EQ(memory.accept(row.number, row.retransmitted), row.accepted) << row.number;
        EXPECT_EQ(memory.next(), row.next) << row.number;
    }
}

TEST(ReceiverMemory, forgets_when_another_sender_comes_and_then_only)
{
    struct Row {
        kapi_u32 sender;
        bool hawser;
        kapi_u32 new_id;
        bool forgets;
        kapi_u32 id;
    };
    const Row table[] = {
        {5, false, 101, false, 77}, // the first
        {5, false, 103, false, 77},
        {6, false, 105, true, 77}, // the memory of one that names itself has another name than these
        {6, false, 107, false, 77},
        {5, true, 109, true, 109}, // an address that moved back
        {0, false, 111, true, 109},
        {5, false, 113, false, 109}, // numbers without a sender became a sender's
        {0, false, 115, true, 109},
        {6, true, 117, true, 117}, // a hawser peer counts from one: the earlier numbers were another's
    };
    rds::ReceiverMemory memory(77);
    for (const Row &row : table) {
        memory.stream_ended();
        memory.accept(9, false);
        EXPECT_EQ(memory.note_sender(row.sender, row.hawser, row.new_id), row.forgets) << row.new_id;
        EXPECT_EQ(memory.sender(), row.sender);
        EXPECT_EQ(memory.receiver_id(), row.id) << row.new_id;
        EXPECT_EQ(memory.next(), row.forgets ? 1u : 10u) << row.new_id;
    }
    rds::ReceiverMemory fresh(77);
    EXPECT_FALSE(fresh.note_sender(5, true, 101));
    EXPECT_EQ(fresh.receiver_id(), 77u);
}

TEST(ReceiverMemory, numbers_without_a_name_are_counted_apart)
{
    rds::ReceiverMemory memory(77);
    memory.note_sender(5, true, 101);
    EXPECT_TRUE(memory.accept(9, false));
    memory.stream_ended();
    EXPECT_FALSE(memory.accept(9, true)); // they may be its own after all
    EXPECT_TRUE(memory.accept(1000, false));
    EXPECT_FALSE(memory.accept(999, true));
    memory.note_sender(6, false, 103);
    EXPECT_TRUE(memory.accept(1, true));
    memory.stream_ended();
    memory.note_sender(5, true, 105);
    EXPECT_EQ(memory.receiver_id(), 77u);
    EXPECT_EQ(memory.next(), 10u);
    memory.note_sender(6, false, 107); // over another path
    EXPECT_TRUE(memory.accept(10, true));
    EXPECT_EQ(memory.next(), 11u);
    memory.stream_ended();
    memory.note_sender(5, true, 109);
    EXPECT_EQ(memory.receiver_id(), 77u);
    EXPECT_EQ(memory.next(), 11u);
}

TEST(ReceiverMemory, numbers_before_the_name_in_the_same_stream_are_its_own)
{
    rds::ReceiverMemory memory(77);
    memory.note_sender(5, true, 101);
    EXPECT_TRUE(memory.accept(9, false));
    memory.stream_ended();
    EXPECT_TRUE(memory.accept(10, false));
    memory.note_sender(5, true, 103);
    EXPECT_EQ(memory.next(), 11u);
    EXPECT_EQ(memory.receiver_id(), 77u);
}

TEST(ReceiverMemory, what_was_sent_is_given_up_when_another_memory_answers)
{
    struct Row {
        kapi_u32 id;
        bool given_up;
    };
    const Row table[] = {{5, true}, {5, false}, {6, true}, {6, false}, {5, true}, {0, true}, {0, false}};
    rds::ReceiverMemory memory(77);
    for (const Row &row : table)
        EXPECT_EQ(memory.note_answer(row.id), row.given_up) << row.id;
}

// ---- BackOff

TEST(BackOff, bound_doubles_up_to_the_longest)
{
    rds::BackOff back_off;
    const kapi_u64 table[] = {0, 4 * kMs, 8 * kMs, 16 * kMs, 20 * kMs, 20 * kMs};
    for (kapi_u64 delay : table)
        EXPECT_EQ(back_off.next(4 * kMs, 20 * kMs, 0xffffffffu), delay);
    back_off.reset();
    EXPECT_EQ(back_off.next(4 * kMs, 20 * kMs, 0xffffffffu), 0u);
    EXPECT_EQ(back_off.next(4 * kMs, 20 * kMs, 0), 0u);
}

TEST(BackOff, shortest_wins_over_a_smaller_longest)
{
    rds::BackOff back_off;
    EXPECT_EQ(back_off.next(9 * kMs, 1 * kMs, 1), 0u);
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(back_off.next(9 * kMs, 1 * kMs, 0xffffffffu), 9 * kMs);
}

TEST(BackOff, bounds_that_change_take_effect_at_once)
{
    rds::BackOff back_off;
    EXPECT_EQ(back_off.next(4 * kMs, 20 * kMs, 0xffffffffu), 0u);
    EXPECT_EQ(back_off.next(90 * kMs, 100 * kMs, 0xffffffffu), 90 * kMs);
    EXPECT_EQ(back_off.next(90 * kMs, 100 * kMs, 0xffffffffu), 100 * kMs);
    EXPECT_EQ(back_off.next(4 * kMs, 20 * kMs, 0xffffffffu), 20 * kMs);
}

TEST(BackOff, bounds_beyond_32_bits)
{
    // The last is the largest that a sysctl can hold.
    constexpr kapi_u64 bounds[] = {4'290 * kMs, 4'300 * kMs, 60'000 * kMs, 0xffffffffull * kMs};
    for (kapi_u64 bound : bounds) {
        rds::BackOff back_off;
        EXPECT_EQ(back_off.next(bound, bound, 7), 0u);
        EXPECT_EQ(back_off.next(bound, bound, 0xffffffffu), bound);
        EXPECT_EQ(back_off.next(bound, bound, 0), 0u);
        kapi_u64 half = back_off.next(bound, bound, 0x7fffffffu);
        EXPECT_GT(half, bound / 2 - bound / 1'000'000);
        EXPECT_LE(half, bound / 2);
    }
}

// ---- ProbeTimer

TEST(ProbeTimer, waits_while_a_probe_is_not_acknowledged)
{
    using Step = rds::ProbeTimer::Step;
    rds::ProbeTimer timer;
    timer.stream_began();
    EXPECT_EQ(timer.tick(false), Step::probe); // the stream's own greeting has the first one
    EXPECT_EQ(timer.tick(false), Step::wait);
    EXPECT_EQ(timer.tick(true), Step::probe);
    EXPECT_FALSE(timer.is_over());
}

// It may read nothing, and have the end of its window closed for as long as it likes.
TEST(ProbeTimer, foreign__ends_though_nothing_is_acknowledged)
{
    using Step = rds::ProbeTimer::Step;
    rds::ProbeTimer timer;
    timer.stream_began();
    EXPECT_EQ(timer.tick(false, true), Step::probe);
    for (unsigned i = 2; i < rds::ProbeTimer::max_probes; i++) {
        ASSERT_EQ(timer.tick(false, true), Step::wait) << i;
        EXPECT_FALSE(timer.is_silent());
    }
    EXPECT_EQ(timer.tick(false, true), Step::assume_foreign);
    EXPECT_TRUE(timer.is_over() && timer.is_silent());
}

TEST(ProbeTimer, foreign__is_silent_when_it_had_the_time_to_answer)
{
    rds::ProbeTimer timer;
    timer.stream_began();
    for (unsigned begun = 0; begun < 2; begun++) {
        for (unsigned i = 1; i < rds::ProbeTimer::silent_ticks; i++)
            timer.tick(true, true);
        EXPECT_FALSE(timer.is_silent());
        timer.tick(begun != 0, true); // the first time what we said of ourselves is on its way again
    }
    EXPECT_TRUE(timer.is_silent());
    timer.stream_began();
    for (unsigned i = 0; i < rds::ProbeTimer::silent_ticks; i++)
        timer.tick(true, false);
    EXPECT_FALSE(timer.is_silent());
}

TEST(ProbeTimer, silence_for_all_probes_means_foreign)
{
    using Step = rds::ProbeTimer::Step;
    rds::ProbeTimer timer;
    for (int stream = 0; stream < 2; stream++) {
        timer.stream_began();
        for (unsigned i = 1; i < rds::ProbeTimer::max_probes; i++)
            ASSERT_EQ(timer.tick(true), Step::probe) << i;
        EXPECT_FALSE(timer.is_over());
        EXPECT_EQ(timer.tick(true), Step::assume_foreign);
        EXPECT_TRUE(timer.is_over());
        EXPECT_EQ(timer.tick(true), Step::wait);
    }
}

} // namespace
