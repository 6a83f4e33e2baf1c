// SPDX-License-Identifier: GPL-2.0
// The end of a namespace: it waits for the last reference to a connection of it, and for nothing else.
#include "rds_test.h"

#include <kapi/errno.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "net/rds/connection.h"
#include "net/rds/loop.h"
#include "net/rds/net.h"

namespace {

class NetEnd : public RdsTest, public ::testing::WithParamInterface<int> {
protected:
    NetEnd() : RdsTest(static_cast<std::uint64_t>(GetParam())) {}

    /** A namespace with a connection that is referenced; made by the calling task. */
    rds::Net &make_held()
    {
        auto net = rds::Net::create(&a.add_net());
        if (!net)
            sim::broken("no namespace");
        (*net)->connection_made(RDS_TRANSPORT_TCP);
        return **net;
    }
};

TEST_P(NetEnd, last_connection__may_go_at_the_same_time)
{
    run(a, [&] {
        for (int i = 0; i < 50; i++) {
            rds::Net &net = make_held();
            auto holder = world.spawn(a, "holder", [&] { net.connection_gone(RDS_TRANSPORT_TCP); });
            rds::Net::destroy(&net);
            while (!holder->is_done())
                world.sleep(sim::kMicrosecond);
        }
    });
}

TEST_P(NetEnd, signal__does_not_end_the_wait)
{
    rds::Net *net = nullptr;
    bool gone = false;
    auto rmmod = world.spawn(a, "rmmod", [&] {
        net = &make_held();
        world.signal(*sim::World::current_task());
        rds::Net::destroy(net);
        gone = true;
    });
    world.run_for(sim::kSecond);
    EXPECT_FALSE(gone);
    run(a, [&] { net->connection_gone(RDS_TRANSPORT_TCP); });
    world.run_for(sim::kMillisecond);
    EXPECT_TRUE(gone);
}

using NetTable = RdsTest;

rds::Endpoint far_end(kapi_u32 number)
{
    kapi_addr addr = sim::address("10.0.0.0");
    addr.ip[13] = static_cast<kapi_u8>(number >> 16);
    addr.ip[14] = static_cast<kapi_u8>(number >> 8);
    addr.ip[15] = static_cast<kapi_u8>(number);
    return {rds::Ip::from(addr.ip), 0, 0};
}

// A walk continues after the hash of the last one: when that was taken out, another one with the same hash is passed over.
TEST_F(NetTable, connections_with_the_same_hash__all_end)
{
    run(a, [&] {
        auto made = rds::Net::create(&a.add_net());
        ASSERT_TRUE(made);
        rds::Net &net = **made;
        std::vector<std::pair<kapi_u32, kapi_u32>> hashes;
        for (kapi_u32 i = 1; i < 400'000; i++)
            hashes.emplace_back(net.connections.hash_of(far_end(0), far_end(i), 0), i);
        std::sort(hashes.begin(), hashes.end());
        auto first = std::adjacent_find(hashes.begin(), hashes.end(),
                                        [](const auto &x, const auto &y) { return x.first == y.first; });
        ASSERT_NE(first, hashes.end());
        for (auto one : {first, first + 1})
            ASSERT_TRUE(net.connections.get(net, rds::loop_transport, far_end(0), far_end(one->second), 0,
                                            rds::ConnectionShares::peers, hw::Alloc::sleep));
        EXPECT_EQ(net.connections.size(), 2u);
        rds::Net::destroy(&net);
    });
}

TEST_F(NetTable, namespace_that_ends__gets_no_connection)
{
    run(a, [&] {
        auto made = rds::Net::create(&a.add_net());
        ASSERT_TRUE(made);
        rds::Net &net = **made;
        net.connections.close();
        auto refused = net.connections.get(net, rds::loop_transport, far_end(1), far_end(2), 0,
                                           rds::ConnectionShares::peers, hw::Alloc::sleep);
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().code(), KAPI_ENETUNREACH);
        EXPECT_EQ(net.connections.size(), 0u);
        rds::Net::destroy(&net);
    });
}

INSTANTIATE_TEST_SUITE_P(Seeds, NetEnd, ::testing::Range(1, 40));

} // namespace
