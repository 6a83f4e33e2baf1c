// SPDX-License-Identifier: GPL-2.0
// Two machines with RDS over TCP for tests of core through the calls that the glue makes.
#pragma once

#include "kapi_sim_test.h"

#include <string>

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
        std::string buffer(1 << 20, '\0');
        long size = socket.receive(buffer.data(), buffer.size(), from, flags);
        if (size < 0)
            return "error " + std::to_string(size);
        buffer.resize(static_cast<std::size_t>(size));
        return buffer;
    }

    RdsHost host_a, host_b;
};
