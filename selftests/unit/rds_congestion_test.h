// SPDX-License-Identifier: GPL-2.0
// Two hosts, and sockets of one that are full.
#pragma once

#include "rds_test.h"

#include <kapi/errno.h>

#include <memory>
#include <vector>

#include "net/rds/connection.h"
#include "net/rds/socket.h"
#include "selftests/sim/inspect.h"

constexpr kapi_u16 kPort = 4000;
constexpr const char *kService = "10.0.0.100";
constexpr std::size_t kSize = 4000; // a message above the limit of the smallest queue

class Congestion : public RdsTest {
protected:
    /** A small socket on the service's address at the host that has it now. */
    void serve(RdsSocket &socket)
    {
        ASSERT_EQ(socket.open(), 0);
        ASSERT_EQ(socket.bind(sim::address(kService, kPort)), 0);
        socket.sk().rcvbuf = 4096;
    }
    void client(RdsSocket &socket, const char *own)
    {
        ASSERT_EQ(socket.open(), 0);
        ASSERT_EQ(socket.bind(sim::address(own, kPort)), 0);
    }
    long post(RdsSocket &socket, std::size_t size = kSize)
    {
        return send(socket, std::string(size, 'x'), kService, kPort, RDS_ABI_MSG_DONTWAIT);
    }
    /** Sends until the service's port is full. */
    void fill(RdsSocket &socket)
    {
        for (int i = 0; i < 100 && post(socket) > 0; i++)
            world.sleep(20 * sim::kMillisecond);
        EXPECT_EQ(post(socket), -KAPI_ENOBUFS);
    }
    /** Whether a message goes within a time in which a map surely crosses. */
    bool gets_through(RdsSocket &socket)
    {
        for (int i = 0; i < 50; i++) {
            if (post(socket, 1) == 1)
                return true;
            world.sleep(100 * sim::kMillisecond);
        }
        return false;
    }
    static int drain(RdsSocket &socket)
    {
        int count = 0;
        while (receive(socket, RDS_ABI_MSG_DONTWAIT).substr(0, 5) != "error")
            count++;
        return count;
    }
    void move(sim::Node &from, sim::Node &to)
    {
        from.initial_net().remove(sim::address(kService));
        to.initial_net().add(sim::address(kService));
    }
    /** The bit of the service's port in the host's own map, which its peers receive. */
    static bool tells_full(RdsHost &host)
    {
        sim::NodeScope scope(host.node());
        auto &net = *reinterpret_cast<rds::Net *>(host.net().rds);
        auto map = net.own_maps.find({rds::Ip::from(sim::address(kService).ip), 0, 0});
        return map && map->congested(kPort);
    }
};
