// SPDX-License-Identifier: GPL-2.0
// Walks along a queue in pieces, for programs that look at it, while messages come and go.
#include "rds_send_queue_test.h"

namespace {

using Place = rds::SendQueue::Place;

constexpr unsigned kPiece = 64;

/** The numbers of the next piece of messages; false: it was the last one. */
bool look(rds::SendQueue &queue, bool retransmits, Place &place, std::vector<kapi_u64> &seen)
{
    return queue.visit_some(retransmits, place, [&](rds::Message &m) { seen.push_back(kapi_u64{m.header().sequence}); });
}

/** A part of a long walk, as a program's call reads it: no message is held before and after. */
std::vector<kapi_u64> part(rds::SendQueue &queue, bool retransmits, kapi_u64 &next, unsigned pieces)
{
    std::vector<kapi_u64> seen;
    Place place;
    place.next = next;
    for (unsigned i = 0; i < pieces && look(queue, retransmits, place, seen); i++)
        ;
    next = place.next;
    return seen;
}

std::vector<kapi_u64> numbers(kapi_u64 first, kapi_u64 count)
{
    std::vector<kapi_u64> all(count);
    std::iota(all.begin(), all.end(), first);
    return all;
}

// It was passed over from the beginning for each part, so that a long queue took the square of its length.
TEST(QueueWalk, begins_again_with_its_last_piece)
{
    in_world(1, [](sim::World &, sim::Node &) {
        for (bool retransmits : {false, true}) {
            FilledQueue filled(retransmits);
            kapi_u64 next = 0;
            EXPECT_EQ(part(filled.queue, retransmits, next, 2), numbers(1, 2 * kPiece));
            for (unsigned at = 2 * kPiece + 1; at + kPiece <= FilledQueue::kSent; at += kPiece)
                EXPECT_EQ(part(filled.queue, retransmits, next, 2), numbers(at, kPiece));
        }
    });
}

// The report had no room for it.
TEST(QueueWalk, comes_again__from_the_same_place)
{
    in_world(1, [](sim::World &, sim::Node &) {
        FilledQueue filled(true);
        kapi_u64 next = 0;
        static_cast<void>(part(filled.queue, true, next, 3));
        for (unsigned i = 0; i < 3; i++) {
            kapi_u64 same = next;
            EXPECT_EQ(part(filled.queue, true, same, i ? 1 : 2), numbers(3 * kPiece + 1, kPiece)) << i;
        }
    });
}

TEST(QueueWalk, goes_on__whatever_others_have_looked_at)
{
    in_world(1, [](sim::World &, sim::Node &) {
        FilledQueue filled(true);
        kapi_u64 first = 0, second = 0, third = 0;
        EXPECT_EQ(part(filled.queue, true, first, 3), numbers(1, 3 * kPiece));
        EXPECT_EQ(part(filled.queue, true, second, 1), numbers(1, kPiece));
        EXPECT_EQ(part(filled.queue, true, first, 4), numbers(3 * kPiece + 1, kPiece)) << "three pieces were passed over";
        EXPECT_EQ(part(filled.queue, true, second, 9), numbers(kPiece + 1, FilledQueue::kSent - kPiece));
        EXPECT_EQ(part(filled.queue, false, third, 1), numbers(FilledQueue::kSent + 1, FilledQueue::kUnsent));
    });
}

// The first one of its last piece is no message of the queue any more.
TEST(QueueWalk, goes_on__when_its_message_has_left)
{
    const std::vector<std::function<void(FilledQueue &)>> ways = {
        [](FilledQueue &filled) { filled.queue.acked(filled.end * 2 / 3); },
        [](FilledQueue &filled) { filled.queue.acked(filled.end); },
        [](FilledQueue &filled) { filled.queue.stream_ended(); },
        [](FilledQueue &filled) { drop_sent(filled.queue, true); },
        [](FilledQueue &filled) { filled.queue.close(); },
    };
    for (const auto &leaves : ways) {
        in_world(1, [&](sim::World &, sim::Node &) {
            FilledQueue filled(true);
            kapi_u64 next = 0;
            static_cast<void>(part(filled.queue, true, next, 1));
            leaves(filled);
            Place rest;
            std::vector<kapi_u64> seen, all;
            while (look(filled.queue, true, rest, all))
                ;
            rest = Place();
            rest.next = next;
            while (look(filled.queue, true, rest, seen))
                ;
            all.erase(all.begin(), std::lower_bound(all.begin(), all.end(), next));
            EXPECT_EQ(seen, all);
        });
    }
}

TEST(QueueWalk, goes_on__when_its_message_was_cancelled_or_has_moved)
{
    in_world(1, [](sim::World &, sim::Node &) {
        rds::Spin<rds::PathLock> lock;
        rds::SendQueue queue(lock), other(lock);
        std::vector<rds::Ref<rds::Message>> messages;
        for (unsigned i = 0; i < 4 * kPiece; i++)
            EXPECT_TRUE(queue.enqueue(messages.emplace_back(message())));
        kapi_u64 next = 0;
        EXPECT_EQ(part(queue, false, next, 2), numbers(1, 2 * kPiece));
        other.cancel(*std::exchange(messages[kPiece], nullptr)); // by any queue of the connection
        EXPECT_EQ(part(queue, false, next, 3), numbers(2 * kPiece + 1, kPiece + 1)) << "two pieces are passed over";
        messages.clear();
        queue.move_to(other);
        kapi_u64 moved = 0;
        next = 0;
        EXPECT_TRUE(part(queue, false, next, 1).empty());
        EXPECT_EQ(part(other, false, moved, 9), numbers(1, 4 * kPiece - 1));
        queue.close(), other.close();
    });
}

/** What cancels them has the stream keep the memory of a program until the stream ends. */
TEST(QueueWalk, stays_on_the_queue__when_its_message_ends_with_the_stream)
{
    constexpr unsigned kMessages = 3 * kPiece;
    for (std::uint64_t seed = 1; seed <= 60; seed++) {
        in_world(seed, [](sim::World &world, sim::Node &node) {
            MemoryOwner owner(node);
            {
                FilledQueue filled(true);
                filled.queue.acked(filled.end);
                auto messages = owner.send(filled, kMessages);
                for (auto &message : messages)
                    filled.queue.cancel(*message);
                messages.clear();
                auto end = world.spawn(node, "end", [&] { filled.queue.stream_ended(); });
                auto walk = world.spawn(node, "walk", [&] {
                    while (!end->is_done()) {
                        Place place;
                        std::vector<kapi_u64> seen;
                        while (look(filled.queue, false, place, seen))
                            ;
                    }
                });
                while (!end->is_done() || !walk->is_done())
                    world.sleep(1);
                kapi_u64 next = 0;
                EXPECT_EQ(part(filled.queue, false, next, 9).size(), FilledQueue::kUnsent);
            }
            owner.end();
        });
    }
}

} // namespace
