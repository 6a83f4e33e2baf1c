// SPDX-License-Identifier: GPL-2.0
#include "connection.h"

#include "socket.h"

namespace rds {

Result<Ref<Connection>> Connection::create(Net& net, const rds_transport& transport, const Endpoint& local,
                                           const Endpoint& remote, u8 tos, Alloc mode)
{
    bool charged = mode == Alloc::charged || mode == Alloc::atomic_charged;
    if (!charged && !net.peers_memory.take_connection())
        return fail(KAPI_ENOBUFS);
    auto* made = make<Connection>(mode, net, transport, local, remote, tos);
    if (!made) {
        if (!charged)
            net.peers_memory.give_connection();
        return fail(KAPI_ENOMEM);
    }
    made->charged_ = charged;
    net.connection_made(transport.type);
    auto connection = Ref<Connection>::adopt(made);
    TRY(connection->build(mode));
    return connection;
}

Result<> Connection::build(Alloc mode)
{
    local_map_ = TRY(net.own_maps.get(local, mode));
    remote_map_ = TRY((loops() ? net.own_maps : net.peer_maps).get(remote, mode));
    for (unsigned i = 0; i < transport.max_paths; i++) {
        paths_[i].reset(make<Path>(mode, *this, i));
        if (!paths_[i])
            return fail(KAPI_ENOMEM);
    }
    if (transport.max_paths == 1)
        paths_agreed_.store_release(1);
    if (loops()) {
        path(0).start_looping();
        return {};
    }
    kapi_addr local_addr = local.ip.with(0, local.scope);
    kapi_addr remote_addr = remote.ip.with(0, remote.scope);
    void* state = transport.create(reinterpret_cast<rds_conn*>(this), net.host, &local_addr, &remote_addr, tos,
                                   static_cast<kapi_alloc_mode>(mode));
    if (!state)
        return fail(KAPI_ENOMEM);
    Guard guard(lock_);
    state_ = state;
    return {};
}

void Connection::destroy(Connection* connection)
{
    Net& net = connection->net;
    rds_transport_type type = connection->transport.type;
    bool charged = connection->charged_;
    // Still there when the connection was never used.
    if (connection->state_)
        connection->transport.destroy(connection->state_);
    dispose(connection);
    if (!charged)
        net.peers_memory.give_connection();
    net.connection_gone(type);
}

void Connection::kill()
{
    dying_.store_release(1);
    local_map_->remove_connection(*this);
    map_refresh_.stop();
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

void Connection::cancel(Message& message)
{
    path(0).cancel(message);
}

void Connection::note(kapi_log_level level, const char* what) const
{
    if (remote.ip.is_v4()) {
        const u8* b = remote.ip.v4();
        kapi_log(level, "rds: %u.%u.%u.%u %s", b[0], b[1], b[2], b[3], what);
        return;
    }
    const u8* b = remote.ip.bytes();
    auto group = [&](unsigned i) { return static_cast<unsigned>(b[2 * i] << 8 | b[2 * i + 1]); };
    kapi_log(level, "rds: %x:%x:%x:%x:%x:%x:%x:%x %s", group(0), group(1), group(2), group(3), group(4), group(5), group(6),
             group(7), what);
}

// ---- the end for want of use

u64 Connection::activity()
{
    u64 sum = 0;
    for (unsigned i = 0; i < transport.max_paths; i++) {
        Path::Snapshot now = path(i).snapshot();
        sum += now.next_tx + now.next_rx + now.drops;
    }
    return sum;
}

bool Connection::is_empty()
{
    for (unsigned i = 0; i < transport.max_paths; i++)
        if (!path(i).has_only_answers() || path(i).partial().exists()) // a large one takes long over a slow link
            return false;
    return true;
}

bool Connection::has_streams()
{
    for (unsigned i = 0; i < transport.max_paths && !loops(); i++)
        if (path(i).snapshot().state != PathState::down)
            return true;
    return false;
}

Ending Connection::ending()
{
    Ending worst = Ending::none;
    for (unsigned i = 0; i < transport.max_paths; i++)
        worst = max(worst, path(i).ending());
    return worst;
}

void Connection::retire()
{
    for (unsigned i = 0; i < transport.max_paths; i++)
        path(i).notify(RDS_PATH_RETIRE);
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
    if (path.has_said_foreign())
        write_foreign_handshake(header, generation_, peer_indexes());
    else
        write_handshake(header, generation_, static_cast<u8>(path.index()), path.receiver_id());
}

void Connection::send_handshake(Path& path, bool is_reply)
{
    if (is_mute())
        return;
    if (peer() != Peer::foreign) {
        path.queue_control(is_reply ? control_reply : control_probe);
        path.notify(RDS_PATH_SEND);
        return;
    }
    auto message = Message::internal();
    if (!message) {
        path.retry_later(RDS_PATH_PROBE); // a probe has all that an answer has
        return;
    }
    write_handshake_to(path, (*message)->header(), is_reply);
    if (path.enqueue_bounded(std::move(*message)))
        path.notify(RDS_PATH_SEND);
}

void Connection::peer_is(Peer kind)
{
    peer_.store_release(static_cast<u32>(kind));
    path(0).note_foreign(kind == Peer::foreign);
}

void Connection::assume_foreign(Peer expected)
{
    u32 was = static_cast<u32>(expected);
    if (peer_.compare_exchange(was, static_cast<u32>(Peer::foreign)))
        path(0).notify(RDS_PATH_SEND);
}

// The handshake on the first path shows how many paths there are, and that the peer is there at all. A peer whose ports do
// not encode the path gives its paths the streams in the order in which they arrive: coming up in order too keeps our paths and
// its paths paired, on which the numbers of what is retransmitted depend.
Path* Connection::waits_for(const Path& path) const
{
    // Our ports encode the path, but only a peer that has answered over its present first path has been informed of that.
    if (path.index() > 0 && connects() && !paths_[0]->is_answered())
        return paths_[0].get();
    unsigned needed = peer_indexes() ? min(1u, path.index()) : path.index();
    for (unsigned i = 0; i < needed; i++)
        if (!paths_[i]->is_up())
            return paths_[i].get();
    return nullptr;
}

Path* Connection::missing_path() const
{
    for (unsigned i = 0; i < max(1u, paths()); i++)
        if (!paths_[i]->is_up())
            return paths_[i].get();
    return nullptr;
}

// A peer that pairs its paths with streams by their order takes a new one for the first path that is missing there: so one is
// opened again at a time, or the one that all missing ones wait for. They may be missing as long as a program does not read.
bool Connection::may_open_again(const Path& path) const
{
    if (waits_for(path))
        return false;
    const Path* missing = missing_path();
    return !missing || peer_indexes() || waits_for(*missing) == &path;
}

void Connection::queue_greeting(Path& path)
{
    if (peer() != Peer::foreign)
        path.queue_control(control_probe);
    if (path.index() == 0)
        path.queue_control(control_map);
}

void Connection::path_is_up(Path& path)
{
    // If the peer's kind becomes known at this moment, either that thread sees that the path is up, or it is seen here.
    if (peer() == Peer::hawser)
        path.queue_control(control_probe);
    for (unsigned i = path.index() + 1; i < paths(); i++)
        if (!this->path(i).is_up() && !waits_for(this->path(i)))
            this->path(i).notify(RDS_PATH_SEND); // this was the last one that it waited for
    if (path.index() != 0)
        return;
    note(KAPI_LOG_INFO, "is connected");
    if (peer() == Peer::foreign)
        send_handshake(path, false);
}

// Whose numbers come over path from now on. When it is another's than before, streams to the former one are of no use.
void Connection::note_sender(Path& came_by, u32 generation)
{
    bool foreign = peer() == Peer::foreign; // sends its generation over one path for all
    if (came_by.note_sender(generation, !foreign)) {
        net.count(Stat::peer_restarted);
        note(KAPI_LOG_NOTICE, "has restarted, or another host has its address now");
        if (foreign)
            came_by.give_up_sent(false);
    }
    for (unsigned i = 0; i < transport.max_paths; i++) {
        Path& other = path(i);
        u32 sender = other.sender();
        if (sender == generation || (sender == 0 && !foreign))
            continue;
        // Its host answers with a reset if the hawser is gone. Else it was a stranger who showed another generation.
        if (foreign && other.is_answered_by_hawser()) {
            other.notify(RDS_PATH_PROBE);
            continue;
        }
        if (foreign && other.note_sender(generation, false))
            other.give_up_sent(true);
        if (sender != 0 && other.is_up())
            other.notify(RDS_PATH_LOST);
    }
}

// wake: the paths that are not up may be able to come up now.
void Connection::set_paths(unsigned count, bool wake)
{
    unsigned old = paths_agreed_.exchange(count);
    if (old == 0)
        handshake_waiters_.wake();
    for (unsigned i = count; i < old; i++)
        path(i).notify(RDS_PATH_LOST); // what it has moves to path 0
    u32 events = connects() ? RDS_PATH_WANTED | RDS_PATH_SEND : RDS_PATH_SEND;
    for (unsigned i = 1; i < count; i++)
        if ((wake || count != old) && !path(i).is_up())
            path(i).notify(events);
}

// Paths that came up to a foreign peer were not probed, and a hawser gets no message before it has answered.
void Connection::probe_all()
{
    for (unsigned i = 0; i < transport.max_paths; i++) {
        if (!path(i).is_up() || path(i).is_answered())
            continue;
        path(i).queue_control(control_probe);
        path(i).notify(RDS_PATH_SEND);
    }
}

void Connection::handshake_received(Path& path, const Header& header, bool is_reply)
{
    Handshake handshake = parse_handshake(header);
    if (is_mute() || (transport.names_peer && !handshake.hawser))
        return;
    u32 before = peer_.exchange(static_cast<u32>(handshake.hawser ? Peer::hawser : Peer::foreign));
    path.note_foreign(!handshake.hawser);
    if (handshake.hawser && before == static_cast<u32>(Peer::foreign))
        probe_all();
    bool wake = peer_indexes_.exchange(handshake.source_port_index) != u32{handshake.source_port_index};
    if (handshake.generation && *handshake.generation)
        note_sender(path, *handshake.generation);
    // Before it was known that the peer's ports encode the path, a stream may have been taken for another path's. Nothing
    // with a number came over it, or will: for that the peer waits for an answer.
    bool misplaced = handshake.hawser && handshake.path != path.index();
    if (is_reply && !misplaced) {
        path.answered(handshake.memory);
        wake |= path.index() == 0; // for its answer the others wait
    }
    set_paths(max(1u, min<unsigned>(transport.max_paths, handshake.paths.value_or(1))), wake);
    if (misplaced)
        path.notify(RDS_PATH_LOST);
    if (is_reply || misplaced)
        return;
    send_handshake(path, true);
    if (path.index() == 0)
        map_changed(); // a probe is answered with the map, too
}

// ---- congestion

void Connection::map_changed()
{
    if (loops())
        return;
    path(0).queue_control(control_map);
    if (path(0).is_up())
        path(0).notify(RDS_PATH_SEND);
}

void Connection::map_received(const Incoming& incoming)
{
    net.count(Stat::cong_update_received);
    assume_foreign(Peer::unknown); // a hawser's stream begins with a probe, which shows its kind; another's may begin so
    const std::byte* map = incoming.map_payload();
    if (!map)
        return;
    if (remote_map_->replace(map)) // an answer to a request for it is often the same again
        net.congestion_changed();
}

} // namespace rds
