// SPDX-License-Identifier: GPL-2.0
// The end of a namespace: it waits for whoever still holds a connection of it, and for nothing else.
#include "rds_test.h"

#include "net/rds/net.h"

namespace {

class NetEnd : public RdsTest, public ::testing::WithParamInterface<int> {
protected:
    NetEnd() : RdsTest(static_cast<std::uint64_t>(GetParam())) {}

    /** A namespace in which somebody holds a connection; made by the calling task. */
    rds::Net &make_held()
    {
        auto net = rds::Net::create(&a.add_net());
        if (!net)
            sim::broken("no namespace");
        (*net)->connection_made();
        return **net;
    }
};

TEST_P(NetEnd, last_connection__may_go_at_the_same_time)
{
    run(a, [&] {
        for (int i = 0; i < 50; i++) {
            rds::Net &net = make_held();
            auto holder = world.spawn(a, "holder", [&] { net.connection_gone(); });
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
    run(a, [&] { net->connection_gone(); });
    world.run_for(sim::kMillisecond);
    EXPECT_TRUE(gone);
}

INSTANTIATE_TEST_SUITE_P(Seeds, NetEnd, ::testing::Range(1, 40));

} // namespace
