// SPDX-License-Identifier: GPL-2.0
// RDS over RDMA in one network namespace: the listeners, what peers ask for, the counters.
//
// Listeners and connections of the host's connection manager hold their namespace. So all but the initial one have them only
// while a socket is bound to an address of a device: a namespace ends with its programs.
#pragma once

#include "device.h"
#include "glue/rds_rdma_core.h"
#include "private_data.h"
#include "ring_shares.h"
#include "stats.h"

#include "../notice.h"

#include <hawser/atomic.h>
#include <hawser/net_list.h>
#include <hawser/wait.h>
#include <hawser/work.h>

namespace rds_rdma {

class Link;
class RdmaNet;

class Module : Pinned {
public:
    static Module& get();
    rds_transport transport{};
    kapi_workqueue* workqueue = nullptr;
    Devices devices;
    RingShares rings;
    rds::Notice short_rings{60 * rds::Notices::second_ns}, no_rings{60 * rds::Notices::second_ns};
    rds::Notice garbage{rds::Notices::second_ns};

    void add(RdmaNet& net);
    void remove(RdmaNet& net);
    RdmaNet* find(kapi_net* host);
    // Any context. The buffers that all rings may have, for a connection in net: any user can be the administrator of a
    // namespace, and what is used there the initial one does not have.
    u64 most_buffers(const RdmaNet& net);

private:
    struct Nets {
        NetList<RdmaNet> all;
        RdmaNet* initial = nullptr;
    };
    Guarded<Nets, ModuleLock> nets_;
};

class RdmaNet : Pinned {
public:
    static Result<RdmaNet*> create(kapi_net* host);
    static void destroy(RdmaNet* net);
    explicit RdmaNet(kapi_net* h);

    kapi_net* const host;
    RdmaNet* next = nullptr; // in the module's list, under its lock
    rds_rdma_sysctl sysctl;

    Counters counters;
    // Sleeps. 0: connections can be made from this address; -ENOMEM, -EADDRNOTAVAIL.
    int check_local(const kapi_addr& addr);
    // Sleep. As rds_transport's.
    int socket_bound();
    void socket_closed();
    // Any context. May connections be made? When that ends, those that there are end soon.
    bool is_open() const { return open_.load_acquire(); }
    // How many requests a connection may have in its send queue.
    u32 send_ring() const;
    // The buffers that a connection may have in its ring, at least so many, as RingShares::take(). They count to who made the
    // connection or, if that one has its share, to another user who needs it: none keeps a peer from the others.
    Ring take_ring(rds_conn* conn, const kapi_addr& remote, u32 least, const kapi_qp_caps& caps);

private:
    u32 payer_of(u32 user) const;
    void note_limit(rds_conn* conn, u32 buffers);
    static constexpr unsigned max_asked = 64;
    static int on_request(void* context, kapi_cm* cm, const kapi_cm_offer* offer, void* answer, kapi_size* size);
    int asked(kapi_cm* cm, const kapi_cm_offer& offer, void* answer, kapi_size* size);
    // One at a time, from take_turn() to end_turn().
    void take_turn();
    void end_turn();
    int open();
    void shut();
    int listen();
    int listen_on(const kapi_addr& any, CmListener& listener);
    void place_all();
    void place(Own<Link> link);

    CmListener v4_, v6_;
    Atomic<u32> open_{0};
    Atomic<u32> turn_{0}; // 1: taken
    WaitQueue turns_;
    u32 sockets_ = 0; // bound to addresses of devices; of who has the turn
    struct Asked {
        Link* first = nullptr; // owned
        Link** end = &first;
        unsigned count = 0;
        Link* take();
    };
    Guarded<Asked, NetLock> asked_;
    Work<RdmaNet, &RdmaNet::place_all> place_work_{*this};
};

} // namespace rds_rdma
