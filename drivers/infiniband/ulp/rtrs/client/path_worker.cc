// SPDX-License-Identifier: GPL-2.0
// The worker of a path.
#include "path.h"
#include "session.h"

#include <kapi/reclaim.h>

namespace rtrs_clt {

namespace {

constexpr u64 ms = 1'000'000;
constexpr u64 first_delay_ms = 250, pause_ms = 300;

} // namespace

// Requests wait for what is done here, and the host may be making memory free by them.
void Path::work()
{
    unsigned before = kapi_reclaim_without_io();
    while (act())
        ;
    kapi_reclaim_restore(before);
}

void Path::advance(PathEvent event)
{
    PathState before = state_.state();
    state_.must(event);
    if (kapi_traces(KAPI_TRACE_RTRS_CLIENT_PATH)) {
        kapi_trace_rtrs_ends ends = traced();
        kapi_trace_rtrs_path(KAPI_TRACE_RTRS_CLIENT_PATH, &ends, name_of(before), name_of(state_.state()), reason_.code());
    }
    kapi_log(state_.is(PathState::up) ? KAPI_LOG_INFO : KAPI_LOG_DEBUG, "rtrs_client: %s: a path is %s, after %s",
             session_.name(), name_of(state_.state()), name_of(before));
    changed_.wake();
}

// True: the state is another one now, or there may be more to do.
bool Path::act()
{
    PathState state;
    Want want;
    bool unwanted;
    {
        Guard guard(lock_);
        state = state_.state();
        want = want_;
        unwanted = want != Want::up || restart_;
    }
    switch (state) {
    case PathState::stopped:
    case PathState::waiting:
        return act_at_rest(state, want);
    case PathState::connecting:
    case PathState::up:
        if (unwanted)
            return end_link(Errno(KAPI_ECANCELED)), true;
        if (int why = lost_.load())
            return end_link(Errno(why)), true;
        return state == PathState::up ? act_up() : act_connecting();
    case PathState::ending:
    case PathState::removed:
        return false;
    }
    return false;
}

bool Path::act_at_rest(PathState state, Want want)
{
    u64 now = kapi_now_ns(), left = time_to_unreached_ns(now);
    if (!left) {
        heard_ns_ = 0;
        session_.path_returns(*this);
        return true;
    }
    {
        Guard guard(lock_);
        if (want == Want::removed)
            return advance(PathEvent::remove), false;
        if (want == Want::stopped) {
            if (state == PathState::waiting)
                return stop(), true;
            if (left != KAPI_FOREVER)
                after(left);
            return false;
        }
        next_attempt_ns_ = min(next_attempt_ns_, now + longest_delay_ns()); // which may be another one by now
        u64 due = restart_ ? earliest_ns_ : next_attempt_ns_;
        if (now < due) {
            after(min(due - now, left));
            return false;
        }
        if (restart_)
            attempts_ = 0;
        restart_ = false;
        advance(PathEvent::begin);
    }
    session_.release_expired();
    begin_link();
    return true;
}

// How a link ends shows whether the server was there: it has taken the service connection, or turned it down. The error does not
// show that, since a server may reject with any. An attempt that a command ends shows nothing.
void Path::note_server(Errno why, bool was_up, bool silent)
{
    if (!was_up && why == Errno(KAPI_ECANCELED))
        return;
    bool answered = link_ && (link_->connection(0).is_established() || link_->connection(0).is_over());
    unreached_ = was_up ? silent : !answered;
    if (was_up || (heard_ns_ && !unreached_))
        heard_ns_ = kapi_now_ns();
}

// A server that refuses a path may still work on what came over it, for as long as that takes. One that was not reached for some
// time has noticed the loss. KAPI_FOREVER: it was reached, and is asked again.
u64 Path::time_to_unreached_ns(u64 now) const
{
    if (!heard_ns_ || !unreached_)
        return KAPI_FOREVER;
    u64 due = heard_ns_ + Kept::patience_ns;
    return due > now ? due - now : 0;
}

void Path::begin_link()
{
    lost_.store_relaxed(0);
    silent_.store_relaxed(false);
    auto begun = Link::begin(*this, ++links_);
    if (begun)
        link_ = std::move(*begun);
    else
        end_link(begun.error());
}

bool Path::act_connecting()
{
    auto step = link_->step();
    if (!step)
        return end_link(step.error()), true;
    if (*step == Link::Step::up)
        return established(), true;
    u64 now = kapi_now_ns(), deadline = link_->deadline_ns();
    after(deadline > now ? deadline - now : 0);
    return false;
}

void Path::established()
{
    Place place{};
    kapi_cm_describe(link_->connection(0).cm(), &place.info);
    kapi_copy(place.device, link_->device().attrs.name, sizeof(place.device));
    heartbeat_.received();
    latency_ns_.store_relaxed(0);
    session_.path_returns(*this);
    auto counted = session_.count_up(*link_);
    if (!counted)
        return try_again(counted.error());
    attempts_ = 0;
    has_been_up_.store_relaxed(true);
    stats_.connects.fetch_add(1);
    session_.path_up(*counted);
    Guard guard(lock_);
    place_ = place;
    advance(PathEvent::established);
}

// As if it had been asked for: the server has taken the path, so this counts for no limit of attempts.
void Path::try_again(Errno why)
{
    {
        Guard guard(lock_);
        restart_ = want_ == Want::up;
    }
    earliest_ns_ = kapi_now_ns() + pause_ms * ms; // the server has to end it, too
    end_link(why);
}

bool Path::act_up()
{
    const Settings& settings = session_.settings();
    u64 now = kapi_now_ns(), interval = settings.heartbeat_ms.load_relaxed() * ms;
    next_heartbeat_ns_ = min(next_heartbeat_ns_, now + interval); // which may be another one by now
    if (now >= next_heartbeat_ns_) {
        next_heartbeat_ns_ = now + interval;
        auto action = heartbeat_.tick(settings.heartbeats_missed.load_relaxed());
        if (action == rtrs::Heartbeat::Action::dead)
            return end_link(Errno(KAPI_ETIMEDOUT), true), true;
        if (action == rtrs::Heartbeat::Action::send) {
            heartbeat_ns_.store_relaxed(now);
            link_->send_heartbeat();
        }
    }
    u64 left = time_to_late_request_ns(now);
    if (!left)
        return end_link(Errno(KAPI_ETIMEDOUT)), true;
    after(min(next_heartbeat_ns_ - now, left));
    return false;
}

// 0: a request is without an answer for longer than it may be. A setting that changes notifies the worker.
u64 Path::time_to_late_request_ns(u64 now) const
{
    u64 limit = session_.settings().io_ms.load_relaxed() * ms;
    if (!limit)
        return KAPI_FOREVER;
    u64 due = link_->oldest_ns(now) + limit;
    return due > now ? due - now : 0;
}

// Its requests go to other paths when nothing of this one can touch their data any more, and before the rest of it is freed.
void Path::end_link(Errno why, bool silent)
{
    bool was_up;
    {
        Guard guard(lock_);
        was_up = state_.is(PathState::up);
        reason_ = why;
        advance(PathEvent::end);
    }
    if (!was_up)
        stats_.failed_connects.fetch_add(1);
    else if (why != Errno(KAPI_ECANCELED))
        kapi_log(KAPI_LOG_WARN, "rtrs_client: %s: a path over %s is lost: error %d", session_.name(), link_->device().attrs.name,
                 why.code());
    silent = silent || silent_.load_acquire();
    note_server(why, was_up, silent);
    bool peer_answers = was_up && !silent;
    if (was_up)
        session_.path_down(*link_); // before it has ended: the next attempt of another path may have to make the session
    Io* interrupted = link_ ? link_->end(peer_answers) : nullptr;
    if (was_up)
        earliest_ns_ = kapi_now_ns() + pause_ms * ms; // the server has to end it, too
    session_.interrupted(*this, interrupted);
    if (was_up)
        session_.path_ended();
    link_.reset();
    decide();
}

// What follows the end of a link.
void Path::decide()
{
    Guard guard(lock_);
    if (want_ == Want::up && !restart_ && gives_up())
        want_ = Want::stopped;
    if (want_ == Want::removed)
        return advance(PathEvent::remove);
    if (want_ == Want::stopped)
        return stop();
    next_attempt_ns_ = kapi_now_ns() + retry_delay_ns();
    advance(PathEvent::retry);
}

// No heartbeats go to the server any more, so from now on it counts as one that is not reached.
void Path::stop()
{
    advance(PathEvent::stop);
    if (!unreached_ && heard_ns_)
        heard_ns_ = kapi_now_ns();
    unreached_ = true;
}

// A path that has never been up is the business of the one who asked for it.
bool Path::gives_up()
{
    s32 most = session_.settings().max_reconnects.load_relaxed();
    attempts_++;
    return !has_been_up_.load_relaxed() || (most >= 0 && attempts_ > static_cast<u32>(most));
}

u64 Path::longest_delay_ns()
{
    return session_.settings().reconnect_delay_ms.load_relaxed() * ms * 5 / 4;
}

// Twice as long after each attempt, up to the limit; and three quarters to five quarters of that, so that the clients of a server
// that comes back do not come all at once.
u64 Path::retry_delay_ns()
{
    u64 most = session_.settings().reconnect_delay_ms.load_relaxed();
    u64 delay = min(most, first_delay_ms << min(attempts_, 16u));
    return (delay * 3 / 4 + kapi_random_u32() % (delay / 2 + 1)) * ms;
}

} // namespace rtrs_clt
