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
constexpr u64 stable_ns = 1000 * ms;          // up for so long: the next attempt is not a repetition
constexpr u64 never = ~u64{0};
constexpr u32 stream_events = RDS_PATH_ESTABLISHED | RDS_PATH_LOST | RDS_PATH_RESUME;

} // namespace

// ---- when the worker runs

void Path::notify(u32 events)
{
    events_.fetch_or(events);
    if (connection_.dying())
        return;
    ref(); // the queued work's
    if (!work_.queue(connection_.net.module.workqueue))
        unref();
}

// The owner's. One timer serves all reasons to look again, and is never put off: at each look they are found anew.
void Path::arm(u64 time_ns)
{
    u64 due_ns = due_ns_.load_relaxed();
    if ((due_ns && due_ns <= time_ns) || connection_.dying())
        return;
    due_ns_.store_relaxed(time_ns);
    u64 now = kapi_now_ns();
    ref();
    if (!timer_.mod(connection_.net.module.workqueue, time_ns - min(time_ns, now)))
        unref();
}

// While the path is up the timer is never set for later than this.
void Path::arm_tick()
{
    if (!due_ns_.load_relaxed())
        arm(kapi_now_ns() + (unanswered_.load_relaxed() ? unanswered_tick_ns : tick_ns));
}

void Path::ticked()
{
    due_ns_.store_release(0);
    notify(RDS_PATH_TICK);
    unref();
}

void Path::retry_later(u32 events, u64 delay_ns)
{
    later_.fetch_or(events);
    if (connection_.dying())
        return;
    ref();
    if (!retry_.queue(connection_.net.module.workqueue, delay_ns))
        unref();
}

void Path::retried()
{
    notify(later_.exchange(0));
    unref();
}

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
    look_ns_ = never;
    for (bool again = true; again;) {
        switch (state()) {
        case PathState::down:
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
            events &= ~stream_events; // they were of the stream that is being closed
            break;
        }
    }
    if (look_ns_ != never)
        arm(look_ns_);
}

bool Path::step_down()
{
    if (!connection_.uses(*this)) { // the peer turned out to use fewer paths than we thought
        Path& first = connection_.path(0);
        queue_.move_to(first.queue_);
        first.notify(RDS_PATH_SEND);
        return false;
    }
    if (Path* first = connection_.waits_for(*this)) {
        // One that is not down looks for itself, when it is, who waits for it.
        if (is_wanted() && first->is_down())
            first->notify(RDS_PATH_SEND);
        return false;
    }
    if (connection_.transport.adopt(connection_.state(), index_) == 1) {
        enter(PathEvent::adopt);
        came_up();
        return true;
    }
    if (!is_wanted())
        return false;
    if (kapi_now_ns() < retry_at_ns_) {
        look_by(retry_at_ns_);
        return false;
    }
    start_connecting();
    return true;
}

// Without a message or a socket that may send, only the peer can want the path, and it will knock again.
bool Path::is_wanted()
{
    for (unsigned i = index_; i < connection_.path_count(); i++) // those behind it may wait for it
        if (connection_.path(i).queue_.has_unsent())
            return true;
    return wanted_ && (connection_.has_users() || kapi_now_ns() < wanted_until_ns_);
}

void Path::start_connecting()
{
    enter(PathEvent::connect);
    connect_deadline_ns_ = kapi_now_ns() + connect_timeout_ns;
    if (connection_.transport.connect(connection_.state(), index_) < 0)
        connect_failed();
}

void Path::connect_failed()
{
    connection_.net.count(Stat::conn_reset);
    peer_gone_ = true;
    begin_closing();
}

