// SPDX-License-Identifier: GPL-2.0
#include "connection.h"

#include "socket.h"

namespace rds {

namespace {

constexpr u64 ms = 1'000'000;
constexpr u64 longest_refresh_ns = 30'000 * ms;

} // namespace

Result<Ref<Connection>> Connection::create(Net& net, const rds_transport& transport, const Endpoint& local,
                                           const Endpoint& remote, u8 tos)
{
    auto* made = make<Connection>(Alloc::atomic, net, transport, local, remote, tos);
    if (!made)
        return fail(KAPI_ENOMEM);
    net.connection_made();
    auto connection = Ref<Connection>::adopt(made);
    TRY(connection->build());
    return connection;
}

Result<> Connection::build()
{
    local_map_ = TRY(net.maps.get(local.ip));
    remote_map_ = TRY(net.maps.get(remote.ip));
    for (unsigned i = 0; i < transport.max_paths; i++) {
        paths_[i].reset(make<Path>(Alloc::atomic, *this, i));
        if (!paths_[i])
            return fail(KAPI_ENOMEM);
    }
    if (loops()) {
        paths_agreed_.store_release(1);
        path(0).start_looping();
        return {};
    }
    kapi_addr local_addr = local.ip.with(0, local.scope);
    kapi_addr remote_addr = remote.ip.with(0, remote.scope);
    void* state = transport.create(reinterpret_cast<rds_conn*>(this), net.host, &local_addr, &remote_addr);
    if (!state)
        return fail(KAPI_ENOMEM);
    Guard guard(lock_);
    state_ = state;
    return {};
}

void Connection::publish()
{
    local_map_->add_connection(*this);
}

void Connection::destroy(Connection* connection)
{
    Net& net = connection->net;
    // Still there when the connection was never used.
    if (connection->state_)
        connection->transport.destroy(connection->state_);
    dispose(connection);
    net.connection_gone();
}

void Connection::kill()
{
    dying_.store_release(1);
    local_map_->remove_connection(*this);
    if (congestion_work_.cancel_sync())
        unref();
    for (unsigned i = 0; i < transport.max_paths; i++)
        path(i).kill();
    void* state = nullptr;
    {
        Guard guard(lock_);
        state = std::exchange(state_, nullptr);
    }
    if (state)
        transport.destroy(state);
    handshake_waiters_.wake();
    remote_map_->waiters.wake();
}

// ---- the handshake

Path& Connection::path_for(u16 port)
{
    Guard guard(lock_);
    bool early = early_count_ > max_early;
    for (unsigned i = 0; i < early_count_ && !early; i++)
        early = early_[i] == port;
    unsigned count = paths();
    if (count == 0 && !early) {
        if (early_count_ < max_early)
            early_[early_count_] = port;
        early_count_++;
    }
    if (count == 0 || early)
        return path(0);
    u32 hash = (port * 2654435761u) >> 16;
    return path(hash % count);
}

Result<> Connection::wait_for_handshake(u64 deadline_ns)
{
    return handshake_waiters_.wait_until(deadline_ns, [&] { return paths() != 0 || dying(); });
}

void Connection::write_handshake_to(Path& path, Header& header, bool is_reply)
{
    header.sport = is_reply ? 0 : probe_port;
    header.dport = is_reply ? probe_port : 0;
    write_handshake(header, generation_, static_cast<u8>(path.index()), path.memory());
}

void Connection::send_handshake(Path& path, bool is_reply)
{
    if (peer() != Peer::foreign) {
        path.tell(is_reply ? Path::told_reply : Path::told_probe);
        path.notify(RDS_PATH_SEND);
        return;
    }
    auto message = Message::internal();
    if (!message) {
        path.retry_later(RDS_PATH_PROBE); // a probe tells as much as an answer
        return;
    }
    write_handshake_to(path, (*message)->header(), is_reply);
    if (path.enqueue_bounded(std::move(*message)))
        path.notify(RDS_PATH_SEND);
}

// The kernel's own does not answer when its administrator switched pings off.
void Connection::no_answer()
{
    peer_.store_release(static_cast<u32>(Peer::foreign));
    path(0).notify(RDS_PATH_SEND);
}

// Each stream of one of ours begins with a probe, which says so. Another's may begin with its map.
void Connection::came_without_name()
{
    u32 expected = static_cast<u32>(Peer::unknown);
    if (peer_.compare_exchange(expected, static_cast<u32>(Peer::foreign)))
        path(0).notify(RDS_PATH_SEND);
}

// The first path tells how many there are, and whether the peer is there at all. A peer whose ports do not tell the
// path gives its paths the streams in the order in which they arrive: coming up in order too keeps our paths and its
// paths paired, on which the numbers of what is retransmitted depend.
bool Connection::may_come_up(const Path& path) const
{
    // Our ports tell the path, but only a peer that has answered us over its present first path knows that.
    if (path.index() > 0 && connects() && !paths_[0]->is_answered())
        return false;
    unsigned needed = peer_indexes() ? min(1u, path.index()) : path.index();
    for (unsigned i = 0; i < needed; i++)
        if (!paths_[i]->is_up())
            return false;
    return true;
}

void Connection::path_coming_up(Path& path)
{
    if (peer() != Peer::foreign)
        path.tell(Path::told_probe);
    if (path.index() == 0)
        path.tell(Path::told_map);
}

void Connection::path_came_up(Path& path)
{
    // Whoever learns of the peer's kind at this moment sees that the path is up, or it is seen here.
    if (peer() == Peer::hawser)
        path.tell(Path::told_probe);
    for (unsigned i = path.index() + 1; i < paths(); i++)
        if (!this->path(i).is_up())
            this->path(i).notify(RDS_PATH_SEND); // it waited for this one
    if (path.index() == 0 && peer() == Peer::foreign)
        send_handshake(path, false);
}

// Whose numbers come over path from now on. When it is another's than before, streams to the former one are of no use.
void Connection::heard(Path& came_by, u32 generation)
{
    bool foreign = peer() == Peer::foreign; // tells it over one path for all
    if (came_by.heard(generation)) {
        net.count(Stat::peer_restarted);
        if (foreign)
            came_by.give_up_sent(false);
    }
    for (unsigned i = 0; i < transport.max_paths; i++) {
        Path& other = path(i);
        u32 sender = other.sender();
        if (sender == generation || (sender == 0 && !foreign))
            continue;
        if (foreign && other.heard(generation))
            other.give_up_sent(true);
        if (sender != 0 && other.is_up())
            other.notify(RDS_PATH_LOST);
    }
}

void Connection::set_paths(unsigned count)
{
    unsigned old = paths_agreed_.exchange(count);
    if (old == 0)
        handshake_waiters_.wake();
    for (unsigned i = count; i < old; i++)
        path(i).notify(RDS_PATH_LOST); // what it has moves to path 0
    u32 events = connects() ? RDS_PATH_WANTED | RDS_PATH_SEND : RDS_PATH_SEND;
    for (unsigned i = 1; i < count; i++)
        if (!path(i).is_up())
            path(i).notify(events);
}

// Paths that came up to another kind of peer were not asked, and one of ours gets no message before it has answered.
void Connection::ask_all()
{
    for (unsigned i = 0; i < transport.max_paths; i++) {
        if (!path(i).is_up() || path(i).is_answered())
            continue;
        path(i).tell(Path::told_probe);
        path(i).notify(RDS_PATH_SEND);
    }
}

void Connection::handshake_received(Path& path, const Header& header, bool is_reply)
{
    Handshake handshake = parse_handshake(header);
    u32 before = peer_.exchange(static_cast<u32>(handshake.hawser ? Peer::hawser : Peer::foreign));
    if (handshake.hawser && before == static_cast<u32>(Peer::foreign))
        ask_all();
    peer_indexes_.store_release(handshake.source_port_index);
    if (handshake.generation && *handshake.generation)
        heard(path, *handshake.generation);
    // Before we knew that the peer's ports tell the path we may have taken a stream for another's. Nothing with a number
    // came over it, or will: for that the peer waits for an answer.
    bool misplaced = handshake.hawser && handshake.path != path.index();
    if (is_reply && !misplaced)
        path.answered(handshake.memory);
    set_paths(max(1u, min<unsigned>(transport.max_paths, handshake.paths.value_or(1))));
    if (misplaced)
        path.notify(RDS_PATH_LOST);
    if (is_reply || misplaced)
        return;
    send_handshake(path, true);
    if (path.index() == 0)
        map_changed(); // whoever asks gets the truth about our ports too
}

// ---- congestion

void Connection::map_changed()
{
    if (loops())
        return;
    path(0).tell(Path::told_map);
    if (path(0).is_up())
        path(0).notify(RDS_PATH_SEND);
}

void Connection::map_received(const Incoming& incoming)
{
    net.count(Stat::cong_update_received);
    came_without_name();
    remote_map_->replace(incoming.map_payload());
    net.congestion_changed();
}

void Connection::met_congestion(u16 port)
{
    congested_port_.store_relaxed(port);
    if (loops() || refreshing_.exchange(1))
        return;
    ref(); // the work's
    if (!congestion_work_.queue(net.module.workqueue, net.sysctl.congestion_refresh_ms * ms))
        unref();
}

// A peer whose map was overtaken by an older one (possible with the kernel's own RDS, which sends maps over any path)
// says nothing more: make it tell again.
void Connection::ask_for_map()
{
    net.count(Stat::cong_refresh);
    if (peer() == Peer::hawser) {
        send_handshake(path(0), false);
        return;
    }
    // The kernel's own sends a map over each path that comes up. An idle path costs nobody anything.
    for (unsigned i = max(1u, paths()); i-- > 0;) {
        if (path(i).drained()) {
            path(i).notify(RDS_PATH_RECYCLE);
            return;
        }
    }
}

void Connection::check_congestion()
{
    u64 first = net.sysctl.congestion_refresh_ms * ms;
    u64 now = kapi_now_ns();
    bool congested = remote_map_->congested(static_cast<u16>(congested_port_.load_relaxed()));
    if (dying() || !congested) {
        refresh_delay_ns_ = 0;
        refreshing_.store_release(0);
        unref();
        return;
    }
    u64 heard = remote_map_->replaced_ns();
    if (now - heard >= first) {
        ask_for_map();
        refresh_delay_ns_ = min(max(refresh_delay_ns_ * 2, first), longest_refresh_ns);
    } else {
        refresh_delay_ns_ = first;
    }
    if (!congestion_work_.queue(net.module.workqueue, refresh_delay_ns_))
        unref();
}

} // namespace rds
