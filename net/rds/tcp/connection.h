// SPDX-License-Identifier: GPL-2.0
// The TCP streams of one RDS connection: one for each path.
//
// The lasting stream of a path is opened by the host with the smaller address. The other host, when it needs the path, opens a
// short one (a "knock"), which is closed as soon as it is established. It requests the first host to connect.
#pragma once

#include "../../lock_order.h"
#include "net.h"
#include "path.h"
#include "waiting.h"

namespace rds_tcp {

class TcpConnection : Pinned {
public:
    static TcpConnection* create(rds_conn* conn, TcpNet& net, const kapi_addr& local, const kapi_addr& remote,
                                 Alloc mode);
    static void destroy(TcpConnection* connection);

    rds_conn* const conn;
    TcpNet& net;
    const kapi_addr local, remote; // port 0
    TcpConnection *next = nullptr, **link = nullptr; // in its TcpNet's list, under its lock

    bool connects() const { return kapi_compare(local.ip, remote.ip, sizeof(local.ip)) < 0; }
    TcpPath& path(unsigned index) { return *paths_[index]; }
    // The peer opened stream: takes it over.
    void accepted(kapi_stream* stream, u16 peer_port);
    // The path that a peer's source port means; -1: the peer's ports mean nothing.
    int index_of(u16 peer_port) const;
    // Whether a stream from a peer's source port may be for the path.
    bool may_be_for(u16 peer_port, unsigned index) const;
    // Takes over stream in waiting, if it or another one there may have the place. is_first: its path has none.
    bool keep(Waiting& waiting, kapi_stream* stream, u16 peer_port, bool is_first);
    // Resets it; null: does nothing.
    void close_accepted(kapi_stream* stream);
    // A waiting stream whose path is not known, or is index.
    kapi_stream* take_unplaced(unsigned index);
    rds_stream_waits has_unplaced(unsigned index);

private:
    HW_MADE_BY_CREATE;
    TcpConnection(rds_conn* c, TcpNet& n, const kapi_addr& l, const kapi_addr& r)
        : conn(c), net(n), local(l), remote(r), unplaced_(c) {}
    bool build(Alloc mode);
    bool may_be_unplaced(unsigned index, u16 peer_port) const;
    void keep_unplaced(kapi_stream* stream, u16 peer_port);

    Own<TcpPath> paths_[RDS_MAX_PATHS];
    Waiting unplaced_;
};

} // namespace rds_tcp
