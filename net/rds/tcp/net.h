// SPDX-License-Identifier: GPL-2.0
// RDS over TCP in one network namespace: the listener, the sysctls, the counters.
#pragma once

#include "../../lock_order.h"
#include "../transport.h"
#include "glue/rds_tcp_core.h"

#include <hawser/atomic.h>
#include <hawser/list.h>
#include <hawser/lock.h>
#include <hawser/net_list.h>
#include <hawser/work.h>
#include <kapi/stream.h>

namespace rds_tcp {

using namespace hw;

inline constexpr u16 rds_port = 16385; // IANA: RDS over TCP

class TcpConnection;
class TcpNet;

enum class Stat : unsigned {
    data_ready_calls,
    write_space_calls,
    sndbuf_full,
    connect_raced,
    listen_closed_stale,
    count
};
extern const char* const stat_names[];

class Module : Pinned {
public:
    static Module& get();
    rds_transport transport{};
    kapi_workqueue* workqueue = nullptr;

    void add(TcpNet& net);
    void remove(TcpNet& net);
    TcpNet* find(kapi_net* host);

private:
    Guarded<NetList<TcpNet>, ModuleLock> nets_;
};

class TcpNet : Pinned {
public:
    static Result<TcpNet*> create(kapi_net* host);
    static void destroy(TcpNet* net);
    explicit TcpNet(kapi_net* h) : host(h) {}

    kapi_net* const host;
    TcpNet* next = nullptr; // in the module's list, under its lock
    rds_tcp_sysctl sysctl{.rds_tcp_sndbuf = 0, .rds_tcp_rcvbuf = 0, .rds_tcp_dead_peer_ms = 10'000};

    void count(Stat stat) { kapi_counters_add(counters_, static_cast<unsigned>(stat), 1); }
    u64 counted(unsigned index) const { return kapi_counters_read(counters_, index); }
    kapi_stream_options stream_options() const;
    // A source port that encodes the path for the peer: port modulo RDS_MAX_PATHS is index. 0: the range has none that is not
    // reserved.
    u16 next_port(unsigned index);

    void add(TcpConnection& connection);
    void remove(TcpConnection& connection);
    // Any context. Each connection is notified soon of sizes of buffers, by a work, because there may be many.
    void sysctl_changed();
    // Resets a stream that no path adopts, and counts it; null: does nothing. Sleeps.
    void refuse(kapi_stream* stream);

private:
    int listen();
    void spread_buffers();
    void go_on_spreading();
    bool listen_again();
    void close_listener(); // which is stopped
    void accept();         // and listens, where that is to be tried again
    void accept_one(kapi_stream* stream);
    static void listener_ready(void* context);

    kapi_counters* counters_ = nullptr;
    kapi_listener* listener_ = nullptr; // null while another has the port; accept_work_ changes it, and the namespace's end
    bool was_in_use_ = false;           // when the module was loaded, and is since: a line of the log said so
    Atomic<bool> ending_{false};
    Atomic<u32> port_group_{0};
    struct Connections {
        TcpConnection* first = nullptr;
        TcpConnection** end = &first;
        u32 count = 0;
        u32 uninformed = 0; // the first ones of the list: they may not have the present sizes yet
        void push_back(TcpConnection& connection);
        void remove(TcpConnection& connection);
    };
    Guarded<Connections, NetLock> connections_;
    Atomic<u64> next_informed_ns_{0}; // not before this time
    Work<TcpNet, &TcpNet::spread_buffers> buffers_work_{*this};
    Work<TcpNet, &TcpNet::accept> accept_work_{*this};
};

} // namespace rds_tcp
