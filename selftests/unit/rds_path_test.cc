// SPDX-License-Identifier: GPL-2.0
// The parts of a path, each alone: memory of numbers, back-off, probe timer, ownership, queues; and what the path makes
// of them.
#include "rds_test.h"

#include <algorithm>
#include <string>
#include <vector>

#include "net/rds/back_off.h"
#include "net/rds/connection.h"
#include "net/rds/owner.h"
#include "net/rds/probe_timer.h"
#include "net/rds/receiver_memory.h"
#include "net/rds/send_queue.h"

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

// ---- Owner and SendQueue

class PathParts : public SimTest {
protected:
    static rds::Ref<rds::Message> message(kapi_u8 mark)
    {
        auto made = rds::Message::internal(1);
        EXPECT_TRUE(made);
        (*made)->internal_payload()[0] = std::byte{mark};
        return std::move(*made);
    }
    static std::string queued(rds::SendQueue &queue, bool retransmits)
    {
        std::string text;
        rds::SendQueue::Place place;
        queue.visit_some(retransmits, place, [&](rds::Message &m) {
            text += static_cast<char>(m.internal_payload()[0]);
            text += std::to_string(kapi_u64{m.header().sequence});
            if (retransmits ? m.header().flags & rds::flag_retransmitted : m.on != rds::Message::On::send)
                text += 'r'; // it is marked, or will be
        });
        return text;
    }
    /** Offers what is queued to a stream that takes so many bytes and is at end after them. */
    static void transmit(rds::SendQueue &queue, kapi_u32 taken, kapi_u32 end)
    {
        rds::Batch batch;
        queue.fill(batch);
        queue.account(batch, taken, end);
        partial_begin = batch.partial ? batch.partial_begin : 0;
    }
    void in_node(const std::function<void()> &body) { run(a, body); }

    static inline kapi_u32 partial_begin = 0;
    static constexpr kapi_u32 kSize = sizeof(rds::Header) + 1;
};

TEST_F(PathParts, owner__who_is_refused_is_noticed_at_the_release)
{
    in_node([&] {
        rds::Owner owner;
        ASSERT_TRUE(owner.acquire());
        EXPECT_TRUE(owner.is_owned());
        EXPECT_FALSE(owner.release());
        ASSERT_TRUE(owner.acquire());
        EXPECT_FALSE(owner.acquire());
        EXPECT_TRUE(owner.release());
        EXPECT_FALSE(owner.is_owned());
    });
}

TEST_F(PathParts, owner__end_waits_for_whoever_owns_it)
{
    in_node([&] {
        auto owner = std::make_unique<rds::Owner>();
        bool released = false;
        ASSERT_TRUE(owner->acquire());
        auto task = world.spawn(a, "owner", [&] {
            world.sleep(5 * kMs);
            released = true;
            EXPECT_TRUE(owner->release());
        });
        owner->acquire_for_good();
        EXPECT_TRUE(released);
        EXPECT_FALSE(owner->acquire());
        world.sleep(kMs);
    });
}

TEST_F(PathParts, queue__numbers_order_and_acknowledgement)
{
    in_node([&] {
        rds::Spin<rds::PathLock> lock;
        rds::SendQueue queue(lock);
        for (kapi_u8 mark : {'a', 'b', 'c'})
            ASSERT_TRUE(queue.enqueue(message(mark)));
        EXPECT_EQ(queued(queue, false), "a1b2c3");
        queue.stream_began();
        transmit(queue, 2 * kSize, 1000 + 2 * kSize);
        EXPECT_EQ(queued(queue, false), "c3");
        EXPECT_EQ(queued(queue, true), "a1b2");
        EXPECT_FALSE(queue.is_acked(0));
        queue.acked(1000 + kSize);
        EXPECT_EQ(queued(queue, true), "b2");
        EXPECT_TRUE(queue.is_acked(1000 + kSize));
        EXPECT_FALSE(queue.is_acked(1000 + kSize + 1));
        queue.stream_ended();
        EXPECT_EQ(queued(queue, false), "b2rc3");
        EXPECT_EQ(queued(queue, true), "");
        EXPECT_FALSE(queue.is_acked(1000));
        EXPECT_EQ(queue.next_number(), 4u);
        queue.close();
        EXPECT_TRUE(queue.is_empty());
        EXPECT_FALSE(queue.enqueue(message('d')));
    });
}

