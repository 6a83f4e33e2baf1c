// SPDX-License-Identifier: GPL-2.0
#include "net.h"

#include "connection.h"

namespace rds_tcp {

const char* const stat_names[] = {
    "tcp_data_ready_calls", "tcp_write_space_calls", "tcp_sndbuf_full", "tcp_connect_raced", "tcp_listen_closed_stale",
};
static_assert(sizeof(stat_names) / sizeof(stat_names[0]) == static_cast<unsigned>(Stat::count));

namespace {

constexpr unsigned listen_backlog = 64;
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
    state_.with([&](State& state) { net.next = std::exchange(state.nets, &net); });
}

void Module::remove(TcpNet& net)
{
    state_.with([&](State& state) {
        for (TcpNet** at = &state.nets; *at; at = &(*at)->next) {
            if (*at == &net) {
                *at = net.next;
                return;
            }
        }
    });
}

TcpNet* Module::find(kapi_net* host)
{
    return state_.with([&](State& state) -> TcpNet* {
        for (TcpNet* net = state.nets; net; net = net->next)
            if (net->host == host)
                return net;
        return nullptr;
    });
}

// ---- a namespace

Result<TcpNet*> TcpNet::create(kapi_net* host)
{
    Own<TcpNet> net(make<TcpNet>(Alloc::sleep, host));
    if (!net)
        return fail(KAPI_ENOMEM);
    net->counters_ = kapi_counters_create(static_cast<unsigned>(Stat::count));
    if (!net->counters_)
        return fail(KAPI_ENOMEM);
    Module::get().add(*net);
    kapi_addr any{};
    any.port = rds_port;
    int err = kapi_listen(host, &any, listen_backlog, listener_ready, net.get(), &net->listener_);
    if (err) {
        Module::get().remove(*net);
        kapi_counters_destroy(net->counters_);
        return fail(Errno::from_c(err));
    }
    return net.release();
}

void TcpNet::destroy(TcpNet* net)
{
    kapi_listener_stop(net->listener_);
    net->accept_work_.cancel_sync();
    kapi_listener_close(net->listener_);
    rds_transport_leave_net(&Module::get().transport, net->host);
    Module::get().remove(*net);
    kapi_counters_destroy(net->counters_);
    dispose(net);
}

kapi_stream_options TcpNet::stream_options() const
{
    return {
        .sndbuf = static_cast<u32>(max(0, sysctl.rds_tcp_sndbuf)),
        .rcvbuf = static_cast<u32>(max(0, sysctl.rds_tcp_rcvbuf)),
        .keepalive_idle_s = keepalive_s,
        .keepalive_interval_s = keepalive_s,
        .keepalive_count = keepalive_count,
        .nodelay = 1,
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
    u32 group = port_group_.fetch_add(1) % groups;
    return static_cast<u16>(first + RDS_MAX_PATHS * group + index);
}

void TcpNet::add(TcpConnection& connection)
{
    connections_.with([&](Connections& list) {
        connection.next = list.first;
        connection.link = &list.first;
        if (list.first)
            list.first->link = &connection.next;
        list.first = &connection;
    });
}

void TcpNet::remove(TcpConnection& connection)
{
    connections_.with([&](Connections&) {
        *connection.link = connection.next;
        if (connection.next)
            connection.next->link = connection.link;
    });
}

void TcpNet::sysctl_changed()
{
    connections_.with([&](Connections& list) {
        for (TcpConnection* c = list.first; c; c = c->next)
            for (unsigned i = 0; i < RDS_MAX_PATHS; i++)
                c->path(i).buffers_changed();
    });
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
    // Bounded, so that a flood of connections does not keep one worker for ever; the rest follows at once.
    for (unsigned i = 0; i < listen_backlog; i++) {
        kapi_stream* stream = nullptr;
        if (kapi_accept(listener_, &stream) != 0)
            return;
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
        rds_conn_get(host, &Module::get().transport, &local, &remote, &conn, &state) != 0) {
        kapi_stream_close(stream, 1);
        return;
    }
    static_cast<TcpConnection*>(state)->accepted(stream, peer_port);
    rds_conn_put(conn);
}

} // namespace rds_tcp
