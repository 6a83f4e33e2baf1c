// SPDX-License-Identifier: GPL-2.0
// RDS in one network namespace, and the module that all namespaces share.
#pragma once

#include "../lock_order.h"
#include "bind.h"
#include "collector.h"
#include "congestion.h"
#include "connection_shares.h"
#include "glue/rds_core.h"
#include "notice.h"
#include "peers_memory.h"
#include "stats.h"
#include "transport.h"
#include "watchers.h"

#include <hawser/hash_table.h>
#include <hawser/list.h>
#include <hawser/lock.h>
#include <hawser/net_list.h>
#include <hawser/wait.h>
#include <hawser/work.h>

namespace rds {

class Connection;
class Net;
struct Table; // hash tag: connections of a namespace

// The root of the module's state.
class Module : Pinned {
public:
    static Module& get();
    static Result<> start();
    static void stop();

    kapi_workqueue* workqueue = nullptr;
    PeersShare peers_share;
    Notices notices;
    Atomic<const Net*> initial_net{nullptr};

    // How many paths try to connect in all namespaces of the user who made this one. Null: that is the administrator.
    Atomic<u32>* trying_of_owner(kapi_net* host)
    {
        u32 owner = kapi_net_owner(host);
        return owner ? &of_owners_[owner % KAPI_USERS] : nullptr;
    }

    Result<> add_transport(const rds_transport& transport);
    void remove_transport(const rds_transport& transport);
    // The transport of a type with a reference to its module, or null. Release with drop_transport.
    const rds_transport* transport(int type);
    // The first transport, in order of preference, that has addr, with a reference. EADDRNOTAVAIL: none has; ENOMEM.
    Result<const rds_transport*> transport_for(kapi_net* host, const kapi_addr& addr);
    // Calls visit(const rds_transport&) for each; the module is held meanwhile.
    template <class Visit> void for_each_transport(Visit&& visit)
    {
        for (int type = 0; type < RDS_TRANSPORT_TYPES; type++)
            if (const rds_transport* t = transport(type)) {
                visit(*t);
                drop_transport(t);
            }
    }
    static void drop_transport(const rds_transport* transport);

    void add_net(Net& net);
    void remove_net(Net& net);
    Net* find_net(kapi_net* host); // the caller is inside of the namespace's life

private:
    struct State {
        const rds_transport* transports[RDS_TRANSPORT_TYPES] = {};
        NetList<Net> nets;
    };
    Guarded<State, ModuleLock> state_;
    Atomic<u32> of_owners_[KAPI_USERS];
};

class ConnectionTable : Pinned {
public:
    explicit ConnectionTable(Atomic<u32>* trying_of_owner) : shares(trying_of_owner) {}
    u32 limit = 65536; // in one namespace
    ConnectionShares shares;

    // The connection of a key, or null. Any context.
    Ref<Connection> find(const rds_transport& transport, const Endpoint& local, const Endpoint& remote, u8 tos);
    // Finds or makes, in a context that mode allows. A new one counts to payer's share. ENOMEM, ENOBUFS, ENETUNREACH.
    Result<Ref<Connection>> get(Net& net, const rds_transport& transport, const Endpoint& local, const Endpoint& remote,
                                u8 tos, u32 payer, Alloc mode);
    // Any context. False when another caller took it out before.
    bool remove(Connection& connection);
    // The same, but only if it has at most that many references, so that it is unused.
    bool remove_unused(Connection& connection, u32 references);
    u32 size() const { return table_.size(); }
    // None can be made any more.
    void close() { closed_.store_release(1); }
    // Calls visit(Connection&) for each, under no lock. Those added or removed meanwhile may be missed.
    template <class Visit> void for_each(Visit&& visit) { table_.for_each(visit); }
    // The same one by one.
    using Connections = HashTable<Connection, Table, ConnectionTableLock, 64>;
    using Cursor = Connections::Cursor;
    Ref<Connection> next(Cursor& cursor);
    // Calls visit(Connection&) for the next few from cursor on, for works: there may be so many that the rest is for another
    // run. False at the end, and the cursor at the beginning.
    template <class Visit> bool visit_some(Cursor& cursor, Visit&& visit)
    {
        constexpr unsigned some = 32;
        for (unsigned i = 0; i < some; i++) {
            Ref<Connection> connection = next(cursor);
            if (!connection) {
                cursor = {};
                return false;
            }
            visit(*connection);
        }
        return true;
    }

    // Several connections may have the same.
    u32 hash_of(const Endpoint& local, const Endpoint& remote, u8 tos) const
    {
        return table_.hash_of(std::array{local.ip.word(0), local.ip.word(1), remote.ip.word(0), remote.ip.word(1),
                                         static_cast<u64>(local.scope), static_cast<u64>(remote.scope) << 8 | tos});
    }

private:
    Result<Ref<Connection>> enter(Ref<Connection> fresh, Alloc mode);
    template <class Condition> bool take_out(Connection& connection, Condition&& condition);