TEST_F(PathParts, queue__sequence_space_wraps)
{
    in_node([&] {
        rds::Spin<rds::PathLock> lock;
        rds::SendQueue queue(lock);
        ASSERT_TRUE(queue.enqueue(message('a')));
        queue.stream_began();
        transmit(queue, kSize, 5); // began shortly before 0
        queue.acked(0xfffffff0u);
        EXPECT_EQ(queued(queue, true), "a1");
        queue.acked(4);
        EXPECT_EQ(queued(queue, true), "a1");
        queue.acked(5);
        EXPECT_TRUE(queue.is_empty());
        queue.close();
    });
}

TEST_F(PathParts, queue__message_that_the_stream_has_in_part_goes_on)
{
    in_node([&] {
        rds::Spin<rds::PathLock> lock;
        rds::SendQueue queue(lock);
        for (kapi_u8 mark : {'a', 'b'})
            ASSERT_TRUE(queue.enqueue(message(mark)));
        queue.stream_began();
        transmit(queue, 10, 10);
        EXPECT_EQ(partial_begin, 10u);
        EXPECT_EQ(queued(queue, true), "a1"); // it is sent again on the next stream
        EXPECT_EQ(queued(queue, false), "b2");
        queue.acked(10);
        EXPECT_EQ(queued(queue, true), "a1");
        queue.close();
    });
}

TEST_F(PathParts, queue__only_what_was_sent_is_given_up)
{
    in_node([&] {
        rds::Spin<rds::PathLock> lock;
        rds::SendQueue queue(lock);
        for (kapi_u8 mark : {'a', 'b', 'c'})
            ASSERT_TRUE(queue.enqueue(message(mark)));
        queue.stream_began();
        transmit(queue, kSize, kSize);
        queue.stream_ended();
        queue.stream_began();
        EXPECT_EQ(queued(queue, false), "a1rb2c3");
        EXPECT_EQ(queue.give_up_sent(false), 1u);
        EXPECT_EQ(queued(queue, false), "b2c3");
        transmit(queue, kSize, 2 * kSize);
        EXPECT_EQ(queue.give_up_sent(false), 0u); // the present stream has it
        EXPECT_EQ(queue.give_up_sent(true), 1u);
        EXPECT_EQ(queued(queue, false), "c3");
        queue.close();
    });
}

TEST_F(PathParts, queue__only_what_was_not_sent_moves_to_another_path)
{
    in_node([&] {
        rds::Spin<rds::PathLock> lock;
        rds::SendQueue from(lock), to(lock);
        for (kapi_u8 mark : {'a', 'b', 'c'})
            ASSERT_TRUE(from.enqueue(message(mark)));
        ASSERT_TRUE(to.enqueue(message('x')));
        from.stream_began();
        transmit(from, kSize, kSize);
        from.stream_ended();
        from.move_to(to);
        EXPECT_EQ(queued(from, false), "a1r");
        EXPECT_EQ(queued(to, false), "x1b2c3");
        EXPECT_EQ(from.give_up_sent(true), 1u);
        EXPECT_TRUE(from.is_empty());
        to.close();
        from.close();
    });
}

TEST_F(PathParts, queue__a_message_is_cancelled_on_whichever_queue_it_is)
{
    in_node([&] {
        rds::Spin<rds::PathLock> lock;
        rds::SendQueue first(lock), second(lock);
        auto moved = message('a'), sent = message('b'), gone = message('c');
        ASSERT_TRUE(second.enqueue(moved));
        second.move_to(first);
        second.cancel(*moved);
        EXPECT_TRUE(first.is_empty());
        ASSERT_TRUE(first.enqueue(sent));
        first.stream_began();
        transmit(first, kSize, kSize);
        EXPECT_EQ(queued(first, true), "b2");
        first.cancel(*sent);
        EXPECT_TRUE(first.is_empty());
        first.cancel(*gone); // it is on none
        first.close();
        second.close();
    });
}

