// SPDX-License-Identifier: GPL-2.0
// The queues of a path while several use them at the same time, and their counts, which need no walk.
#include "rds_send_queue_test.h"

#include <memory>

#include "kapi/sim/lock.h"
#include "kapi/sim/turn.h"

namespace {

// The collector calls it for each path, and a worker at each look; a peer that does not read has a thousand answers.
TEST(SendQueue, only_answers__is_known_without_a_walk)
{
    in_world(1, [](sim::World &, sim::Node &) {
        rds::Spin<rds::PathLock> lock;
        rds::SendQueue queue(lock);
        while (queue.enqueue_bounded(message()))
            ;
        sim::forget_steps();
        EXPECT_TRUE(queue.has_only_answers());
        EXPECT_LE(sim::most_steps_under("rds path"), 4u);
        queue.close();
    });
}

TEST(SendQueue, only_answers__whatever_becomes_of_a_message)
{
    in_world(1, [](sim::World &, sim::Node &) {
        rds::Spin<rds::PathLock> lock;
        rds::SendQueue first(lock), second(lock);
        kapi_u32 end = 0;
        auto send = [&](rds::SendQueue &queue, bool takes) {
            rds::Batch batch;
            queue.fill(batch);
            queue.account(batch, takes ? batch.bytes : 0, end += takes ? batch.bytes : 0);
        };
        auto enqueue = [&](rds::SendQueue &queue) {
            auto added = message();
            EXPECT_TRUE(queue.enqueue(added));
            EXPECT_FALSE(queue.has_only_answers());
            return added;
        };
        ASSERT_TRUE(first.enqueue_bounded(message()));
        EXPECT_TRUE(first.has_only_answers());

        auto cancelled = enqueue(second);
        first.cancel(*cancelled); // by any queue of the connection
        first.cancel(*cancelled);
        EXPECT_TRUE(second.has_only_answers());

        static_cast<void>(enqueue(first));
        first.stream_began();
        send(first, false);
        EXPECT_FALSE(first.has_only_answers());
        send(first, true);
        EXPECT_FALSE(first.has_only_answers());
        first.stream_ended();
        EXPECT_FALSE(first.has_only_answers());
        EXPECT_EQ(drop_sent(first, false), 1u);
        EXPECT_TRUE(first.has_only_answers());

        static_cast<void>(enqueue(first));
        first.stream_began();
        send(first, true);
        first.acked(end);
        EXPECT_TRUE(first.has_only_answers());

        static_cast<void>(enqueue(second));
        second.move_to(first);
        EXPECT_TRUE(second.has_only_answers());
        EXPECT_FALSE(first.has_only_answers());
        auto taken = first.take();
        EXPECT_TRUE(first.has_only_answers());
        first.give_back(taken);
        EXPECT_FALSE(first.has_only_answers());
        first.close();
        EXPECT_TRUE(first.has_only_answers());
        second.close();
    });
}

// Where acknowledgements are the peer's RDS's, it can withhold them as long as programs send. They come with bottom halves off.
TEST(SendQueue, acknowledged__any_number_at_a_time__ends_in_parts)
{
    constexpr unsigned kAtOnce = rds::SendQueue::acked_at_once, kMany = 3 * kAtOnce;
    in_world(1, [](sim::World &, sim::Node &) {
        for (bool ends : {false, true}) {
            FilledQueue filled(true);
            rds::SendQueue &queue = filled.queue;
            filled.send_until(kMany);
            EXPECT_TRUE(queue.acked(filled.end)) << "there are more";
            EXPECT_EQ(queue.length(), kMany - kAtOnce);
            if (ends)
                queue.stream_ended();
            else
                queue.end_acked();
            EXPECT_EQ(queue.length(), 0u) << "nothing of it is sent again";
            ASSERT_TRUE(queue.enqueue(message()));
            filled.offer(true);
            EXPECT_FALSE(queue.acked(filled.end)) << "the next one is ended at once";
            EXPECT_EQ(queue.length(), 0u);
        }
    });
}

// What a restarted peer was sent is known with bottom halves off, too. It ends in the path's work, or with the connection.
TEST(SendQueue, given_up__ends_in_a_work)
{
    constexpr unsigned kMany = 5000;
    in_world(1, [kMany](sim::World &, sim::Node &) {
        for (bool closes : {false, true}) {
            FilledQueue filled(true);
            rds::SendQueue &queue = filled.queue;
            filled.send_until(kMany);
            sim::forget_steps();
            queue.give_up_sent(true);
            EXPECT_LE(sim::most_steps_without_pause(), 2 * rds::Batch::max_messages);
            EXPECT_EQ(queue.length(), kMany) << "what holds the connection";
            if (closes)
                queue.close();
            EXPECT_EQ(queue.end_dropped(), closes ? 0 : kMany);
            EXPECT_LE(sim::most_steps_without_pause(), 1000u);
            EXPECT_EQ(queue.length(), 0u);
        }
    });
}

// All may come in one softirq, and each may be of as many as the one before.
TEST(SendQueue, acknowledged__on_many_paths__ends_in_parts)
{
    constexpr unsigned kPaths = 10, kMany = 3000, kOfEach = rds::SendQueue::acked_of_each;
    in_world(1, [](sim::World &world, sim::Node &node) {
        std::vector<std::unique_ptr<FilledQueue>> filled;
        for (unsigned i = 0; i < kPaths; i++) {
            filled.push_back(std::make_unique<FilledQueue>(true));
            filled.back()->send_until(kMany);
        }
        auto ended = [&](FilledQueue &each) {
            kapi_u32 before = each.queue.length();
            sim::TurnScope turn;
            EXPECT_EQ(each.queue.acked(each.end), each.queue.length() != 0) << "there are more";
            return before - each.queue.length();
        };
        sim::WaitList done;
        world.spawn(node, "acknowledgements", [&] {
            unsigned sum = 0;
            for (auto &each : filled)
                sum += ended(*each);
            EXPECT_GT(sum, kMany / 4) << "what can be ended is";
            EXPECT_LE(sum, 2 * kMany + kPaths * kOfEach) << "they share the time";
            for (unsigned i = 0; i < 64; i++)
                EXPECT_EQ(ended(*filled.back()), 0u) << "nothing more of it";
            world.wake(done);
        }, sim::TaskKind::softirq);
        world.wait(done, "them");
        for (auto &each : filled) {
            each->queue.end_acked();
            EXPECT_EQ(each->queue.length(), 0u);
        }
    });
}

// TCP's number is looked at from outside, too: it may be older than what was reported.
TEST(SendQueue, acknowledged__an_older_number_changes_nothing)
{
    in_world(1, [](sim::World &, sim::Node &) {
        FilledQueue filled(true);
        rds::SendQueue &queue = filled.queue;
        filled.send_until(rds::SendQueue::acked_at_once + 900);
        EXPECT_TRUE(queue.acked(filled.end));
        static_cast<void>(queue.acked(filled.end - 1));
        static_cast<void>(queue.acked(filled.end - 100'000));
        queue.stream_ended();
        EXPECT_EQ(queue.length(), 0u) << "nothing is sent again";
    });
}

// How long it waited on the path that the peer does without is not known where it goes.
TEST(SendQueue, what_moves__is_not_timed)
{
    in_world(1, [](sim::World &, sim::Node &node) {
        RdsHost host(node);
        ASSERT_EQ(host.load(), 0);
        RdsSocket socket(host);
        ASSERT_EQ(socket.open(), 0);
        rds::Spin<rds::PathLock> lock;
        rds::SendQueue from(lock), to(lock);
        std::vector<rds::Ref<rds::Message>> messages;
        auto enqueue = [&](rds::SendQueue &queue) {
            auto &sent = messages.emplace_back(message());
            sent->was_owned = true;
            sent->set_owner(rds::Ref<rds::Socket>::share(*reinterpret_cast<rds::Socket *>(socket.core())));
            EXPECT_TRUE(queue.enqueue(sent));
        };
        auto timed_until_sent = [&] {
            for (auto &sent : messages)
                static_cast<void>(sent->take_owner()); // which has no account of it
            rds::Batch batch;
            to.fill(batch);
            to.account(batch, batch.bytes, batch.bytes);
            to.acked(batch.bytes);
            auto counts = to.latency();
            return std::accumulate(std::begin(counts.messages), std::end(counts.messages), kapi_u64{0});
        };
        for (unsigned i = 0; i < rds::Latency::every; i++)
            enqueue(from);
        from.move_to(to);
        EXPECT_EQ(timed_until_sent(), 0u);
        enqueue(from); // which goes to the other one at once
        EXPECT_EQ(timed_until_sent(), 1u);
        from.close(), to.close();
        messages.clear();
        socket.close();
        EXPECT_TRUE(host.unload_soon());
    });
}

// The rest of a large message filled the batch to its last segment.
TEST(SendQueue, a_control_message_that_had_no_room__comes_in_the_next_batch)
{
    in_world(1, [](sim::World &, sim::Node &) {
        rds::Spin<rds::PathLock> lock;
        rds::SendQueue queue(lock);
        rds::Batch batch;
        batch.segments = rds::Batch::max_segments;
        auto map = message();
        map->control = rds::control_map;
        batch.add(map, 0);
        queue.account(batch, 0, 0);
        EXPECT_EQ(batch.control_left, kapi_u32{rds::control_map});
        EXPECT_TRUE(batch.more);
        queue.close();
    });
}

TEST(SendQueue, what_the_stream_did_not_take__promises_more)
{
    in_world(1, [](sim::World &, sim::Node &) {
        rds::Spin<rds::PathLock> lock;
        rds::SendQueue queue(lock);
        auto offer = [&](bool takes) {
            rds::Batch batch;
            queue.fill(batch);
            queue.account(batch, takes ? batch.bytes : 0, takes ? batch.bytes : 0);
            return batch.more;
        };
        EXPECT_TRUE(queue.enqueue(message()));
        queue.stream_began();
        EXPECT_TRUE(offer(false));
        EXPECT_FALSE(offer(true));
        queue.stream_ended();
        queue.stream_began();
        EXPECT_TRUE(offer(false)) << "also if it is sent again";
        EXPECT_FALSE(offer(true));
        queue.close();
    });
}

// The answer may be faster than who sent it.
TEST(SendQueue, what_is_acknowledged_before_it_is_accounted__is_done)
{
    in_world(1, [](sim::World &, sim::Node &) {
        rds::Spin<rds::PathLock> lock;
        rds::SendQueue queue(lock);
        for (int i = 0; i < 2; i++)
            EXPECT_TRUE(queue.enqueue(message()));
        queue.stream_began();
        rds::Batch batch;
        queue.fill(batch);
        queue.acked(batch.bytes / 2);
        EXPECT_EQ(queue.length(), 2u);
        queue.account(batch, batch.bytes, batch.bytes);
        EXPECT_EQ(queue.length(), 1u);
        queue.acked(batch.bytes);
        EXPECT_TRUE(queue.is_empty());
        queue.close();
    });
}

// By which it is known whether the peer had the time to answer.
TEST(SendQueue, probe__is_sent_when_the_stream_has_all_of_it)
{
    in_world(1, [](sim::World &, sim::Node &) {
        rds::Spin<rds::PathLock> lock;
        rds::SendQueue queue(lock);
        auto offer = [&](rds::Control control, kapi_u32 taken) {
            auto offered = message();
            offered->control = control;
            rds::Batch batch;
            batch.add(offered, 0);
            batch.add(message(), 0);
            queue.account(batch, taken, 1000 + taken);
            EXPECT_TRUE(!batch.probe_sent || batch.probe_end == 1000 + offered->wire_length());
            return batch.probe_sent;
        };
        kapi_u32 length = message()->wire_length();
        EXPECT_FALSE(offer(rds::control_map, length));
        EXPECT_FALSE(offer(rds::control_probe, length - 1));
        EXPECT_TRUE(offer(rds::control_probe, length));
        EXPECT_TRUE(offer(rds::control_probe, 2 * length));
        queue.close();
    });
}

// On loopback: there was no memory to deliver it, and its sender cancelled it before it was given back.
TEST(SendQueue, a_message_that_was_cancelled_meanwhile__does_not_come_back)
{
    in_world(1, [](sim::World &, sim::Node &) {
        rds::Spin<rds::PathLock> lock;
        rds::SendQueue queue(lock);
        EXPECT_TRUE(queue.enqueue(message()));
        auto taken = queue.take();
        ASSERT_TRUE(taken);
        taken->was_owned = true; // and has no owner
        queue.cancel(*taken);
        queue.give_back(taken);
        EXPECT_FALSE(queue.has_unsent());
        EXPECT_TRUE(queue.has_only_answers());
        queue.close();
    });
}

class Operations : public ::testing::Test {
protected:
    Operations()
    {
        transport_.pin = [](kapi_u64, kapi_size, int, kapi_pin **) { return 0; };
        transport_.unpin = [](kapi_pin *, int) {};
        transport_.pin_pages = [](const kapi_pin *) { return 1u; };
    }
    hw::Ref<rds::Message> message_with_operation()
    {
        rds_abi_iovec local{4096, 8};
        rds_abi_rdma_args args{0, {0, 8}, reinterpret_cast<std::uintptr_t>(&local), 1, 0, 0};
        auto operation = rds::RdmaOperation::create({transport_, 0, nullptr}, args, true);
        EXPECT_TRUE(operation);
        auto made = message();
        made->set_operation(std::move(*operation));
        return made;
    }
    /** They fail before they are posted, and the stream ends. */
    static void fail_all(rds::SendQueue &queue)
    {
        queue.stream_began();
        while (queue.has_unsent()) {
            rds::Batch batch(true);
            queue.fill(batch);
            for (unsigned i = 0; i < batch.count; i++) {
                auto *out = reinterpret_cast<rds_out *>(batch.item(i).message.get());
                ASSERT_NE(rds_out_rdma(out), nullptr);
                rds_out_rdma_done(out, RDS_RDMA_OTHER_ERROR);
                EXPECT_EQ(rds_out_rdma(out), nullptr);
            }
            queue.account(batch, batch.bytes, 0);
        }
        queue.stream_ended();
        queue.stream_began();
    }

private:
    rds_transport transport_{};
};

// Who cancels its message at that moment has not come to the queue yet.
TEST_F(Operations, that_have_ended__are_not_posted_again)
{
    in_world(1, [&](sim::World &, sim::Node &) {
        rds::Spin<rds::PathLock> lock;
        rds::SendQueue queue(lock);
        ASSERT_TRUE(queue.enqueue(message_with_operation()));
        fail_all(queue);
        rds::Batch next(true);
        queue.fill(next);
        EXPECT_EQ(next.count, 0u);
        queue.close();
    });
}

TEST_F(Operations, that_have_ended__of_any_number_are_passed_in_short_steps)
{
    constexpr unsigned kMany = 1000, kSome = 200; // steps: 64 messages at once, some lists
    in_world(1, [&](sim::World &, sim::Node &) {
        rds::Spin<rds::PathLock> lock;
        rds::SendQueue queue(lock);
        for (unsigned i = 0; i < kMany; i++)
            ASSERT_TRUE(queue.enqueue(message_with_operation()));
        fail_all(queue);
        sim::forget_steps();
        rds::Batch next(true);
        queue.fill(next);
        EXPECT_EQ(next.count, 0u);
        EXPECT_FALSE(queue.has_unsent());
        EXPECT_LE(sim::most_steps_under("rds path"), kSome);
        queue.close();
    });
}

} // namespace
