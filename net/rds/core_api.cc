// SPDX-License-Identifier: GPL-2.0
// The C functions that rds.ko's glue and the transports call: conversions and nothing else.
#include "connection.h"
#include "glue/rds_core.h"
#include "socket.h"
#include "transport.h"
#include "uapi.h"

using namespace rds;

namespace {

Net& net_of(rds_net* net) { return *reinterpret_cast<Net*>(net); }
Socket& socket_of(rds_socket* socket) { return *reinterpret_cast<Socket*>(socket); }
Connection& conn_of(rds_conn* conn) { return *reinterpret_cast<Connection*>(conn); }
Message& out_of(const rds_out* out) { return *reinterpret_cast<Message*>(const_cast<rds_out*>(out)); }
Incoming& inc_of(const rds_inc* inc) { return *reinterpret_cast<Incoming*>(const_cast<rds_inc*>(inc)); }

int to_c(const Result<>& result) { return result ? 0 : result.error().to_c(); }
int to_c(const Result<int>& result) { return result ? *result : result.error().to_c(); }
s64 to_c(const Result<u32>& result) { return result ? static_cast<s64>(*result) : result.error().to_c(); }

std::span<const std::byte> bytes(const void* data, int size)
{
    return {static_cast<const std::byte*>(data), size < 0 ? 0 : static_cast<usize>(size)};
}

} // namespace

