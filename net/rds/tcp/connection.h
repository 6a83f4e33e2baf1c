// SPDX-License-Identifier: GPL-2.0
// The TCP streams of one RDS connection: one for each path.
//
// The lasting stream of a path is opened by the host with the smaller address. The other one, when it needs it, opens a
// short one ("knock") that is closed as soon as it stands; it tells the smaller host to connect.
#pragma once

#include "assemble.h"
#include "net.h"

namespace rds_tcp {

struct PathLock { static constexpr const char* name = "rds_tcp path"; static constexpr unsigned rank = 50; };

// Streams that the peer opened and no path has adopted yet, oldest first. They are mute; what they hold is not lost.
class Waiting {
public:
    static constexpr unsigned max = 4; // more is an attack
    // False when it is full. Closing whom replaced names (maybe nobody) is the caller's, without a lock.
    bool put(kapi_stream* stream, u16 peer_port, kapi_stream*& replaced);
    kapi_stream* take(unsigned position);
    u16 peer_port(unsigned position) const { return port_[position]; }
    unsigned count() const { return count_; }

private:
    kapi_stream* take_abandoned();

    kapi_stream* stream_[max] = {};
    u16 port_[max] = {};
    unsigned count_ = 0;
};

class TcpPath : Pinned {
public:
    TcpPath(TcpConnection& connection, unsigned index);

    int connect();
    int established();
    int adopt();
    bool has_accepted();
    int close(rds_close_mode mode);
    s64 send(const kapi_segment* segments, unsigned count, bool more, u32* end_seq);
    void resume();
    bool dead();
    bool row(rds_tcp_socket_row& row);

    // The namespace's buffer sizes changed.
    void buffers_changed();
    // Takes over a stream that the peer opened for this path.
    void offer(kapi_stream* stream, u16 peer_port);
    void discard_waiting();

private:
    static kapi_size on_rx(void* context, kapi_rx* rx, kapi_size length);
    static void on_acked(void* context, u32 una);
    static void on_event(void* context, kapi_stream_event event, int error);
    static const kapi_stream_ops stream_ops;

    int open(u16 port);
    void set_row(bool up);
    void notify(u32 events);
    bool misplaced();

    TcpConnection& connection_;
    const unsigned index_;
    // The path's owner's (see net/rds/path.h):
    kapi_stream* stream_ = nullptr;
    bool up_ = false;
    bool accepted_ = false;
    u64 closing_since_ns_ = 0;
    u64 unanswered_since_ns_ = 0;
    u64 seen_ack_ns_ = 0;
    // Under the stream's lock:
    Assembler assembler_;
    Atomic<u32> draining_{0};
    Atomic<u32> garbage_{0};
    Atomic<u32> new_buffers_{0};
    Atomic<u32> una_{0}, end_seq_{0};

    Spin<PathLock> lock_;
    Waiting waiting_ HW_GUARDED_BY(lock_);
    bool row_valid_ HW_GUARDED_BY(lock_) = false;
    kapi_addr local_ HW_GUARDED_BY(lock_){}, remote_ HW_GUARDED_BY(lock_){};
};

class TcpConnection : Pinned {
public:
    static TcpConnection* create(rds_conn* conn, TcpNet& net, const kapi_addr& local, const kapi_addr& remote);
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
    // A waiting stream whose path is not known, or is index.
    kapi_stream* take_unplaced(unsigned index);
    bool has_unplaced(unsigned index);

private:
    HW_MADE_BY_CREATE;
    TcpConnection(rds_conn* c, TcpNet& n, const kapi_addr& l, const kapi_addr& r)
        : conn(c), net(n), local(l), remote(r) {}
    bool build();
    int find_unplaced(unsigned index) HW_REQUIRES(lock_);
    void keep_unplaced(kapi_stream* stream, u16 peer_port);

    Own<TcpPath> paths_[RDS_MAX_PATHS];
    Spin<PathLock> lock_;
    Waiting unplaced_ HW_GUARDED_BY(lock_);
};

} // namespace rds_tcp
