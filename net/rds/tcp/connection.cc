// SPDX-License-Identifier: GPL-2.0
#include "connection.h"

namespace rds_tcp {

namespace {

constexpr u64 ms = 1'000'000;
constexpr u64 drain_timeout_ns = 5000 * ms;
constexpr int port_tries = 32;

} // namespace

// ---- waiting streams

bool Waiting::put(kapi_stream* stream, u16 peer_port, kapi_stream*& replaced)
{
    if (count_ == max)
        replaced = take_abandoned();
    if (count_ == max)
        return false;
    port_[count_] = peer_port;
    stream_[count_++] = stream;
    return true;
}

kapi_stream* Waiting::take(unsigned position)
{
    if (position >= count_)
        return nullptr;
    kapi_stream* stream = stream_[position];
    count_--;
    for (unsigned i = position; i < count_; i++) {
        stream_[i] = stream_[i + 1];
        port_[i] = port_[i + 1];
    }
    return stream;
}

// The oldest that its peer left with nothing in it for us.
kapi_stream* Waiting::take_abandoned()
{
    for (unsigned i = 0; i < count_; i++) {
        struct kapi_stream_health health;
        kapi_stream_health(stream_[i], &health);
        if ((health.eof || health.closed) && !health.unread)
            return take(i);
    }
    return nullptr;
}

// ---- one path

constinit const kapi_stream_ops TcpPath::stream_ops = {.rx = on_rx, .acked = on_acked, .event = on_event};

TcpPath::TcpPath(TcpConnection& connection, unsigned index)
    : connection_(connection), index_(index), assembler_(connection.conn, index)
{
}

void TcpPath::notify(u32 events)
{
    rds_path_notify(connection_.conn, index_, events);
}

kapi_size TcpPath::on_rx(void* context, kapi_rx* rx, kapi_size length)
{
    TcpPath& path = *static_cast<TcpPath*>(context);
    path.connection_.net.count(Stat::data_ready_calls);
    if (path.garbage_.load_relaxed())
        return length; // being closed: nothing more is believed
    auto outcome = path.assembler_.feed(rx, length, path.draining_.load_relaxed() != 0);
    switch (outcome.verdict) {
    case Assembler::Verdict::starved:
        rds_path_retry_later(path.connection_.conn, path.index_, RDS_PATH_RESUME);
        break;
    case Assembler::Verdict::garbage:
        path.garbage_.store_relaxed(1);
        path.notify(RDS_PATH_LOST);
        return length;
    default:
        break;
    }
    return outcome.used;
}

void TcpPath::on_acked(void* context, u32 una)
{
    TcpPath& path = *static_cast<TcpPath*>(context);
    path.una_.store_relaxed(una);
    rds_path_acked(path.connection_.conn, path.index_, una);
}

void TcpPath::on_event(void* context, kapi_stream_event event, int)
{
    TcpPath& path = *static_cast<TcpPath*>(context);
    path.notify(event == KAPI_STREAM_ESTABLISHED ? RDS_PATH_ESTABLISHED : RDS_PATH_LOST);
}

int TcpPath::open(u16 port)
{
    kapi_addr local = connection_.local;
    kapi_addr remote = connection_.remote;
    local.port = port;
    remote.port = rds_port;
    kapi_stream_options options = connection_.net.stream_options();
    return kapi_stream_connect(connection_.net.host, &local, &remote, &options, &stream_ops, this, &stream_);
}

int TcpPath::connect()
{
    HW_ASSERT(!stream_);
    int err = -KAPI_EADDRINUSE;
    for (int i = 0; i < port_tries && err == -KAPI_EADDRINUSE; i++) {
        u16 port = connection_.net.next_port(index_);
        err = open(port);
        if (port == 0)
            break;
    }
    return err;
}

int TcpPath::established()
{
    if (connection_.connects()) {
        up_ = true;
        accepted_ = false;
        set_row(true);
        return 1;
    }
    // The knock was heard; the peer connects now.
    if (stream_)
        kapi_stream_close(std::exchange(stream_, nullptr), 0);
    return 0;
}

int TcpPath::adopt()
{
    HW_ASSERT(!stream_);
    {
        Guard guard(lock_);
        stream_ = waiting_.take(0);
    }
    if (!stream_)
        stream_ = connection_.take_unplaced(index_);
    if (!stream_)
        return 0;
    up_ = true;
    accepted_ = true;
    set_row(true);
    kapi_stream_options options = connection_.net.stream_options();
    kapi_stream_attach(stream_, &options, &stream_ops, this);
    return 1;
}

// Before the peer told that its ports mean paths, we may have adopted a stream of another path.
bool TcpPath::misplaced()
{
    if (!up_ || !accepted_)
        return false;
    Guard guard(lock_);
    int meant = connection_.index_of(remote_.port);
    return meant >= 0 && static_cast<unsigned>(meant) != index_;
}

bool TcpPath::has_accepted()
{
    {
        Guard guard(lock_);
        if (waiting_.count())
            return true;
    }
    return up_ ? misplaced() : connection_.has_unplaced(index_);
}

void TcpPath::offer(kapi_stream* stream, u16 peer_port)
{
    kapi_stream* unwanted = nullptr;
    bool kept;
    {
        Guard guard(lock_);
        kept = waiting_.put(stream, peer_port, unwanted);
    }
    if (kept)
        notify(RDS_PATH_ACCEPTED);
    else
        unwanted = stream;
    connection_.net.refuse(unwanted);
}

void TcpPath::discard_waiting()
{
    for (;;) {
        kapi_stream* stream;
        {
            Guard guard(lock_);
            stream = waiting_.take(0);
        }
        if (!stream)
            return;
        kapi_stream_close(stream, 1);
    }
}

// What TCP acknowledged to the peer is the peer's no more: it is read to the end before the stream goes.
int TcpPath::close(rds_close_mode mode)
{
    up_ = false;
    if (!stream_)
        return 1;
    u64 time = kapi_now_ns();
    draining_.store_relaxed(1);
    if (!closing_since_ns_) {
        closing_since_ns_ = time;
        if (mode == RDS_CLOSE_GRACEFUL)
            kapi_stream_shutdown_write(stream_);
    }
    // Unread is only what there is no memory for at the moment: a full socket does not stop a stream that drains.
    kapi_size unread = kapi_stream_resume(stream_);
    struct kapi_stream_health health;
    kapi_stream_health(stream_, &health);
    bool late = time - closing_since_ns_ >= drain_timeout_ns;
    bool abort = mode != RDS_CLOSE_GRACEFUL || late || garbage_.load_relaxed();
    bool peer_done = abort || health.closed || health.eof;
    if (mode != RDS_CLOSE_AT_ONCE && (unread || !peer_done))
        return 0;
    rds_path_acked(connection_.conn, index_, health.una);
    kapi_stream_close(std::exchange(stream_, nullptr), abort);
    set_row(false);
    assembler_.reset();
    draining_.store_relaxed(0);
    garbage_.store_relaxed(0);
    closing_since_ns_ = unanswered_since_ns_ = 0;
    return 1;
}

s64 TcpPath::send(const kapi_segment* segments, unsigned count, bool more, u32* end_seq)
{
    if (!stream_)
        return -KAPI_ENOTCONN;
    s64 taken = kapi_stream_send(stream_, segments, count, more, end_seq);
    if (taken >= 0)
        end_seq_.store_relaxed(*end_seq);
    if (taken == 0)
        connection_.net.count(Stat::sndbuf_full);
    return taken;
}

void TcpPath::resume()
{
    if (!stream_)
        return;
    if (new_buffers_.exchange(0)) {
        auto options = connection_.net.stream_options();
        kapi_stream_set_buffers(stream_, options.sndbuf, options.rcvbuf);
    }
    kapi_stream_resume(stream_);
}

void TcpPath::buffers_changed()
{
    new_buffers_.store_release(1);
    notify(RDS_PATH_RESUME);
}

// A peer with a closed window answers our probes and lives; one that answers nothing for the whole bound is dead.
bool TcpPath::dead()
{
    if (!stream_)
        return false;
    struct kapi_stream_health health;
    kapi_stream_health(stream_, &health);
    u64 now = kapi_now_ns();
    if (!health.unanswered) {
        unanswered_since_ns_ = 0;
        return false;
    }
    if (!unanswered_since_ns_ || health.last_ack_ns != seen_ack_ns_) {
        unanswered_since_ns_ = now;
        seen_ack_ns_ = health.last_ack_ns;
    }
    return now - unanswered_since_ns_ >= connection_.net.sysctl.rds_tcp_dead_peer_ms * ms;
}

void TcpPath::set_row(bool up)
{
    kapi_addr local{}, remote{};
    if (up)
        kapi_stream_addrs(stream_, &local, &remote);
    Guard guard(lock_);
    row_valid_ = up;
    local_ = local;
    remote_ = remote;
}

bool TcpPath::row(rds_tcp_socket_row& row)
{
    Guard guard(lock_);
    if (!row_valid_)
        return false;
    row.local = local_;
    row.peer = remote_;
    // Read while bytes come in: a moment's view, as of any such row.
    row.header_left = assembler_.header_left();
    row.sent_next = row.expected_una = end_seq_.load_relaxed();
    row.seen_una = una_.load_relaxed();
    return true;
}

// ---- the connection

TcpConnection* TcpConnection::create(rds_conn* conn, TcpNet& net, const kapi_addr& local, const kapi_addr& remote)
{
    Own<TcpConnection> connection(make<TcpConnection>(Alloc::atomic, conn, net, local, remote));
    if (!connection || !connection->build())
        return nullptr;
    net.add(*connection);
    return connection.release();
}

bool TcpConnection::build()
{
    for (unsigned i = 0; i < RDS_MAX_PATHS; i++) {
        paths_[i].reset(make<TcpPath>(Alloc::atomic, *this, i));
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

bool TcpConnection::has_unplaced(unsigned index)
{
    Guard guard(lock_);
    return find_unplaced(index) >= 0;
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
        // A knock: the peer misses the path. If we think it stands, a probe shows whether the peer still has it.
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
