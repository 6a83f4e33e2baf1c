// SPDX-License-Identifier: GPL-2.0
// Sockets that send before it is known how many paths the peer has.
#include "rds_peer_test.h"
#include "rds_test.h"

#include <memory>
#include <vector>

namespace {

class EarlySockets : public RdsTest {};

// 65 sockets of anybody send while the peer is away. Programs that come later use all paths.
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

} // namespace
