// SPDX-License-Identifier: GPL-2.0
// Messages that wait for the rest of their batch: what ends it, and that its end may not come.
#include "kcm_test.h"

#include "kapi/sim/stream.h"

namespace {

constexpr unsigned kBatch = KCM_ABI_MSG_BATCH, kEor = KCM_ABI_MSG_EOR, kNow = KCM_ABI_MSG_DONTWAIT;
constexpr std::uint64_t kLimit = 10 * sim::kMillisecond, kSoon = 3 * sim::kMillisecond; // until the peer has it

class KcmBatch : public KcmTest {
protected:
    /** What the peer has without waiting for it. */
    std::string peer_has(const Ends &ends)
    {
        std::string all;
        while (peer_has_unread(ends))
            all += peer_reads(ends, 1);
        return all;
    }
    /** Attaches another connection, and returns its number, which messages name. */
    std::uint64_t attach(KcmSocket &socket, const Ends &ends)
    {
        std::uint64_t id = 0;
        run(a, [&] {
            ASSERT_EQ(socket.attach(ends.here, by_length), 0);
            id = static_cast<std::uint64_t>(socket.id_of(ends.here));
        });
        return id;
    }
};

TEST_F(KcmBatch, batch__needs_no_new_memory_after_the_first_time)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    auto allocations = [&](unsigned count) {
        std::uint64_t before = a.faults().count;
        for (unsigned i = 0; i < count; i++)
            EXPECT_EQ(send(socket, "x", i + 1 < count ? kBatch : 0), 1);
        EXPECT_EQ(peer_reads(ends, count), std::string(count, 'x'));
        return a.faults().count - before;
    };
    auto first = allocations(16), again = allocations(16);
    EXPECT_LT(again, first);
    EXPECT_EQ(allocations(16), again);
    // Not without bound.
    allocations(200);
    EXPECT_GT(allocations(200), 200 * again / 16);
}

TEST_F(KcmBatch, batch__waits_for_its_last_message)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    for (const char *message : {"a", "b", "c"})
        EXPECT_EQ(send(socket, message, kBatch), 1);
    world.run_for(kLimit - kSoon);
    EXPECT_FALSE(peer_has_unread(ends));
    EXPECT_EQ(send(socket, "d"), 1);
    EXPECT_EQ(peer_reads(ends, 4), "abcd");
    EXPECT_EQ(send(socket, "e", kBatch), 1);
    EXPECT_EQ(send(socket, ""), 0);
    EXPECT_EQ(peer_reads(ends, 1), "e");
}

TEST_F(KcmBatch, batch__that_fills_the_buffer_goes)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    run(a, [&] { socket.sk().sndbuf = 5000; });
    std::string all;
    for (unsigned i = 0; i < 20; i++) {
        std::string message = framed(text(1000, i));
        ASSERT_EQ(send(socket, message, kBatch), static_cast<long>(message.size()));
        all += message;
    }
    EXPECT_EQ(send(socket, ""), 0);
    EXPECT_EQ(peer_reads(ends, all.size()), all);
}

// As in a sendmmsg() of which a later call fails before it comes to KCM.
TEST_F(KcmBatch, batch__that_does_not_end_goes_in_time)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    std::uint64_t start = world.now_ns();
    EXPECT_EQ(send(socket, "a", kBatch), 1);
    world.run_for(kLimit / 2);
    EXPECT_EQ(send(socket, "b", kBatch), 1); // moves nothing
    world.run_for(start + kLimit - kSoon - world.now_ns());
    EXPECT_EQ(peer_has(ends), "");
    world.run_for(start + kLimit + kSoon - world.now_ns());
    EXPECT_EQ(peer_has(ends), "ab");
    // The next one is limited, too, whether a timer is still set or not.
    for (unsigned i = 0; i < 20; i++) {
        EXPECT_EQ(send(socket, "c", i % 2 ? kBatch : 0), 1);
        EXPECT_EQ(send(socket, "d", kBatch), 1);
        world.run_for(i * kSoon / 4);
        EXPECT_EQ(send(socket, "e", kBatch), 1);
        world.run_for(kLimit + kSoon);
        ASSERT_EQ(peer_has(ends), "cde") << i;
    }
}

