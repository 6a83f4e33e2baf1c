// SPDX-License-Identifier: GPL-2.0
// What a connection learns of its peer: what kind it is, which life of it, and how many paths it has.
#include "connection.h"

namespace rds {

namespace {

// The number must divide that of either end's, for ports to encode the path.
// One at least.
unsigned usable_paths(unsigned count)
{
    unsigned usable = 1;
    while (usable * 2 <= count)
        usable *= 2;
    return usable;
}

// The paths that are not up may be able to come up now.
void wake_missing(Connection& connection, unsigned count)
{
    u32 events = connection.connects() ? RDS_PATH_WANTED | RDS_PATH_SEND : RDS_PATH_SEND;
    for (unsigned i = 1; i < count; i++)
        if (!connection.path(i).is_up())
            connection.path(i).notify(events);
}

} // namespace

Path& Connection::path_for(u16 port)
{
    Guard guard(lock_);
    if (paths() == 0)
        early_.add(port);
    if (early_.has(port))
        return path(0);
    u32 hash = (port * 2654435761u) >> 16;
    return path(hash % transport.max_paths);
}

Result<> Connection::wait_for_handshake(u64 deadline_ns)
{
    return handshake_waiters_.wait_in_turn(deadline_ns, [&] { return paths() != 0 || path(0).is_silent() || dying(); });
}

Result<void*> Connection::hold_stream(u64 deadline_ns)
{
    void* held = nullptr;
    auto hold = [&] { return with_state([&](void* state) { return (held = transport.hold(state)) != nullptr; }); };
    if (!hold()) {
        path(0).notify(RDS_PATH_WANTED);
        auto waited = stream_waiters_.wait_in_turn(deadline_ns, [&] { return dying() || hold(); });
        if (!waited)
            return fail(waited.error().code() == KAPI_ETIMEDOUT ? KAPI_EAGAIN : waited.error().code());
    }
    return held ? Result<void*>(held) : fail(KAPI_ENETUNREACH);
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

bool Connection::is_peers(const Header& header)
{
    auto kind = classify(header);
    if (!kind || *kind != MessageKind::probe)
        return false;
    Handshake handshake = parse_handshake(header);
    u32 generation = handshake.generation.value_or(0);
    return handshake.hawser && handshake.path < transport.max_paths && generation &&
           path(handshake.path).proven_sender() == generation;
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
    // One that answers nobody learns it from our answer to its own handshake.
    bool silent = peer() == Peer::foreign && paths_[0]->is_silent();
    if (path.index() > 0 && connects() && !paths_[0]->is_answered() && !silent)
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
// opened again at a time, or the one that all missing ones wait for. The first one may be missing as long as a program does not
// read; if we open the streams, one before it may be opened again meanwhile, for which all that are missing wait.
bool Connection::may_open_again(const Path& path) const
{
    if (waits_for(path))
        return false;
    const Path* missing = missing_path();
    if (!missing || peer_indexes() || waits_for(*missing) == &path)
        return true;
    for (unsigned i = missing->index(); i < paths(); i++)
        if (paths_[i]->is_connecting())
            return false;
    return connects() && missing->stalled();
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
    stream_waiters_.wake();
    if (peer() == Peer::foreign)
        send_handshake(path, false);
}

void Connection::first_path_is_silent()
{
    handshake_waiters_.wake();
    if (connects())
        wake_missing(*this, paths());
}

// It was a hawser's, and the numbers that come over the next one may be those of a foreign peer that has its address now.
void Connection::path_is_down(Path& path)
{
    u32 generation = foreign_generation_.load_relaxed();
    if (generation && peer() == Peer::foreign)
        path.note_sender(generation, false);
    if (paths_said_.load_acquire() != paths())
        agree_on_paths(nullptr, false);
}

// Whose numbers come over path from now on. When it is another's than before, streams to the former one are of no use. But
// what is said over one path proves nothing about another on which a hawser answered.
void Connection::note_sender(Path& came_by, u32 generation)
{
    bool foreign = peer() == Peer::foreign; // sends its generation over one path for all
    bool changed = came_by.sender() != generation;
    foreign_generation_.store_relaxed(foreign ? generation : 0);
    if (came_by.note_sender(generation, !foreign)) {
        net.count(Stat::peer_restarted);
        if (net.module.notices.restarted.is_due())
            note(KAPI_LOG_NOTICE, "has restarted, or another host has its address now");
        if (foreign)
            came_by.give_up_sent(false);
    }
    for (unsigned i = 0; i < transport.max_paths; i++) {
        Path& other = path(i);
        u32 sender = other.sender();
        if (sender == generation || (sender == 0 && !foreign))
            continue;
        // Its host answers with a reset if the hawser is gone. Else it was a stranger who showed another generation. The
        // answer is no reason to ask the stranger in turn.
        if (other.is_answered_by_hawser()) {
            if (changed)
                other.notify(RDS_PATH_PROBE);
            continue;
        }
        if (foreign && other.note_sender(generation, false))
            other.give_up_sent(true);
        if (sender != 0 && other.is_up())
            other.notify(RDS_PATH_LOST);
    }
}

// Whether path is used though the handshake leaves it out that came over by. A hawser has the same number of paths all its
// life, so another number is believed only from the one that sent over path, if any did; and from a foreign peer while no
// hawser answers on path.
bool Connection::is_kept(Path& path, Path* by)
{
    u32 sender = path.sender();
    if (by && by->is_answered_by_hawser() && (sender == 0 || sender == by->sender()))
        return false;
    return path.is_answered_by_hawser() || peer() == Peer::hawser;
}

// by: what the last handshake came over, if it came just now. Any context, also at the same time.
void Connection::agree_on_paths(Path* by, bool wake)
{
    for (unsigned said = paths_said_.load_acquire();;) {
        bool kept = false;
        for (unsigned i = said; i < paths(); i++) {
            if (!is_kept(path(i), by))
                continue;
            kept = true;
            if (by)
                path(i).notify(RDS_PATH_PROBE);
        }
        if (!kept)
            set_paths(said, wake);
        else if (wake)
            wake_missing(*this, paths());
        unsigned last = said;
        said = paths_said_.load_acquire();
        if (said == last)
            return;
    }
}

void Connection::set_paths(unsigned count, bool wake)
{
    unsigned old = paths_agreed_.exchange(count);
    if (old == 0 && count)
        handshake_waiters_.wake();
    for (unsigned i = count; i < old; i++)
        path(i).notify(RDS_PATH_SEND); // it closes, and what it has moves to path 0
    if (wake || count != old)
        wake_missing(*this, count);
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
    paths_said_.store_release(usable_paths(min<unsigned>(transport.max_paths, handshake.paths.value_or(u16{}))));
    agree_on_paths(&path, wake);
    if (misplaced)
        path.notify(RDS_PATH_LOST);
    if (is_reply || misplaced)
        return;
    send_handshake(path, true);
    if (path.index() == 0)
        map_changed(); // a probe is answered with the map, too
}

} // namespace rds
