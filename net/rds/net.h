// SPDX-License-Identifier: GPL-2.0
// RDS in one network namespace, and the module that all namespaces share.
#pragma once

#include "bind.h"
#include "congestion.h"
#include "glue/rds_core.h"
#include "stats.h"
#include "transport.h"

#include <hawser/list.h>
#include <hawser/lock.h>
#include <hawser/wait.h>
#include <hawser/work.h>

namespace rds {

class Connection;
class Net;
struct Table;    // list tag: connections of a namespace
struct Monitors; // list tag: sockets that watch congestion

struct ConnectionTableLock {
    static constexpr const char* name = "rds connections";
    static constexpr unsigned rank = 10;
};
struct ModuleLock { static constexpr const char* name = "rds module"; static constexpr unsigned rank = 5; };
struct LiveLock { static constexpr const char* name = "rds live"; static constexpr unsigned rank = 70; };
struct MonitorLock { static constexpr const char* name = "rds monitors"; static constexpr unsigned rank = 35; };

// The root of the module's state.
class Module : Pinned {
public:
    static Module& get();
    static Result<> start();
    static void stop();

    kapi_workqueue* workqueue = nullptr;

    Result<> add_transport(const rds_transport& transport);
    void remove_transport(const rds_transport& transport);
    // The transport of a type with a reference to its module, or null. Release with drop_transport.
    const rds_transport* transport(int type);
    // The first transport, in order of preference, that has addr, with a reference; null when none has.
    const rds_transport* transport_for(kapi_net* host, const kapi_addr& addr);
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
    Net* next_net(Net* after);     // [init] null: the first

private:
    struct State {
        const rds_transport* transports[RDS_TRANSPORT_TYPES] = {};
        Net* nets = nullptr;
    };
    Guarded<State, ModuleLock> state_;
};

class ConnectionTable : Pinned {
public:
    static constexpr u32 max_connections = 65536; // in one namespace, each made by a local user or an accepted peer

    // The connection of a key, or null.
    Ref<Connection> find(const rds_transport& transport, const Endpoint& local, const Endpoint& remote, u8 tos);
    // Finds or makes. Any context. ENOMEM, ENOBUFS, ENETUNREACH.
    Result<Ref<Connection>> get(Net& net, const rds_transport& transport, const Endpoint& local, const Endpoint& remote,
                                u8 tos);
    void remove(Connection& connection);
    // Takes one connection of transport (null: of any) out of the table; null when none is left.
    Ref<Connection> take_any(const rds_transport* transport);
    // Calls visit(Connection&) for each, under the table's lock.
    template <class Visit> void for_each(Visit&& visit)
    {
        table_.with([&](Buckets& table) {
            for (auto& list : table.bucket)
                for (Connection* c = list.front(); c; c = list.next(*c))
                    visit(*c);
        });
    }

private:
    friend class Net;
    static constexpr unsigned count = 256;
    struct Buckets {
        RefList<Connection, Table> bucket[count];
        u32 size = 0;
        bool closed = false;
    };
    static RefList<Connection, Table>& bucket(Buckets& table, const Endpoint& remote)
    {
        return table.bucket[remote.ip.hash() % count];
    }
    Guarded<Buckets, ConnectionTableLock> table_;
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
    BindTable binds;
    ConnectionTable connections;
    CongestionMaps maps;

    void count(Stat stat, u64 n = 1) { kapi_counters_add(counters_, static_cast<unsigned>(stat), n); }
    u64 counted(Stat stat) const { return kapi_counters_read(counters_, static_cast<unsigned>(stat)); }

    // Tears down every connection of transport (null: of all).
    void kill_connections(const rds_transport* transport);

    // A remote map was replaced: tells pollers and monitoring sockets.
    void congestion_changed();
    u32 congestion_generation() const { return congestion_generation_.load_acquire(); }
    WaitQueue congestion_pollers;
    void add_monitor(Socket& socket);
    void remove_monitor(Socket& socket);

    // Counts connections that are not freed yet, so that the namespace can end after the last of them. Whoever reports that
    // one touches nothing of the namespace after the lock: it may be gone by then.
    void connection_made()
    {
        live_connections_.with([](u32& count) { count++; });
    }
    void connection_gone()
    {
        live_connections_.with([&](u32& count) {
            if (--count == 0)
                idle_.wake();
        });
    }

private:
    friend class Module;
    HW_MADE_BY_CREATE;
    ~Net() = default;
    kapi_counters* counters_ = nullptr;
    Atomic<u32> congestion_generation_{1};
    Guarded<RefList<Socket, Monitors>, MonitorLock> monitors_;
    Guarded<u32, LiveLock> live_connections_;
    WaitQueue idle_;
};

} // namespace rds
