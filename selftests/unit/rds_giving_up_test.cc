// SPDX-License-Identifier: GPL-2.0
// What a queue gives up while other things happen to it.
#include "rds_send_queue_test.h"

namespace {

// What was sent is given up while the owner of the path sends: once it was done in pieces, and the owner sent again what was
// not given up yet, or put it back into the middle of it.
struct Case {
    bool sent_on_present, with_present;
};
class GivingUp : public ::testing::TestWithParam<Case> {};

TEST_P(GivingUp, owner_sends_meanwhile)
{
    const auto [sent_on_present, with_present] = GetParam();
    for (std::uint64_t seed = 1; seed <= 60; seed++) {
        in_world(seed, [&](sim::World &world, sim::Node &node) {
            FilledQueue filled(sent_on_present);
            kapi_u32 given_up = 0;
            auto giver = world.spawn(node, "giver", [&] { given_up = drop_sent(filled.queue, with_present); });
            auto owner = world.spawn(node, "owner", [&] {
                while (!giver->is_done())
                    filled.offer(false);
            });
            while (!giver->is_done() || !owner->is_done())
                world.sleep(1);
            // What is on its way to the present stream at that moment is given up, too.
            EXPECT_GE(given_up, FilledQueue::kSent) << "seed " << seed;
            EXPECT_LE(given_up, FilledQueue::kSent + (with_present ? rds::Batch::max_messages : 0)) << "seed " << seed;
            auto is_sent = [](kapi_u64 number) { return number <= FilledQueue::kSent; };
            auto first_new = std::find_if_not(filled.offered.begin(), filled.offered.end(), is_sent);
            EXPECT_TRUE(std::none_of(first_new, filled.offered.end(), is_sent)) << "seed " << seed;
            filled.offered.clear();
            while (filled.queue.has_unsent())
                filled.offer(true);
            ASSERT_EQ(filled.offered.size(), FilledQueue::kSent + FilledQueue::kUnsent - given_up) << "seed " << seed;
            for (std::size_t i = 0; i < filled.offered.size(); i++)
                EXPECT_EQ(filled.offered[i], given_up + i + 1) << "seed " << seed;
        });
    }
}

INSTANTIATE_TEST_SUITE_P(Streams, GivingUp, ::testing::Values(Case{true, true}, Case{false, false}, Case{false, true}));

/** Messages with memory of a program, which a stream has, are given up while something else happens. Are they kept afterwards? */
void give_up_while(const std::function<void(FilledQueue &)> &happens, bool kept)
{
    for (std::uint64_t seed = 1; seed <= 60; seed++) {
        const bool again = seed % 2; // it is not the first stream that has them
        in_world(seed, [&](sim::World &world, sim::Node &node) {
            MemoryOwner owner(node);
            std::vector<rds::Ref<rds::Message>> messages;
            {
                FilledQueue filled(true);
                messages = owner.send(filled, FilledQueue::kUnsent);
                if (again) {
                    filled.queue.stream_ended();
                    filled.queue.stream_began();
                    while (filled.queue.has_unsent())
                        filled.offer(true);
                }
                auto giver = world.spawn(node, "giver", [&] { drop_sent(filled.queue, true); });
                auto other = world.spawn(node, "other", [&] { happens(filled); });
                while (!giver->is_done() || !other->is_done())
                    world.sleep(1);
                auto count = [&] {
                    auto is_kept = [](const auto &message) { return message->on != rds::Message::On::none; };
                    return std::count_if(messages.begin(), messages.end(), is_kept);
                };
                EXPECT_EQ(count(), kept ? FilledQueue::kUnsent : 0) << "seed " << seed;
                EXPECT_TRUE(filled.queue.has_only_answers());
                EXPECT_EQ(filled.queue.is_empty(), !kept) << "is the stream looked at?";
                filled.queue.acked(filled.end);
                EXPECT_EQ(count(), 0) << "seed " << seed;
            }
            messages.clear();
            owner.end();
        });
    }
}

TEST(SendQueue, memory_that_is_given_up__is_kept_while_the_stream_has_it)
{
    give_up_while([](FilledQueue &) {}, true);
}

TEST(SendQueue, memory_that_is_given_up__is_not_kept_for_a_stream_that_has_ended)
{
    give_up_while([](FilledQueue &filled) { filled.queue.stream_ended(); }, false);
}

TEST(SendQueue, memory_that_is_given_up__is_not_kept_in_a_queue_that_is_closed)
{
    give_up_while([](FilledQueue &filled) { filled.queue.close(); }, false);
}

TEST(SendQueue, memory_that_is_given_up__is_not_kept_when_it_is_acknowledged)
{
    give_up_while([](FilledQueue &filled) { filled.queue.acked(filled.end); }, false);
}

// It was offered to the stream, which had no room.
TEST(SendQueue, memory_that_is_given_up__is_not_kept_when_the_stream_took_nothing_of_it)
{
    in_world(1, [&](sim::World &, sim::Node &node) {
        constexpr std::size_t kBefore = FilledQueue::kSent + FilledQueue::kUnsent;
        MemoryOwner owner(node);
        std::vector<rds::Ref<rds::Message>> messages;
        {
            FilledQueue filled(true);
            messages = owner.send(filled, FilledQueue::kUnsent);
            filled.queue.stream_ended();
            filled.queue.stream_began();
            filled.offered.clear();
            while (filled.offered.size() < kBefore)
                filled.offer(true);
            const std::size_t taken = filled.offered.size() - kBefore;
            filled.offer(false);
            drop_sent(filled.queue, true);
            auto is_kept = [](const auto &message) { return message->on != rds::Message::On::none; };
            EXPECT_EQ(static_cast<std::size_t>(std::ranges::count_if(messages, is_kept)), taken);
        }
        messages.clear();
        owner.end();
    });
}

} // namespace
