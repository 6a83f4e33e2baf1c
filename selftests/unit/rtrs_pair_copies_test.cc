// SPDX-License-Identifier: GPL-2.0
// The RTRS client over devices that work on copies of memory: what is not synchronised is not seen.
#include "rtrs_pair_test.h"

namespace {

class RtrsPairCopies : public RtrsPairTest {
protected:
    ~RtrsPairCopies() override { end(); }
    SrvUser user;
};

TEST_P(RtrsPairCopies, requests_of_all_chunks)
{
    constexpr unsigned kDepth = 17; // messages are in blocks of 16
    for (auto *device : devices)
        sim::make_bounce(*device);
    load();
    user.world = &world;
    start_server({65536, kDepth, true}, SrvUser::ops, &user);
    open(1);
    std::vector<rtrs_clt_chunk *> permits;
    run(a, [&] {
        for (unsigned i = 0; i < kDepth; i++)
            permits.push_back(rtrs_clt_core_get_permit(session, i % 2, 1));
    });
    for (unsigned round = 0; round < 3; round++) // with other keys
        for (bool read : {false, true}) {
            std::vector<Ended> ended(kDepth);
            run(a, [&] {
                for (unsigned i = 0; i < kDepth; i++) {
                    std::string name = "block" + std::to_string(round) + " " + std::to_string(i);
                    ended[i].data = read ? std::string(5000, '-') : contents(5000, round * 100 + i);
                    EXPECT_EQ(begin(permits[i], ended[i], read, (read ? "r" : "w") + name), 0);
                }
            });
            EXPECT_TRUE(world.run_until([&] { return std::ranges::all_of(ended, &Ended::done); }, 5 * kSecond));
            for (unsigned i = 0; i < kDepth; i++) {
                EXPECT_EQ(ended[i].error, 0);
                EXPECT_TRUE(ended[i].data == contents(5000, round * 100 + i)) << round << " " << i;
            }
        }
    run(a, [&] {
        for (auto *permit : permits)
            rtrs_clt_core_put_permit(session, permit);
    });
    EXPECT_EQ(get(path() + "stats/reconnects"), "1 0\n");
}

INSTANTIATE_TEST_SUITE_P(Seeds, RtrsPairCopies, ::testing::Range(1, 3));

} // namespace
