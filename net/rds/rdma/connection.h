// SPDX-License-Identifier: GPL-2.0
// The one path of an RDS connection over RDMA: the operations of rds_transport, whose contract says from where and when they are
// called (net/rds/transport.h).
//
// Either side connects. When both do at the same time, the connection of the host with the smaller address is the one that stays,
// between two hawsers; of a foreign peer it is always its own, for that rejects ours meanwhile.
#pragma once

#include "link.h"

namespace rds_rdma {

class RdmaConnection : Pinned {
public:
    static RdmaConnection* create(rds_conn* conn, RdmaNet& net, const kapi_addr& local, const kapi_addr& remote, u8 tos,
                                  Alloc mode);
    static void destroy(RdmaConnection* connection) { dispose(connection); }

    int connect();
    int established();
    int adopt();
    rds_stream_waits has_accepted();
    rds_closing close();
    // Any context. What registers regions on the present stream; null: there is none.
    Ref<Registrar> hold();
    // Sleeps. As rds_transport's.
    int check_atomic(rds_rdma_kind kind);
    int post(rds_out* const* messages, unsigned count);
    void resume();
    void tick();

    // Any context.
    rds_rdma_row row()
    {
        return row_.with([](const rds_rdma_row& row) { return row; });
    }
    // The peer asks for a connection. Sleeps.
    void offer(Own<Link> link);

private:
    HW_MADE_BY_CREATE;
    RdmaConnection(rds_conn* conn, RdmaNet& net, const kapi_addr& local, const kapi_addr& remote, u8 tos)
        : conn_(conn), net_(net), local_(local), remote_(remote), tos_(tos)
    {
    }
    bool is_smaller() const { return kapi_compare(local_.ip, remote_.ip, sizeof(local_.ip)) < 0; }
    int came_up();

    rds_conn* const conn_;
    RdmaNet& net_;
    const kapi_addr local_, remote_; // port 0
    const u8 tos_;
    enum Phase : u32 { down, connecting, up };
    Atomic<u32> phase_{down}; // set by the path's owner
    // The path's owner's:
    Own<Link> link_;
    Guarded<Own<Link>, WaitingLock> waiting_; // what the peer asked for last
    Guarded<rds_rdma_row, RowLock> row_;      // of link_, while that is up
    Guarded<Ref<Registrar>, WaitingLock> registrar_; // the same
};

} // namespace rds_rdma
