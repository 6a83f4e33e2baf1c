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
    module->workqueue = kapi_workqueue_create("rds");
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
    for (Net* net = next_net(nullptr); net; net = next_net(net))
        net->kill_connections(&transport);
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

const rds_transport* Module::transport_for(kapi_net* host, const kapi_addr& addr)
{
    // Loopback addresses are nobody else's; then RDMA before TCP.
    for (int type : {RDS_TRANSPORT_LOOP, RDS_TRANSPORT_IB, RDS_TRANSPORT_TCP}) {
        const rds_transport* t = transport(type);
        if (t && t->check_local(host, &addr) == 0)
            return t;
        drop_transport(t);
    }
    return nullptr;
}

void Module::add_net(Net& net)
{
    state_.with([&](State& state) { net.next = std::exchange(state.nets, &net); });
}

void Module::remove_net(Net& net)
{
    state_.with([&](State& state) {
        for (Net** link = &state.nets; *link; link = &(*link)->next) {
            if (*link == &net) {
                *link = net.next;
                return;
            }
        }
    });
}

Net* Module::find_net(kapi_net* host)
{
    return state_.with([&](State& state) -> Net* {
        for (Net* net = state.nets; net; net = net->next)
            if (net->host == host)
                return net;
        return nullptr;
    });
}

Net* Module::next_net(Net* after)
{
    return state_.with([&](State& state) { return after ? after->next : state.nets; });
}

// ---- connections by their addresses

Ref<Connection> ConnectionTable::find(const rds_transport& transport, const Endpoint& local, const Endpoint& remote,
                                      u8 tos) {
    return table_.with([&](Buckets& table) {
        auto& list = bucket(table, remote);
        for (Connection* c = list.front(); c; c = list.next(*c))
            if (c->matches(transport, local, remote, tos))
                return Ref<Connection>::share(*c);
        return Ref<Connection>();
    });
}

Result<Ref<Connection>> ConnectionTable::get(Net& net, const rds_transport& transport, const Endpoint& local,
                                             const Endpoint& remote, u8 tos)
{
    if (auto found = find(transport, local, remote, tos))
        return found;
    Ref<Connection> fresh = TRY(Connection::create(net, transport, local, remote, tos));
    bool entered = false;
    auto result = table_.with([&](Buckets& table) -> Result<Ref<Connection>> {
        if (table.closed)
            return fail(KAPI_ENETUNREACH);
        if (table.size >= max_connections)
            return fail(KAPI_ENOBUFS);
        auto& list = bucket(table, remote);
        for (Connection* c = list.front(); c; c = list.next(*c))
            if (c->matches(transport, local, remote, tos))
                return Ref<Connection>::share(*c);
        list.push_back(fresh);
        table.size++;
        entered = true;
        return fresh;
    });
    if (entered)
        fresh->publish();
    return result;
}

void ConnectionTable::remove(Connection& connection)
{
    Ref<Connection> removed = table_.with([&](Buckets& table) -> Ref<Connection> {
        if (!static_cast<ListNode<Table>&>(connection).linked())
            return {};
        table.size--;
        return bucket(table, connection.remote).remove(connection);
    });
}

Ref<Connection> ConnectionTable::take_any(const rds_transport* transport)
{
    return table_.with([&](Buckets& table) -> Ref<Connection> {
        if (!transport)
            table.closed = true;
        for (auto& list : table.bucket) {
            for (Connection* c = list.front(); c; c = list.next(*c)) {
                if (!transport || &c->transport == transport) {
                    table.size--;
                    return list.remove(*c);
                }
            }
        }
        return {};
    });
}

// ---- a namespace

Result<Net*> Net::create(kapi_net* host)
{
    Own<Net> net(make<Net>(Alloc::sleep, host));
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
        .congestion_refresh_ms = 1000,
        .receive_limit_factor = 4,
    };
    net->module.add_net(*net);
    return net.release();
}

void Net::kill_connections(const rds_transport* transport)
{
    while (Ref<Connection> connection = connections.take_any(transport))
        connection->kill();
}

void Net::destroy(Net* net)
{
    net->kill_connections(nullptr);
    net->module.remove_net(*net);
    // A worker or a socket in its last moments may hold a connection a little longer.
    net->idle_.wait_for([&] { return net->live_connections_.with([](u32 count) { return count == 0; }); });
    kapi_counters_destroy(net->counters_);
    dispose(net);
}

void Net::congestion_changed()
{
    congestion_generation_.fetch_add(1);
    congestion_pollers.wake(KAPI_IN | KAPI_RDNORM | KAPI_WRBAND | KAPI_OUT);
    monitors_.with([](RefList<Socket, Monitors>& list) {
        for (Socket* s = list.front(); s; s = list.next(*s))
            s->congestion_changed(~0ull);
    });
}

void Net::add_monitor(Socket& socket)
{
    monitors_.with([&](RefList<Socket, Monitors>& list) {
        if (!static_cast<ListNode<Monitors>&>(socket).linked())
            list.push_back(Ref<Socket>::share(socket));
    });
}

void Net::remove_monitor(Socket& socket)
{
    Ref<Socket> removed = monitors_.with([&](RefList<Socket, Monitors>& list) -> Ref<Socket> {
        if (!static_cast<ListNode<Monitors>&>(socket).linked())
            return {};
        return list.remove(socket);
    });
}

} // namespace rds
