// SPDX-License-Identifier: GPL-2.0
// A program that is killed while it reads RDS_INFO_* of very many objects: the walk ends, which is of no use any more.
#include "rds_test.h"

#include <kapi/errno.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "net/rds/connection.h"

namespace {

constexpr int kMany = 700; // rows of each kind, which are copied out in several pieces

class Killed : public RdsTest {
protected:
    Killed() : socket(host_a)
    {
        run(a, [&] {
            ASSERT_EQ(socket.open(), 0);
            ASSERT_EQ(socket.bind(sim::address("10.0.0.1", 7)), 0);
        });
    }
    ~Killed() override
    {
        run(a, [&] { others.clear(), socket.close(); });
    }
    void make_connections()
    {
        auto &net = *reinterpret_cast<rds::Net *>(host_a.net().rds);
        const rds_transport *tcp = rds::Module::get().transport(RDS_TRANSPORT_TCP);
        for (int i = 0; i < kMany; i++) {
            std::string peer = "10.7." + std::to_string(i / 250) + "." + std::to_string(i % 250 + 1);
            rds::Endpoint local{rds::Ip::from(sim::address("10.0.0.1").ip), 0, 0};
            rds::Endpoint remote{rds::Ip::from(sim::address(peer.c_str()).ip), 0, 0};
            EXPECT_TRUE(net.connections.get(net, *tcp, local, remote, 0, 0, rds::Alloc::sleep));
        }
        rds::Module::drop_transport(tcp);
    }
    /** So many bytes of rows the program gets, which is killed before, or not. */
    long written(int option, bool killed)
    {
        long last = 0;
        run(a, [&] {
            if (killed)
                world.signal(*sim::World::current_task());
            std::vector<unsigned char> rows(2 * kMany * 100, 0xee);
            int length = static_cast<int>(rows.size());
            int result = socket.get_option(option, rows.data(), &length);
            EXPECT_EQ(result == -KAPI_EINTR, killed) << result;
            auto end = std::find_if(rows.rbegin(), rows.rend(), [](unsigned char byte) { return byte != 0xee; });
            last = rows.rend() - end;
        });
        return last;
    }
    void expect_end(int option, int row)
    {
        EXPECT_GE(written(option, false), kMany * row) << option;
        EXPECT_EQ(written(option, true), 0) << option;
    }

    RdsSocket socket;
    std::vector<std::unique_ptr<RdsSocket>> others;
};

TEST_F(Killed, walk_along_connections__ends)
{
    run(a, [&] { make_connections(); });
    expect_end(RDS_ABI_INFO_CONNECTIONS, sizeof(rds_abi_info_connection));
    expect_end(RDS_ABI_INFO6_CONNECTIONS, sizeof(rds_abi_info6_connection));
}

TEST_F(Killed, walk_along_sockets__ends)
{
    run(a, [&] {
        for (int i = 0; i < kMany; i++) {
            others.push_back(std::make_unique<RdsSocket>(host_a));
            ASSERT_EQ(others.back()->open(), 0);
            ASSERT_EQ(others.back()->bind(sim::address("10.0.0.1", static_cast<kapi_u16>(1000 + i))), 0);
        }
    });
    expect_end(RDS_ABI_INFO_SOCKETS, sizeof(rds_abi_info_socket));
    expect_end(RDS_ABI_INFO6_SOCKETS, sizeof(rds_abi_info6_socket));
}

// Of one queue.
TEST_F(Killed, walk_along_received_messages__ends)
{
    run(a, [&] {
        for (int i = 0; i < kMany; i++)
            EXPECT_EQ(send(socket, "", "10.0.0.1", 7), 0);
    });
    expect_end(RDS_ABI_INFO_RECV_MESSAGES, sizeof(rds_abi_info_message));
    expect_end(RDS_ABI_INFO6_RECV_MESSAGES, sizeof(rds_abi_info6_message));
}

// Nobody answers there.
TEST_F(Killed, walk_along_sent_messages__ends)
{
    run(a, [&] {
        socket.sk().sndbuf = 16 << 20;
        for (int i = 0; i < kMany; i++)
            EXPECT_EQ(send(socket, "x", "10.0.0.77", 7, RDS_ABI_MSG_DONTWAIT), 1);
    });
    expect_end(RDS_ABI_INFO_SEND_MESSAGES, sizeof(rds_abi_info_message));
    expect_end(RDS_ABI_INFO6_SEND_MESSAGES, sizeof(rds_abi_info6_message));
}

} // namespace
