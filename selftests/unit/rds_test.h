// SPDX-License-Identifier: GPL-2.0
// Two machines with RDS over TCP for tests of core through the calls that the glue makes.
#pragma once

#include "inbox.h"
#include "kapi_sim_test.h"

#include <string>
#include <utility>
#include <vector>

#include "net/rds/uapi.h"
#include "selftests/sim/rds_host.h"

class RdsTest : public SimTest {
protected:
    explicit RdsTest(std::uint64_t seed = 1) : SimTest(seed), host_a(a), host_b(b)
    {
        a.initial_net().add(sim::address("2001:db8::1"));
        b.initial_net().add(sim::address("2001:db8::2"));
        run(a, [&] { ASSERT_EQ(host_a.load(), 0); });
        run(b, [&] { ASSERT_EQ(host_b.load(), 0); });
    }
    ~RdsTest() override
    {
        if (host_a.is_loaded())
            run(a, [&] { EXPECT_TRUE(host_a.unload_soon()); });
        if (host_b.is_loaded())
            run(b, [&] { EXPECT_TRUE(host_b.unload_soon()); });
    }

    static long send(RdsSocket &socket, const std::string &text, const char *to, kapi_u16 port, unsigned flags = 0)
    {
        return socket.send(text.data(), text.size(), sim::address(to, port), flags);
    }
    static std::string receive(RdsSocket &socket, unsigned flags = 0, kapi_addr *from = nullptr)
    {
        Inbox inbox;
        long size = socket.receive(inbox.data(), inbox.size(), from, flags);
        return size < 0 ? "error " + std::to_string(size) : inbox.text(size);
    }
    struct Received {
        long result;
        std::vector<kapi_msg::Control> control;
    };
    /** recvmsg with room for control data. */
    static Received receive_control(RdsSocket &socket, std::size_t room = 256)
    {
        unsigned char buffer[64];
        kapi_msg msg{};
        msg.memory = buffer;
        msg.size = sizeof(buffer);
        msg.control_room = room;
        rds_receive call{};
        call.msg = &msg;
        call.size = sizeof(buffer);
        call.flags = RDS_ABI_MSG_DONTWAIT;
        long result = static_cast<long>(rds_socket_recvmsg(socket.core(), &call));
        return {result, std::move(msg.control)};
    }

    RdsHost host_a, host_b;
};
