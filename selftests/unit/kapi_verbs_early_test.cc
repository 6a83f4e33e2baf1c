// SPDX-License-Identifier: GPL-2.0
// The simulated device does to a registration with KAPI_WR_EARLY what a host may do.
#include "kapi_verbs_test.h"

#include <algorithm>

namespace {

constexpr unsigned kAll = KAPI_ACCESS_LOCAL_WRITE | KAPI_ACCESS_REMOTE_WRITE;

class VerbsEarly : public VerbsTest {
protected:
    static constexpr unsigned kMany = 12;
    static constexpr kapi_u64 kSend = 100, kLater = 200; // cookies, from these on

    void post_registration(kapi_mr *mr, kapi_u64 cookie, unsigned flags)
    {
        kapi_wr wr = client.make_wr(KAPI_WR_REGISTER, cookie, flags);
        wr.mr = mr;
        wr.access = kAll;
        ASSERT_EQ(client.post(wr), 0);
    }
    /** Of messages and registrations, one after the other, the cookies in the order in which they are flushed; all, or nearly. */
    std::vector<kapi_u64> flush_in_turns(unsigned flags)
    {
        connect();
        Buffer memory[kMany];
        kapi_mr *regions[kMany]{};
        run(a, [&] {
            for (unsigned i = 0; i < kMany; i++) {
                memory[i].make(client.dev, 4096, KAPI_MAP_BOTH);
                ASSERT_EQ(kapi_mr_alloc(client.pd, 1, 0, &regions[i]), 0);
                ASSERT_EQ(kapi_mr_map(regions[i], &memory[i].map), 0);
            }
            for (unsigned i = 0; i < kMany; i++) {
                ASSERT_EQ(client.send("message", kSend + 2 * i), 0);
                post_registration(regions[i], kSend + 2 * i + 1, flags);
            }
            client.drop_queues();
        });
        std::vector<kapi_u64> order;
        for (const kapi_wc &wc : client.sent) {
            EXPECT_TRUE(wc.status == KAPI_WC_FLUSHED || wc.status == KAPI_WC_OK);
            order.push_back(wc.cookie);
        }
        for (unsigned i = 0; i < kMany; i++)
            drop_region(a, regions[i], memory[i]);
        close_all();
        return order;
    }
};

TEST_P(VerbsEarly, registration__may_be_flushed_before_what_was_posted_before_it)
{
    std::vector<kapi_u64> order = flush_in_turns(KAPI_WR_EARLY), sends;
    ASSERT_GT(order.size(), kMany);
    EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
    // Nothing else changes its place.
    std::copy_if(order.begin(), order.end(), std::back_inserter(sends), [](kapi_u64 cookie) { return cookie % 2 == 0; });
    EXPECT_EQ(sends.size(), kMany);
    EXPECT_TRUE(std::is_sorted(sends.begin(), sends.end()));
}

TEST_P(VerbsEarly, registration__keeps_its_place_if_it_is_signalled_or_has_a_fence)
{
    std::vector<kapi_u64> order = flush_in_turns(KAPI_WR_EARLY | (GetParam() % 2 ? KAPI_WR_SIGNALED : KAPI_WR_FENCE));
    ASSERT_GT(order.size(), kMany);
    EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

// It would be refused: the region is valid.
TEST_P(VerbsEarly, registration__does_not_pass_an_invalidation)
{
    connect();
    Buffer memory;
    kapi_mr *mr = expose(a, client, memory, 4096, kAll);
    std::size_t before = client.sent.size();
    run(a, [&] {
        for (unsigned i = 0; i < kMany; i++) {
            kapi_wr invalidation = client.make_wr(KAPI_WR_INVALIDATE, kInvalidate, 0);
            invalidation.key = kapi_mr_key(mr);
            ASSERT_EQ(client.post(invalidation), 0);
            ASSERT_EQ(client.send("message", kLater + i), 0);
            post_registration(mr, kRegister, KAPI_WR_EARLY);
        }
        ASSERT_EQ(client.send("the last", kLater + kMany), 0);
    });
    ASSERT_TRUE(wait([&] { return client.sent.size() == before + kMany + 1; }));
    for (unsigned i = 0; i <= kMany; i++) {
        EXPECT_EQ(client.sent[before + i].status, KAPI_WC_OK);
        EXPECT_EQ(client.sent[before + i].cookie, kLater + i);
    }
    run(a, [&] { client.drop_queues(); });
    drop_region(a, mr, memory);
    close_all();
}

INSTANTIATE_TEST_SUITE_P(Seeds, VerbsEarly, ::testing::Range(1, 9));

} // namespace
