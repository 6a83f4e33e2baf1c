// SPDX-License-Identifier: GPL-2.0
// Threads in recvmsg() of one socket: some read all the time, others come and are woken without taking what it was for.
#pragma once

#include <gtest/gtest.h>

#include <kapi/errno.h>
#include <kapi/sim/sim.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

class Readers {
public:
    /** A call that waits; none is with the time of another one. */
    using Receive = std::function<long(unsigned flags)>;
    static constexpr unsigned kPeek = 2; // MSG_PEEK

    Readers(sim::World &w, sim::Node &n, kapi_sk &s, sim::Trouble &t, Receive r)
        : world(w), node(n), sk(s), trouble(t), receive(std::move(r))
    {
    }

    unsigned got = 0; // messages

    void spawn_steady(unsigned count)
    {
        for (unsigned i = 0; i < count; i++)
            spawn("steady", [this] {
                while (!over)
                    got += receive(0) > 0;
            });
    }
    /** Each receives one message. */
    void spawn_once(unsigned count)
    {
        for (unsigned i = 0; i < count; i++)
            spawn("reader", [this] { got += receive(0) > 0; });
    }
    void spawn_peekers(unsigned count)
    {
        for (unsigned i = 0; i < count; i++)
            spawn("peeks", [this] { EXPECT_GT(receive(kPeek), 0); });
    }
    /** One that peeks, whose memory faults, that gets a signal, or whose time ends. */
    void spawn_other()
    {
        switch (world.random().below(4)) {
        case 0:
            spawn("peeks", [this] { receive(kPeek); });
            break;
        case 1:
            spawn("faults", [this] {
                trouble = {.fault_at = 0, .stall_at = 0, .stall_ns = world.random().below(100) * sim::kMicrosecond};
                receive(0);
            });
            break;
        case 2: {
            auto thread = spawn("interrupted", [this] { got += receive(0) > 0; });
            world.spawn(node, "kill", [this, thread] {
                world.sleep(world.random().below(sim::kMillisecond));
                world.signal(*thread);
            });
            break;
        }
        default:
            spawn("timed", [this] {
                sk.rcvtimeo_ns = world.random().below(sim::kMillisecond);
                got += receive(0) > 0;
                sk.rcvtimeo_ns = KAPI_FOREVER;
            });
        }
    }
    /** All of these that wait end without a message. */
    void end()
    {
        over = true;
        for (const sim::TaskRef &thread : threads)
            if (!thread->is_done())
                world.signal(*thread);
        world.run_for(sim::kMillisecond);
        for (const sim::TaskRef &thread : threads)
            EXPECT_TRUE(thread->is_done());
    }

private:
    sim::TaskRef spawn(const char *name, std::function<void()> call)
    {
        return threads.emplace_back(world.spawn(node, name, std::move(call)));
    }

    sim::World &world;
    sim::Node &node;
    kapi_sk &sk;
    sim::Trouble &trouble;
    Receive receive;
    bool over = false;
    std::vector<sim::TaskRef> threads;
};
