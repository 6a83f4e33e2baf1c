// SPDX-License-Identifier: GPL-2.0
// A world with two nodes for tests of the simulator and of core.
#pragma once

#include <gtest/gtest.h>

#include <kapi/sim/sim.h>

#include <functional>

class SimTest : public ::testing::Test {
protected:
    explicit SimTest(std::uint64_t seed = 1) : world(seed)
    {
        a.initial_net().add(sim::address("10.0.0.1"));
        b.initial_net().add(sim::address("10.0.0.2"));
    }

    /** An interrupt that has just begun ends before the world does. */
    ~SimTest() override { world.run_for(sim::kMillisecond); }

    /** Runs body as a program on node and waits for its end. */
    void run(sim::Node &node, std::function<void()> body, std::uint64_t limit_ns = 60 * sim::kSecond)
    {
        auto task = world.spawn(node, "test", std::move(body));
        EXPECT_TRUE(world.run_until([&] { return task->is_done(); }, limit_ns));
    }

    sim::World world;
    sim::Node &a = world.add_node("a");
    sim::Node &b = world.add_node("b");
};
