// SPDX-License-Identifier: GPL-2.0
// Every allocation, and every kapi call that can fail for want of memory, is failed once over a fixed course of events over
// RDMA: the calls may report it, everything still arrives, and nothing leaks.
#include "kapi_sim_test.h"

#include <kapi/errno.h>
#include <kapi/sim/rdma_control.h>

#include <functional>
#include <string>

#include "selftests/sim/rds_host.h"

namespace {

/** Does what may fail for want of memory until it works; the failure is injected once. */
long again(const std::function<long()> &attempt)
{
    long result = -KAPI_ENOMEM;
    for (int i = 0; i < 5 && (result == -KAPI_ENOMEM || result == -KAPI_ENOBUFS || result == -KAPI_ETIMEDOUT); i++)
        result = attempt();
    return result;
}

struct Course {
    Course(std::uint64_t fail_at, bool on_a) : world(7)
    {
        a.initial_net().add(sim::address("10.0.0.1"));
        b.initial_net().add(sim::address("10.0.0.2"));
        a.total_memory = b.total_memory = 16 << 20; // so that rings, where all calls are alike, are short
        sim::plug_rdma(a.initial_net(), "rxe_a");
        sim::plug_rdma(b.initial_net(), "rxe_b");
        victim = on_a ? &a : &b;
        victim->faults().fail_at = fail_at;
    }

    static void load(RdsHost &host, RdsSocket &socket, const char *own)
    {
        ASSERT_EQ(again([&] { return host.load_rds(); }), 0);
        ASSERT_EQ(again([&] { return host.load_rdma(); }), 0);
        for (int i = 0; i < 2; i++) {
            ASSERT_EQ(again([&] { return socket.open(); }), 0);
            socket.sk().rcvtimeo_ns = socket.sk().sndtimeo_ns = 20 * sim::kSecond;
            long bound = again([&] { return socket.bind(sim::address(own, 7)); });
            if (bound == 0)
                return;
            // For want of memory the device is not used until the module is loaded again, or it was not found at that moment.
            ASSERT_EQ(bound, -KAPI_EADDRNOTAVAIL);
            socket.close();
            ASSERT_TRUE(host.unload_rdma());
            ASSERT_EQ(host.load_rdma(), 0);
        }
        FAIL() << "not bound";
    }

    void program(RdsHost &host, const char *own, const char *peer)
    {
        RdsSocket socket(host);
        load(host, socket, own);
        ready++;
        while (ready < 2)
            world.sleep(sim::kMillisecond);
        for (std::size_t size : {100u, 5000u, 20'000u}) {
            std::string out(size, 'x'), in(size + 1, '\0');
            EXPECT_EQ(again([&] { return socket.send(out.data(), size, sim::address(peer, 7)); }),
                      static_cast<long>(size));
            EXPECT_EQ(again([&] { return socket.receive(in.data(), in.size(), nullptr); }), static_cast<long>(size));
        }
        finished++;
        while (finished < 2) // close() would cancel what the peer has not acknowledged
            world.sleep(sim::kMillisecond);
        world.sleep(20 * sim::kMillisecond);
        socket.close();
        EXPECT_TRUE(host.unload_soon());
    }

    void run()
    {
        RdsHost host_a(a), host_b(b);
        auto first = world.spawn(a, "a", [&] { program(host_a, "10.0.0.1", "10.0.0.2"); });
        auto second = world.spawn(b, "b", [&] { program(host_b, "10.0.0.2", "10.0.0.1"); });
        ASSERT_TRUE(world.run_until([&] { return first->is_done() && second->is_done(); }, 200 * sim::kSecond));
        calls = victim->faults().count;
    }

    sim::World world;
    sim::Node &a = world.add_node("a");
    sim::Node &b = world.add_node("b");
    sim::Node *victim;
    unsigned ready = 0, finished = 0;
    std::uint64_t calls = 0;
};

void fail_each_once(bool on_a)
{
    std::uint64_t calls;
    {
        Course course(0, on_a);
        course.run();
        calls = course.calls;
    }
    EXPECT_GT(calls, 50u);
    for (std::uint64_t i = 1; i <= calls && !testing::Test::HasFailure(); i++) {
        SCOPED_TRACE("call " + std::to_string(i) + " of " + std::to_string(calls) + " fails");
        Course course(i, on_a);
        course.run();
    }
}

TEST(RdsRdmaFaults, each_call_of_the_smaller_side_fails_once)
{
    fail_each_once(true);
}

TEST(RdsRdmaFaults, each_call_of_the_larger_side_fails_once)
{
    fail_each_once(false);
}

} // namespace
