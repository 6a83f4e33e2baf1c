// SPDX-License-Identifier: GPL-2.0
// The life of a path's streams.
#include "connection.h"
#include "path.h"

namespace rds {

namespace {

constexpr u64 ms = 1'000'000;
constexpr u64 connect_timeout_ns = 3000 * ms; // then a new attempt, so that a healed link is noticed soon
constexpr u64 answer_timeout_ns = 1000 * ms;  // for the peer to connect to us after we knocked
constexpr u64 closing_tick_ns = 50 * ms;
constexpr u64 wanted_by_peer_ns = 5000 * ms;     // it knocked
constexpr u64 wanted_after_loss_ns = 60'000 * ms; // it may not have noticed
// More than what TCP's buffers have: the end of a stream that a peer goes on to fill while there is no memory to read it.
constexpr usize most_of_stream = 64 << 20;
constexpr u64 overdraws_after_ns = 60'000 * ms;   // a program may be about to read
constexpr u64 stable_ns = 1000 * ms;          // up for so long: the next attempt is not a repetition
constexpr u64 attempts_apart_ns = 200'000;    // for all connections of a user together: half of it on average
constexpr u64 least_longest_ns = 1000 * ms;   // for the back-off in a namespace of a user
constexpr u64 never = ~u64{0};
// Of the present stream. When there is none, they were of the one before.
constexpr u32 stream_events = RDS_PATH_ESTABLISHED | RDS_PATH_LOST | RDS_PATH_RESUME | RDS_PATH_RECYCLE | RDS_PATH_RETIRE;

} // namespace

void Path::run()
{
    if (!connection_.dying() && owner_.acquire()) {
        step();
        if (owner_.release())
            notify(0);
    }
    unref();
}

// ---- the states

void Path::step()
{
    u32 events = events_.exchange(0);
    if (connection_.loops()) {
        if (transmitter_.pump())
            notify(RDS_PATH_SEND);
        return;
    }
    if (events & RDS_PATH_WANTED) {
        wanted_ = true;
        wanted_until_ns_ = max(wanted_until_ns_, kapi_now_ns() + wanted_by_peer_ns);
    }
    if ((events & RDS_PATH_PROBE) && is_up())
        connection_.send_handshake(*this, false);
    end_dropped();
    look_ns_ = never;
    for (bool again = true; again;) {
        switch (state()) {
        case PathState::down:
            events &= ~stream_events;
            again = step_down();
            break;
        case PathState::connecting:
            again = step_connecting(events);
            break;
        case PathState::up:
            again = step_up(events);
            break;
        case PathState::closing:
            again = step_closing();
            break;
        }
    }
    if (look_ns_ != never)
        arm(look_ns_);
}

bool Path::step_down()
{
    if (!connection_.uses(*this)) {
        set_trying(false);
        step_left_out();
        return false;
    }
    left_out_since_ns_ = 0;
    if (Path* first = connection_.waits_for(*this)) {
        set_trying(false);
        // One that is not down looks for itself, when it is, who waits for it.
        if (is_wanted() && first->is_down())
            first->notify(RDS_PATH_SEND);
        return false;
    }
    if (connection_.transport.adopt(connection_.state(), index_) == 1) {
        enter(PathEvent::adopt, KAPI_RDS_ACCEPTED);
        came_up();
        return true;
    }
    set_trying(is_wanted());
    if (!trying_)
        return false;
    if (kapi_now_ns() < retry_at_ns_) {
        look_by(retry_at_ns_);
        return false;
    }
    return start_connecting();
}

// Without a message or a socket that may send, only the peer can want the path, and it will knock again.
bool Path::is_wanted()
{
    for (unsigned i = index_; i < connection_.path_count(); i++) // those behind it may wait for it
        if (connection_.path(i).queue_.has_unsent())
            return true;
    u64 now = kapi_now_ns();
    if (!wanted_ || connection_.has_users() || now < wanted_until_ns_)
        return wanted_;
    return lost_ns_ && now - lost_ns_ < connection_.net.collector.kept_after_loss(connection_);
}

bool Path::start_connecting()
{
    Change made;
    bool may_connect = connection_.decide([&] {
        if (connection_.waits_for(*this))
            return false;
        made = change(PathEvent::connect, KAPI_RDS_WANTED);
        return true;
    });
    if (!may_connect)
        return true; // now there is one that it waits for
    publish(made);
    connect_deadline_ns_ = kapi_now_ns() + connect_timeout_ns;
    if (connection_.transport.connect(connection_.state(), index_) < 0)
        connect_failed();
    return true;
}

void Path::connect_failed()
{
    connection_.net.count(Stat::conn_reset);
    peer_gone_ = true;
    begin_closing(KAPI_RDS_REFUSED);
}

bool Path::step_connecting(u32& events)
{
    u64 now = kapi_now_ns();
    bool lost = (events & RDS_PATH_LOST) || now >= connect_deadline_ns_ || !connection_.uses(*this);
    if (!lost && (events & RDS_PATH_ESTABLISHED)) {
        events &= ~RDS_PATH_ESTABLISHED;
        int step = connection_.transport.established(connection_.state(), index_);
        if (step == 1) {
            enter(PathEvent::establish, KAPI_RDS_ESTABLISHED);
            came_up();
            return true;
        }
        if (step == 0)
            connect_deadline_ns_ = now + answer_timeout_ns;
    }
    if (connection_.transport.has_accepted(connection_.state(), index_) || (lost && (events & RDS_PATH_ESTABLISHED))) {
        peer_gone_ = true; // nothing was received on it: a knock that was heard
        begin_closing(KAPI_RDS_HEARD);
        return true;
    }
    if (lost) {
        connect_failed();
        return true;
    }
    look_by(connect_deadline_ns_);
    return false;
}

bool Path::step_up(u32& events)
{
    rds_stream_waits accepted = connection_.transport.has_accepted(connection_.state(), index_);
    bool lost = (events & RDS_PATH_LOST) || is_replaced(accepted);
    if (!lost && (events & RDS_PATH_RECYCLE) && recycle(accepted != 0))
        return true;
    if (lost || ((events & RDS_PATH_RETIRE) && drained()) || is_left_out()) {
        peer_gone_ = accepted != 0;
        retires_ = !lost || (events & RDS_PATH_RETIRE);
        begin_closing(!lost ? KAPI_RDS_UNUSED : (events & RDS_PATH_LOST) ? KAPI_RDS_LOST : KAPI_RDS_REPLACED);
        return true;
    }
    // If the peer has left the present stream, its host answers this with a reset. A stream of which it is not known which
    // path it is for may be for one that has none.
    if (accepted && (events & RDS_PATH_ACCEPTED) && (accepted == RDS_STREAM_WAITS || !connection_.missing_path())) {
        events &= ~RDS_PATH_ACCEPTED;
        connection_.send_handshake(*this, false);
    }
    if (events & RDS_PATH_RESUME) {
        events &= ~RDS_PATH_RESUME;
        receiver_.pull().read();
    }
    u64 now = kapi_now_ns();
    if (peer_is_dead(now)) {
        connection_.net.count(Stat::path_dead_peer);
        connection_.note(KAPI_LOG_NOTICE, "does not answer");
        peer_gone_ = true;
        begin_closing(KAPI_RDS_DEAD);
        return true;
    }
    if (now >= next_tick_ns_) {
        next_tick_ns_ = now + tick_ns;
        if (waits_for_answer() && !probe_again()) {
            peer_gone_ = true;
            retires_ = true; // nothing says that it may want this path
            begin_closing(KAPI_RDS_UNANSWERED);
            return true;
        }
        note_silence();
        let_acknowledgements_pass();
    }
    queue_.end_acked();
    if (transmitter_.pump())
        notify(RDS_PATH_SEND);
    // Answers alone that a live peer does not read need no look, which would make the connection appear to be used.
    bool unanswered = !queue_.is_empty() && unanswered_.load_relaxed();
    if (!drained() || unanswered || waits_for_answer() || may_hold_up_map() || accepted == RDS_STREAM_WAITS)
        look_by(min(next_tick_ns_, next_look_ns_));
    return false;
}

bool Path::step_closing()
{
    queue_.end_acked(); // it may close for as long as a program does not read
    // A peer that opened a new stream has left the old one.
    if (connection_.transport.has_accepted(connection_.state(), index_))
        peer_gone_ = true;
    rds_close_mode mode = peer_gone_ ? RDS_CLOSE_PEER_GONE : RDS_CLOSE_GRACEFUL;
    rds_closing outcome = connection_.transport.close(connection_.state(), index_, mode);
    if (outcome >= RDS_CLOSED) {
        closed(outcome);
        return true;
    }
    u64 now = kapi_now_ns();
    if (outcome == RDS_CLOSING || !receiver_.stalled()) {
        look_by(now + (outcome == RDS_CLOSING ? closing_tick_ns : tick_ns)); // for memory it is tried again in its turn
        return false;
    }
    // What is unread waits for a socket, which notifies us when it has room again.
    bool overdraws = now >= overdraws_at_ns_ && receiver_.overdraw(most_of_stream);
    if (now >= overdraws_at_ns_)
        overdraws_at_ns_ = now + overdraws_after_ns;
    look_by(overdraws_at_ns_);
    return overdraws;
}

// ---- between the states

void Path::came_up()
{
    queue_.stream_began();
    transmitter_.stream_began();
    probe_timer_.stream_began();
    u64 now = kapi_now_ns();
    wanted_ = false;
    lost_ns_ = 0;
    peer_gone_ = false;
    retires_ = recycles_ = stalls_long_ = false;
    was_up_ = true;
    ending_.store_release(static_cast<u32>(Ending::lost)); // until more is known
    up_since_ns_ = now;
    set_trying(false);
    next_tick_ns_ = next_look_ns_ = now + tick_ns;
    look_by(now + tick_ns);
    unanswered_.store_relaxed(0);
    connection_.queue_greeting(*this);
    up_.exchange(1); // seen before path_is_up() looks at the peer's kind
    connection_.path_is_up(*this);
}

void Path::note_loss(kapi_trace_rds_reason reason)
{
    connection_.net.count(Stat::conn_reset);
    if (index_ == 0)
        rds::note_loss(connection_, reason);
}

Path::Change Path::leave(kapi_trace_rds_reason reason)
{
    bool was_up = up_.exchange(0) != 0;
    Change made = change(PathEvent::lose, reason);
    if (was_up) {
        Guard guard(lock_);
        drops_++;
    }
    wanted_ = true;
    overdraws_at_ns_ = kapi_now_ns() + overdraws_after_ns;
    if (was_up && !retires_) {
        // The peer may not be able to connect. Where whole messages are sent either side is, and a hawser asks. The kernel's own
        // sends nothing there of its own accord: if all that it has sent was taken by our device, it waits for ever, for an
        // acknowledgement or a map. A request for a connection makes it end the old one.
        bool posts = connection_.transport.post != nullptr;
        wanted_until_ns_ = posts ? 0 : kapi_now_ns() + wanted_after_loss_ns;
        lost_ns_ = posts && connection_.peer() == Peer::foreign ? kapi_now_ns() : 0;
        if (!recycles_)
            note_loss(reason);
        if (kapi_now_ns() - up_since_ns_ >= max(stable_ns, shortest_delay_ns()))
            back_off_.reset();
    }
    return made;
}

// A stream was closed in order for a reason. A hawser peer that still wants one opens it, or knocks.
void Path::closed(rds_closing how)
{
    if (how == RDS_CLOSED_KNOWN)
        lost_ns_ = 0;
    if (how == RDS_CLOSED_COMPLETE && was_up_) {
        ending_.store_release(static_cast<u32>(Ending::complete));
        if (connection_.peer() == Peer::hawser || retires_)
            wanted_until_ns_ = 0;
    }
    was_up_ = false;
    receiver_.stream_ended();
    partial_.stream_ended(connection_.net.peers_memory);
    transmitter_.stream_ended();
    queue_.stream_ended();
    enter(PathEvent::closed, KAPI_RDS_CLOSED);
    answered_.store_release(0);
    said_foreign_.store_relaxed(0);
    silent_.store_release(0);
    events_.fetch_and(~stream_events);
    connection_.path_is_down(*this);
    wait_for_retry();
}

void Path::set_trying(bool trying)
{
    ConnectionShares& shares = connection_.net.connections.shares;
    if (std::exchange(trying_, trying) != trying)
        trying ? shares.begin_trying(connection_.payer) : shares.end_trying(connection_.payer);
}

// The works of all users and namespaces wait in one queue. So a user's attempts are not more frequent the more destinations
// refuse, and the settings of the user's own namespace do not change that. Paths that are up, or that nobody needs, delay no
// other.
u64 Path::shortest_delay_ns() const
{
    Net& net = connection_.net;
    u64 at_least_ns = max(net.connections.shares.trying(connection_.payer), 1u) * attempts_apart_ns;
    return max(max<u64>(net.sysctl.reconnect_min_delay_ms, 1) * ms, at_least_ns);
}

void Path::wait_for_retry()
{
    Net& net = connection_.net;
    u64 longest_ns = max(net.sysctl.reconnect_max_delay_ms * ms, net.connections.shares.is_users() ? least_longest_ns : 0);
    retry_at_ns_ = kapi_now_ns() + back_off_.next(shortest_delay_ns(), longest_ns, kapi_random_u32());
}

void Path::kill()
{
    if (work_.cancel_sync())
        unref();
    timer_.stop();
    owner_.acquire_for_good(); // nobody else touches the transport any more
    up_.store_release(0);
    if (!connection_.loops()) {
        PathState now = state();
        if (now == PathState::connecting || now == PathState::up)
            begin_closing(KAPI_RDS_REMOVED);
        if (now != PathState::down) {
            rds_closing outcome = connection_.transport.close(connection_.state(), index_, RDS_CLOSE_AT_ONCE);
            HW_ASSERT(outcome >= RDS_CLOSED);
        }
    }
    set_trying(false);
    receiver_.release_stall();
    partial_.stream_ended(connection_.net.peers_memory);
    transmitter_.stream_ended();
    queue_.close();
}

} // namespace rds
