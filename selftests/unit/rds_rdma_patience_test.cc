// SPDX-License-Identifier: GPL-2.0
// How long RDS over RDMA waits for peers and their devices, as the peers' devices and connection managers see it.
#include <kapi/sim/rdma.h>

#include "rds_rdma_test.h"

namespace {

constexpr std::uint64_t kMs = sim::kMillisecond;

using RdsRdmaPatience = RdmaTest;

// A peer notices each of these numbers: how often and how soon it is asked again, and for how long it may be without a receive.
TEST_P(RdsRdmaPatience, devices__are_asked_for_it)
{
    load();
    auto pa = on_a(), pb = on_b();
    open(pa);
    open(pb);
    run(a, [&] { pa.send("hello"); });
    run(b, [&] { EXPECT_EQ(pb.receive(), "hello"); });
    const auto &qps = sim::fabric().qps;
    ASSERT_EQ(qps.size(), 2u);
    for (const auto &[number, qp] : qps) {
        EXPECT_EQ(qp->retry, 6u) << "Soft-RoCE takes 7 for ever";
        EXPECT_EQ(qp->ack_timeout_ns, 4096ull << 16) << "0.27 s";
        EXPECT_EQ(qp->rnr_retry, 7u) << "for ever";
        EXPECT_EQ(qp->rnr_timer_ns, 320'000u) << "as the kernel's own";
    }
    close(pa);
    close(pb);
}

// The attempt holds the path meanwhile, also if the peer asks for a connection.
TEST_P(RdsRdmaPatience, two_seconds_for_an_address_that_does_not_answer)
{
    load();
    auto pa = on_a("10.0.0.1", "10.0.0.99");
    open(pa);
    auto &attempts = sim::fabric().cms;
    run(a, [&] { pa.send("is never sent"); });
    ASSERT_TRUE(world.run_until([&] { return !attempts.empty(); }, kMs * 100));
    std::uint64_t began = world.now_ns();
    ASSERT_TRUE(world.run_until([&, first = attempts.begin()->first] { return !attempts.contains(first); }, 10 * sim::kSecond));
    EXPECT_GE(world.now_ns() - began, 1900 * kMs);
    EXPECT_LT(world.now_ns() - began, 2500 * kMs);
    close(pa);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaPatience, ::testing::Range(1, 4));

} // namespace
