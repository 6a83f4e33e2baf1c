// SPDX-License-Identifier: GPL-2.0
// A connection that a peer has asked for, and that ends before the path's worker looks at it.
#include "rds_rdma_peer.h"

#include <hawser/work.h>
#include <kapi/sim/threads.h>

#include "net/rds/net.h"

namespace {

class RdsRdmaWaiting : public RdsRdmaPeer {
protected:
    /** The workers of a do nothing for a second. */
    void occupy_workers()
    {
        run(a, [&] {
            sim::leave_one_thread(*rds::Module::get().workqueue);
            work = std::make_unique<Sleeps>(*this);
            work->queue(rds::Module::get().workqueue);
        });
        world.run_for(sim::kMillisecond);
    }
    void ask_for(Peer &next)
    {
        run(b, [&] {
            kapi_cm_route to{KAPI_CM_IP, sim::address("10.0.0.2"), sim::address("10.0.0.1", kCm), 5000, 0, 0};
            ASSERT_EQ(kapi_cm_connect(&b.initial_net(), &to, &Peer::ops, &next, &next.cm), 0);
        });
        ASSERT_TRUE(wait_for([&] { return next.resolved; }));
        run(b, [&] {
            std::string data = says("10.0.0.2", "10.0.0.1", 3, 1);
            next.make_queues();
            kapi_cm_options with = options(data);
            ASSERT_EQ(kapi_cm_request(next.cm, &with), 0);
        });
    }
    void sleep() { world.sleep(sim::kSecond); }

    using Sleeps = hw::Work<RdsRdmaWaiting, &RdsRdmaWaiting::sleep>;
    std::unique_ptr<Sleeps> work;
};

// A foreign peer's next connection takes the place of the present one, unless it has ended.
TEST_P(RdsRdmaWaiting, replaces_the_present_one__only_if_it_has_not_ended)
{
    connect();
    for (bool ends : {true, false}) {
        Peer next;
        occupy_workers();
        ask_for(next);
        world.run_for(10 * sim::kMillisecond);
        EXPECT_FALSE(next.established || next.end) << "it waits";
        if (ends)
            run(b, [&] { next.drop(); });
        world.run_for(2 * sim::kSecond);
        EXPECT_EQ(next.established, !ends);
        EXPECT_EQ(peer.end.has_value(), !ends);
        run(b, [&] { next.drop(); });
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaWaiting, ::testing::Range(1, 4));

} // namespace
