// SPDX-License-Identifier: GPL-2.0
// Programs of several users, and works of a user that wait for what programs hold.
#pragma once

#include "kcm_test.h"

#include "kapi/sim/stream.h"

class KcmUsers : public KcmTest, public testing::WithParamInterface<int> {
protected:
    KcmUsers() : KcmTest(static_cast<std::uint64_t>(GetParam())) {}

    /** A program of this user opens a socket. */
    void open_as(unsigned user, KcmSocket &socket)
    {
        run(a, [&] {
            sim::World::current_task()->user = user;
            ASSERT_EQ(socket.open(), 0);
        });
    }
    /** A program keeps the lock of a TCP socket, as one does that sends from memory which is not there. */
    sim::TaskRef start_to_hold(const Ends &ends, std::uint64_t duration_ns)
    {
        sim::TcbRef tcb = socket_behind(ends);
        return world.spawn(a, "holder", [this, tcb, duration_ns] {
            sim::Locked locked(*tcb);
            world.sleep(duration_ns);
        });
    }
    sim::TcbRef socket_behind(const Ends &ends)
    {
        sim::TcbRef tcb;
        run(a, [&] { tcb = sim::program_socket_of(ends.here).tcb; });
        return tcb;
    }
    std::size_t works_that_run() const { return a.running_works.size(); }
    /** All works that this user may have at once wait for programs. */
    std::vector<sim::TaskRef> stop_works_of(unsigned user)
    {
        constexpr unsigned kMany = 40; // more than the works of one user that run at once
        std::vector<Ends> held;
        for (unsigned i = 0; i < kMany; i++) {
            KcmSocket &socket = new_socket();
            open_as(user, socket);
            held.push_back(open_narrow(socket));
            EXPECT_EQ(send(socket, framed(text(30'000))), 30'004);
            run(a, [&] { socket.close(); }); // in a minute it gives up what is not sent, and resets the connection
        }
        std::vector<sim::TaskRef> holders;
        for (const Ends &ends : held)
            holders.push_back(start_to_hold(ends, 90 * sim::kSecond));
        world.run_for(70 * sim::kSecond);
        EXPECT_GE(works_that_run(), 4u);
        EXPECT_LE(works_that_run(), 32u);
        return holders;
    }
    void wait_for(const std::vector<sim::TaskRef> &holders)
    {
        for (const sim::TaskRef &holder : holders)
            EXPECT_TRUE(world.run_until([&] { return holder->is_done(); }, 300 * sim::kSecond));
    }
};