    Connections table_;
    Atomic<u32> closed_{0};
};

class Net : Pinned {
public:
    static Result<Net*> create(kapi_net* host);
    static void destroy(Net* net);
    explicit Net(kapi_net* host_net) : host(host_net), module(Module::get()) {}

    kapi_net* const host;
    Module& module;
    Net* next = nullptr; // in the module's list, under its lock
    rds_sysctl sysctl{};
    // Default of net.rds.send_limit_max, and the most in a namespace of a user: see SendLimit.
    static constexpr u32 usual_send_limit_max = 512u << 10;
    // Sockets with RDS_MSG_RXPATH_LATENCY. Without one there are no stamps: the clock costs as much as a lock. Any context.
    Atomic<u32> traced_sockets{0};
    u64 trace_clock_ns() const { return traced_sockets.load_relaxed() ? kapi_local_clock_ns() : 0; }
    BindTable binds;
    ConnectionTable connections{module.trying_of_owner(host)};
    CongestionMaps own_maps{*this};  // of our addresses
    CongestionMaps peer_maps{*this}; // of remote addresses
    Collector collector{*this};
    PeersMemory peers_memory{*this};
    Atomic<u32> stalled_paths{0}; // that wait for full sockets; changed under the socket's lock

    void count(Stat stat, u64 n = 1) { kapi_counters_add(counters_, static_cast<unsigned>(stat), n); }
    // Calls visit(const char* name, value) for those of core, then for those of each transport. value() is the present one.
    template <class Visit> void for_each_counter(Visit&& visit)
    {
        for (unsigned i = 0; i < static_cast<unsigned>(Stat::count); i++)
            visit(stat_names[i], [&] { return counted(static_cast<Stat>(i)); });
        module.for_each_transport([&](const rds_transport& t) {
            for (unsigned i = 0; i < t.counters; i++)
                visit(t.counter_names[i], [&] { return t.counter(host, i); });
        });
    }
    u64 counted(Stat stat) const { return kapi_counters_read(counters_, static_cast<unsigned>(stat)); }

    // Tears down every connection of transport (null: of all). Sleeps.
    void kill_connections(const rds_transport* transport);
    // Ends the streams of those of transport soon, whatever is in flight. Sleeps.
    void end_streams(const rds_transport& transport);
    // Tears them down, and waits until none of them is left: no socket that sent over one may be open. Sleeps.
    void end_connections(const rds_transport* transport);

    // A map that senders look at was replaced, or has cleared bits that senders met: pollers and monitoring sockets are
    // notified soon, by a work, as there may be many. Any context.
    void congestion_changed();
    // What peers sent over a transport that names them is apart: a foreign one is not asked for its map there
    // (Connection::is_mute()), and its maps come over TCP in no order, so an old one could stay for ever.
    CongestionMaps& maps_of_peers(bool named) { return named ? named_peer_maps_ : peer_maps; }
    // The address has another host than before: that host's map is forgotten. Any context.
    void forget_peer(const Endpoint& address)
    {
        bool refused = peer_maps.forget(address);
        refused |= named_peer_maps_.forget(address);
        if (refused)
            congestion_changed();
    }
    u32 congestion_generation() const { return congestion_generation_.load_acquire(); }
    Watchers watchers;

    // Counts the connections of each type of transport that are not freed yet: the namespace and the transport's module end
    // after the last of them. The caller that reports the last one touches nothing of the namespace after the lock: it may
    // be gone by then.
    void connection_made(rds_transport_type type)
    {
        live_.with([&](Live& live) { live.count[type]++; });
    }
    // One is in the table: a thread that waits for the last to go looks there again. Its maker holds it.
    void connection_entered()
    {
        entered_.fetch_add(1);
        idle_.wake();
    }
    void connection_gone(rds_transport_type type)
    {
        live_.with([&](Live& live) {
            if (--live.count[type] == 0)
                idle_.wake();
        });
    }

private:
    friend class Module;
    HW_MADE_BY_CREATE;
    ~Net() = default;
    bool has_connections(const rds_transport* transport);
    kapi_counters* counters_ = nullptr;
    Atomic<u32> congestion_generation_{1};
    struct Live {
        u32 count[RDS_TRANSPORT_TYPES] = {};
    };
    Guarded<Live, LiveLock> live_;
    Atomic<u32> entered_{0};
    WaitQueue idle_;
    CongestionMaps named_peer_maps_{*this};
};

} // namespace rds
