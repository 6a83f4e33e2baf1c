// SPDX-License-Identifier: GPL-2.0
// Sockets that send before it is known how many paths the peer has.
#include "rds_peer_test.h"
#include "rds_test.h"

#include <memory>
#include <vector>

#include "net/rds/connection.h"

namespace {

class EarlySockets : public RdsTest {};

// 65 sockets of another user send while the peer is away. Programs that come later use all paths.
TEST_F(EarlySockets, sockets_before_the_handshake__do_not_take_the_paths_from_later_ones)
{
    std::vector<std::unique_ptr<RdsSocket>> early;
    RdsSocket to(host_b), late(host_a);
    world.network().cut(a, b);
    run(b, [&] {
        ASSERT_EQ(to.open(), 0);
        ASSERT_EQ(to.bind(sim::address("10.0.0.2", 70)), 0);
        to.sk().rcvtimeo_ns = sim::kSecond;
    });
    run(a, [&] {
        for (unsigned i = 0; i < 65; i++) {
            RdsSocket &socket = *early.emplace_back(std::make_unique<RdsSocket>(host_a));
            ASSERT_EQ(socket.open(), 0);
            ASSERT_EQ(socket.bind(sim::address("10.0.0.1", static_cast<kapi_u16>(1000 + i))), 0);
            EXPECT_EQ(send(socket, "x", "10.0.0.2", 70, RDS_ABI_MSG_DONTWAIT), 1);
        }
        world.sleep(sim::kSecond);
        early.clear();
    });
    world.network().cut(a, b, false);
    run(a, [&] {
        ASSERT_EQ(late.open(), 0);
        kapi_u16 port = port_of_path(3, 3000);
        ASSERT_EQ(late.bind(sim::address("10.0.0.1", port)), 0);
        EXPECT_EQ(send(late, "1", "10.0.0.2", 70), 1);
        world.sleep(10 * sim::kSecond);
        EXPECT_EQ(send(late, "2", "10.0.0.2", 70), 1);
        world.sleep(sim::kSecond);
        RdsSocket later(host_a);
        ASSERT_EQ(later.open(), 0);
        ASSERT_EQ(later.bind(sim::address("10.0.0.1", static_cast<kapi_u16>(port + 8))), 0);
        for (unsigned i = 0; i < 10; i++)
            EXPECT_EQ(send(later, "2", "10.0.0.2", 70), 1);
        world.sleep(sim::kSecond);
        rds_abi_info_connection rows[16];
        int length = sizeof(rows);
        late.get_option(RDS_ABI_INFO_CONNECTIONS, rows, &length);
        unsigned used = 0;
        for (unsigned i = 1; i < length / sizeof(rows[0]); i++)
            used += rows[i].next_tx_seq > 1;
        EXPECT_GT(used, 0u);
        later.close(), late.close();
    }, 100 * sim::kSecond);
    run(b, [&] { to.close(); });
}

// However many ports another user has used while the peer was away, others are spread. Each early port stays on the first path.
TEST_F(EarlySockets, ports_before_the_handshake__take_the_paths_from_no_other)
{
    constexpr unsigned kEarly = 1024;
    run(a, [&] {
        rds::Net &net = *reinterpret_cast<rds::Net *>(host_a.net().rds);
        const rds_transport *tcp = rds::Module::get().transport(RDS_TRANSPORT_TCP);
        auto at = [](const char *address) { return rds::Endpoint{rds::Ip::from(sim::address(address).ip), 0, 0}; };
        auto made = net.connections.get(net, *tcp, at("10.0.0.1"), at("10.0.0.2"), 0, 0, rds::Alloc::charged);
        ASSERT_TRUE(made);
        rds::Connection &connection = **made;
        ASSERT_EQ(connection.paths(), 0u);
        for (unsigned i = 0; i < kEarly; i++)
            EXPECT_EQ(connection.path_for(static_cast<kapi_u16>(3000 + i)).index(), 0u);
        connection.path(0).notify(RDS_PATH_WANTED);
        world.sleep(sim::kSecond);
        ASSERT_NE(connection.paths(), 0u);
        unsigned others = 0;
        for (unsigned i = 0; i < kEarly; i++) {
            EXPECT_EQ(connection.path_for(static_cast<kapi_u16>(3000 + i)).index(), 0u);
            others += connection.path_for(static_cast<kapi_u16>(5000 + i)).index() != 0;
        }
        EXPECT_GE(others, kEarly * 3 / 4) << "of the 7 / 8 that are not on the first path by their number";
        rds::Module::drop_transport(tcp);
    });
}

// Without memory to note the port the others near it stay on the first path with it.
TEST(EarlyPorts, without_memory__the_neighbours_are_early_too)
{
    sim::World world(1);
    sim::Node &node = world.add_node("a");
    auto task = world.spawn(node, "test", [&] {
        rds::EarlyPorts ports;
        node.faults().fail_at = node.faults().count + 1;
        ports.add(5000);
        ports.add(10000);
        EXPECT_TRUE(ports.has(5000));
        EXPECT_TRUE(ports.has(4096));
        EXPECT_TRUE(ports.has(8191));
        EXPECT_FALSE(ports.has(4095));
        EXPECT_FALSE(ports.has(8192));
        EXPECT_TRUE(ports.has(10000));
        EXPECT_FALSE(ports.has(10001));
    });
    EXPECT_TRUE(world.run_until([&] { return task->is_done(); }, sim::kSecond));
}

} // namespace