bool Path::step_connecting(u32& events)
{
    u64 now = kapi_now_ns();
    bool lost = (events & RDS_PATH_LOST) || now >= connect_deadline_ns_;
    if (!lost && (events & RDS_PATH_ESTABLISHED)) {
        events &= ~RDS_PATH_ESTABLISHED;
        int step = connection_.transport.established(connection_.state(), index_);
        if (step == 1) {
            enter(PathEvent::establish);
            came_up();
            return true;
        }
        if (step == 0)
            connect_deadline_ns_ = now + answer_timeout_ns;
    }
    if (connection_.transport.has_accepted(connection_.state(), index_) || (lost && (events & RDS_PATH_ESTABLISHED))) {
        peer_gone_ = true; // nothing was received on it: a knock that was heard
        begin_closing();
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
    bool recycles = !lost && (events & RDS_PATH_RECYCLE) && may_be_recycled();
    if (lost || recycles || ((events & RDS_PATH_RETIRE) && drained())) {
        peer_gone_ = accepted != 0;
        recycles_ = recycles;
        retires_ = !lost && !recycles_;
        begin_closing();
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
        connection_.transport.resume(connection_.state(), index_);
    }
    u64 now = kapi_now_ns();
    if (peer_is_dead(now)) {
        connection_.net.count(Stat::path_dead_peer);
        connection_.note(KAPI_LOG_NOTICE, "does not answer");
        peer_gone_ = true;
        begin_closing();
        return true;
    }
    if (now >= next_tick_ns_) {
        next_tick_ns_ = now + tick_ns;
        if (waits_for_answer() && !probe_again()) {
            peer_gone_ = true;
            retires_ = true; // nothing says that it may want this path
            begin_closing();
            return true;
        }
    }
    if (transmitter_.pump())
        notify(RDS_PATH_SEND);
    // Answers alone that a live peer does not read need no look, which would make the connection appear to be used.
    bool unanswered = !queue_.is_empty() && unanswered_.load_relaxed();
    if (!drained() || unanswered || waits_for_answer() || accepted == RDS_STREAM_WAITS)
        look_by(min(next_tick_ns_, next_look_ns_));
    return false;
}

bool Path::step_closing()
{
    // A peer that opened a new stream has left the old one.
    if (connection_.transport.has_accepted(connection_.state(), index_))
        peer_gone_ = true;
    rds_close_mode mode = peer_gone_ ? RDS_CLOSE_PEER_GONE : RDS_CLOSE_GRACEFUL;
    rds_closing outcome = connection_.transport.close(connection_.state(), index_, mode);
    if (outcome == RDS_CLOSED || outcome == RDS_CLOSED_COMPLETE) {
        closed(outcome == RDS_CLOSED_COMPLETE);
        return true;
    }
    // What is unread may wait for a socket, which notifies us when it has room again.
    if (outcome == RDS_CLOSING || !receiver_.stalled())
        look_by(kapi_now_ns() + closing_tick_ns);
    return false;
}

// ---- between the states

void Path::came_up()
{
    queue_.stream_began();
    transmitter_.stream_began();
    probe_timer_.stream_began();
    u64 now = kapi_now_ns();
    wanted_ = false;
    peer_gone_ = false;
    retires_ = recycles_ = false;
    was_up_ = true;
    ending_.store_release(static_cast<u32>(Ending::lost)); // until more is known
    up_since_ns_ = now;
    next_tick_ns_ = next_look_ns_ = now + tick_ns;
    look_by(now + tick_ns);
    unanswered_.store_relaxed(0);
    connection_.queue_greeting(*this);
    up_.exchange(1); // seen before path_is_up() looks at the peer's kind
    connection_.path_is_up(*this);
}

void Path::note_loss()
{
    connection_.net.count(Stat::conn_reset);
    if (index_ == 0)
        connection_.note(KAPI_LOG_INFO, "is not connected any more");
}

void Path::begin_closing()
{
    bool was_up = up_.exchange(0) != 0;
    {
        Guard guard(lock_);
        state_.must(PathEvent::lose);
        if (was_up)
            drops_++;
    }
    wanted_ = true;
    if (was_up && !retires_) {
        wanted_until_ns_ = kapi_now_ns() + wanted_after_loss_ns;
        if (!recycles_)
            note_loss();
        if (kapi_now_ns() - up_since_ns_ >= stable_ns)
            back_off_.reset();
    }
}

// A stream was closed in order for a reason. A hawser peer that still wants one opens it, or knocks.
void Path::closed(bool complete)
{
    if (complete && was_up_) {
        ending_.store_release(static_cast<u32>(Ending::complete));
        if (connection_.peer() == Peer::hawser || retires_)
            wanted_until_ns_ = 0;
    }
    was_up_ = false;
    receiver_.stream_ended();
    partial_.stream_ended(connection_.net.peers_memory);
    transmitter_.stream_ended();
    queue_.stream_ended();
    enter(PathEvent::closed);
    answered_.store_release(0);
    said_foreign_.store_relaxed(0);
    events_.fetch_and(~stream_events);
    wait_for_retry();
}

void Path::wait_for_retry()
{
    const rds_sysctl& sysctl = connection_.net.sysctl;
    u64 shortest_ns = max<u64>(sysctl.reconnect_min_delay_ms, 1) * ms;
    u64 longest_ns = sysctl.reconnect_max_delay_ms * ms;
    retry_at_ns_ = kapi_now_ns() + back_off_.next(shortest_ns, longest_ns, kapi_random_u32());
}

void Path::kill()
{
    if (work_.cancel_sync())
        unref();
    if (timer_.cancel_sync())
        unref();
    if (retry_.cancel_sync())
        unref();
    owner_.acquire_for_good(); // nobody else touches the transport any more
    up_.store_release(0);
    if (!connection_.loops()) {
        PathState now = state();
        if (now == PathState::connecting || now == PathState::up)
            begin_closing();
        if (now != PathState::down) {
            rds_closing outcome = connection_.transport.close(connection_.state(), index_, RDS_CLOSE_AT_ONCE);
            HW_ASSERT(outcome == RDS_CLOSED || outcome == RDS_CLOSED_COMPLETE);
        }
    }
    receiver_.release_stall();
    partial_.stream_ended(connection_.net.peers_memory);
    transmitter_.stream_ended();
    queue_.close();
}

} // namespace rds
