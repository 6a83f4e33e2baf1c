// SPDX-License-Identifier: GPL-2.0
// Which answers kcm-client takes.
extern "C" {
#include "kcm-frame.h"
#include "kcm-ledger.h"
}

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace {

constexpr size_t kSize = 64;
using Frame = std::array<char, kSize>;

struct Client {
    explicit Client(uint64_t first)
    {
        ledger_plan plan{};
        plan.requests = 3;
        plan.window = 4;
        plan.min_size = plan.max_size = kSize;
        ledger_start(&entries, &plan, first);
        while (ledger_next(&entries, frame.data()))
            continue;
    }
    void answer(uint64_t number)
    {
        Frame scratch{};

        frame_request(frame.data(), frame.size(), number);
        frame_answer(frame.data(), frame.size(), 0);
        ledger_enter(&entries, frame.data(), frame.size(), scratch.data());
    }

    struct ledger entries{};
    Frame frame{};
};

TEST(KcmLedger, TakesOneAnswerToEachRequest)
{
    for (uint64_t first : {UINT64_C(0), UINT64_C(5)}) {
        Client client(first);

        for (uint64_t i = 0; i < 3; i++)
            client.answer(first + i);
        EXPECT_TRUE(ledger_is_done(&client.entries)) << first;
        for (uint64_t i = 0; i < 3; i++)
            client.answer(first + i);
        EXPECT_EQ(client.entries.counts.answers, 3U) << first;
        EXPECT_EQ(client.entries.counts.strange, 3U) << first;
        EXPECT_EQ(client.entries.counts.damaged, 0U) << first;
    }
}

TEST(KcmLedger, TakesNoAnswerWithoutARequest)
{
    for (uint64_t first : {UINT64_C(0), UINT64_C(5)}) {
        Client client(first);

        for (uint64_t number : {first - 1, first + 3, first + 4, UINT64_MAX, UINT64_MAX - 1})
            client.answer(number);
        EXPECT_EQ(client.entries.counts.answers, 0U) << first;
        EXPECT_EQ(client.entries.counts.strange, 5U) << first;
    }
}

} // namespace
