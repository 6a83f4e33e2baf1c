// SPDX-License-Identifier: GPL-2.0
#include "path.h"

#include "connection.h"

namespace rds_tcp {

namespace {

constexpr u64 ms = 1'000'000;
constexpr u64 drain_timeout_ns = 5000 * ms;
constexpr int port_tries = 32;
// Between two packets to a peer that does not answer, so that a healed link is noticed soon: TCP waits twice as long each
// time. Outages of seconds are common; after a long one a pause of a small part of it is no loss.
constexpr u32 shortest_pause_ms = 200;
constexpr u64 pause_part = 32;
// Between two probes of a closed window. The packet that opens it may be lost.
constexpr u32 window_probe_ms = 500;

u64 sizes_of_buffers(const kapi_stream_options& options) { return u64{options.sndbuf} << 32 | options.rcvbuf; }

} // namespace

constinit const kapi_stream_ops TcpPath::stream_ops = {.rx = on_rx, .acked = on_acked, .event = on_event};

TcpPath::TcpPath(TcpConnection& connection, unsigned index)
    : connection_(connection), index_(index), assembler_(connection.conn, index), waiting_(connection.conn)
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
    auto outcome = path.assembler_.feed(rx, length);
    switch (outcome.verdict) {
    case Assembler::Verdict::starved:
        rds_path_retry_later(path.connection_.conn, path.index_, RDS_PATH_RESUME);
        break;
    case Assembler::Verdict::enough:
        path.notify(RDS_PATH_RESUME);
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
    if (path.full_.load_relaxed() && path.full_.exchange(0))
        path.connection_.net.count(Stat::write_space_calls);
    rds_path_acked(path.connection_.conn, path.index_, una);
}

void TcpPath::on_event(void* context, kapi_stream_event event, int)
{
    TcpPath& path = *static_cast<TcpPath*>(context);
    path.notify(event == KAPI_STREAM_ESTABLISHED ? RDS_PATH_ESTABLISHED : RDS_PATH_LOST);
}

int TcpPath::open(Ports ports, bool shared)
{
    kapi_addr local = connection_.local;
    kapi_addr remote = connection_.remote;
    local.port = ports.local;
    remote.port = ports.remote;
    kapi_stream_options options = take_options();
    options.shares_port = shared;
    return kapi_stream_connect(connection_.net.host, &local, &remote, &options, &stream_ops, this, &stream_);
}

void TcpPath::close_stream(bool abort)
{
    kapi_stream_close(std::exchange(stream_, nullptr), abort);
}

int TcpPath::connect()
{
    if (!HW_ASSERT(!stream_))
        return -KAPI_EALREADY; // which closes the path, and with it the stream
    int err = -KAPI_EADDRINUSE;
    Ports lost = std::exchange(lost_, {});
    if (lost.local && rds_conn_is_foreign(connection_.conn) && open(lost, true) == 0)
        return 0;
    for (int i = 0; i < port_tries && err == -KAPI_EADDRINUSE; i++) {
        u16 port = connection_.net.next_port(index_);
        err = open({port, rds_port});
        if (port == 0)
            break;
    }
    return err;
}

// The stream is closed.
void TcpPath::forget_received()
{
    assembler_.reset();
    garbage_.store_relaxed(0);
}

int TcpPath::established()
{
    if (connection_.connects()) {
        up_ = true;
        set_row(true);
        if (new_buffers_.load()) // since its options were taken
            notify(RDS_PATH_RESUME);
        return 1;
    }
    // The knock was heard; the peer connects now. What came over it belongs to no message.
    if (stream_)
        close_stream(false);
    forget_received();
    return 0;
}

int TcpPath::adopt()
{
    if (!HW_ASSERT(!stream_))
        return 0;
    stream_ = waiting_.take();
    if (!stream_)
        stream_ = connection_.take_unplaced(index_);
    if (!stream_)
        return 0;
    up_ = true;
    accepted_ = true;
    lost_ = {}; // the peer has left that one for this one
    set_row(true);
    kapi_stream_options options = take_options();
    kapi_stream_attach(stream_, &options, &stream_ops, this);
    if (new_buffers_.load())
        notify(RDS_PATH_RESUME);
    return 1;
}

// Before it was known that the peer's ports encode paths, this path may have adopted a stream of another path.
bool TcpPath::misplaced()
{
    if (!up_ || !accepted_)
        return false;
    Guard guard(lock_);
    return !connection_.may_be_for(remote_.port, index_);
}

rds_stream_waits TcpPath::has_accepted()
{
    if (misplaced())
        return RDS_STREAM_MISPLACED;
    connection_.close_accepted(waiting_.take_abandoned());
    if (waiting_.has())
        return RDS_STREAM_WAITS;
    rds_stream_waits unplaced = connection_.has_unplaced(index_);
    return unplaced == RDS_STREAM_UNPLACED && !up_ ? RDS_STREAM_WAITS : unplaced;
}

bool TcpPath::has_stream()
{
    Guard guard(lock_);
    return row_valid_;
}

void TcpPath::offer(kapi_stream* stream, u16 peer_port)
{
    bool is_first = !has_stream() && !waiting_.has();
    // Without a place its peer tries again: then the present stream has to be gone, if the peer has left it.
    notify(connection_.keep(waiting_, stream, peer_port, is_first) ? RDS_PATH_ACCEPTED : RDS_PATH_PROBE);
}

void TcpPath::discard_waiting()
{
    while (kapi_stream* stream = waiting_.take())
        connection_.close_accepted(stream);
}

// The peer opens streams, and the kernel's own opens no other for one that it believes it has: it finds out by its keepalive,
// after five seconds. A knock between the same ports makes its TCP answer at once, and ours reset what answers (RFC 9293,
// section 3.5.1). Streams that we open are not opened between the same ports again: what broke one may break the next.
void TcpPath::note_lost()
{
    Guard guard(lock_);
    if (row_valid_ && !connection_.connects())
        lost_ = {local_.port, remote_.port};
}

// A closed stream goes on to send what its peer has yet to read. Memory of a program may have other contents by then.
bool TcpPath::has_unsent_pinned(u32 una)
{
    return static_cast<s32>(end_seq_.load_relaxed() - una) > 0 && rds_path_has_pinned(connection_.conn, index_);
}

// What TCP acknowledged to the peer is the peer's no more: it is read to the end before the stream goes.
rds_closing TcpPath::close(rds_close_mode mode)
{
    up_ = false;
    if (!stream_)
        return RDS_CLOSED;
    u64 time = kapi_now_ns();
    if (!closing_since_ns_) {
        closing_since_ns_ = time;
        if (mode == RDS_CLOSE_GRACEFUL)
            kapi_stream_shutdown_write(stream_);
    }
    struct kapi_stream_health health;
    kapi_stream_health(stream_, &health); // an end that is seen before reading has nothing behind it
    bool late = time - closing_since_ns_ >= drain_timeout_ns;
    bool abort = mode != RDS_CLOSE_GRACEFUL || late || garbage_.load_relaxed();
    bool peer_done = health.closed || health.eof;
    // What stays unread there is no memory for at the moment, or no room in a socket.
    bool reset = abort && !peer_done && mode != RDS_CLOSE_AT_ONCE;
    kapi_size unread = reset ? kapi_stream_drain_and_reset(stream_) : kapi_stream_resume(stream_);
    if (mode != RDS_CLOSE_AT_ONCE && (unread || !(peer_done || abort)))
        return unread ? RDS_CLOSE_UNREAD : RDS_CLOSING;
    rds_path_acked(connection_.conn, index_, health.una);
    bool ended = health.eof;
    kapi_stream_health(stream_, &health); // what was read may have broken it
    bool complete = ended && health.eof && !unread && !garbage_.load_relaxed();
    if (!complete)
        note_lost();
    set_row(false); // which looks at the stream
    close_stream(abort || has_unsent_pinned(health.una));
    accepted_ = false;
    forget_received();
    closing_since_ns_ = unanswered_since_ns_ = 0;
    recovering_ = false;
    return complete ? RDS_CLOSED_COMPLETE : RDS_CLOSED;
}

s64 TcpPath::send(const kapi_segment* segments, unsigned count, u32 flags, u32* end_seq)
{
    if (!stream_)
        return -KAPI_ENOTCONN;
    s64 taken = kapi_stream_send(stream_, segments, count, flags, end_seq);
    if (taken < 0)
        return taken;
    end_seq_.store_relaxed(*end_seq);
    if (taken)
        begin_seq_.store_relaxed(*end_seq - static_cast<u32>(taken));
    if (taken == 0 && count) {
        full_.store_relaxed(1);
        connection_.net.count(Stat::sndbuf_full);
    }
    return taken;
}

void TcpPath::resume()
{
    if (!stream_)
        return;
    while (new_buffers_.load()) {
        kapi_stream_options options = take_options();
        kapi_stream_set_buffers(stream_, options.sndbuf, options.rcvbuf);
    }
    kapi_stream_resume(stream_);
}

// Behind it the caller looks at new_buffers_ again. That is set before buffers_ is compared.
kapi_stream_options TcpPath::take_options()
{
    new_buffers_.exchange(0);
    kapi_stream_options options = connection_.net.stream_options();
    buffers_.exchange(sizes_of_buffers(options));
    return options;
}

void TcpPath::buffers_changed(const kapi_stream_options& options)
{
    new_buffers_.exchange(1);
    if (buffers_.load() == sizes_of_buffers(options))
        return;
    // One without a stream may not be made yet, or be no more; its next stream begins with the new sizes.
    Guard guard(lock_);
    if (row_valid_)
        notify(RDS_PATH_RESUME);
}

// A peer with a closed window answers our probes and lives; one that answers nothing for the whole bound is dead. An idle
// peer was silent before it was sent something, so that its silence alone proves nothing.
rds_tick TcpPath::tick()
{
    if (!stream_)
        return RDS_TICK_ANSWERED;
    struct kapi_stream_health health;
    kapi_stream_health(stream_, &health);
    limit_pause(health);
    u64 now = kapi_now_ns();
    if (!health.unanswered) {
        unanswered_since_ns_ = 0;
        return recovering_ ? RDS_TICK_UNANSWERED : RDS_TICK_ANSWERED;
    }
    if (!unanswered_since_ns_)
        unanswered_since_ns_ = now;
    u64 waited_ns = min(now - unanswered_since_ns_, health.silent_ns);
    return waited_ns >= connection_.net.sysctl.rds_tcp_dead_peer_ms * ms ? RDS_TICK_DEAD : RDS_TICK_UNANSWERED;
}

// Also after the first answer: part of what was sent during the outage may be lost, and TCP takes an acknowledgement that
// was delayed by the outage for a long round trip.
void TcpPath::limit_pause(const struct kapi_stream_health& health)
{
    if (health.unanswered) {
        recovering_ = true;
        recovered_at_ = health.next;
    } else if (static_cast<s32>(health.una - recovered_at_) >= 0) {
        recovering_ = false;
    }
    bool window_closed = health.una == health.next && health.next != health.write_seq;
    if (recovering_)
        kapi_stream_limit_back_off(stream_,
                                   static_cast<u32>(max<u64>(shortest_pause_ms, health.silent_ns / pause_part / ms)));
    else if (window_closed)
        kapi_stream_limit_back_off(stream_, window_probe_ms);
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
    row.data_left = assembler_.data_left();
    row.sent_next = begin_seq_.load_relaxed();
    row.expected_una = end_seq_.load_relaxed();
    row.seen_una = una_.load_relaxed();
    struct kapi_stream_health health;
    kapi_stream_health(stream_, &health);
    row.rtt_us = health.rtt_us;
    return true;
}

} // namespace rds_tcp
