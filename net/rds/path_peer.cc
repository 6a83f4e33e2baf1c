// SPDX-License-Identifier: GPL-2.0
// Whether it is the peer that is at the other end of a path's stream, and whether it lives.
#include "connection.h"
#include "path.h"

namespace rds {

namespace {

constexpr u64 ms = 1'000'000;
constexpr u64 answer_timeout_ns = 1000 * ms; // for the answer to a probe, or a reset, while another stream waits
constexpr u64 kept_before_others_ns = 60'000 * ms; // messages for a path that is left out, and others wait behind them

} // namespace

// Any user of the peer's host can connect to us. A hawser opens a stream only when it has no other, so that one of a stream that
// waits has left the present one. So a stream that was answered stays until it is reset; one that was not makes room after
// the time that the reset, or the answer, takes. A foreign peer is believed that a stream is for this path, unless a hawser
// answered over the present one: then it was a stranger, on another path, who spoke as a foreign peer does.
bool Path::is_replaced(rds_stream_waits accepted)
{
    if (accepted == RDS_NO_STREAM_WAITS || is_answered_by_hawser())
        return false;
    if (accepted == RDS_STREAM_MISPLACED)
        return true;
    if (connection_.peer() == Peer::foreign)
        return accepted == RDS_STREAM_WAITS;
    return !is_answered() && kapi_now_ns() - up_since_ns_ >= answer_timeout_ns;
}

bool Path::peer_is_dead(u64 now)
{
    if (now < next_look_ns_)
        return false;
    rds_tick outcome = connection_.transport.tick(connection_.state(), index_);
    unanswered_.store_relaxed(outcome == RDS_TICK_UNANSWERED);
    next_look_ns_ = now + (outcome == RDS_TICK_UNANSWERED ? unanswered_tick_ns : tick_ns);
    return outcome == RDS_TICK_DEAD;
}

// The first path probes for all: an idle one of the others needs no tick.
bool Path::waits_for_answer() const
{
    return index_ == 0 && !is_answered() && !probe_timer_.is_over() && !connection_.is_mute();
}

// A hawser answers for certain. Another may lack the memory to, or be configured to answer no pings at all; but it sends
// its map, or messages. What says nothing is no RDS, and gets nothing. False: the stream is to be closed.
bool Path::probe_again()
{
    switch (probe_timer_.tick(has_our_handshake(), connection_.peer() == Peer::foreign)) {
    case ProbeTimer::Step::wait:
        break;
    case ProbeTimer::Step::probe:
        connection_.send_handshake(*this, false);
        break;
    case ProbeTimer::Step::assume_foreign:
        // A hawser peer reads its old stream to the end first, and waits for room to do so. One that the transport names needs
        // no assumption.
        if (connection_.transport.names_peer || (!receiver_.has_heard() && connection_.peer() == Peer::hawser))
            probe_timer_.stream_began();
        else if (receiver_.has_heard())
            connection_.assume_foreign(connection_.peer());
        else if (connection_.peer() == Peer::unknown)
            return false;
        break;
    }
    return true;
}

// ---- a peer that has started over, or that does without this path

// Any context: the worker ends it.
void Path::give_up_sent(bool with_present)
{
    queue_.give_up_sent(with_present);
    notify(RDS_PATH_SEND);
}

void Path::end_dropped()
{
    connection_.net.count(Stat::send_drop_restart, queue_.end_dropped());
}

// The peer turned out to use fewer paths than we thought. What was sent to a memory with a name is sent to it again if the
// path comes back: it may have been a stranger who left it out. Until that is given up nothing moves, which would overtake it.
void Path::step_left_out()
{
    unsigned count = connection_.paths();
    if (index_ < count)
        return; // not any more: there is an event of its own
    u64 now = kapi_now_ns();
    if (queue_.has_sent_before() && receiver_.has_name()) {
        if (left_out_since_ns_ == 0)
            left_out_since_ns_ = now;
        u64 kept_until_ns = left_out_since_ns_ + (queue_.has_new() ? kept_before_others_ns : Collector::kept_after_loss_ns);
        if (now < kept_until_ns)
            return look_by(kept_until_ns);
    }
    queue_.give_up_sent(true);
    end_dropped();
    Path* other = moved_to_.load_acquire();
    if (!other) // for good, whatever numbers of paths follow: a socket's messages would go over two paths
        other = &connection_.path(index_ % count);
    moved_to_.store_release(other);
    queue_.move_to(other->queue_);
    for (; other; other = other->moved_to_.load_acquire()) // it may have moved, too
        other->notify(RDS_PATH_SEND);
}

// The peer does without this path, and nothing is on its way over it.
bool Path::is_left_out()
{
    bool sends = is_answered() || connection_.peer() == Peer::foreign;
    return !connection_.uses(*this) && (drained() || !sends);
}

} // namespace rds
