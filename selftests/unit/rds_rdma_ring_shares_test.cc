// SPDX-License-Identifier: GPL-2.0
// net/rds/rdma/ring_shares: the memory of the rings of all connections, to the byte.
#include "kapi_sim_test.h"

#include <vector>

#include "net/rds/rdma/ring_shares.h"

namespace {

using rds_rdma::RingShares;

// What a connection with so many fragments in its ring is counted as.
constexpr std::size_t bytes_of(std::size_t fragments) { return 360 * 1024 + fragments * 5 * 1024; }
constexpr kapi_u32 kPeers = KAPI_USERS;
constexpr kapi_u64 kMuch = 1 << 20; // fragments, which no test takes

class RdsRdmaRingShares : public SimTest {
protected:
    /** Of a machine whose users have this limit, and its peers the same. */
    void with_limit(std::size_t limit, const std::function<void(RingShares &)> &body)
    {
        a.total_memory = limit * 64;
        run(a, [&] {
            auto shares = std::make_unique<RingShares>();
            body(*shares);
        });
    }
    /** How many connections with the smallest ring it gets. */
    static unsigned take_all(RingShares &shares, kapi_u32 payer, const char *remote = "10.0.0.2",
                             kapi_u64 allowed = kMuch)
    {
        unsigned count = 0;
        while (shares.take(payer, sim::address(remote), 64, allowed) == 64)
            count++;
        return count;
    }
    static void give_all(RingShares &shares, kapi_u32 payer, unsigned count, const char *remote = "10.0.0.2")
    {
        while (count--)
            shares.give(payer, sim::address(remote), 64);
    }
    const kapi_addr peer = sim::address("10.0.0.2");
};

// A connection has the ring that is wanted if half of what is free has room for it, and a small one otherwise.
TEST_F(RdsRdmaRingShares, have_a_limit__of_the_machines_memory)
{
    for (kapi_u32 payer : {0u, kPeers - 1, kPeers}) {
        with_limit(2 * bytes_of(1000), [&](RingShares &shares) { EXPECT_EQ(shares.take(payer, peer, 1000, kMuch), 1000u); });
        with_limit(2 * bytes_of(1000) - 1, [&](RingShares &shares) { EXPECT_EQ(shares.take(payer, peer, 1000, kMuch), 64u); });
    }
}

TEST_F(RdsRdmaRingShares, have_a_limit__of_two_MiB_at_least)
{
    constexpr unsigned kFits = (1024 - 360) / 5;
    with_limit(1, [&](RingShares &shares) { EXPECT_EQ(shares.take(1, peer, kFits, kMuch), kFits); });
    with_limit(1, [&](RingShares &shares) { EXPECT_EQ(shares.take(1, peer, kFits + 1, kMuch), 64u); });
}

// Each user and each address has a part of what is left; and peers have nothing of what is for users.
TEST_F(RdsRdmaRingShares, are_a_part_of_what_others_leave)
{
    with_limit(10 * bytes_of(64), [&](RingShares &shares) {
        for (unsigned round = 0; round < 3; round++) {
            EXPECT_EQ(take_all(shares, 7), 5u);
            EXPECT_EQ(take_all(shares, 8), 3u);
            EXPECT_EQ(take_all(shares, kPeers, "10.0.0.2"), 5u);
            EXPECT_EQ(take_all(shares, kPeers, "10.0.0.3"), 3u);
            EXPECT_EQ(take_all(shares, kPeers, "10.0.1.3"), 1u);
            EXPECT_EQ(take_all(shares, kPeers, "10.0.0.3"), 0u);
            EXPECT_EQ(take_all(shares, 9), 1u);
            EXPECT_EQ(take_all(shares, 10), 1u);
            EXPECT_EQ(take_all(shares, 11), 0u);
            give_all(shares, 7, 5);
            give_all(shares, 8, 3);
            give_all(shares, 9, 1);
            give_all(shares, 10, 1);
            give_all(shares, kPeers, 5, "10.0.0.2");
            give_all(shares, kPeers, 3, "10.0.0.3");
            give_all(shares, kPeers, 1, "10.0.1.3");
        }
    });
}

// The number of fragments in the rings of all users, and of all peers, has a limit, too; above half of it rings are small.
TEST_F(RdsRdmaRingShares, have_the_fragments_that_are_allowed)
{
    with_limit(std::size_t{1} << 30, [&](RingShares &shares) {
        EXPECT_EQ(shares.take(1, peer, 101, 400), 64u);
        shares.give(1, peer, 64);
        EXPECT_EQ(shares.take(1, peer, 100, 400), 100u);
        EXPECT_EQ(shares.take(2, peer, 100, 400), 64u);
        EXPECT_EQ(shares.take(3, peer, 100, 400), 0u);
        EXPECT_EQ(shares.take(3, peer, 37, 400), 0u);
        EXPECT_EQ(shares.take(3, peer, 36, 400), 36u);
        EXPECT_EQ(shares.take(4, peer, 1, 400), 0u);
        EXPECT_EQ(shares.take(kPeers, peer, 65, 400), 65u);
    });
}

// Each has a part of them, too, however much memory the machine has, and whatever peers take.
TEST_F(RdsRdmaRingShares, are_a_part_of_the_fragments_that_others_leave)
{
    with_limit(std::size_t{1} << 30, [&](RingShares &shares) {
        EXPECT_EQ(take_all(shares, kPeers, "10.0.0.2", 1280), 5u);
        EXPECT_EQ(take_all(shares, kPeers, "10.0.0.3", 1280), 3u);
        EXPECT_EQ(take_all(shares, kPeers, "10.0.1.3", 1280), 1u);
        EXPECT_EQ(take_all(shares, 7, "10.0.0.2", 1280), 5u);
        EXPECT_EQ(take_all(shares, 8, "10.0.0.2", 1280), 3u);
        EXPECT_EQ(take_all(shares, 9, "10.0.0.2", 1280), 1u);
    });
}

// Who is refused takes nothing from others.
TEST_F(RdsRdmaRingShares, are_whole_after_a_refusal)
{
    with_limit(1, [&](RingShares &shares) {
        EXPECT_EQ(take_all(shares, 7), 2u);
        for (unsigned i = 0; i < 10; i++)
            EXPECT_EQ(shares.take(7, peer, 100, kMuch), 0u);
        EXPECT_EQ(shares.take(8, peer, 64, 2 * (128 + 64)), 64u);
        shares.give(8, peer, 64);
        EXPECT_EQ(take_all(shares, 8), 1u);
    });
}

} // namespace