extern "C" {

#define ROW(field, low, high, low_is, high_is)                                                                         \
    {#field, offsetof(rds_sysctl, field), sizeof(rds_sysctl::field), low, high, low_is, high_is}
extern constinit const rds_sysctl_row rds_sysctl_table[] = {
    ROW(reconnect_min_delay_ms, 1, 0, -1, 1), // up to reconnect_max_delay_ms
    ROW(reconnect_max_delay_ms, 0, 3'600'000, 0, -1),
    ROW(max_unacked_packets, 0, 0x7fffffff, -1, -1),
    ROW(max_unacked_bytes, 0, 0x7fffffff, -1, -1),
    ROW(ping_enable, 0, 1, -1, -1),
    ROW(congestion_refresh_ms, 10, 3'600'000, -1, -1),
    ROW(receive_limit_factor, 2, 64, -1, -1),
    ROW(send_limit_max, 0, 0x3fffffff, -1, -1),
    ROW(idle_connection_ms, 0, 86'400'000, -1, -1),
};
#undef ROW
extern constinit const unsigned rds_sysctl_rows = sizeof(rds_sysctl_table) / sizeof(rds_sysctl_table[0]);

int rds_core_init(void) { return to_c(Module::start()); }
void rds_core_exit(void) { Module::stop(); }

int rds_net_create(kapi_net* host, rds_net** net)
{
    auto made = Net::create(host);
    if (!made)
        return made.error().to_c();
    *net = reinterpret_cast<rds_net*>(*made);
    return 0;
}
void rds_net_destroy(rds_net* net) { Net::destroy(&net_of(net)); }
rds_sysctl* rds_net_sysctl(rds_net* net) { return &net_of(net).sysctl; }

int rds_socket_check(int type, int protocol)
{
    return type == RDS_ABI_SOCK_SEQPACKET && protocol == 0 ? 0 : -KAPI_ESOCKTNOSUPPORT;
}
int rds_socket_create(rds_net* net, kapi_sk* sk, rds_socket** socket)
{
    auto made = Socket::create(net_of(net), sk);
    if (!made)
        return made.error().to_c();
    *socket = reinterpret_cast<rds_socket*>(*made);
    return 0;
}
void rds_socket_release(rds_socket* socket) { socket_of(socket).release(); }
void rds_socket_destroy(rds_socket* socket) { Socket::destroy(&socket_of(socket)); }
int rds_socket_bind(rds_socket* socket, const void* name, int length) {
    return to_c(socket_of(socket).bind(bytes(name, length)));
}
int rds_socket_connect(rds_socket* socket, const void* name, int length)
{
    return to_c(socket_of(socket).connect(bytes(name, length)));
}
int rds_socket_getname(rds_socket* socket, void* name, int peer) {
    return to_c(socket_of(socket).name(name, peer != 0));
}
void rds_socket_send_limit_changed(rds_socket* socket) { socket_of(socket).send_limit_changed(); }
s64 rds_socket_sendmsg(rds_socket* socket, const rds_send* send) { return to_c(socket_of(socket).send(*send)); }
s64 rds_socket_recvmsg(rds_socket* socket, rds_receive* receive) { return to_c(socket_of(socket).receive(*receive)); }
unsigned rds_socket_poll(rds_socket* socket, kapi_poll* poll) { return socket_of(socket).poll(poll); }
int rds_socket_setsockopt(rds_socket* socket, int name, const kapi_optval* value, int length)
{
    return to_c(socket_of(socket).set_option(name, value, length));
}
int rds_socket_getsockopt(rds_socket* socket, int name, const kapi_optval* value, int* length, int* report)
{
    bool reports = false;
    int result = to_c(socket_of(socket).get_option(name, value, *length, reports));
    *report = reports;
    return result;
}
int rds_socket_ioctl(rds_socket* socket, unsigned command, const kapi_optval* argument)
{
    return to_c(socket_of(socket).ioctl(command, argument));
}

// ---- for transports

int rds_transport_register(const rds_transport* transport) { return to_c(Module::get().add_transport(*transport)); }
void rds_transport_unregister(const rds_transport* transport) { Module::get().remove_transport(*transport); }
void rds_transport_leave_net(const rds_transport* transport, kapi_net* host)
{
    if (Net* net = Module::get().find_net(host))
        net->end_connections(transport);
}
void rds_transport_end_streams(const rds_transport* transport, kapi_net* host)
{
    if (Net* net = Module::get().find_net(host))
        net->end_streams(*transport);
}

int rds_conn_get(kapi_net* host, const rds_transport* transport, const kapi_addr* local, const kapi_addr* remote,
                 u8 tos, rds_conn** conn, void** state)
{
    Net* net = Module::get().find_net(host);
    if (!net)
        return -KAPI_ENETUNREACH;
    auto got = net->connections.get(*net, *transport, {Ip::from(local->ip), 0, local->scope},
                                    {Ip::from(remote->ip), 0, remote->scope}, tos, ConnectionShares::peers,
                                    Alloc::sleep);
    if (!got)
        return got.error().to_c();
    *state = (*got)->state();
    *conn = reinterpret_cast<rds_conn*>(got->leak());
    return 0;
}
void rds_conn_put(rds_conn* conn) { conn_of(conn).unref(); }
unsigned rds_conn_paths(rds_conn* conn, int* peer_indexes)
{
    *peer_indexes = conn_of(conn).peer_indexes();
    return conn_of(conn).paths();
}
int rds_conn_is_foreign(rds_conn* conn) { return conn_of(conn).peer() == Peer::foreign; }
u32 rds_conn_payer(rds_conn* conn) { return conn_of(conn).payer; }
u32 rds_conn_other_user(rds_conn* conn) { return conn_of(conn).other_user(); }
void rds_conn_peer_is(rds_conn* conn, int hawser) { conn_of(conn).peer_is(hawser ? Peer::hawser : Peer::foreign); }
int rds_conn_stream_room(rds_conn* conn) { return conn_of(conn).net.peers_memory.stream_room(); }
void rds_conn_stream_added(rds_conn* conn) { conn_of(conn).net.peers_memory.stream_added(); }
void rds_conn_stream_gone(rds_conn* conn) { conn_of(conn).net.peers_memory.stream_gone(); }
int rds_conn_is_peers(rds_conn* conn, const void* header)
{
    Header untrusted;
    kapi_copy(&untrusted, header, sizeof(untrusted));
    return conn_of(conn).is_peers(untrusted);
}
void rds_conn_note(rds_conn* conn, const char* what) { conn_of(conn).note(KAPI_LOG_NOTICE, what); }
void rds_path_notify(rds_conn* conn, unsigned path, unsigned events) { conn_of(conn).path(path).notify(events); }
void rds_path_retry_later(rds_conn* conn, unsigned path, unsigned events) {
    conn_of(conn).path(path).receive_later(events);
}
int rds_path_stalled(rds_conn* conn, unsigned path) { return conn_of(conn).path(path).stalled(); }
void rds_path_acked(rds_conn* conn, unsigned path, u32 una) { conn_of(conn).path(path).acked(una); }
int rds_path_has_pinned(rds_conn* conn, unsigned path) { return conn_of(conn).path(path).has_pinned(); }

int rds_inc_create(rds_conn* conn, unsigned path, const void* header, usize behind, rds_inc** inc)
{
    Header checked;
    kapi_copy(&checked, header, sizeof(checked));
    auto kind = classify(checked);
    if (!kind) {
        Net& net = conn_of(conn).net;
        net.count(Stat::recv_garbage);
        if (net.module.notices.garbage.is_due())
            conn_of(conn).note(KAPI_LOG_NOTICE, "sends what is no RDS, its stream ends");
        return kind.error().to_c();
    }
    if (!conn_of(conn).path(path).may_read(*kind))
        return -KAPI_EAGAIN;
    bool overdraws = false;
    if (*kind == MessageKind::data) {
        auto found = conn_of(conn).path(path).find_place(checked);
        if (!found) {
            conn_of(conn).path(path).partial().proceeds(conn_of(conn).net.peers_memory); // it waits for something else
            return found.error().to_c();
        }
        overdraws = *found;
        if (conn_of(conn).path(path).leaves_to_program(checked))
            return -KAPI_EAGAIN;
    }
    auto made = Incoming::create(checked);
    if (!made)
        return made.error().to_c();
    (*made)->connection = &conn_of(conn);
    (*made)->path = path;
    (*made)->overdraws = overdraws;
    if (auto expected = (*made)->expect(behind); !expected)
        return expected.error().to_c();
    (*made)->trace_ns[0] = (*made)->trace_ns[1] = conn_of(conn).net.trace_clock_ns();
    *inc = reinterpret_cast<rds_inc*>(made->leak());
    return 0;
}
u32 rds_inc_left(const rds_inc* inc) { return inc_of(inc).left(); }
int rds_inc_leaves(rds_inc* inc)
{
    Incoming& incoming = inc_of(inc);
    return incoming.connection->path(incoming.path).leaves_to_program(incoming.header);
}
int rds_inc_append(rds_inc* inc, kapi_rx* rx, usize offset, u32 size) {
    return to_c(inc_of(inc).append(rx, offset, size));
}
int rds_inc_copies(const rds_inc* inc) { return inc_of(inc).copies(); }
int rds_inc_attach(rds_inc* inc, kapi_rxbuf* buffer, u32 size)
{
    RxBuffer owned(buffer);
    auto attached = inc_of(inc).attach(owned, size);
    int result = attached ? !owned : attached.error().to_c();
    static_cast<void>(owned.release());
    return result;
}
void rds_inc_free(rds_inc* inc) { inc_of(inc).unref(); }
void rds_inc_deliver(rds_inc* inc)
{
    auto incoming = Ref<Incoming>::adopt(&inc_of(inc));
    Path& path = incoming->connection->path(incoming->path);
    path.receive(std::move(incoming));
}

const void* rds_out_header(const rds_out* out) { return &out_of(out).header(); }
void* rds_out_whole(rds_out* out) { return out_of(out).in_pages() ? nullptr : &out_of(out).header(); }
u32 rds_out_length(const rds_out* out) { return out_of(out).length(); }
unsigned rds_out_segments(rds_out* out, u32 offset, kapi_segment* segments, unsigned count)
{
    return out_of(out).gather(sizeof(Header) + offset, {segments, count}).count;
}
const rds_rdma_op* rds_out_rdma(const rds_out* out)
{
    RdmaOperation* operation = out_of(out).operation();
    return operation && !operation->has_begun() ? &operation->c() : nullptr;
}
void rds_out_rdma_begins(rds_out* out) { out_of(out).operation()->begin(); }
void rds_out_rdma_done(rds_out* out, rds_rdma_status status) { out_of(out).operation_done(status); }
void rds_out_hold(rds_out* out) { out_of(out).ref(); }
void rds_out_put(rds_out* out) { out_of(out).unref(); }
void rds_out_abandon(rds_out* out)
{
    out_of(out).keep_memory();
    out_of(out).unref();
}

} // extern "C"
