// SPDX-License-Identifier: GPL-2.0
// Numbers and sizes around each constant of KCM, and ten times as much.
#include "kcm_test.h"

namespace {

class KcmSizes : public KcmTest, public testing::WithParamInterface<unsigned> {
protected:
    Ends open(KcmSocket &socket)
    {
        Ends ends = connect();
        run(a, [&] {
            ASSERT_EQ(socket.open(), 0);
            ASSERT_EQ(socket.set_option(KCM_ABI_MAX_MESSAGE, 1 << 20), 0);
            ASSERT_EQ(socket.attach(ends.here, by_length), 0);
        });
        return ends;
    }
    static std::vector<unsigned> around(std::initializer_list<unsigned> constants)
    {
        std::vector<unsigned> all;
        for (unsigned n : constants)
            all.insert(all.end(), {n - 1, n, n + 1, 10 * n});
        return all;
    }

public:
    // Segments of a message alone and of a batch; messages of a bundle, steps of a transmitter; messages of a batch.
    static std::vector<unsigned> counts() { return around({4, 32, 64, 256}); }
    // Bytes that are copied into a bundle of several messages, and of one; the largest message whose memory is used again.
    static std::vector<unsigned> sizes() { return around({1024, 4096, 65536}); }
};

class KcmCounts : public KcmSizes {};

TEST_P(KcmCounts, messages__of_one_batch_are_sent)
{
    KcmSocket &socket = new_socket();
    Ends ends = open(socket);
    std::string all;
    for (unsigned i = 0; i < GetParam(); i++) {
        std::string message = framed(text(1 + i % 5, i));
        EXPECT_EQ(send(socket, message, i + 1 < GetParam() ? KCM_ABI_MSG_BATCH : 0), static_cast<long>(message.size()));
        all += message;
    }
    EXPECT_EQ(peer_reads(ends, all.size()), all);
}

TEST_P(KcmCounts, parts__of_one_message_are_sent)
{
    KcmSocket &socket = new_socket();
    Ends ends = open(socket);
    std::string message = text(GetParam());
    for (unsigned i = 0; i < GetParam(); i++)
        EXPECT_EQ(send(socket, message.substr(i, 1), i + 1 < GetParam() ? KCM_ABI_MSG_MORE : 0), 1);
    EXPECT_EQ(peer_reads(ends, message.size()), message);
}

TEST_P(KcmCounts, messages__that_come_together_are_received_in_order)
{
    KcmSocket &socket = new_socket();
    Ends ends = open(socket);
    std::string all;
    for (unsigned i = 0; i < GetParam(); i++)
        all += framed(text(1 + i % 5, i));
    peer_writes(ends, all);
    settle();
    for (unsigned i = 0; i < GetParam(); i++)
        ASSERT_EQ(receive(socket, 100), framed(text(1 + i % 5, i))) << i;
    EXPECT_EQ(receive(socket, 100), kNothing);
}

INSTANTIATE_TEST_SUITE_P(Counts, KcmCounts, testing::ValuesIn(KcmSizes::counts()));

TEST_P(KcmSizes, message__is_sent_and_received)
{
    KcmSocket &socket = new_socket();
    Ends ends = open(socket);
    std::string message = framed(text(GetParam() - 4));
    for (unsigned i = 0; i < 2; i++) { // the second one with the memory of the first
        EXPECT_EQ(send(socket, message), GetParam());
        EXPECT_EQ(peer_reads(ends, message.size()), message);
    }
    auto writer = world.spawn(b, "writer", [&] { sim::program_write(ends.there, message.data(), message.size()); });
    settle();
    EXPECT_EQ(receive(socket), message);
    EXPECT_TRUE(writer->is_done());
}

TEST_P(KcmSizes, messages__that_come_together_are_received)
{
    KcmSocket &socket = new_socket();
    Ends ends = open(socket);
    std::string message = framed(text(GetParam() / 4 - 4));
    auto writer = world.spawn(b, "writer", [&] {
        for (unsigned i = 0; i < 4; i++)
            sim::program_write(ends.there, message.data(), message.size());
    });
    settle();
    for (unsigned i = 0; i < 4; i++) {
        EXPECT_EQ(receive(socket), message) << i;
        settle();
    }
    EXPECT_TRUE(writer->is_done());
}

INSTANTIATE_TEST_SUITE_P(Sizes, KcmSizes, testing::ValuesIn(KcmSizes::sizes()));

} // namespace
