// SPDX-License-Identifier: GPL-2.0
#include "net.h"

#include "connection.h"
#include "loop.h"
#include "socket.h"

namespace rds {

// ---- the module

Module& Module::get()
{
    return *static_cast<Module*>(*kapi_module_slot(KAPI_SLOT_RDS));
}

Result<> Module::start()
{
    Own<Module> module(make<Module>(Alloc::sleep));
    if (!module)
        return fail(KAPI_ENOMEM);
    module->workqueue = kapi_workqueue_create("rds", 0);
    if (!module->workqueue)
        return fail(KAPI_ENOMEM);
    auto added = module->add_transport(loop_transport);
    HW_ASSERT(added.has_value());
    *kapi_module_slot(KAPI_SLOT_RDS) = module.release();
    return {};
}

void Module::stop()
{
    Module* module = &get();
    kapi_workqueue_destroy(module->workqueue);
    kapi_rcu_barrier();
    *kapi_module_slot(KAPI_SLOT_RDS) = nullptr;
    dispose(module);
}

Result<> Module::add_transport(const rds_transport& transport)
{
    return state_.with([&](State& state) -> Result<> {
        if (state.transports[transport.type])
            return fail(KAPI_EEXIST);
        state.transports[transport.type] = &transport;
        return {};
    });
}

void Module::remove_transport(const rds_transport& transport)
{
    state_.with([&](State& state) { state.transports[transport.type] = nullptr; });
}

const rds_transport* Module::transport(int type)
{
    return state_.with([&](State& state) -> const rds_transport* {
        const rds_transport* t = state.transports[type];
        return t && (!t->owner || kapi_module_get(t->owner)) ? t : nullptr;
    });
}

void Module::drop_transport(const rds_transport* transport)
{
    if (transport && transport->owner)
        kapi_module_put(transport->owner);
}

// Without memory the socket would be another transport's for good.
Result<const rds_transport*> Module::transport_for(kapi_net* host, const kapi_addr& addr)
{
    // Loopback first, for its addresses belong to no other; then RDMA before TCP.
    for (int type : {RDS_TRANSPORT_LOOP, RDS_TRANSPORT_IB, RDS_TRANSPORT_TCP}) {
        const rds_transport* t = transport(type);
        int err = t ? t->check_local(host, &addr) : -KAPI_EADDRNOTAVAIL;
        if (!err)
            return t;
        drop_transport(t);
        if (err == -KAPI_ENOMEM)
            return fail(KAPI_ENOMEM);
    }
    return fail(KAPI_EADDRNOTAVAIL);
}

void Module::add_net(Net& net)
{
    state_.with([&](State& state) { state.nets.add(net); });
}

void Module::remove_net(Net& net)
{
    state_.with([&](State& state) { state.nets.remove(net); });
}

Net* Module::find_net(kapi_net* host)
{
    return state_.with([&](State& state) { return state.nets.find(host); });
}

// ---- connections by their addresses

namespace {

void note_refusal(Net& net, const Ip& peer, u32 payer)
{
    bool is_peers = payer == ConnectionShares::peers;
    Notice& notice = is_peers ? net.module.notices.connections_of_peers : net.module.notices.connections_of_users;
    if (notice.is_due())
        note(KAPI_LOG_NOTICE, peer, is_peers ? "is refused: peers have as many connections as they may have" :
             "cannot be sent to: its user has as many connections as one may have");
}

} // namespace

Ref<Connection> ConnectionTable::find(const rds_transport& transport, const Endpoint& local, const Endpoint& remote,
                                      u8 tos)
{
    return table_.find(hash_of(local, remote, tos),
                       [&](const Connection& c) { return c.matches(transport, local, remote, tos); });
}

Ref<Connection> ConnectionTable::next(Cursor& cursor)
{
    return table_.next(cursor);
}

Result<Ref<Connection>> ConnectionTable::get(Net& net, const rds_transport& transport, const Endpoint& local,
                                             const Endpoint& remote, u8 tos, u32 payer, Alloc mode)
{
    if (auto found = find(transport, local, remote, tos))
        return found;
    // Nothing is allocated for a connection above the limit.
    if (!shares.take(payer, limit)) {
        note_refusal(net, remote.ip, payer);
        return fail(KAPI_ENOBUFS);
    }
    auto result = Connection::create(net, transport, local, remote, tos, mode);
    if (result) {
        Ref<Connection> fresh = *result;
        fresh->payer = payer;
        result = enter(fresh, mode);
        if (result && result->get() == fresh.get())
            return result;
    }
    shares.give_back(payer);
    return result;
}

// Its peers receive the map of our address from before it is found, so that a thread that ends it finds it there.
Result<Ref<Connection>> ConnectionTable::enter(Ref<Connection> fresh, Alloc mode)
{
    using enum decltype(table_)::Insert;
    Connection& c = *fresh;
    if (!c.loops()) // which has no peer
        c.local_map().add_connection(c);
    c.ref(); // the table's
    Ref<Connection> found;
    auto entered = table_.insert(
        hash_of(c.local, c.remote, c.tos), c, mode,
        [&](const Connection& other) { return other.matches(c.transport, c.local, c.remote, c.tos); },
        [&] { return !closed_.load_acquire(); }, found);
    if (entered == done) {
        c.net.collector.connection_made(c);
        c.net.connection_entered();
        return fresh;
    }
    c.unref();
    c.local_map().remove_connection(c);
    return entered == exists ? Result<Ref<Connection>>(found) : fail(KAPI_ENETUNREACH);
}

bool ConnectionTable::remove(Connection& connection)
{
    return take_out(connection, [] { return true; });
}

// Under the table's lock it cannot be found, and with no more references than these no work of it is pending.
bool ConnectionTable::remove_unused(Connection& connection, u32 references)
{
    return take_out(connection, [&] {
        return connection.references() <= references && !connection.has_streams() && connection.is_empty();
    });
}

template <class Condition> bool ConnectionTable::take_out(Connection& connection, Condition&& condition)
{
    if (!table_.remove_if(connection, condition))
        return false;
    shares.give_back(connection.payer);
    connection.unref();
    return true;
}

// ---- a namespace

Result<Net*> Net::create(kapi_net* host)
{
    Own<Net> net(make<Net>(Alloc::charged, host));
    if (!net)
        return fail(KAPI_ENOMEM);
    net->counters_ = kapi_counters_create(static_cast<unsigned>(Stat::count));
    if (!net->counters_)
        return fail(KAPI_ENOMEM);
    net->sysctl = {
        .reconnect_min_delay_ms = 4,
        .reconnect_max_delay_ms = 1000,
        .max_unacked_packets = 8,
        .max_unacked_bytes = 16u << 20,
        .ping_enable = 1,
        .congestion_refresh_ms = 50,
        .receive_limit_factor = 4,
        .send_limit_max = usual_send_limit_max,
        .idle_connection_ms = 600'000,
    };
    if (kapi_net_is_initial(host))
        net->module.initial_net.store_release(net.get());
    net->module.add_net(*net);
    return net.release();
}

bool Net::has_connections(const rds_transport* transport)
{
    return live_.with([&](Live& live) {
        u32 left = 0;
        for (int type = 0; type < RDS_TRANSPORT_TYPES; type++)
            if (!transport || transport->type == type)
                left += live.count[type];
        return left != 0;
    });
}

void Net::kill_connections(const rds_transport* transport)
{
    connections.for_each([&](Connection& connection) {
        if ((!transport || &connection.transport == transport) && connections.remove(connection))
            connection.kill();
    });
}

void Net::end_streams(const rds_transport& transport)
{
    connections.for_each([&](Connection& connection) {
        if (&connection.transport == &transport)
            connection.end_streams();
    });
}

void Net::end_connections(const rds_transport* transport)
{
    if (!transport)
        connections.close();
    while (has_connections(transport)) {
        u32 entered = entered_.load();
        kill_connections(transport);
        // A worker, a socket in its last moments or a reader of RDS_INFO may hold one a little longer; and one that was being
        // made may have been entered behind the walk.
        idle_.wait_for([&] { return !has_connections(transport) || entered_.load() != entered; });
    }
}

void Net::destroy(Net* net)
{
    net->end_connections(nullptr);
    net->collector.stop();
    net->watchers.stop();
    for (CongestionMaps* maps : {&net->own_maps, &net->peer_maps, &net->named_peer_maps_})
        maps->stop();
    net->peers_memory.stop();
    if (kapi_net_is_initial(net->host))
        net->module.initial_net.store_release(nullptr);
    net->module.remove_net(*net);
    kapi_counters_destroy(net->counters_);
    HW_ASSERT(!net->stalled_paths.load()); // there is no path
    dispose(net);
}

void Net::congestion_changed()
{
    congestion_generation_.fetch_add(1);
    watchers.changed(module.workqueue);
}

} // namespace rds
