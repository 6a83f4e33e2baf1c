// SPDX-License-Identifier: GPL-2.0
// Unattaching while others send, close or read.
#include "kcm_test.h"

#include "kapi/sim/stream.h"

#include <algorithm>

namespace {

constexpr unsigned kNow = KCM_ABI_MSG_DONTWAIT;

class KcmUnattach : public KcmTest, public testing::WithParamInterface<int> {
protected:
    KcmUnattach() : KcmTest(static_cast<std::uint64_t>(GetParam())) {}

    sim::TaskRef start_to_unattach(KcmSocket &socket, const Ends &ends, int &result)
    {
        auto task = world.spawn(a, "unattach", [&socket, ends, &result] { result = socket.unattach(ends.here); });
        world.run_for(100 * sim::kMillisecond);
        EXPECT_FALSE(task->is_done());
        return task;
    }
    /** For 300 ms: who sends waits. */
    sim::TaskRef hold_TCP(const Ends &ends)
    {
        auto holder = world.spawn(a, "holder", [this, ends] {
            auto tcb = sim::program_socket_of(ends.here).tcb;
            sim::Locked locked(*tcb);
            world.sleep(300 * sim::kMillisecond);
        });
        world.run_for(sim::kMillisecond);
        return holder;
    }
};

TEST_P(KcmUnattach, close_of_the_sender__meanwhile_cuts_no_message)
{
    KcmSocket &socket = new_socket(), &sender = new_socket();
    Ends ends = connect_narrow();
    attach(socket, ends);
    run(a, [&] { ASSERT_EQ(sender.open_as_clone(socket), 0); });
    std::string message = framed(text(30'000));
    EXPECT_EQ(send(sender, message), 30'004);
    int result = 77;
    auto task = start_to_unattach(socket, ends, result);
    run(a, [&] { sender.close(); });
    world.run_for(100 * sim::kMillisecond);
    EXPECT_EQ(peer_reads(ends, message.size()), message);
    EXPECT_TRUE(world.run_until([&] { return task->is_done(); }, 10 * sim::kMillisecond));
    EXPECT_EQ(result, 0);
    EXPECT_EQ(error_of(ends), 0);
}

TEST_P(KcmUnattach, end_of_another_connection__meanwhile_is_not_the_end_of_the_last)
{
    KcmSocket &socket = new_socket();
    Ends ends = connect_narrow(), other = connect();
    attach(socket, ends);
    std::string message = framed(text(30'000));
    EXPECT_EQ(send(socket, message), 30'004);
    settle();
    attach(socket, other);
    int result = 77;
    auto task = start_to_unattach(socket, ends, result);
    run(b, [&] { close(other.there); });
    settle();
    EXPECT_EQ(receive(socket), kNothing);
    run(a, [&] {
        // It is still visible, and cannot be unattached a second time.
        EXPECT_EQ(socket.connections().size(), 2u);
        EXPECT_EQ(socket.unattach(ends.here), -KAPI_EALREADY);
    });
    EXPECT_EQ(peer_reads(ends, message.size()), message);
    EXPECT_TRUE(world.run_until([&] { return task->is_done(); }, 10 * sim::kMillisecond));
    EXPECT_EQ(result, 0);
    run(a, [&] {
        EXPECT_EQ(socket.connections().size(), 1u);
        EXPECT_EQ(socket.unattach(ends.here), -KAPI_ENOENT);
    });
}

// It is kept for the next message when it is to be unattached, by a thread that is still in TCP, and no message follows.
TEST_P(KcmUnattach, message_under_way__is_the_last_that_is_waited_for)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    EXPECT_EQ(send(socket, "kept"), 4);
    EXPECT_EQ(peer_reads(ends, 4), "kept");
    settle();
    auto holder = hold_TCP(ends);
    auto sender = world.spawn(a, "sender", [&] { EXPECT_EQ(socket.send("last", 4), 4); });
    world.run_for(sim::kMillisecond);
    int result = 77;
    auto task = start_to_unattach(socket, ends, result);
    EXPECT_FALSE(sender->is_done());
    EXPECT_TRUE(world.run_until([&] { return task->is_done(); }, 220 * sim::kMillisecond));
    EXPECT_EQ(result, 0);
    EXPECT_EQ(peer_reads(ends, 4), "last");
    EXPECT_TRUE(holder->is_done() && sender->is_done());
}

// The message is on its way to TCP, by its queue, when the connection is to be unattached, and then TCP has no room.
TEST_P(KcmUnattach, message__that_TCP_has_no_room_for_goes_over_the_next_connection)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_narrow(socket), next = connect();
    const std::string before = text(30'000); // fills TCP
    auto writer = world.spawn(a, "writer", [&] {
        EXPECT_EQ(sim::program_write(ends.here, before.data(), before.size()), 30'000);
    });
    settle();
    auto holder = hold_TCP(ends);
    auto sender = world.spawn(a, "sender", [&] {
        EXPECT_EQ(socket.send("x", 1, KCM_ABI_MSG_BATCH), 1);
        EXPECT_EQ(socket.send("", 0), 0);
    });
    world.run_for(sim::kMillisecond);
    int result = 77;
    auto task = start_to_unattach(socket, ends, result);
    EXPECT_FALSE(sender->is_done());
    EXPECT_TRUE(world.run_until([&] { return task->is_done() && sender->is_done(); }, 250 * sim::kMillisecond));
    EXPECT_EQ(result, 0);
    attach(socket, next);
    world.run_for(sim::kMillisecond);
    EXPECT_TRUE(peer_has_unread(next));
    EXPECT_EQ(peer_reads(next, 1), "x");
    EXPECT_EQ(peer_reads(ends, before.size()), before);
    EXPECT_TRUE(holder->is_done() && writer->is_done());
}

TEST_P(KcmUnattach, signal__ends_the_wait_and_changes_nothing)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_narrow(socket);
    std::string message = framed(text(30'000));
    EXPECT_EQ(send(socket, message), 30'004);
    int result = 77;
    auto task = start_to_unattach(socket, ends, result);
    world.signal(*task);
    EXPECT_TRUE(world.run_until([&] { return task->is_done(); }, 10 * sim::kMillisecond));
    EXPECT_EQ(result, -KAPI_EINTR);
    EXPECT_EQ(peer_reads(ends, message.size()), message);
    EXPECT_EQ(send(socket, "goes on"), 7);
    EXPECT_EQ(peer_reads(ends, 7), "goes on");
    run(a, [&] { EXPECT_EQ(socket.unattach(ends.here), 0); });
}

TEST_P(KcmUnattach, unattach__by_two_at_once_succeeds_once)
{
    KcmSocket &socket = new_socket();
    for (unsigned round = 0; round < 20; round++) {
        Ends ends = connect();
        attach(socket, ends);
        int results[2] = {77, 77};
        std::vector<sim::TaskRef> tasks;
        for (int &result : results)
            tasks.push_back(world.spawn(a, "unattach", [&] { result = socket.unattach(ends.here); }));
        settle();
        std::sort(std::begin(results), std::end(results));
        EXPECT_TRUE(results[0] == -KAPI_ENOENT || results[0] == -KAPI_EALREADY) << results[0];
        EXPECT_EQ(results[1], 0);
    }
}

TEST_P(KcmUnattach, messages__that_nobody_has_room_for_stay)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    peer_writes(ends, framed("one") + framed("two"));
    settle();
    run(a, [&] {
        EXPECT_EQ(socket.set_option(KCM_ABI_RECV_DISABLE, 1), 0);
        EXPECT_EQ(socket.unattach(ends.here), 0);
        EXPECT_EQ(socket.set_option(KCM_ABI_RECV_DISABLE, 0), 0);
    });
    EXPECT_EQ(receive(socket), framed("one"));
    EXPECT_EQ(receive(socket), framed("two"));
}

TEST_P(KcmUnattach, connection_that_has_room_next__leaves_its_turn_to_another)
{
    // Room was made, and a connection that had its turn goes, while the reader that made the room still waits for its memory.
    KcmSocket &socket = new_socket();
    Ends first = connect(), second = connect();
    attach(socket, first);
    attach(socket, second);
    run(a, [&] { socket.sk().rcvbuf = 2000; });
    peer_writes(first, framed(text(3000)));
    settle();
    peer_writes(first, framed("one"));
    settle();
    peer_writes(second, framed("two"));
    settle();
    socket.trouble = {.stall_at = 1, .stall_ns = sim::kSecond};
    auto reader = world.spawn(a, "reader", [&] {
        std::string bytes(4000, '\0');
        EXPECT_EQ(socket.receive(bytes.data(), bytes.size(), kNow), 3004);
    });
    world.run_for(10 * sim::kMillisecond);
    std::uint64_t delivered = 0;
    run(a, [&] { EXPECT_EQ(socket.unattach(first.here), 0); });
    world.run_for(10 * sim::kMillisecond);
    EXPECT_FALSE(reader->is_done());
    run(a, [&] { delivered = socket.connections().at(0).rx_msgs; });
    EXPECT_EQ(delivered, 1u);
    EXPECT_TRUE(world.run_until([&] { return reader->is_done(); }, 2 * sim::kSecond));
    EXPECT_EQ(receive(socket), framed("one"));
    EXPECT_EQ(receive(socket), framed("two"));
}

TEST_P(KcmUnattach, attach__of_several_at_once_takes_all)
{
    KcmSocket &socket = new_socket();
    run(a, [&] { ASSERT_EQ(socket.open(), 0); });
    std::vector<sim::TaskRef> tasks;
    for (unsigned i = 0; i < 6; i++) {
        Ends ends = connect();
        tasks.push_back(world.spawn(a, "attach", [this, &socket, ends] {
            world.sleep(sim::kSecond - world.now_ns() % sim::kSecond); // all at the same time
            EXPECT_EQ(socket.attach(ends.here, by_length), 0);
        }));
    }
    world.run_for(3 * sim::kSecond);
    for (const sim::TaskRef &task : tasks)
        EXPECT_TRUE(task->is_done());
    run(a, [&] { EXPECT_EQ(socket.connections().size(), 6u); });
}

INSTANTIATE_TEST_SUITE_P(Seeds, KcmUnattach, ::testing::Range(1, 9));

} // namespace
