// SPDX-License-Identifier: GPL-2.0
// The simulator's pages are as kapi/pages.h says: who gives them to a device counts on few pieces.
#include "kapi_sim_test.h"

#include <kapi/pages.h>

#include <vector>

namespace {

class SimPages : public SimTest, public ::testing::WithParamInterface<int> {
protected:
    SimPages() : SimTest(static_cast<std::uint64_t>(GetParam())) {}
};

TEST_P(SimPages, lie_in_whole_pages__but_for_two_pieces_at_the_end)
{
    constexpr kapi_size kPage = 4096;
    std::vector<unsigned char> bytes(25 * kPage, 'p');
    run(a, [&] {
        for (kapi_size length = 1; length <= bytes.size(); length += 977) {
            kapi_msg msg = sim::make_msg(bytes.data(), length, {});
            kapi_pages *pages = nullptr;
            ASSERT_EQ(kapi_pages_from_msg(&msg, length, &pages), 0);
            kapi_segment segments[64];
            unsigned count = kapi_pages_segments(pages, 0, segments, 64), small = 0;
            kapi_size small_bytes = 0, all = 0;
            for (unsigned i = 0; i < count; i++) {
                bool is_small = segments[i].length < kPage;
                small += is_small;
                small_bytes += is_small ? segments[i].length : 0;
                all += segments[i].length;
                EXPECT_TRUE(is_small || !small) << length;
            }
            EXPECT_EQ(all, length);
            EXPECT_LE(small, 2u) << length;
            EXPECT_LT(small_bytes, kPage) << length;
            kapi_pages_free(pages);
        }
    });
}

INSTANTIATE_TEST_SUITE_P(Seeds, SimPages, ::testing::Range(1, 9));

} // namespace