TEST_F(KcmBatch, end_of_message__that_is_sent_in_a_batch_goes_in_time)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket, -1, KCM_ABI_SOCK_SEQPACKET);
    EXPECT_EQ(send(socket, "begun", kBatch), 5);
    world.run_for(kLimit + kSoon);
    EXPECT_EQ(peer_has(ends), "") << "no message";
    EXPECT_EQ(send(socket, "", kBatch | kEor), 0);
    world.run_for(kLimit + kSoon);
    EXPECT_EQ(peer_has(ends), "begun");
}

TEST_F(KcmBatch, addressed_message__goes_in_time)
{
    KcmSocket &socket = new_socket();
    Ends first = open_with_one(socket), second = connect();
    std::uint64_t id = attach(socket, second);
    EXPECT_EQ(send(socket, "x", kBatch, id), 1);
    world.run_for(kLimit + kSoon);
    EXPECT_EQ(peer_has(first) + "|" + peer_has(second), "|x");
}

TEST_F(KcmBatch, connection_that_ends__takes_what_waits_for_it_along)
{
    KcmSocket &socket = new_socket();
    Ends first = open_with_one(socket), second = connect();
    std::uint64_t id = attach(socket, second);
    EXPECT_EQ(send(socket, "x", kBatch, id), 1);
    EXPECT_EQ(send(socket, "y", kBatch), 1);
    run(a, [&] { ASSERT_EQ(socket.unattach(second.here), 0); });
    world.run_for(kLimit + kSoon);
    EXPECT_EQ(peer_has(first), "y");
    EXPECT_EQ(peer_has(second), "");
    EXPECT_EQ(send(socket, "z"), -KAPI_ENOTCONN); // of x
}

TEST_F(KcmBatch, large_batch__that_does_not_end_gives_its_buffer_back)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    run(a, [&] { socket.set_sndbuf(4000); });
    for (unsigned i = 0; i < 4; i++)
        EXPECT_EQ(send(socket, framed(text(996)), kBatch | kNow), 1000);
    run(a, [&] { EXPECT_FALSE(socket.poll() & KAPI_OUT); });
    world.run_for(kLimit + kSoon);
    run(a, [&] { EXPECT_TRUE(socket.poll() & KAPI_OUT); });
    EXPECT_EQ(peer_has(ends).size(), 4000u);
}

// Also of the same connection's queue, where what went before it waits for room.
TEST_F(KcmBatch, batch__behind_a_message_that_goes_waits_for_its_own_end)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_narrow(socket);
    std::string before = framed(text(10'000)), held = framed("held");
    EXPECT_EQ(send(socket, before, kNow), static_cast<long>(before.size()));
    EXPECT_EQ(send(socket, held, kBatch), static_cast<long>(held.size()));
    EXPECT_EQ(peer_reads(ends, before.size()), before);
    world.run_for(sim::kMillisecond);
    EXPECT_EQ(peer_has(ends), "");
    world.run_for(kLimit + kSoon);
    EXPECT_EQ(peer_has(ends), held);
}

// TCP holds back a segment that is not full only for what follows at once.
TEST_F(KcmBatch, more__is_announced_to_tcp_when_it_follows)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    auto calls = [&](unsigned messages, unsigned held) {
        a.announced.emplace();
        for (unsigned i = 0; i < messages; i++)
            EXPECT_EQ(send(socket, "x", i + 1 < messages ? kBatch : 0), 1);
        for (unsigned i = 0; i < held; i++)
            EXPECT_EQ(send(socket, "y", kBatch), 1);
        peer_reads(ends, messages + held);
        return std::exchange(a.announced, std::nullopt).value();
    };
    using Calls = std::vector<bool>;
    constexpr unsigned kSegments = 32; // of a call; messages whose memory was used before are one each
    EXPECT_EQ(calls(1, 0), Calls{false});
    EXPECT_EQ(calls(kSegments, 0), Calls{false}) << "as many as go at once";
    EXPECT_EQ(calls(kSegments + 1, 0), (Calls{true, false}));
    EXPECT_EQ(calls(3 * kSegments, 0), (Calls{true, true, false}));
    EXPECT_EQ(calls(0, kSegments + 1), (Calls{true, false}));
    EXPECT_EQ(calls(2, 1), (Calls{false, false})) << "what waits for its batch does not follow at once";
}

