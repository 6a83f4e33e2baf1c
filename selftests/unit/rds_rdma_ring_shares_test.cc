// SPDX-License-Identifier: GPL-2.0
// net/rds/rdma/ring_shares: the memory of the rings of all connections, to the byte.
#include "kapi_sim_test.h"

#include <vector>

#include "net/rds/rdma/ring_shares.h"

namespace {

using rds_rdma::Ring, rds_rdma::RingShares;

// As with the default settings: four buffers for each receive, and requests with 128 bytes of their own.
constexpr kapi_qp_caps kCaps{278, 0, 8, 5, 128};

constexpr std::size_t power_of_two(std::size_t least)
{
    std::size_t power = 1;
    while (power < least)
        power *= 2;
    return power;
}

// What a connection with so many fragments in its ring is counted as. Soft-RoCE has 1024 entries of 512 bytes for requests, and
// 1024 of 128 for their completions; kapi holds 278 requests; 160 KiB are RDS's own. A fragment has 5 KiB, and of Soft-RoCE's
// entries, of 128 bytes, a fourth for the receive, and two such for its completion.
constexpr std::size_t bytes_of(std::size_t fragments)
{
    std::size_t receives = fragments / 4;
    return 1024 * (512 + 128) + 278 * (88 + 128) + 160 * 1024 + fragments * 5 * 1024 +
           128 * (power_of_two(receives + 2) + power_of_two(2 * (receives + 2) + 1));
}
constexpr kapi_u32 kPeers = KAPI_USERS;
constexpr kapi_u64 kMuch = 1 << 20; // fragments, which no test takes

class RdsRdmaRingShares : public SimTest {
protected:
    /** Of a machine whose users have this limit, and its peers the same. */
    void with_limit(std::size_t limit, const std::function<void(RingShares &)> &body)
    {
        a.total_memory = limit * 32;
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
        while (shares.take(payer, sim::address(remote), 64, allowed, kCaps).buffers == 64)
            count++;
        return count;
    }
    static void give_all(RingShares &shares, kapi_u32 payer, unsigned count, const char *remote = "10.0.0.2")
    {
        while (count--)
            shares.give({64, payer, bytes_of(64)}, sim::address(remote));
    }
    static kapi_u32 take(RingShares &shares, kapi_u32 payer, kapi_u32 wanted, kapi_u64 allowed = kMuch)
    {
        Ring ring = shares.take(payer, sim::address("10.0.0.2"), wanted, allowed, kCaps);
        EXPECT_EQ(ring.bytes, ring.buffers ? bytes_of(ring.buffers) : 0);
        return ring.buffers;
    }
};

// A connection has the ring that is wanted if half of what is free has room for it, and a small one otherwise.
TEST_F(RdsRdmaRingShares, have_a_limit__of_the_machines_memory)
{
    for (kapi_u32 payer : {0u, kPeers - 1, kPeers}) {
        with_limit(2 * bytes_of(1000), [&](RingShares &shares) { EXPECT_EQ(take(shares, payer, 1000), 1000u); });
        with_limit(2 * bytes_of(1000) - 1, [&](RingShares &shares) { EXPECT_EQ(take(shares, payer, 1000), 64u); });
    }
}

TEST_F(RdsRdmaRingShares, have_a_limit__of_22_MiB_at_least)
{
    constexpr unsigned kFits = 935;
    static_assert(2 * bytes_of(kFits) <= 11 << 20 && 2 * bytes_of(kFits + 1) > 11 << 20);
    with_limit(1, [&](RingShares &shares) { EXPECT_EQ(take(shares, 1, kFits), kFits); });
    with_limit(1, [&](RingShares &shares) { EXPECT_EQ(take(shares, 1, kFits + 1), 64u); });
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
        EXPECT_EQ(take(shares, 1, 101, 400), 64u);
        give_all(shares, 1, 1);
        EXPECT_EQ(take(shares, 1, 100, 400), 100u);
        EXPECT_EQ(take(shares, 2, 100, 400), 64u);
        EXPECT_EQ(take(shares, 3, 100, 400), 0u);
        EXPECT_EQ(take(shares, 3, 37, 400), 0u);
        EXPECT_EQ(take(shares, 3, 36, 400), 36u);
        EXPECT_EQ(take(shares, 4, 1, 400), 0u);
        EXPECT_EQ(take(shares, kPeers, 65, 400), 65u);
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
        EXPECT_EQ(take_all(shares, 7), 5u);
        for (unsigned i = 0; i < 10; i++)
            EXPECT_EQ(take(shares, 7, 100), 0u);
        EXPECT_EQ(take(shares, 8, 64, 2 * (5 * 64 + 64)), 64u);
        give_all(shares, 8, 1);
        EXPECT_EQ(take_all(shares, 8), 2u);
    });
}

} // namespace
