// SPDX-License-Identifier: GPL-2.0
// Messages of many calls, and of one call that are large.
#include <kapi/sim/lock.h>

#include "kcm_test.h"

namespace {

constexpr unsigned kMore = KCM_ABI_MSG_MORE, kNow = KCM_ABI_MSG_DONTWAIT;

class KcmParts : public KcmTest {};

TEST_F(KcmParts, many_calls__have_a_limit_of_memory)
{
    KcmSocket &socket = new_socket();
    open_with_one(socket);
    std::string part = text(1000);
    unsigned parts = 0;
    long result = 0;
    run(a, [&] {
        while ((result = socket.send(part.data(), part.size(), kMore)) == 1000)
            parts++;
    });
    EXPECT_EQ(result, -KAPI_EMSGSIZE);
    EXPECT_LT(parts, 60'000u); // of 64 MiB
}

TEST_F(KcmParts, calls__count_what_their_pages_hold)
{
    KcmSocket &socket = new_socket();
    run(a, [&] {
        ASSERT_EQ(socket.open(), 0);
        socket.sk().sndbuf = 1'000'000;
    });
    std::string part = text(4097); // some of them with a page that is held for one byte
    unsigned sent = 0;
    while (send(socket, part, kNow) == 4097)
        sent++;
    EXPECT_GE(sent, 150u);
    EXPECT_LT(sent, 1'000'000u / (4097 + 256) - 3);
}

TEST_F(KcmParts, many_calls__are_sent_in_few_steps_at_a_time)
{
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    constexpr unsigned kParts = 10'000;
    std::string message = text(kParts);
    sim::forget_steps();
    run(a, [&] {
        for (unsigned i = 0; i < kParts; i++)
            ASSERT_EQ(socket.send(&message[i], 1, i + 1 < kParts ? kMore : 0), 1);
    });
    EXPECT_EQ(peer_reads(ends, kParts), message);
    EXPECT_LE(sim::most_steps_under("kcm send"), 3u * 32); // of a call to TCP: found, taken, and those of the queue
}

// They go to TCP in several calls, which takes all, while another queue waits for the connection.
TEST_F(KcmParts, many_calls__are_not_interrupted_by_who_waits)
{
    KcmSocket &socket = new_socket(), &other = new_socket();
    Ends ends = open_narrow(socket);
    run(a, [&] { ASSERT_EQ(other.open_as_clone(socket), 0); });
    const std::string first = framed(text(20'000)), second = framed(text(20'000, 5)), others = framed(text(17'000, 9));
    EXPECT_EQ(send(socket, first), 20'004); // keeps the connection busy
    for (std::size_t at = 0; at < second.size(); at += 100)
        send(socket, second.substr(at, 100), at + 100 < second.size() ? kMore : 0);
    for (unsigned i = 0; i < 3; i++) // some of them wait during the second
        EXPECT_EQ(send(other, others), 17'004);
    run(a, [&] { sim::program_set_buffers(ends.here, 1 << 20, 0); });
    run(b, [&] { sim::program_set_buffers(ends.there, 0, 1 << 20); });
    std::string got = peer_reads(ends, first.size() + second.size() + 3 * others.size());
    for (const std::string &message : {first, second}) {
        std::size_t at = got.find(message);
        ASSERT_NE(at, std::string::npos);
        got.erase(at, message.size());
    }
    EXPECT_TRUE(got == others + others + others);
}

TEST_F(KcmParts, one_call__has_any_number_of_parts)
{
    // Each as large as a part can be, one byte less and one more, and ten times as large.
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket);
    constexpr std::size_t kPart = 1 << 20;
    for (std::size_t size : {kPart - 1, kPart, kPart + 1, 10 * kPart, 10 * kPart + 1}) {
        EXPECT_EQ(send(socket, text(size), kNow), static_cast<long>(size));
        EXPECT_EQ(peer_reads(ends, size), text(size));
    }
    socket.trouble.fault_at = kPart + 5;
    EXPECT_EQ(send(socket, text(3 * kPart), kNow), -KAPI_EFAULT);
    EXPECT_EQ(send(socket, "after", kNow), 5);
    EXPECT_EQ(peer_reads(ends, 5), "after");
}

// One call's part may consist of several itself.
class KcmLargeParts : public KcmParts, public testing::WithParamInterface<int> {};

TEST_P(KcmLargeParts, large_call__is_anywhere_among_the_calls_of_a_message)
{
    const bool by_more = GetParam() == KCM_ABI_SOCK_DGRAM;
    KcmSocket &socket = new_socket();
    Ends ends = open_with_one(socket, -1, GetParam());
    constexpr std::size_t kPart = 1 << 20;
    for (std::size_t n : {kPart - 1, kPart, kPart + 1, 3 * kPart})
        for (const std::vector<std::size_t> &sizes : {std::vector<std::size_t>{10, n, 10}, {n, 10, n}, {n, n, n}}) {
            std::string message;
            for (std::size_t i = 0; i < sizes.size(); i++) {
                bool ends_it = i + 1 == sizes.size();
                std::string part = text(sizes[i], static_cast<unsigned>(i));
                unsigned flags = by_more ? (ends_it ? 0 : kMore) : (ends_it ? KCM_ABI_MSG_EOR : 0);
                ASSERT_EQ(send(socket, part, flags), static_cast<long>(part.size()));
                message += part;
            }
            ASSERT_TRUE(peer_reads(ends, message.size()) == message) << sizes[0] << ", " << sizes[1] << ", " << sizes[2];
        }
}

INSTANTIATE_TEST_SUITE_P(Types, KcmLargeParts, testing::Values(KCM_ABI_SOCK_DGRAM, KCM_ABI_SOCK_SEQPACKET));

} // namespace
