// SPDX-License-Identifier: GPL-2.0
#include "inspect.h"

#include <array>
#include <bit>
#include <cstdio>

#include "net/rds/connection.h"

namespace {

const char *const kStates[] = {"down", "connecting", "up", "closing"};
const char *const kPeers[] = {"unknown", "hawser", "foreign"};

void print_path(rds::Path &path)
{
    auto now = path.snapshot();
    unsigned queued = 0, sent = 0;
    path.for_each_message(false, [&](rds::Message &) { queued++; });
    path.for_each_message(true, [&](rds::Message &) { sent++; });
    if (now.state == rds::PathState::down && now.next_tx == 1 && now.next_rx == 1 && !queued)
        return;
    std::fprintf(stderr, "    path %u %s%s%s%s: %u queued, %u unacknowledged, next out %llu, in %llu, %u losses\n",
                 path.index(), kStates[static_cast<int>(now.state)], path.is_answered() ? ", answered" : "",
                 path.stalled() ? ", stalled" : "", now.sending ? ", owned" : "", queued, sent,
                 static_cast<unsigned long long>(now.next_tx), static_cast<unsigned long long>(now.next_rx),
                 now.drops);
}

/** The namespaces of host, with its node as the current one. */
template <class Visit> void for_each_net(RdsHost &host, Visit visit)
{
    if (!host.is_loaded())
        return;
    sim::NodeScope scope(host.node());
    for (const RdsHost::Net &net : host.nets())
        visit(*reinterpret_cast<rds::Net *>(net.rds));
}

bool has_streams(rds::Net &net, const kapi_addr &remote)
{
    bool found = false;
    net.connections.for_each([&](rds::Connection &connection) {
        found |= connection.remote.ip == rds::Ip::from(remote.ip) && connection.has_streams();
    });
    return found;
}

} // namespace

unsigned full_ports(RdsHost &host, const kapi_addr &remote, Streams streams)
{
    if (!host.node().held_locks.empty())
        return 1; // a stopped task holds a lock that we need: unknown
    unsigned count = 0;
    for_each_net(host, [&](rds::Net &net) {
        for (bool named : {false, true}) {
            auto map = net.maps_of_peers(named).find({rds::Ip::from(remote.ip), 0, 0});
            if (!map || (streams == Streams::needed && !has_streams(net, remote)))
                continue;
            std::array<std::byte, rds::map_bytes> bits;
            map->snapshot(bits.data());
            for (std::byte byte : bits)
                count += static_cast<unsigned>(std::popcount(std::to_integer<unsigned>(byte)));
        }
    });
    return count;
}

bool accounts_balance(RdsHost &host)
{
    bool balance = true;
    for_each_net(host, [&](rds::Net &net) {
        if (net.counted(rds::Stat::recv_bytes_added_to_sock) != net.counted(rds::Stat::recv_bytes_freed_fromsock))
            balance = false;
    });
    return balance;
}

void print_connections(RdsHost &host)
{
    if (!host.node().held_locks.empty()) {
        std::fprintf(stderr, "  %s: a stopped task holds a lock of its paths\n", host.node().name().c_str());
        return;
    }
    for_each_net(host, [&](rds::Net &net) {
        net.connections.for_each([&](rds::Connection &connection) {
            std::fprintf(stderr, "  %s to .%u: peer %s, %u paths, peer's full ports:", host.node().name().c_str(),
                         connection.remote.ip.bytes()[15], kPeers[static_cast<int>(connection.peer())],
                         connection.paths());
            for (unsigned port = 0; port < 65536; port++)
                if (connection.remote_map().congested(static_cast<hw::u16>(port)))
                    std::fprintf(stderr, " %u", port);
            std::fprintf(stderr, "\n");
            for (unsigned i = 0; i < connection.path_count(); i++)
                print_path(connection.path(i));
        });
    });
}