// A walk in pieces shows each message that stays where it is once, whatever happens to the others between two pieces.
TEST_F(PathParts, queue__walk_in_pieces)
{
    in_node([&] {
        constexpr unsigned kCount = 1000;
        for (unsigned change = 0; change < 5; change++) {
            rds::Spin<rds::PathLock> lock;
            rds::SendQueue queue(lock), other(lock);
            std::vector<rds::Ref<rds::Message>> all;
            for (unsigned i = 0; i < kCount; i++) {
                all.push_back(message('x'));
                ASSERT_TRUE(queue.enqueue(all.back()));
            }
            queue.stream_began();
            rds::SendQueue::Place place;
            std::vector<kapi_u64> seen;
            auto piece = [&] {
                return queue.visit_some(false, place, [&](rds::Message &m) { seen.push_back(m.header().sequence); });
            };
            ASSERT_TRUE(piece());
            ASSERT_TRUE(piece());
            ASSERT_EQ(seen.back(), 128u);
            kapi_u64 expected = kCount;
            switch (change) {
            case 0: // the walk's own message is cancelled
                queue.cancel(*all[127]);
                break;
            case 1: // those before it are sent, and it
                while (all[200]->on == rds::Message::On::send)
                    transmit(queue, 1 << 20, 1 << 20);
                for (unsigned i = 128; i < kCount; i++)
                    if (all[i]->on != rds::Message::On::send)
                        expected--;
                break;
            case 2: // sent, and given back by the end of the stream
                transmit(queue, 40 * kSize, 40 * kSize);
                queue.stream_ended();
                break;
            case 3: // sent and acknowledged
                while (all[200]->on == rds::Message::On::send)
                    transmit(queue, 1 << 20, 1 << 20);
                queue.acked(1 << 20);
                for (unsigned i = 128; i < kCount; i++)
                    if (all[i]->on != rds::Message::On::send)
                        expected--;
                break;
            case 4: // all go to another path
                queue.move_to(other);
                expected = 128;
                break;
            }
            while (piece())
                ;
            EXPECT_EQ(seen.size(), expected) << change;
            EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end())) << change;
            EXPECT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end()) << change;
            queue.close();
            other.close();
        }
    });
}

TEST_F(PathParts, queue__answers_that_a_peer_causes_are_bounded)
{
    in_node([&] {
        rds::Spin<rds::PathLock> lock;
        rds::SendQueue queue(lock);
        unsigned count = 0;
        while (count < 5000 && queue.enqueue_bounded(message('p')))
            count++;
        EXPECT_EQ(count, 1024u);
        ASSERT_TRUE(queue.enqueue(message('m'))); // the bound is theirs only
        ASSERT_TRUE(queue.take());
        EXPECT_TRUE(queue.enqueue_bounded(message('p')));
        EXPECT_FALSE(queue.enqueue_bounded(message('p')));
        queue.close();
    });
}

// One that was never acknowledged kept the connection to a dead peer, and attempts to connect, without end.
TEST_F(PathParts, queue__answers_end_with_their_stream)
{
    in_node([&] {
        rds::Spin<rds::PathLock> lock;
        rds::SendQueue queue(lock);
        for (int stream = 0; stream < 3; stream++) {
            for (int i = 0; i < 1024; i++)
                ASSERT_TRUE(queue.enqueue_bounded(message('p')));
            EXPECT_FALSE(queue.enqueue_bounded(message('p')));
            queue.stream_began();
            transmit(queue, 2 * kSize, 2 * kSize);
            EXPECT_FALSE(queue.is_empty());
            queue.stream_ended();
            EXPECT_TRUE(queue.is_empty());
        }
        queue.close();
    });
}

// A program queues any number of messages to a host that refuses, and each failed attempt to connect ends a stream.
TEST_F(PathParts, queue__no_walk_under_the_lock_passes_all_that_is_queued)
{
    constexpr unsigned kMany = 100'000, kSome = 200; // steps: 64 messages at once, two lists
    in_node([&] {
        rds::Spin<rds::PathLock> lock;
        rds::SendQueue queue(lock);
        for (unsigned i = 0; i < kMany; i++)
            ASSERT_TRUE(queue.enqueue(message('m')));
        sim::forget_steps();
        queue.stream_ended(); // it never was up
        queue.stream_began();
        transmit(queue, kSize, kSize);
        queue.stream_ended();
        EXPECT_EQ(queue.give_up_sent(false), 1u);
        EXPECT_LE(sim::most_steps_under("rds path"), kSome) << "what was never sent";

        sim::forget_steps();
        queue.stream_began();
        kapi_u32 end = 0;
        auto send_all = [&] {
            while (queue.has_unsent()) {
                rds::Batch batch;
                queue.fill(batch);
                queue.account(batch, batch.bytes, end += batch.bytes);
            }
        };
        send_all();
        queue.stream_ended();
        queue.stream_began();
        send_all();
        EXPECT_EQ(queued(queue, true).substr(0, 6), "m2rm3r");
        queue.acked(end - kSize * (kMany / 2));
        EXPECT_EQ(queue.give_up_sent(true), kMany / 2);
        EXPECT_TRUE(queue.is_empty());
        EXPECT_LE(sim::most_steps_under("rds path"), kSome) << "what was sent";
        queue.close();
    });
}

// ---- whole paths

class PathSegments : public RdsTest {};

