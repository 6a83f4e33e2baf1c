// SPDX-License-Identifier: GPL-2.0
// Which TCP sockets rds-info shows as the paths of a connection.
extern "C" {
#include "info-connections.h"
}

#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <string>

namespace {

row tcp_socket_of(const char *local, const char *remote, unsigned tos, uint16_t port)
{
    row tcp{};

    rds_address_parse(local, &tcp.tcp.local);
    rds_address_parse(remote, &tcp.tcp.remote);
    rds_address_set_port(&tcp.tcp.local, port);
    tcp.tcp.has_tos = tcp.tcp.local.any.sa_family == AF_INET;
    tcp.tcp.tos = tos;
    return tcp;
}

TEST(Connections, HaveTheirPathsFromSocketsInAnyOrder)
{
    row sockets[] = {tcp_socket_of("10.0.0.2", "10.0.0.1", 0, 7), tcp_socket_of("fd00::1", "fd00::2", 0, 6),
                     tcp_socket_of("10.0.0.1", "10.0.0.2", 0, 2), tcp_socket_of("10.0.0.1", "10.0.0.3", 0, 4),
                     tcp_socket_of("10.0.0.1", "10.0.0.2", 3, 3), tcp_socket_of("10.0.0.1", "10.0.0.2", 0, 1),
                     tcp_socket_of("fd00::1", "fd00::2", 0, 5)};
    const struct {
        const row of;
        const char *ports;
    } cases[] = {{sockets[0], "7"}, {sockets[1], "5 6"}, {sockets[2], "1 2"}, {sockets[3], "4"}, {sockets[4], "3"},
                 {tcp_socket_of("10.0.0.1", "10.0.0.9", 0, 0), ""}};

    info_view.tcp_sockets = {sockets, std::size(sockets), std::size(sockets)};
    tcp_sockets_sort(&info_view.tcp_sockets);
    info_view.verbose = true;
    for (const auto &one : cases) {
        row connection{};
        std::string ports;

        connection.connection = {one.of.tcp.local, one.of.tcp.remote, "tcp", 0, one.of.tcp.has_tos, one.of.tcp.tos, 0, 0, true};
        testing::internal::CaptureStdout();
        connection_print(&connection);
        const std::string out = testing::internal::GetCapturedStdout();
        for (size_t at = 0; (at = out.find("ports ", at)) != out.npos;)
            ports += (ports.empty() ? "" : " ") + out.substr(at += 6, 1);
        EXPECT_EQ(ports, one.ports);
    }
    info_view.verbose = false;
    info_view.tcp_sockets = {};
}

} // namespace
