// SPDX-License-Identifier: GPL-2.0
// Parts of messages whose copies failed: how many are kept, and in which memory.
#include <kapi/sim/lock.h>

#include "kcm_test.h"

#include <algorithm>

namespace {

constexpr unsigned kNow = KCM_ABI_MSG_DONTWAIT;

class KcmRests : public KcmTest {
protected:
    sim::TaskRef start_to_fail(KcmSocket &socket, std::size_t size, std::uint64_t after_ns)
    {
        auto reader = world.spawn(a, "reader", [&socket, size, after_ns] {
            char bytes[200];
            socket.trouble = {.fault_at = 0, .stall_at = 0, .stall_ns = after_ns};
            EXPECT_EQ(socket.receive(bytes, size, kNow), -KAPI_EFAULT);
        });
        world.run_for(sim::kMillisecond);
        return reader;
    }
    void wait_for(const sim::TaskRef &reader)
    {
        EXPECT_TRUE(world.run_until([&] { return reader->is_done(); }, 100 * sim::kSecond));
    }
};

// A reader whose copy fails, and another one that has had a byte behind it, leave one part more each time. All are passed when
// the part that is the last but one comes back, under a lock.
TEST_F(KcmRests, parts__are_few_however_often_copies_fail)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket, -1, KCM_ABI_SOCK_SEQPACKET);
    std::string message = framed(text(196)), got;
    peer_writes(ends, message);
    settle();
    std::size_t size = message.size() - 2;
    auto first = start_to_fail(socket, size, 10 * sim::kMillisecond), last = start_to_fail(socket, 1, 90 * sim::kSecond);
    wait_for(first);
    for (; size > 3; size -= 2) {
        auto reader = start_to_fail(socket, size - 2, 10 * sim::kMillisecond);
        got += receive(socket, 1);
        wait_for(reader);
    }
    sim::forget_steps();
    wait_for(last);
    EXPECT_LE(sim::most_steps_under("kcm receive"), 8u);
    for (std::string part; (part = receive(socket, 3)) != kNothing;)
        got += part;
    std::sort(got.begin(), got.end());
    std::sort(message.begin(), message.end());
    EXPECT_EQ(got, message);
}

TEST_F(KcmRests, part__goes_with_the_socket_that_has_read_the_beginning)
{
    KcmSocket &socket = new_socket(), &clone = new_socket();
    Ends ends = open_with_one(socket, -1, KCM_ABI_SOCK_SEQPACKET);
    run(a, [&] { ASSERT_EQ(clone.open_as_clone(socket), 0); });
    for (KcmSocket *each : {&socket, &clone}) {
        peer_writes(ends, framed(text(30'000)));
        settle();
        EXPECT_EQ(receive(*each, 10).size(), 10u);
        EXPECT_GT(a.kept, 30'000u);
        run(a, [&] { each->close(); });
        EXPECT_EQ(a.kept, 0u);
        if (clone.is_open()) {
            EXPECT_EQ(receive(clone), kNothing);
        }
    }
}

// One comes back that is before what is left of the next message, in its bundle or in one of its own.
TEST_F(KcmRests, parts_of_two_messages__are_read_in_the_order_of_the_messages)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket, -1, KCM_ABI_SOCK_SEQPACKET);
    const std::string first = framed(text(44)), second = framed(text(60, 1));
    for (bool together : {true, false}) {
        peer_writes(ends, together ? first + second : first);
        settle();
        if (!together)
            peer_writes(ends, second);
        settle();
        auto failing = start_to_fail(socket, 12, 100 * sim::kMillisecond);
        EXPECT_EQ(receive(socket), first.substr(12));
        EXPECT_EQ(receive(socket, 12), second.substr(0, 12));
        wait_for(failing);
        EXPECT_EQ(receive(socket), first.substr(0, 12));
        EXPECT_EQ(receive(socket), second.substr(12));
    }
}

// What comes back beside another part needs no memory of its own.
TEST_F(KcmRests, part__that_adjoins_another_one_is_kept_without_memory)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket, -1, KCM_ABI_SOCK_SEQPACKET);
    const std::string message = framed(text(44)); // 48 bytes
    peer_writes(ends, message);
    settle();
    auto last = start_to_fail(socket, 12, sim::kSecond), first = start_to_fail(socket, 12, 100 * sim::kMillisecond);
    EXPECT_EQ(receive(socket, 12), message.substr(24, 12));
    wait_for(first);
    a.faults().one_in = 1; // every allocation fails
    wait_for(last);
    a.faults().one_in = 0;
    EXPECT_GT(a.faults().failed, 0u);
    EXPECT_EQ(receive(socket), message.substr(0, 24));
    EXPECT_EQ(receive(socket), message.substr(36));
}

} // namespace
