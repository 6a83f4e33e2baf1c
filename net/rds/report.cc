// SPDX-License-Identifier: GPL-2.0
#include "report.h"

#include "connection.h"
#include "socket.h"

#include <kapi/report.h>
#include <uapi/hawser_netlink.h>

namespace rds {

namespace {

// The numbers that programs see are those of the tracepoints, and of core.
#define SAME(of_core, number) static_assert(static_cast<unsigned>(of_core) == static_cast<unsigned>(number))
SAME(PathState::down, HAWSER_RDS_DOWN);
SAME(PathState::connecting, HAWSER_RDS_CONNECTING);
SAME(PathState::up, HAWSER_RDS_UP);
SAME(PathState::closing, HAWSER_RDS_CLOSING);
SAME(Peer::unknown, HAWSER_RDS_PEER_UNKNOWN);
SAME(Peer::hawser, HAWSER_RDS_PEER_HAWSER);
SAME(Peer::foreign, HAWSER_RDS_PEER_FOREIGN);
SAME(KAPI_RDS_WANTED, HAWSER_RDS_WANTED);
SAME(KAPI_RDS_ESTABLISHED, HAWSER_RDS_ESTABLISHED);
SAME(KAPI_RDS_ACCEPTED, HAWSER_RDS_ACCEPTED);
SAME(KAPI_RDS_REFUSED, HAWSER_RDS_REFUSED);
SAME(KAPI_RDS_HEARD, HAWSER_RDS_HEARD);
SAME(KAPI_RDS_LOST, HAWSER_RDS_LOST);
SAME(KAPI_RDS_REPLACED, HAWSER_RDS_REPLACED);
SAME(KAPI_RDS_DEAD, HAWSER_RDS_DEAD);
SAME(KAPI_RDS_UNANSWERED, HAWSER_RDS_UNANSWERED);
SAME(KAPI_RDS_UNUSED, HAWSER_RDS_UNUSED);
SAME(KAPI_RDS_RENEWED, HAWSER_RDS_RENEWED);
SAME(KAPI_RDS_REMOVED, HAWSER_RDS_REMOVED);
SAME(KAPI_RDS_CLOSED, HAWSER_RDS_CLOSED);
#undef SAME

constexpr u64 ns_per_ms = 1'000'000;

// What the paths of a connection have in common.
void add_ends(kapi_report* report, Connection& connection)
{
    kapi_report_ip(report, HAWSER_RDS_CONNECTION_LOCAL, connection.local.ip.bytes());
    kapi_report_ip(report, HAWSER_RDS_CONNECTION_REMOTE, connection.remote.ip.bytes());
    if (connection.remote.scope)
        kapi_report_number(report, HAWSER_RDS_CONNECTION_INTERFACE, connection.remote.scope);
    kapi_report_text(report, HAWSER_RDS_CONNECTION_TRANSPORT, connection.transport.name);
    kapi_report_number(report, HAWSER_RDS_CONNECTION_TOS, connection.tos);
    kapi_report_number(report, HAWSER_RDS_CONNECTION_PEER, static_cast<u64>(connection.peer()));
}

void add_state(kapi_report* report, const Path& path, PathState state, kapi_trace_rds_reason reason)
{
    kapi_report_number(report, HAWSER_RDS_PATH_INDEX, path.index());
    kapi_report_number(report, HAWSER_RDS_PATH_STATE, static_cast<u64>(state));
    kapi_report_number(report, HAWSER_RDS_PATH_REASON, static_cast<u64>(reason));
}

// The TCP socket of a path that has one.
void add_tcp(kapi_report* report, Path& path)
{
    Connection& connection = path.connection();
    auto fill = connection.transport.socket_row;
    rds_tcp_socket_row row{};
    if (!fill || !connection.with_state([&](void* state) { return fill(state, path.index(), &row) != 0; }))
        return;
    if (row.rtt_us)
        kapi_report_number(report, HAWSER_RDS_PATH_RTT_US, row.rtt_us);
    kapi_report_begin(report, HAWSER_RDS_PATH_TCP);
    kapi_report_number(report, HAWSER_RDS_TCP_LOCAL_PORT, row.local.port);
    kapi_report_number(report, HAWSER_RDS_TCP_REMOTE_PORT, row.peer.port);
    kapi_report_number(report, HAWSER_RDS_TCP_HEADER_LEFT, row.header_left);
    kapi_report_number(report, HAWSER_RDS_TCP_DATA_LEFT, row.data_left);
    kapi_report_number(report, HAWSER_RDS_TCP_SENT_NEXT, row.sent_next);
    kapi_report_number(report, HAWSER_RDS_TCP_EXPECTED_UNA, row.expected_una);
    kapi_report_number(report, HAWSER_RDS_TCP_SEEN_UNA, row.seen_una);
    kapi_report_end(report);
}

// The queues of a path over RDMA; zeroes if it has none.
void add_rdma(kapi_report* report, Path& path)
{
    Connection& connection = path.connection();
    auto fill = connection.transport.rdma_row;
    rds_rdma_row row{};
    if (!fill)
        return;
    static_cast<void>(connection.with_state([&](void* state) { return fill(state, path.index(), &row), true; }));
    kapi_report_begin(report, HAWSER_RDS_PATH_RDMA);
    kapi_report_bytes(report, HAWSER_RDS_RDMA_LOCAL_GID, row.local_gid, sizeof(row.local_gid));
    kapi_report_bytes(report, HAWSER_RDS_RDMA_REMOTE_GID, row.remote_gid, sizeof(row.remote_gid));
    kapi_report_number(report, HAWSER_RDS_RDMA_MAX_SEND_WR, row.max_send_wr);
    kapi_report_number(report, HAWSER_RDS_RDMA_MAX_RECV_WR, row.max_recv_wr);
    kapi_report_number(report, HAWSER_RDS_RDMA_MAX_SEND_SGE, row.max_send_sge);
    kapi_report_number(report, HAWSER_RDS_RDMA_MR_MAX, row.mr_max);
    kapi_report_number(report, HAWSER_RDS_RDMA_MR_SIZE, row.mr_pages);
    kapi_report_end(report);
}

// Without the zeroes at its end.
void add_latency(kapi_report* report, Path& path)
{
    Latency::Counts counts = path.latency();
    unsigned used = Latency::buckets;
    while (used && !counts.messages[used - 1])
        used--;
    if (used)
        kapi_report_bytes(report, HAWSER_RDS_PATH_LATENCY, counts.messages, used * sizeof(u64));
}

void add_path(kapi_report* report, Path& path)
{
    Path::Snapshot now = path.snapshot();
    kapi_report_begin(report, HAWSER_RDS_CONNECTION_PATH);
    add_state(report, path, now.state, now.reason);
    kapi_report_number(report, HAWSER_RDS_PATH_AGE_MS, (kapi_now_ns() - now.since_ns) / ns_per_ms);
    kapi_report_number(report, HAWSER_RDS_PATH_NEXT_TX, now.next_tx);
    kapi_report_number(report, HAWSER_RDS_PATH_NEXT_RX, now.next_rx);
    kapi_report_number(report, HAWSER_RDS_PATH_TX_BYTES, now.tx_bytes);
    kapi_report_number(report, HAWSER_RDS_PATH_RX_BYTES, now.rx_bytes);
    kapi_report_number(report, HAWSER_RDS_PATH_QUEUED, now.queued);
    kapi_report_number(report, HAWSER_RDS_PATH_DROPS, now.drops);
    kapi_report_number(report, HAWSER_RDS_PATH_RETRANSMITS, now.retransmits);
    kapi_report_number(report, HAWSER_RDS_PATH_SENDING, now.sending);
    add_tcp(report, path);
    add_rdma(report, path);
    add_latency(report, path);
    kapi_report_end(report);
}

// Calls add(T&) for the item of table behind place.
template <class Table, class Add> int add_next(Table& table, kapi_report_place& place, Add&& add)
{
    typename Table::Cursor cursor{static_cast<unsigned>(place.words[0]), place.words[1], place.words[2]};
    auto item = table.next(cursor);
    if (!item)
        return 0;
    place.words[0] = cursor.shard, place.words[1] = cursor.hash, place.words[2] = cursor.address;
    add(*item);
    return 1;
}

int next_connection(kapi_net* host, kapi_report_place* place, kapi_report* report)
{
    Net* net = Module::get().find_net(host);
    return !net ? 0 : add_next(net->connections, *place, [&](Connection& connection) {
        add_ends(report, connection);
        for (unsigned i = 0; i < connection.path_count(); i++)
            if (connection.shows(i))
                add_path(report, connection.path(i));
    });
}

int next_socket(kapi_net* host, kapi_report_place* place, kapi_report* report)
{
    Net* net = Module::get().find_net(host);
    return !net ? 0 : add_next(net->binds, *place, [&](Socket& socket) {
        Socket::Info info = socket.info();
        kapi_report_ip(report, HAWSER_RDS_SOCKET_LOCAL, socket.bound_key().ip.bytes());
        kapi_report_number(report, HAWSER_RDS_SOCKET_LOCAL_PORT, socket.bound_key().port);
        if (!info.peer.ip.is_any()) {
            kapi_report_ip(report, HAWSER_RDS_SOCKET_REMOTE, info.peer.ip.bytes());
            kapi_report_number(report, HAWSER_RDS_SOCKET_REMOTE_PORT, info.peer.port);
        }
        kapi_report_number(report, HAWSER_RDS_SOCKET_INODE, info.inode);
        kapi_report_number(report, HAWSER_RDS_SOCKET_SEND_BUFFER, info.send_limit);
        kapi_report_number(report, HAWSER_RDS_SOCKET_RECEIVE_BUFFER, info.receive_limit);
        kapi_report_number(report, HAWSER_RDS_SOCKET_SENDING, info.sending);
        kapi_report_number(report, HAWSER_RDS_SOCKET_UNREAD, info.unread);
    });
}

// A transport that comes or goes meanwhile moves those behind it.
int next_counter(kapi_net* host, kapi_report_place* place, kapi_report* report)
{
    Net* net = Module::get().find_net(host);
    if (!net)
        return 0;
    u64 wanted = place->words[0]++, at = 0;
    net->for_each_counter([&](const char* name, auto&& value) {
        if (at++ != wanted)
            return;
        kapi_report_text(report, HAWSER_RDS_COUNTER_NAME, name);
        kapi_report_number(report, HAWSER_RDS_COUNTER_VALUE, value());
    });
    return wanted < at;
}

} // namespace

void publish_change(Path& path, PathState from, PathState to, kapi_trace_rds_reason reason)
{
    Connection& connection = path.connection();
    kapi_report* report = kapi_event_begin(connection.net.host, HAWSER_CMD_RDS_PATH_CHANGED);
    if (!report)
        return;
    add_ends(report, connection);
    kapi_report_begin(report, HAWSER_RDS_CONNECTION_PATH);
    add_state(report, path, to, reason);
    kapi_report_number(report, HAWSER_RDS_PATH_FROM, static_cast<u64>(from));
    kapi_report_end(report);
    kapi_event_send(report);
}

} // namespace rds

extern "C" {
extern constinit const kapi_report_table rds_report_tables[] = {
    {HAWSER_CMD_RDS_CONNECTION_GET, 0, rds::next_connection},
    {HAWSER_CMD_RDS_SOCKET_GET, 0, rds::next_socket},
    {HAWSER_CMD_RDS_COUNTER_GET, 0, rds::next_counter},
    {HAWSER_CMD_RDS_QUEUE_GET, HAWSER_RDS_QUEUE_KIND, rds::next_queue},
};
extern constinit const unsigned rds_report_table_count = sizeof(rds_report_tables) / sizeof(rds_report_tables[0]);
}