// Small messages lie one behind the other, as they were sent, and are one piece for TCP. So many more of them go in a call, as
// many as are looked at under one lock.
TEST_F(KcmBatch, messages_that_adjoin__are_one_piece)
{
    sim::SmallPages adjoining;
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    for (unsigned count : {100, 256, 257}) {
        const std::string sent = text(count);
        a.announced.emplace();
        for (unsigned i = 0; i < sent.size(); i++)
            EXPECT_EQ(send(socket, sent.substr(i, 1), i + 1 < sent.size() ? kBatch : 0), 1);
        EXPECT_EQ(peer_reads(ends, sent.size()), sent);
        EXPECT_EQ(std::exchange(a.announced, std::nullopt).value().size(), count <= 256 ? 1u : 2u) << "calls";
    }
}

// They were to follow over the connection that is unattached while the first of them go to TCP.
TEST_F(KcmBatch, more__that_does_not_follow_is_not_waited_for)
{
    constexpr unsigned kSegments = 32; // as above
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    auto send_all = [&](unsigned count) {
        for (unsigned i = 0; i < count; i++)
            EXPECT_EQ(socket.send("x", 1, i + 1 < count ? kBatch : 0), 1);
    };
    run(a, [&] { send_all(kSegments); });
    peer_reads(ends, kSegments);
    sim::TcbRef tcb;
    run(a, [&] { tcb = sim::program_socket_of(ends.here).tcb; });
    auto holder = world.spawn(a, "holder", [&] {
        sim::Locked locked(*tcb);
        world.sleep(30 * sim::kMillisecond);
    });
    world.run_for(sim::kMicrosecond);
    a.announced.emplace();
    auto sender = world.spawn(a, "sender", [&] { send_all(kSegments + 1); });
    EXPECT_TRUE(world.run_until([&] { return !a.announced->empty(); }, sim::kMillisecond));
    run(a, [&] { EXPECT_EQ(socket.unattach(ends.here), 0); });
    EXPECT_TRUE(holder->is_done() && sender->is_done());
    EXPECT_EQ(std::exchange(a.announced, std::nullopt).value(), (std::vector<bool>{true, false}));
    EXPECT_EQ(peer_reads(ends, kSegments), std::string(kSegments, 'x'));
    EXPECT_FALSE(peer_has_unread(ends));
}

