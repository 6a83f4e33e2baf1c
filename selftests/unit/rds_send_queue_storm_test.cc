// SPDX-License-Identifier: GPL-2.0
// A queue of messages in whose steps all who use it meet: the owner of its path with one stream after the other, the peer,
// programs that cancel, and programs that look at it.
#include "rds_send_queue_test.h"

namespace {

class QueueStorm {
public:
    QueueStorm(sim::World &world, sim::Node &node) : world_(world), owner_(node)
    {
        auto begin = [&](const char *name, void (QueueStorm::*method)()) {
            tasks_.push_back(world.spawn(node, name, [this, method] { (this->*method)(); }));
        };
        begin("send", &QueueStorm::send);
        begin("owner", &QueueStorm::transmit);
        begin("peer", &QueueStorm::acknowledge);
        begin("restarts", &QueueStorm::restart);
        begin("cancel", &QueueStorm::cancel);
        begin("cancel", &QueueStorm::cancel);
        begin("look", &QueueStorm::look);
        begin("look", &QueueStorm::look);
        while (!std::all_of(tasks_.begin(), tasks_.end(), [](const auto &task) { return task->is_done(); }))
            world.sleep(1000);
        queue_.close(), other_.close();
        messages_.clear();
        EXPECT_TRUE(queue_.is_empty() && other_.is_empty());
        EXPECT_EQ(queue_.length() + other_.length(), 0u);
        partial_ = nullptr;
        owner_.end();
    }

private:
    static constexpr unsigned kMessages = 300;

    unsigned random(unsigned below) { return static_cast<unsigned>(world_.random().below(below)); }
    rds::Ref<rds::Message> make(unsigned i)
    {
        if (random(2))
            return message();
        kapi_msg msg = sim::make_msg("x", 1, {});
        auto made = rds::Message::from_user_pages(&msg, 1, i, owner_.notices);
        EXPECT_TRUE(made);
        return std::move(*made);
    }
    void send()
    {
        messages_.reserve(kMessages); // others take them out while it grows
        for (unsigned i = 0; i < kMessages; i++) {
            if (random(8) == 0)
                static_cast<void>(queue_.enqueue_bounded(message()));
            auto sent = make(i);
            messages_.push_back(sent);
            EXPECT_TRUE(queue_.enqueue(std::move(sent)));
            if (random(16) == 0)
                world_.sleep(random(200));
        }
        sent_ = true;
    }
    void transmit()
    {
        while (!sent_ || queue_.has_unsent() || random(30)) {
            queue_.stream_began();
            alive_ = true;
            for (unsigned batches = random(20) + 1; batches; batches--)
                offer();
            alive_ = false;
            while (called_)
                world_.sleep(10);
            partial_ = nullptr;
            queue_.stream_ended();
            if (moves_ && random(40) == 0)
                queue_.move_to(other_);
        }
        done_ = true;
    }
    void offer()
    {
        rds::Batch batch;
        if (partial_)
            batch.add(std::move(partial_), begin_);
        queue_.fill(batch);
        kapi_u32 taken = random(3) ? batch.bytes : random(batch.bytes + 1);
        queue_.account(batch, taken, end_ += taken);
        partial_ = std::move(batch.partial);
        begin_ = batch.partial_begin;
    }
    void acknowledge()
    {
        while (!done_) {
            called_ = alive_;
            if (called_)
                queue_.acked(end_ - random(400));
            called_ = false;
            world_.sleep(random(50) + 1);
        }
    }
    void restart()
    {
        while (!done_) {
            if (random(3))
                queue_.give_up_sent(random(2) == 0);
            if (random(3))
                queue_.end_dropped();
            world_.sleep(random(300) + 1);
        }
    }
    void cancel()
    {
        while (!done_) {
            if (!messages_.empty()) {
                auto cancelled = std::exchange(messages_[random(static_cast<unsigned>(messages_.size()))], nullptr);
                if (cancelled)
                    (random(2) ? queue_ : other_).cancel(*cancelled);
            }
            world_.sleep(random(10) + 1);
        }
    }
    void look()
    {
        while (!done_) {
            rds::SendQueue::Place place;
            place.next = random(3) ? 0 : random(kMessages);
            kapi_u64 last = 0;
            bool retransmits = random(2);
            auto visit = [&](rds::Message &m) {
                EXPECT_GT(kapi_u64{m.header().sequence}, last);
                last = m.header().sequence;
            };
            while (queue_.visit_some(retransmits, place, visit) && random(4))
                if (random(3) == 0)
                    place.last = nullptr;
            world_.sleep(random(5) + 1);
        }
    }

    sim::World &world_;
    MemoryOwner owner_;
    rds::Spin<rds::PathLock> lock_;
    rds::SendQueue queue_{lock_}, other_{lock_};
    std::vector<sim::TaskRef> tasks_;
    std::vector<rds::Ref<rds::Message>> messages_;
    rds::Ref<rds::Message> partial_;
    kapi_u32 begin_ = 0, end_ = 0;
    bool sent_ = false, alive_ = false, called_ = false, done_ = false;
    bool moves_ = random(2) != 0; // to the other queue, at the end of some stream
};

TEST(QueueStorm, leaves_nothing_behind)
{
    for (std::uint64_t seed = 1; seed <= 300; seed++)
        in_world(seed, [](sim::World &world, sim::Node &node) { QueueStorm storm(world, node); });
}

} // namespace
