// SPDX-License-Identifier: GPL-2.0
// Paths as programs read them over netlink, with their TCP sockets: those that RDS_INFO_* shows.
#include "rds_peer_test.h"
#include "rds_test.h"

#include <uapi/hawser_netlink.h>

#include <string>
#include <vector>

#include "kapi/sim/report.h"

namespace {

unsigned port(kapi_u16 big) { return (big & 0xffu) << 8 | big >> 8; }

/** The numbers of TCP sockets' rows: by the socket option, and over netlink. In tasks. */
std::vector<std::string> shown_tcp_sockets(RdsSocket &socket)
{
    std::vector<rds_abi_info6_tcp_socket> rows(32);
    std::vector<std::string> all;
    int length = static_cast<int>(rows.size() * sizeof(rows[0]));
    EXPECT_EQ(socket.get_option(RDS_ABI_INFO6_TCP_SOCKETS, rows.data(), &length), static_cast<int>(sizeof(rows[0])));
    rows.resize(static_cast<std::size_t>(length) / sizeof(rows[0]));
    for (const auto &row : rows)
        all.push_back(std::to_string(port(row.local_port)) + " " + std::to_string(port(row.peer_port)) + " " +
                      std::to_string(row.hdr_rem) + " " + std::to_string(row.data_rem) + " " +
                      std::to_string(row.last_sent_nxt) + " " + std::to_string(row.last_expected_una) + " " +
                      std::to_string(row.last_seen_una));
    return all;
}
std::vector<std::string> reported_tcp_sockets(sim::Node &node)
{
    std::vector<std::string> all;
    for (const sim::Report &connection : sim::dump(node.initial_net(), HAWSER_CMD_RDS_CONNECTION_GET))
        for (const auto *path : sim::Report::all(connection.attributes, HAWSER_RDS_CONNECTION_PATH))
            for (const auto *tcp : sim::Report::all(path->nested, HAWSER_RDS_PATH_TCP)) {
                std::string row;
                for (kapi_u16 type = HAWSER_RDS_TCP_LOCAL_PORT; type <= HAWSER_RDS_TCP_SEEN_UNA; type++)
                    row += (row.empty() ? "" : " ") + sim::Report::text(tcp->nested, type);
                all.push_back(row);
            }
    return all;
}

using ReportPaths = RdsTest;

TEST_F(ReportPaths, have_the_tcp_sockets_that_the_socket_option_shows)
{
    RdsSocket from(host_a), from6(host_a);
    run(a, [&] {
        ASSERT_EQ(from.open(), 0);
        ASSERT_EQ(from.bind(sim::address("10.0.0.1", 100)), 0);
        ASSERT_EQ(from6.open(), 0);
        ASSERT_EQ(from6.bind(sim::address("2001:db8::1", 101)), 0);
        EXPECT_EQ(send(from, "one", "10.0.0.2", 200), 3);
        EXPECT_EQ(send(from6, "three", "2001:db8::2", 201), 5);
    });
    world.run_for(sim::kSecond);
    run(a, [&] {
        auto shown = shown_tcp_sockets(from);
        EXPECT_EQ(shown.size(), 16u);
        EXPECT_EQ(reported_tcp_sockets(a), shown);
        from.close(), from6.close();
    });
}

using ReportOfPeer = PeerTest;

// As long as it has a stream, it is there in all tables.
TEST_F(ReportOfPeer, path_that_the_peer_no_longer_has)
{
    open_socket(port_of_path(0));
    WireStream first(a), other(a);
    std::size_t shown = 0;
    run(a, [&] {
        shake_hands(first, 0), shake_hands(other, 3);
        EXPECT_TRUE(handshake_of(first, 1));
    });
    auto look = [&] {
        auto streams = shown_tcp_sockets(socket);
        EXPECT_EQ(reported_tcp_sockets(b).size(), streams.size());
        rds_abi_info_connection paths[8];
        int length = sizeof(paths);
        EXPECT_EQ(socket.get_option(RDS_ABI_INFO_CONNECTIONS, paths, &length), static_cast<int>(sizeof(paths[0])));
        shown = static_cast<std::size_t>(length) / sizeof(paths[0]);
    };
    for (unsigned i = 0; i < 1000; i++) {
        world.run_for(sim::kMillisecond / 100);
        run(b, look);
    }
    EXPECT_EQ(shown, 2u) << "others were connecting, and are gone";
    run(a, [&] { first.close(true), other.close(true); });
}

} // namespace
