// SPDX-License-Identifier: GPL-2.0
// How much of SO_SNDBUF a message takes: its bytes, and what it is made of beside them.
#include "kcm_lengths_test.h"

#include <kapi/memory.h>
#include <kapi/pages.h>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

namespace {

class KcmSendBuffer : public KcmLengthsTest {
protected:
    static constexpr unsigned kBuffer = 100'000, kPart = 256; // of a part of a message, beside its bytes

    /** How many of these a socket accepts that has no connection. */
    unsigned accepted(const std::function<long(KcmSocket &)> &send_one)
    {
        KcmSocket &socket = new_socket();
        run(a, [&] {
            ASSERT_EQ(socket.open(), 0);
            socket.sk().sndbuf = kBuffer;
        });
        unsigned count = 0;
        while (count < kBuffer && send_one(socket) > 0)
            count++;
        return count;
    }
    unsigned accepted(std::size_t size)
    {
        return accepted([&](KcmSocket &socket) { return send(socket, text(size), kNow); });
    }
    /** Of each so many bytes; the last one need not fit. */
    static unsigned fit(std::size_t each) { return static_cast<unsigned>((kBuffer + each - 1) / each); }
    /** What the pages of so many bytes take, least and most: a host chooses how large they are. */
    std::pair<std::size_t, std::size_t> pages_of(std::size_t size)
    {
        std::vector<std::size_t> sizes;
        run(a, [&] {
            for (unsigned i = 0; i < 200; i++) {
                std::string bytes = text(size);
                kapi_msg msg = sim::make_msg(bytes.data(), bytes.size(), {});
                kapi_pages *pages;
                ASSERT_EQ(kapi_pages_from_msg(&msg, size, &pages), 0);
                sizes.push_back(kapi_pages_true_size(pages));
                kapi_pages_free(pages);
            }
        });
        auto [least, most] = std::minmax_element(sizes.begin(), sizes.end());
        return {*least, *most};
    }
};

TEST_F(KcmSendBuffer, message__takes_its_bytes_and_a_part)
{
    for (std::size_t size : {1u, 100u, 4095u})
        EXPECT_EQ(accepted(size), fit(size + kPart)) << size;
}

TEST_F(KcmSendBuffer, message__takes_the_pages_that_it_has_for_itself)
{
    for (std::size_t size : {4096u, 4097u, 9000u}) {
        const auto [least, most] = pages_of(size);
        const unsigned count = accepted(size);
        EXPECT_GE(count, fit(std::max(most, size + kPart))) << size;
        EXPECT_LE(count, fit(std::max(least, size + kPart))) << size;
    }
}

TEST_F(KcmSendBuffer, message_of_many_calls__takes_a_part_for_each)
{
    constexpr unsigned kCalls = 10;
    unsigned count = accepted([&](KcmSocket &socket) {
        long sent = 0;
        for (unsigned i = 0; i < kCalls && sent >= 0; i++)
            sent = send(socket, "xxx", kNow | (i + 1 < kCalls ? KCM_ABI_MSG_MORE : 0));
        return sent;
    });
    EXPECT_EQ(count, fit(kCalls * (3 + kPart)));
}

TEST_F(KcmSendBuffer, messages_of_one_call__take_a_part_and_their_lengths)
{
    const auto messages = some(5);
    const std::size_t all = joined(messages).size();
    unsigned count = accepted([&](KcmSocket &socket) { return send_each(socket, messages, kNow); });
    EXPECT_EQ(count, fit(all + kPart + kapi_alloc_true_size(5 * sizeof(kapi_u32))));
}

} // namespace