// Another socket has the connection next, so it is the last that goes there for now.
TEST_F(KcmBatch, rest_of_a_message__of_which_TCP_has_a_part_is_announced_as_the_end)
{
    KcmSocket &socket = new_socket(), &other = new_socket();
    Ends ends = open_narrow(socket);
    run(a, [&] { ASSERT_EQ(other.open_as_clone(socket), 0); });
    EXPECT_EQ(send(socket, framed(text(30'000))), 30'004);
    EXPECT_EQ(send(other, "x"), 1);
    a.announced.emplace();
    EXPECT_EQ(peer_reads(ends, 30'005), framed(text(30'000)) + "x");
    std::vector<bool> calls = std::exchange(a.announced, std::nullopt).value();
    EXPECT_EQ(calls, std::vector<bool>(calls.size(), false));
}

// TCP has no room for the first of them, and those that were to follow are dropped.
TEST_F(KcmBatch, closed_socket__that_gives_up_leaves_nothing_announced)
{
    constexpr unsigned kMany = 40; // more than go in one call
    KcmSocket &open = new_socket(), &socket = new_socket();
    Ends ends = open_narrow(open);
    run(a, [&] { ASSERT_EQ(socket.open_as_clone(open), 0); });
    const std::string before = text(30'000);
    auto writer = world.spawn(a, "writer", [&] {
        EXPECT_EQ(sim::program_write(ends.here, before.data(), before.size()), 30'000);
    });
    settle();
    a.announced.emplace();
    for (unsigned i = 0; i < kMany; i++)
        EXPECT_EQ(send(socket, "x", i + 1 < kMany ? kBatch : 0), 1);
    run(a, [&] { socket.close(); });
    world.run_for(61 * sim::kSecond);
    std::vector<bool> calls = std::exchange(a.announced, std::nullopt).value();
    ASSERT_GE(calls.size(), 2u);
    EXPECT_TRUE(calls.front());
    EXPECT_FALSE(calls.back());
    EXPECT_EQ(peer_reads(ends, before.size()), before);
    EXPECT_TRUE(writer->is_done());
}

TEST_F(KcmBatch, timer__is_set_once_for_many_messages)
{
    KcmSocket &socket = new_socket();
    open_with_one(socket);
    EXPECT_EQ(send(socket, "x"), 1);
    settle();
    auto requests = [&](unsigned count, unsigned flags) {
        std::uint64_t before = a.work_requests;
        run(a, [&] {
            for (unsigned i = 0; i < count; i++)
                EXPECT_EQ(socket.send("x", 1, i % 5 == 4 ? 0 : flags), 1);
        });
        return a.work_requests - before;
    };
    EXPECT_EQ(requests(100, 0), 0u) << "no batch";
    EXPECT_EQ(requests(100, kBatch), 1u);
    EXPECT_EQ(requests(100, kBatch), 0u) << "it is still set";
}

TEST_F(KcmBatch, closed_socket__does_not_stay_for_its_timer)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    EXPECT_EQ(send(socket, "x", kBatch), 1);
    EXPECT_EQ(send(socket, "y"), 1);
    EXPECT_EQ(peer_reads(ends, 2), "xy");
    run(a, [&] { socket.close(); });
    world.run_for(kSoon);
    run(a, [&] {
        EXPECT_TRUE(host.unload());
        ASSERT_EQ(host.load(), 0);
    });
}

// Each order of a timer that runs, messages of another batch, its end and a close.
class KcmBatchAtOnce : public KcmTest, public testing::WithParamInterface<std::uint64_t> {
protected:
    KcmBatchAtOnce() : KcmTest(GetParam()) {}
};

TEST_P(KcmBatchAtOnce, timer__loses_no_message)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    std::string all;
    for (unsigned round = 0; round < 30; round++) {
        EXPECT_EQ(send(socket, "a", kBatch), 1);
        world.run_for(kLimit - 20 * sim::kMicrosecond);
        auto batch = world.spawn(a, "batch", [&] {
            for (unsigned i = 0; i < 10; i++) {
                world.sleep(world.random().below(8 * sim::kMicrosecond));
                EXPECT_EQ(socket.send("b", 1, kBatch), 1);
            }
        });
        ASSERT_EQ(peer_reads(ends, 11), "abbbbbbbbbb") << round;
        EXPECT_TRUE(batch->is_done());
    }
    EXPECT_EQ(send(socket, "c", kBatch), 1);
    world.run_for(kLimit - 3 * sim::kMicrosecond);
    run(a, [&] { socket.close(); });
    EXPECT_EQ(peer_reads(ends, 1), "c");
}

INSTANTIATE_TEST_SUITE_P(Orders, KcmBatchAtOnce, testing::Range<std::uint64_t>(1, 41));

} // namespace