// A message that does not fit into one batch once waited for the next tick, at each batch.
TEST_F(PathSegments, message_of_any_number_of_segments_goes_at_once)
{
    RdsSocket from(host_a), to(host_b);
    run(b, [&] {
        ASSERT_EQ(to.open(), 0);
        ASSERT_EQ(to.bind(sim::address("10.0.0.2", 4000)), 0);
    });
    run(a, [&] {
        ASSERT_EQ(from.open(), 0);
        ASSERT_EQ(from.bind(sim::address("10.0.0.1", 4000)), 0);
        from.sk().sndbuf = 8 << 20;
        from.sk().zerocopy = true;
        EXPECT_EQ(send(from, "x", "10.0.0.2", 4000), 1);
    });
    run(b, [&] { EXPECT_EQ(receive(to), "x"); });
    constexpr std::size_t kPage = 4096, kSegments = rds::Batch::max_segments;
    const std::string text(1 << 20, 'z');
    constexpr std::size_t sizes[] = {kSegments - 2, kSegments - 1, kSegments, kSegments + 1, 2 * kSegments, 256};
    for (std::size_t pages : sizes) {
        for (bool pinned : {true, false}) {
            std::uint64_t before = world.now_ns();
            long size = static_cast<long>(pages * kPage);
            run(a, [&] {
                kapi_addr name = sim::address("10.0.0.2", 4000);
                EXPECT_EQ(pinned ? from.send_pinned(text.data(), pages * kPage, name, 7) :
                                   from.send(text.data(), pages * kPage, name), size);
            });
            run(b, [&] { EXPECT_EQ(receive(to).size(), pages * kPage); });
            EXPECT_LT(world.now_ns() - before, 100 * sim::kMillisecond) << pages << (pinned ? " pinned" : " copied");
        }
    }
    run(a, [&] { from.close(); });
    run(b, [&] { to.close(); });
}

// ---- connections that are being made

/** In many worlds: others() again and again while connections to the hosts 10.0.0.2 up to last are made, and then after(). */
void while_connections_are_made(std::uint64_t seeds, kapi_u8 last, const std::function<void(RdsHost &)> &others,
                                const std::function<void(RdsHost &)> &after)
{
    for (std::uint64_t seed = 1; seed <= seeds; seed++) {
        sim::World world(seed);
        sim::Node &node = world.add_node("a");
        node.initial_net().add(sim::address("10.0.0.1"));
        RdsHost host(node);
        bool done = false;
        world.spawn(node, "setup", [&] {
            ASSERT_EQ(host.load(), 0);
            const rds_transport *transport = rds::Module::get().transport(RDS_TRANSPORT_TCP);
            ASSERT_NE(transport, nullptr);
            auto maker = world.spawn(node, "maker", [&] {
                kapi_addr local = sim::address("10.0.0.1"), remote = local;
                for (remote.ip[15] = 2; remote.ip[15] <= last; remote.ip[15]++) {
                    rds_conn *connection = nullptr;
                    void *state = nullptr;
                    if (rds_conn_get(&node.initial_net(), transport, &local, &remote, 0, &connection, &state) == 0)
                        rds_conn_put(connection);
                }
            });
            while (!maker->is_done()) {
                others(host);
                world.sleep(1);
            }
            after(host);
            rds::Module::drop_transport(transport);
            EXPECT_TRUE(host.unload_soon());
            done = true;
        });
        ASSERT_TRUE(world.run_until([&] { return done; }, 10 * sim::kSecond)) << "seed " << seed;
    }
}

// Writing rds_tcp_sndbuf once called into connections that were on the list of their namespace and not made yet.
TEST(Connection, buffers_change_while_it_is_made)
{
    auto change = [](RdsHost &host) { rds_tcp_net_sysctl_changed(host.net().tcp); };
    while_connections_are_made(100, 11, change, [&](RdsHost &host) {
        sim::World &world = host.node().world();
        world.sleep(sim::kMillisecond);
        std::uint64_t before = host.node().works_run;
        change(host);
        world.sleep(sim::kMillisecond);
        EXPECT_LE(host.node().works_run - before, 1u); // the one that notifies: none has a stream whose buffers could change
    });
}

// A connection that is torn down before its maker has put it on the map of its address stayed there, and its namespace
// with it.
TEST(Connection, torn_down_while_it_is_made)
{
    auto tear_down = [](RdsHost &host) {
        const rds_transport *transport = rds::Module::get().transport(RDS_TRANSPORT_TCP);
        rds_transport_leave_net(transport, &host.node().initial_net());
        rds::Module::drop_transport(transport);
    };
    while_connections_are_made(150, 2, tear_down, tear_down);
}

} // namespace
