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
    while (kapi_stream* stream = connection->unplaced_.take())
        connection->close_accepted(stream);
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

// Whether a stream from a peer's source port that is not placed is for the path, or for an unknown one.
bool TcpConnection::may_be_unplaced(unsigned index, u16 peer_port) const
{
    int indexes = 0;
    unsigned paths = max(1u, rds_conn_paths(conn, &indexes));
    int meant = index_of(peer_port);
    return index < paths && (meant < 0 || static_cast<unsigned>(meant) == index);
}

rds_stream_waits TcpConnection::has_unplaced(unsigned index)
{
    close_accepted(unplaced_.take_abandoned());
    u16 found = 0;
    bool has = unplaced_.has([&](u16 port) {
        found = port;
        return may_be_unplaced(index, port);
    });
    if (!has)
        return RDS_NO_STREAM_WAITS;
    return index_of(found) < 0 ? RDS_STREAM_UNPLACED : RDS_STREAM_WAITS;
}

kapi_stream* TcpConnection::take_unplaced(unsigned index)
{
    return unplaced_.take([&](u16 port) { return may_be_unplaced(index, port); });
}

void TcpConnection::close_accepted(kapi_stream* stream)
{
    if (stream)
        net.refuse(stream);
}

bool TcpConnection::keep(Waiting& waiting, kapi_stream* stream, u16 peer_port, bool is_first)
{
    int room = rds_conn_stream_room(conn);
    bool kept = room >= 0 || is_first || waiting.has();
    kapi_stream* unwanted = stream;
    if (kept) {
        kapi_stream_options options = net.stream_options();
        kapi_stream_keep_alive(stream, &options);
        unwanted = waiting.put(stream, peer_port, room == 0 ? Waiting::max : 1, is_first);
    }
    close_accepted(unwanted);
    return kept;
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
    int indexes = 0;
    unsigned paths = max(1u, rds_conn_paths(conn, &indexes));
    bool one_has_none = false;
    for (unsigned i = 0; i < paths; i++)
        one_has_none = one_has_none || !path(i).has_stream();
    bool kept = keep(unplaced_, stream, peer_port, one_has_none && !unplaced_.has());
    for (unsigned i = 0; i < paths; i++)
        rds_path_notify(conn, i, kept ? RDS_PATH_ACCEPTED : RDS_PATH_PROBE); // as TcpPath::offer()
}

} // namespace rds_tcp
