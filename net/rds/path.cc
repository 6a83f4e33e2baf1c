// SPDX-License-Identifier: GPL-2.0
// What others call of a path.
#include "path.h"

#include "connection.h"
#include "report.h"

namespace rds {

namespace {

// More than what a peer posts at once, 256 requests of 16 KiB: an acknowledgement may be behind all of it. And, with what a
// socket takes of any stream, more than what TCP's buffers have if nobody made them larger: a map may be behind that.
constexpr usize most_before = 8 << 20;

} // namespace

Path::Path(Connection& connection, unsigned index)
    : connection_(connection), index_(index), lock_(connection.path_lock()), queue_(lock_, &connection.net.peers_memory),
      transmitter_(*this, queue_), receiver_(*this, lock_)
{
}

void Path::ref() const { connection_.ref(); }
void Path::unref() const { connection_.unref(); }

// ---- sending

void Path::acked(u32 una)
{
    trace_acknowledgement(*this, una);
    bool due = queue_.acked(una);
    if (due || transmitter_.is_blocked())
        notify(RDS_PATH_SEND);
}

void Path::transmit()
{
    if (Path* other = moved_to_.load_acquire()) [[unlikely]]
        return other->transmit();
    if (!is_up() || !owner_.acquire()) {
        if (!is_up())
            notify(RDS_PATH_SEND);
        return;
    }
    // A transport of messages reports any room to the worker: a sender would only offer again what was refused. TCP reports room
    // only when a third of its buffer is free: until then a sender may find some.
    bool waits = transmitter_.is_blocked() && connection_.transport.post;
    bool more = !waits && transmitter_.pump();
    if (owner_.release() || more)
        notify(RDS_PATH_SEND);
}

bool Path::took_all()
{
    if (Path* other = moved_to_.load_acquire()) [[unlikely]]
        return other->took_all();
    return is_up() && !transmitter_.is_blocked() && !queue_.has_unsent();
}

bool Path::pass(const Ref<Message>& message)
{
    if (!connection_.loops() || !owner_.acquire())
        return false;
    bool passed = transmitter_.pass(message);
    if (owner_.release())
        notify(RDS_PATH_SEND);
    return passed;
}

// ---- receiving

void Path::resumed(Socket& socket)
{
    receiver_.resumed(socket);
    notify(RDS_PATH_RESUME | RDS_PATH_SEND); // harmless if it waits for another socket now: stalled()
}

void Path::pull()
{
    receiver_.pull().end();
    if (!owner_.acquire()) {
        notify(RDS_PATH_RESUME);
        return;
    }
    if (is_up()) // else it is read to its end when it is closed
        receiver_.pull().read();
    if (owner_.release())
        notify(RDS_PATH_SEND);
}

void Path::receive_later(u32 events)
{
    u64 delay_ns = events & RDS_PATH_RESUME ? partial_.take_retry_delay() : 0; // in its turn, if it waits for one
    if (delay_ns)
        retry_later(events, delay_ns);
    else
        retry_later(events);
}

// ---- the handshake

void Path::answered(u32 peers_id)
{
    if (receiver_.note_answer(peers_id))
        give_up_sent(false);
    if (peers_id)
        proven_sender_.store_relaxed(receiver_.sender());
    answered_.store_release(1);
    notify(RDS_PATH_SEND);
}

// To a foreign peer all that we say of ourselves is queued.
bool Path::has_our_handshake()
{
    if (connection_.peer() == Peer::foreign)
        return !queue_.has_answers();
    // Of a transport with post() the stream ends soon when the peer's host does not take what is sent to it.
    return transmitter_.is_named() && (connection_.transport.post || queue_.is_acked(transmitter_.probe_end()));
}

void Path::note_silence()
{
    if (index_ == 0 && !is_answered() && probe_timer_.is_silent() && !silent_.exchange(1))
        connection_.first_path_is_silent();
}

// The map that programs here wait for comes over the first path.
bool Path::may_hold_up_map() const
{
    return index_ == 0 && connection_.may_wait_for_map();
}

// The peer's map is behind the messages that wait for a full socket, and where its RDS acknowledges, so are its acknowledgements.
// So programs here that wait for a port of the peer, or that send, wait for the one that does not read, which may wait for them
// itself, or may wait to send. What was received goes to the full socket all the same then, within its limit for that, and, from
// a ring, to one whose user has no memory.
void Path::let_acknowledgements_pass()
{
    bool posted = connection_.transport.post != nullptr;
    bool lacks_memory = posted && receiver_.lacks_memory();
    bool stalls = (lacks_memory || receiver_.stalled()) &&
                  ((posted && !drained()) || (index_ == 0 && connection_.waits_for_map()));
    if (!std::exchange(stalls_long_, stalls) || !stalls)
        return;
    if (lacks_memory)
        receiver_.overdraw_memory();
    else if (!receiver_.overdraw(most_before))
        return;
    receiver_.pull().read();
}

// ---- what it is like

void Path::start_looping()
{
    enter(PathEvent::adopt, KAPI_RDS_ESTABLISHED);
    up_.store_release(1);
}

bool Path::drained()
{
    return state() == PathState::up && queue_.has_only_answers();
}

// What was received has to be read before the next stream begins, and a program may not read for long.
bool Path::may_be_recycled()
{
    return drained() && !stalled() && connection_.may_open_again(*this);
}

bool Path::recycle(bool accepted)
{
    Change made;
    bool recycles = connection_.decide([&] {
        if (!may_be_recycled())
            return false;
        peer_gone_ = accepted;
        recycles_ = true;
        made = leave(KAPI_RDS_RENEWED);
        return true;
    });
    if (recycles)
        publish(made);
    return recycles;
}

Path::Snapshot Path::snapshot()
{
    Snapshot now{};
    now.next_tx = queue_.next_number();
    now.queued = queue_.length();
    now.retransmits = queue_.sent_again();
    now.tx_bytes = transmitter_.taken();
    now.next_rx = receiver_.next_number();
    now.rx_bytes = receiver_.received();
    now.sending = owner_.is_owned();
    Guard guard(lock_);
    now.state = state_.state();
    now.reason = reason_;
    now.since_ns = since_ns_;
    now.drops = drops_;
    return now;
}

PathState Path::state()
{
    Guard guard(lock_);
    return state_.state();
}

Path::Change Path::change(PathEvent event, kapi_trace_rds_reason reason)
{
    PathState from, to;
    {
        Guard guard(lock_);
        from = state_.state();
        state_.must(event);
        to = state_.state();
        if (reason != KAPI_RDS_CLOSED) // then it is still why the stream ended
            reason_ = reason;
        since_ns_ = kapi_now_ns();
    }
    if (kapi_traces(KAPI_TRACE_RDS_PATH))
        report_path(*this, static_cast<kapi_trace_rds_state>(from), static_cast<kapi_trace_rds_state>(to), reason);
    return {from, to, reason};
}

void Path::publish(const Change& change)
{
    note_change(*this, change.from, change.to, change.reason);
    publish_change(*this, change.from, change.to, change.reason);
}

} // namespace rds
