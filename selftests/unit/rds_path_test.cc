// SPDX-License-Identifier: GPL-2.0
// The parts of a path that threads share: ownership and queues.
#include "rds_send_queue_test.h"

#include "net/rds/owner.h"

namespace {

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
            world.sleep(5 * sim::kMillisecond);
            released = true;
            EXPECT_TRUE(owner->release());
        });
        owner->acquire_for_good();
        EXPECT_TRUE(released);
        EXPECT_FALSE(owner->acquire());
        world.sleep(sim::kMillisecond);
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
        EXPECT_EQ(drop_sent(queue, false), 1u);
        EXPECT_EQ(queued(queue, false), "b2c3");
        transmit(queue, kSize, 2 * kSize);
        EXPECT_EQ(drop_sent(queue, false), 0u); // the present stream has it
        EXPECT_EQ(drop_sent(queue, true), 1u);
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
        EXPECT_EQ(drop_sent(from, true), 1u);
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
        EXPECT_EQ(drop_sent(queue, false), 1u);
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
        EXPECT_TRUE(queue.acked(end - kSize * (kMany / 2)));
        queue.end_acked();
        EXPECT_EQ(drop_sent(queue, true), kMany / 2);
        EXPECT_TRUE(queue.is_empty());
        EXPECT_LE(sim::most_steps_under("rds path"), kSome) << "what was sent";
        queue.close();
    });
}

} // namespace
