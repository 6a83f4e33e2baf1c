// SPDX-License-Identifier: GPL-2.0
// Queues of messages.
#pragma once

#include "rds_test.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include "net/rds/connection.h"
#include "net/rds/send_queue.h"
#include "net/rds/socket.h"
#include "selftests/sim/rds_host.h"

inline rds::Ref<rds::Message> message()
{
    auto made = rds::Message::internal(1);
    EXPECT_TRUE(made);
    return std::move(*made);
}

/** What was sent is given up, and all of it ends. How many. */
inline kapi_u32 drop_sent(rds::SendQueue &queue, bool with_present)
{
    queue.give_up_sent(with_present);
    return queue.end_dropped();
}

/** Runs body in a program of its own world. */
inline void in_world(std::uint64_t seed, const std::function<void(sim::World &, sim::Node &)> &body)
{
    sim::World world(seed);
    sim::Node &node = world.add_node("a");
    auto task = world.spawn(node, "test", [&] { body(world, node); });
    ASSERT_TRUE(world.run_until([&] { return task->is_done(); }, 10 * sim::kSecond)) << "seed " << seed;
}

/** A queue with messages that were sent, on the present stream or on an earlier one, and others that were not. */
struct FilledQueue {
    static constexpr unsigned kSent = 300, kUnsent = 40;

    explicit FilledQueue(bool on_present)
    {
        for (unsigned i = 0; i < kSent; i++)
            EXPECT_TRUE(queue.enqueue(message()));
        queue.stream_began();
        while (queue.has_unsent())
            offer(true);
        if (!on_present) {
            queue.stream_ended();
            queue.stream_began();
        }
        for (unsigned i = 0; i < kUnsent; i++)
            EXPECT_TRUE(queue.enqueue(message()));
        offered.clear();
    }
    ~FilledQueue() { queue.close(); }

    /** What the owner of the path does, with a stream that takes all or nothing. */
    void offer(bool takes)
    {
        rds::Batch batch;
        queue.fill(batch);
        for (unsigned i = 0; i < batch.count; i++)
            offered.push_back(kapi_u64{batch.item(i).message->header().sequence});
        queue.account(batch, takes ? batch.bytes : 0, end += takes ? batch.bytes : 0);
    }

    /** The present stream has all that is queued, and there are so many. */
    void send_until(unsigned count)
    {
        for (unsigned left = count - queue.length(); left; left--)
            EXPECT_TRUE(queue.enqueue(message()));
        while (queue.has_unsent())
            offer(true);
    }

    rds::Spin<rds::PathLock> lock;
    rds::SendQueue queue{lock};
    kapi_u32 end = 0;
    std::vector<kapi_u64> offered; // numbers
};

/** A program whose memory is that of messages. Its socket stays open until end(). */
struct MemoryOwner {
    explicit MemoryOwner(sim::Node &node) : host(node), socket(host)
    {
        EXPECT_EQ(host.load(), 0);
        EXPECT_EQ(socket.open(), 0);
        notices = rds::Ref<rds::NoticeBox>::adopt(
            hw::make<rds::NoticeBox>(hw::Alloc::sleep, *reinterpret_cast<rds::Socket *>(socket.core())));
    }
    /** Queues so many messages, which the stream takes. */
    std::vector<rds::Ref<rds::Message>> send(FilledQueue &filled, unsigned count)
    {
        std::vector<rds::Ref<rds::Message>> messages;
        for (unsigned i = 0; i < count; i++) {
            kapi_msg msg = sim::make_msg("x", 1, {});
            auto made = rds::Message::from_user_pages(&msg, 1, i, notices);
            EXPECT_TRUE(made);
            messages.push_back(*made);
            EXPECT_TRUE(filled.queue.enqueue(std::move(*made)));
        }
        while (filled.queue.has_unsent())
            filled.offer(true);
        return messages;
    }
    /** When none of its messages is left. */
    void end()
    {
        notices->close();
        notices = nullptr;
        socket.close();
        EXPECT_TRUE(host.unload_soon());
    }

    RdsHost host;
    RdsSocket socket;
    rds::Ref<rds::NoticeBox> notices;
};
