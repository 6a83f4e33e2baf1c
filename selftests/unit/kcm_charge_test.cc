// SPDX-License-Identifier: GPL-2.0
// Small messages, and small pieces of large ones, against the share of memory of who attached their connection.
#include "kcm_test.h"

namespace {

class KcmCharge : public KcmTest {
protected:
    /** Everything that core holds; what the test keeps on the machine is no part of it. */
    std::size_t held() { return a.memory().bytes(); }
};

TEST_F(KcmCharge, small_messages__are_in_the_share)
{
    const std::string message = framed(text(60));
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    std::size_t before = held();
    for (unsigned i = 0; i < 100; i++) {
        peer_writes(ends, message); // each in a packet of its own
        settle();
    }
    EXPECT_GT(held() - before, 100 * message.size()) << "or nothing is held";
    EXPECT_GE(a.kept, held() - before);
    for (unsigned i = 0; i < 100; i++)
        EXPECT_EQ(receive(socket), message);
    EXPECT_EQ(a.kept, 0u);
}

TEST_F(KcmCharge, small_messages__wait_when_the_share_is_used_up)
{
    std::string all;
    for (unsigned i = 0; i < 2000; i++)
        all += framed(text(60, i));
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    std::size_t before = held();
    a.kept_limit = 40'000;
    peer_writes(ends, all);
    world.run_for(sim::kSecond);
    EXPECT_LE(held() - before, a.kept_limit);
    for (unsigned i = 0; i < 2000; i++) {
        std::string message = receive(socket);
        if (message == kNothing) {
            settle();
            message = receive(socket);
        }
        ASSERT_EQ(message, framed(text(60, i))) << i;
    }
    EXPECT_EQ(a.kept, 0u);
}

TEST_F(KcmCharge, small_pieces__are_in_the_share)
{
    const std::string message = framed(text(50'000));
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    std::size_t before = held();
    for (std::size_t at = 0; at < message.size(); at += 500) {
        peer_writes(ends, message.substr(at, 500));
        settle();
        if (at == 40'000) {
            EXPECT_GE(a.kept, 40'000u);
            EXPECT_GE(a.kept, held() - before);
        }
    }
    EXPECT_EQ(receive(socket), message);
    EXPECT_EQ(a.kept, 0u);
}

TEST_F(KcmCharge, beginnings_of_messages__are_in_the_share)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    peer_writes(ends, std::string(3, '\0')); // of the length, which has four bytes
    settle();
    EXPECT_GE(a.kept, 4096u);
}

// Its length is found when some bytes of it are kept already. It takes memory in several steps, each of which may fail.
TEST_F(KcmCharge, beginning_of_a_large_message__is_in_the_share_whatever_fails)
{
    const std::string message = framed(text(20'000));
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    std::size_t before = held();
    for (unsigned call = 1; call <= 12; call++) {
        peer_writes(ends, message.substr(0, 3));
        settle();
        a.faults().fail_at = a.faults().count + call;
        peer_writes(ends, message.substr(3));
        for (unsigned i = 0; i < 100; i++) {
            world.run_for(100 * sim::kMicrosecond);
            ASSERT_GE(a.kept, held() - before) << call;
        }
        settle();
        EXPECT_EQ(receive(socket), message);
    }
    EXPECT_GT(a.faults().failed, 5u);
}

// The program may want to see 4096 bytes of a message to find its length; then it is known.
TEST_F(KcmCharge, beginnings_of_messages__are_not_paid_for_any_more_when_the_length_is_known)
{
    constexpr unsigned kConnections = 12;
    KcmSocket &socket = new_socket();
    std::vector<Ends> ends;
    for (unsigned i = 0; i < kConnections; i++)
        attach(socket, ends.emplace_back(connect()));
    a.kept_limit = 40'000; // fewer than kConnections times 4096
    for (unsigned round = 0; round < 3; round++) {
        for (const Ends &each : ends) {
            const std::string message = framed(text(60, round));
            peer_writes(each, message.substr(0, 3));
            settle();
            peer_writes(each, message.substr(3));
            settle();
            ASSERT_EQ(receive(socket), message) << round;
        }
        EXPECT_EQ(a.kept, 0u);
    }
}

} // namespace
