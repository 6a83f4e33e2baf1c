// SPDX-License-Identifier: GPL-2.0
// Two machines whose connections are counted.
#pragma once

#include "rds_test.h"

#include <string>

#include "net/rds/connection.h"

inline constexpr std::uint64_t kMinute = 60 * sim::kSecond;
inline constexpr kapi_u16 kPort = 7;

inline rds::Net &net_of(RdsHost &host) { return *reinterpret_cast<rds::Net *>(host.net().rds); }

class Collector : public RdsTest {
protected:
    Collector() : before_a(a.memory().bytes()), before_b(b.memory().bytes()) {}

    void open(RdsSocket &socket, const char *own)
    {
        ASSERT_EQ(socket.open(), 0);
        ASSERT_EQ(socket.bind(sim::address(own, kPort)), 0);
        socket.sk().rcvtimeo_ns = 20 * sim::kSecond;
    }
    /** A message in each direction. */
    void talk(RdsSocket &at_a, RdsSocket &at_b, const char *text)
    {
        run(a, [&] { EXPECT_GT(send(at_a, text, "10.0.0.2", kPort), 0); });
        run(b, [&] {
            EXPECT_EQ(receive(at_b), text);
            EXPECT_GT(send(at_b, text, "10.0.0.1", kPort), 0);
        });
        run(a, [&] { EXPECT_EQ(receive(at_a), text); });
    }
    static std::string nobody(int number)
    {
        return "10.9." + std::to_string(number / 250) + "." + std::to_string(number % 250 + 1);
    }
    long post_to_nobody(RdsSocket &socket, int number)
    {
        return send(socket, "x", nobody(number).c_str(), 1, RDS_ABI_MSG_DONTWAIT);
    }
    static unsigned connections(RdsHost &host)
    {
        sim::NodeScope scope(host.node());
        return net_of(host).connections.size();
    }
    static unsigned count_in(RdsHost &host, rds::PathState state)
    {
        sim::NodeScope scope(host.node());
        unsigned count = 0;
        net_of(host).connections.for_each([&](rds::Connection &c) {
            for (unsigned i = 0; i < c.path_count(); i++)
                count += c.path(i).snapshot().state == state;
        });
        return count;
    }
    void set_idle(unsigned ms)
    {
        for (RdsHost *host : {&host_a, &host_b})
            rds_net_sysctl(host->net().rds)->idle_connection_ms = ms;
    }

    std::size_t before_a, before_b;
};
