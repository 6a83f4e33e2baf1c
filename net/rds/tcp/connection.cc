// SPDX-License-Identifier: GPL-2.0
#include "connection.h"

namespace rds_tcp {

TcpConnection* TcpConnection::create(rds_conn* conn, TcpNet& net, const kapi_addr& local, const kapi_addr& remote,
                                     Alloc mode)
{
    Own<TcpConnection> connection(make<TcpConnection>(mode, conn, net, local, remote));
    if (!connection || !connection->build(mode))
        return nullptr;
    net.add(*connection);
    return connection.release();
}

bool TcpConnection::build(Alloc mode)
{
    for (unsigned i = 0; i < RDS_MAX_PATHS; i++) {
        paths_[i].reset(make<TcpPath>(mode, *this, i));
        if (!paths_[i])
            return false;
    }
    return true;
}

void TcpConnection::destroy(TcpConnection* connection)
{
    connection->net.remove(*connection);
    for (auto& path : connection->paths_)
        path->discard_waiting();
    for (;;) {
        kapi_stream* stream;
        {
            Guard guard(connection->lock_);
            stream = connection->unplaced_.take(0);
        }
        if (!stream)
            break;
        kapi_stream_close(stream, 1);
    }
    dispose(connection);
}

int TcpConnection::index_of(u16 peer_port) const
{
    int indexes = 0;
    unsigned paths = rds_conn_paths(conn, &indexes);
    return indexes && paths ? static_cast<int>(peer_port % paths) : -1;
}

// Also for a path that the peer does without by now.
bool TcpConnection::may_be_for(u16 peer_port, unsigned index) const
{
    int indexes = 0;
    unsigned paths = rds_conn_paths(conn, &indexes);
    return !indexes || !paths || peer_port % paths == index % paths;
}

int TcpConnection::find_unplaced(unsigned index)
{
    int indexes = 0;
    unsigned paths = max(1u, rds_conn_paths(conn, &indexes));
    if (index >= paths)
        return -1;
    for (unsigned i = 0; i < unplaced_.count(); i++) {
        int meant = index_of(unplaced_.peer_port(i));
        if (meant < 0 || static_cast<unsigned>(meant) == index)
            return static_cast<int>(i);
    }
    return -1;
}

rds_stream_waits TcpConnection::has_unplaced(unsigned index)
{
    Guard guard(lock_);
    int position = find_unplaced(index);
    if (position < 0)
        return RDS_NO_STREAM_WAITS;
    return index_of(unplaced_.peer_port(static_cast<unsigned>(position))) < 0 ? RDS_STREAM_UNPLACED : RDS_STREAM_WAITS;
}

kapi_stream* TcpConnection::take_unplaced(unsigned index)
{
    Guard guard(lock_);
    int position = find_unplaced(index);
    return position < 0 ? nullptr : unplaced_.take(static_cast<unsigned>(position));
}

void TcpConnection::accepted(kapi_stream* stream, u16 peer_port)
{
    int meant = index_of(peer_port);
    if (connects()) {
        // A knock: the peer needs the path. If it is up on this side, a probe shows whether the peer still has it.
        kapi_stream_close(stream, 1);
        rds_path_notify(conn, meant < 0 ? 0 : static_cast<unsigned>(meant), RDS_PATH_WANTED | RDS_PATH_PROBE);
        return;
    }
    if (meant >= 0)
        path(static_cast<unsigned>(meant)).offer(stream, peer_port);
    else
        keep_unplaced(stream, peer_port);
}

void TcpConnection::keep_unplaced(kapi_stream* stream, u16 peer_port)
{
    kapi_stream* unwanted = nullptr;
    bool kept;
    {
        Guard guard(lock_);
        kept = unplaced_.put(stream, peer_port, unwanted);
    }
    net.refuse(kept ? unwanted : stream);
    if (!kept)
        return;
    int indexes = 0;
    unsigned paths = max(1u, rds_conn_paths(conn, &indexes));
    for (unsigned i = 0; i < paths; i++)
        rds_path_notify(conn, i, RDS_PATH_ACCEPTED);
}

} // namespace rds_tcp
