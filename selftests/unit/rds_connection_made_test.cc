// SPDX-License-Identifier: GPL-2.0
// Connections while they are made, and messages of many segments on their paths.
#include "rds_test.h"

#include <string>

#include "net/rds/connection.h"
#include "net/rds/send_queue.h"

namespace {

class PathSegments : public RdsTest {};

// A message that does not fit into one batch once waited for the next tick, at each batch.
TEST_F(PathSegments, message_of_any_number_of_segments_goes_at_once)
{
    RdsSocket from(host_a), to(host_b);
    run(b, [&] {
        ASSERT_EQ(to.open(), 0);
        ASSERT_EQ(to.bind(sim::address("10.0.0.2", 4000)), 0);
    });
    run(a, [&] {
        ASSERT_EQ(from.open(), 0);
        ASSERT_EQ(from.bind(sim::address("10.0.0.1", 4000)), 0);
        from.sk().sndbuf = 8 << 20;
        from.sk().zerocopy = true;
        EXPECT_EQ(send(from, "x", "10.0.0.2", 4000), 1);
    });
    run(b, [&] { EXPECT_EQ(receive(to), "x"); });
    constexpr std::size_t kPage = 4096, kSegments = rds::Batch::max_segments;
    const std::string text(1 << 20, 'z');
    constexpr std::size_t sizes[] = {kSegments - 2, kSegments - 1, kSegments, kSegments + 1, 2 * kSegments, 256};
    for (std::size_t pages : sizes) {
        for (bool pinned : {true, false}) {
            std::uint64_t before = world.now_ns();
            long size = static_cast<long>(pages * kPage);
            run(a, [&] {
                kapi_addr name = sim::address("10.0.0.2", 4000);
                EXPECT_EQ(pinned ? from.send_pinned(text.data(), pages * kPage, name, 7) :
                                   from.send(text.data(), pages * kPage, name), size);
            });
            run(b, [&] { EXPECT_EQ(receive(to).size(), pages * kPage); });
            EXPECT_LT(world.now_ns() - before, 100 * sim::kMillisecond) << pages << (pinned ? " pinned" : " copied");
        }
    }
    run(a, [&] { from.close(); });
    run(b, [&] { to.close(); });
}

// ---- connections that are being made

/** In many worlds: others() again and again while connections to the hosts 10.0.0.2 up to last are made, and then after(). */
void while_connections_are_made(std::uint64_t seeds, kapi_u8 last, const std::function<void(RdsHost &)> &others,
                                const std::function<void(RdsHost &)> &after)
{
    for (std::uint64_t seed = 1; seed <= seeds; seed++) {
        sim::World world(seed);
        sim::Node &node = world.add_node("a");
        node.initial_net().add(sim::address("10.0.0.1"));
        RdsHost host(node);
        bool done = false;
        world.spawn(node, "setup", [&] {
            ASSERT_EQ(host.load(), 0);
            const rds_transport *transport = rds::Module::get().transport(RDS_TRANSPORT_TCP);
            ASSERT_NE(transport, nullptr);
            auto maker = world.spawn(node, "maker", [&] {
                kapi_addr local = sim::address("10.0.0.1"), remote = local;
                for (remote.ip[15] = 2; remote.ip[15] <= last; remote.ip[15]++) {
                    rds_conn *connection = nullptr;
                    void *state = nullptr;
                    if (rds_conn_get(&node.initial_net(), transport, &local, &remote, 0, &connection, &state) == 0)
                        rds_conn_put(connection);
                }
            });
            while (!maker->is_done()) {
                others(host);
                world.sleep(1);
            }
            after(host);
            rds::Module::drop_transport(transport);
            EXPECT_TRUE(host.unload_soon());
            done = true;
        });
        ASSERT_TRUE(world.run_until([&] { return done; }, 10 * sim::kSecond)) << "seed " << seed;
    }
}

// Writing rds_tcp_sndbuf once called into connections that were on the list of their namespace and not made yet.
TEST(Connection, buffers_change_while_it_is_made)
{
    auto change = [](RdsHost &host) {
        rds_tcp_net_sysctl(host.net().tcp)->rds_tcp_sndbuf ^= 8192;
        rds_tcp_net_sysctl_changed(host.net().tcp);
    };
    while_connections_are_made(100, 11, change, [&](RdsHost &host) {
        sim::World &world = host.node().world();
        world.sleep(sim::kMillisecond);
        std::uint64_t before = host.node().works_run;
        change(host);
        world.sleep(sim::kMillisecond);
        EXPECT_LE(host.node().works_run - before, 1u); // the one that notifies: none has a stream whose buffers could change
    });
}

// A connection that is torn down before its maker has put it on the map of its address stayed there, and its namespace
// with it.
TEST(Connection, torn_down_while_it_is_made)
{
    auto tear_down = [](RdsHost &host) {
        const rds_transport *transport = rds::Module::get().transport(RDS_TRANSPORT_TCP);
        rds_transport_leave_net(transport, &host.node().initial_net());
        rds::Module::drop_transport(transport);
    };
    while_connections_are_made(150, 2, tear_down, tear_down);
}

} // namespace
