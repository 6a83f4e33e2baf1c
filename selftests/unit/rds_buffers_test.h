// SPDX-License-Identifier: GPL-2.0
// A sender and a receiver whose sockets set no buffers.
#pragma once

#include "rds_test.h"

#include <kapi/errno.h>
#include <uapi/hawser_netlink.h>

#include <string>

#include "kapi/sim/tcp.h"

constexpr std::size_t kSize = 30'000, kDefault = 212'992 / 2, kTcpBuffer = 256 * 1024;
// Those that a buffer has room for: one more is accepted while it is not full.
constexpr unsigned messages_of(std::size_t limit) { return static_cast<unsigned>((limit + kSize - 1) / kSize); }

class Buffers : public RdsTest {
protected:
    Buffers()
    {
        run(a, [&] { open(from, "10.0.0.1"); });
        run(b, [&] { open(to, "10.0.0.2"); });
    }
    ~Buffers() override
    {
        run(a, [&] { from.close(); });
        run(b, [&] { to.close(); });
    }

    static void open(RdsSocket &socket, const char *address)
    {
        ASSERT_EQ(socket.open(), 0);
        ASSERT_EQ(socket.bind(sim::address(address, 70)), 0);
    }
    long send_one()
    {
        return send(from, std::string(kSize, 'x'), "10.0.0.2", 70, RDS_ABI_MSG_DONTWAIT);
    }
    void connect_them()
    {
        run(a, [&] { EXPECT_EQ(send(from, "first", "10.0.0.2", 70), 5); });
        run(b, [&] { EXPECT_EQ(receive(to), "first"); });
        world.run_for(sim::kSecond);
        // Of small packets a message takes so much memory that the limit of memory is met before that of payload.
        for (const sim::TcbRef &tcb : world.network().tcbs())
            tcb->segment_size = 16384;
    }
    /** Messages that the sender's buffer takes while nothing reaches the peer. Then they arrive, and are received. */
    unsigned sent_at_once()
    {
        unsigned count = 0;
        world.network().cut(a, b);
        run(a, [&] {
            while (send_one() > 0)
                count++;
        });
        world.network().cut(a, b, false);
        run(b, [&] {
            for (unsigned i = 0; i < count; i++)
                EXPECT_EQ(receive(to).size(), kSize);
        });
        world.run_for(sim::kSecond);
        return count;
    }
    /** Messages until the port is congested. */
    unsigned sent_until_congested()
    {
        unsigned count = 0;
        run(a, [&] {
            while (send_one() > 0) {
                count++;
                world.sleep(20 * sim::kMillisecond);
            }
            EXPECT_EQ(send_one(), -KAPI_ENOBUFS);
        });
        return count;
    }
    void read(unsigned count)
    {
        run(b, [&] {
            for (unsigned i = 0; i < count; i++)
                EXPECT_EQ(receive(to).size(), kSize);
        });
        world.run_for(sim::kSecond);
    }
    /** Of the only socket of node, as programs see it over netlink. */
    std::size_t reported(sim::Node &node, std::uint16_t field)
    {
        std::string found;
        run(node, [&] {
            auto sockets = sim::dump(node.initial_net(), HAWSER_CMD_RDS_SOCKET_GET);
            ASSERT_EQ(sockets.size(), 1u);
            found = sim::Report::text(sockets[0].attributes, field);
        });
        return std::stoul(found);
    }
    rds_sysctl &settings() { return *rds_net_sysctl(host_a.net().rds); }

    RdsSocket from{host_a}, to{host_b};
};
