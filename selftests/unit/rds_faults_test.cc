// SPDX-License-Identifier: GPL-2.0
// Every allocation, and every kapi call that can fail without memory, is failed once over a fixed course of events:
// the calls may report it, everything still arrives, and nothing leaks.
#include "kapi_sim_test.h"

#include <kapi/errno.h>

#include <functional>
#include <string>

#include "selftests/sim/rds_host.h"

namespace {

/** Repeats a step that may fail without memory until it works; the failure is injected once. */
long again(const std::function<long()> &attempt)
{
    long result = -KAPI_ENOMEM;
    for (int i = 0; i < 5 && (result == -KAPI_ENOMEM || result == -KAPI_ENOBUFS || result == -KAPI_ETIMEDOUT); i++)
        result = attempt();
    return result;
}

struct Course {
    explicit Course(std::uint64_t fail_at, bool on_a) : world(7)
    {
        a.initial_net().add(sim::address("10.0.0.1"));
        b.initial_net().add(sim::address("10.0.0.2"));
        victim = on_a ? &a : &b;
        victim->faults().fail_at = fail_at;
    }

    void program(RdsHost &host, const char *own, const char *peer, const char *name)
    {
        ASSERT_EQ(again([&] { return host.load(); }), 0) << name;
        RdsSocket socket(host);
        ASSERT_EQ(again([&] { return socket.open(); }), 0);
        socket.sk().rcvtimeo_ns = socket.sk().sndtimeo_ns = 20 * sim::kSecond;
        ASSERT_EQ(again([&] { return socket.bind(sim::address(own, 7)); }), 0);
        ready++;
        while (ready < 2)
            world.sleep(sim::kMillisecond);
        for (std::size_t size : {100u, 5000u, 90'000u}) {
            std::string out(size, 'x'), in(size + 1, '\0');
            EXPECT_EQ(again([&] { return socket.send(out.data(), size, sim::address(peer, 7)); }),
                      static_cast<long>(size));
            EXPECT_EQ(again([&] { return socket.receive(in.data(), in.size(), nullptr); }), static_cast<long>(size));
        }
        finished++;
        while (finished < 2) // close() would cancel what the peer has not acknowledged
            world.sleep(sim::kMillisecond);
        socket.close();
        EXPECT_TRUE(host.unload_soon());
    }

    void run()
    {
        RdsHost host_a(a), host_b(b);
        auto first = world.spawn(a, "a", [&] { program(host_a, "10.0.0.1", "10.0.0.2", "a"); });
        auto second = world.spawn(b, "b", [&] { program(host_b, "10.0.0.2", "10.0.0.1", "b"); });
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

TEST(RdsFaults, each_call_of_the_connecting_side_fails_once)
{
    fail_each_once(true);
}

TEST(RdsFaults, each_call_of_the_accepting_side_fails_once)
{
    fail_each_once(false);
}

} // namespace
