// SPDX-License-Identifier: GPL-2.0
#include "net.h"

#include "connection.h"

#include <kapi/errno.h>

namespace rds_tcp {

const char* const stat_names[] = {
    "tcp_data_ready_calls", "tcp_write_space_calls", "tcp_sndbuf_full", "tcp_connect_raced", "tcp_listen_closed_stale",
};
static_assert(sizeof(stat_names) / sizeof(stat_names[0]) == static_cast<unsigned>(Stat::count));

namespace {

constexpr unsigned listen_backlog = 64;
constexpr unsigned informed_at_once = 16; // connections, of new sizes of buffers
constexpr u64 informed_ns = RDS_MAX_PATHS * 20'000; // for each of them the next ones are that much later: a path may have a work
constexpr u64 accept_retry_ns = 10'000'000;
constexpr u64 listen_retry_ns = 10'000'000'000;
constexpr u32 keepalive_s = 5; // idle time, and between probes
constexpr u32 keepalive_count = 5;

} // namespace

// ---- the module's list of namespaces

Module& Module::get()
{
    return *static_cast<Module*>(*kapi_module_slot(KAPI_SLOT_RDS_TCP));
}

void Module::add(TcpNet& net)
{
    nets_.with([&](NetList<TcpNet>& nets) { nets.add(net); });
}

void Module::remove(TcpNet& net)
{
    nets_.with([&](NetList<TcpNet>& nets) { nets.remove(net); });
}

TcpNet* Module::find(kapi_net* host)
{
    return nets_.with([&](NetList<TcpNet>& nets) { return nets.find(host); });
}

// ---- a namespace

Result<TcpNet*> TcpNet::create(kapi_net* host)
{
    Own<TcpNet> net(make<TcpNet>(Alloc::charged, host));
    if (!net)
        return fail(KAPI_ENOMEM);
    net->counters_ = kapi_counters_create(static_cast<unsigned>(Stat::count));
    if (!net->counters_)
        return fail(KAPI_ENOMEM);
    Module::get().add(*net);
    int err = net->listen();
    if (err == -KAPI_EADDRINUSE && !kapi_net_is_initial(host)) {
        // By any user, whose namespace must not keep the module from being loaded.
        kapi_log(KAPI_LOG_NOTICE, "rds_tcp: port %u is in use in a namespace, which peers cannot connect to", rds_port);
        net->was_in_use_ = true;
        net->accept_work_.queue(Module::get().workqueue, listen_retry_ns);
    } else if (err) {
        Module::get().remove(*net);
        kapi_counters_destroy(net->counters_);
        return fail(Errno::from_c(err));
    }
    return net.release();
}

// One listener serves IPv4 and IPv6, unless the host was started without IPv6.
int TcpNet::listen()
{
    kapi_addr any{};
    any.port = rds_port;
    int err = kapi_listen(host, &any, listen_backlog, listener_ready, this, &listener_);
    if (err == -KAPI_EAFNOSUPPORT) {
        any.ip[10] = any.ip[11] = 0xff;
        err = kapi_listen(host, &any, listen_backlog, listener_ready, this, &listener_);
    }
    if (err)
        listener_ = nullptr;
    return err;
}

bool TcpNet::listen_again()
{
    if (listen()) {
        accept_work_.queue(Module::get().workqueue, listen_retry_ns);
        return false;
    }
    if (std::exchange(was_in_use_, false)) // not for each time that an administrator, who may be any user, closes it
        kapi_log(KAPI_LOG_NOTICE, "rds_tcp: port %u of a namespace is open now, peers can connect", rds_port);
    return true;
}

void TcpNet::close_listener()
{
    kapi_listener_close(listener_);
    listener_ = nullptr;
}

void TcpNet::destroy(TcpNet* net)
{
    net->ending_.store_release(true);
    net->accept_work_.cancel_sync(); // the listener stays as it is from here on
    if (net->listener_) {
        kapi_listener_stop(net->listener_);
        net->accept_work_.cancel_sync();
        net->close_listener();
    }
    Module::get().remove(*net); // no new connection begins
    rds_transport_leave_net(&Module::get().transport, net->host);
    net->buffers_work_.cancel_sync();
    kapi_counters_destroy(net->counters_);
    dispose(net);
}

kapi_stream_options TcpNet::stream_options() const
{
    u32 sndbuf = static_cast<u32>(max(0, sysctl.rds_tcp_sndbuf)), rcvbuf = static_cast<u32>(max(0, sysctl.rds_tcp_rcvbuf));
    if (!kapi_net_is_initial(host)) { // any user can be the administrator of another one, and these are charged to no program
        u32 most_sndbuf, most_rcvbuf;
        kapi_stream_buffer_limits(&most_sndbuf, &most_rcvbuf);
        sndbuf = min(sndbuf, most_sndbuf);
        rcvbuf = min(rcvbuf, most_rcvbuf);
    }
    return {
        .sndbuf = sndbuf,
        .rcvbuf = rcvbuf,
        .keepalive_idle_s = keepalive_s,
        .keepalive_interval_s = keepalive_s,
        .keepalive_count = keepalive_count,
        .nodelay = 1,
        .shares_port = 0,
    };
}

u16 TcpNet::next_port(unsigned index)
{
    u16 low, high;
    kapi_net_port_range(host, &low, &high);
    u32 first = (low + RDS_MAX_PATHS - 1u) / RDS_MAX_PATHS * RDS_MAX_PATHS;
    if (first + RDS_MAX_PATHS > high + 1u)
        return 0;
    u32 groups = (high + 1u - first) / RDS_MAX_PATHS;
    for (u32 tries = 0; tries < groups; tries++) {
        u32 group = port_group_.fetch_add(1) % groups;
        u16 port = static_cast<u16>(first + RDS_MAX_PATHS * group + index);
        if (!kapi_net_port_is_reserved(host, port))
            return port;
    }
    return 0;
}

void TcpNet::add(TcpConnection& connection)
{
    connections_.with([&](Connections& list) { list.push_back(connection); });
}

void TcpNet::remove(TcpConnection& connection)
{
    connections_.with([&](Connections& list) { list.remove(connection); });
}

void TcpNet::Connections::push_back(TcpConnection& connection)
{
    connection.next = nullptr;
    connection.link = end;
    *end = &connection;
    end = &connection.next;
    count++;
}

void TcpNet::Connections::remove(TcpConnection& connection)
{
    *connection.link = connection.next;
    (connection.next ? connection.next->link : end) = connection.link;
    count--;
}

// Any user can be the administrator of a namespace, and write its settings all the time. What differs is for the paths to say:
// their streams may have begun between two writes, or under other limits.
void TcpNet::sysctl_changed()
{
    connections_.with([](Connections& list) { list.uninformed = list.count; });
    go_on_spreading();
}

void TcpNet::go_on_spreading()
{
    u64 next = next_informed_ns_.load_relaxed(), now = kapi_now_ns();
    buffers_work_.queue(Module::get().workqueue, next > now ? next - now : 0);
}

// A few at a time, so that the lock is held briefly: the first becomes the last. Those that are added meanwhile begin with the
// new sizes; when some go, some are informed twice.
void TcpNet::spread_buffers()
{
    next_informed_ns_.store_relaxed(kapi_now_ns() + informed_at_once * informed_ns);
    bool more = connections_.with([this](Connections& list) {
        kapi_stream_options options = stream_options(); // after a later write all are uninformed again
        for (unsigned i = 0; i < informed_at_once && list.uninformed && list.first; i++, list.uninformed--) {
            HW_STEP();
            TcpConnection& connection = *list.first;
            for (unsigned path = 0; path < RDS_MAX_PATHS; path++)
                connection.path(path).buffers_changed(options);
            list.remove(connection);
            list.push_back(connection);
        }
        return list.uninformed && list.first;
    });
    if (more)
        go_on_spreading();
}

void TcpNet::refuse(kapi_stream* stream)
{
    if (!stream)
        return;
    count(Stat::listen_closed_stale);
    kapi_stream_close(stream, 1);
}

void TcpNet::listener_ready(void* context)
{
    TcpNet& net = *static_cast<TcpNet*>(context);
    net.accept_work_.queue(Module::get().workqueue);
}

void TcpNet::accept()
{
    if (ending_.load_acquire() || (!listener_ && !listen_again()))
        return;
    // Bounded, so that a flood of connections does not occupy one worker without end; the rest follows at once.
    for (unsigned i = 0; i < listen_backlog; i++) {
        kapi_stream* stream = nullptr;
        int err = kapi_accept(listener_, &stream);
        if (err == -KAPI_EAGAIN)
            return;
        if (err == -KAPI_ECONNABORTED)
            continue;
        if (err == -KAPI_ESHUTDOWN) {
            kapi_listener_stop(listener_);
            close_listener();
        }
        if (err) { // for those behind it no further notice comes
            accept_work_.queue(Module::get().workqueue, accept_retry_ns);
            return;
        }
        accept_one(stream);
    }
    accept_work_.queue(Module::get().workqueue);
}

void TcpNet::accept_one(kapi_stream* stream)
{
    kapi_addr local, remote;
    kapi_stream_addrs(stream, &local, &remote);
    u16 peer_port = remote.port;
    local.port = remote.port = 0;
    rds_conn* conn = nullptr;
    void* state = nullptr;
    // Our own addresses talk over loopback.
    if (kapi_net_is_local(host, &remote) ||
        rds_conn_get(host, &Module::get().transport, &local, &remote, 0, &conn, &state) != 0) {
        kapi_stream_close(stream, 1);
        return;
    }
    static_cast<TcpConnection*>(state)->accepted(stream, peer_port);
    rds_conn_put(conn);
}

} // namespace rds_tcp
