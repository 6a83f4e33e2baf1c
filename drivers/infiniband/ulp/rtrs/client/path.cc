// SPDX-License-Identifier: GPL-2.0
#include "path.h"

#include "session.h"

namespace rtrs_clt {

const char* name_of(PathState state)
{
    switch (state) {
    case PathState::stopped:
        return "stopped";
    case PathState::connecting:
        return "connecting";
    case PathState::up:
        return "connected";
    case PathState::ending:
        return "ending";
    case PathState::waiting:
        return "waiting";
    case PathState::removed:
        return "removed";
    }
    return "";
}

Path::Path(Session& session, const PathAddress& address)
    : session_(session), queue_(session.queue()), address_(address), uuid_(random_uuid())
{
}

Path::~Path() = default;

Result<Own<Path>> Path::create(Session& session, const PathAddress& address)
{
    Own<Path> path(make<Path>(Alloc::sleep, session, address));
    if (!path)
        return fail(KAPI_ENOMEM);
    TRY(path->stats_.make());
    return path;
}

kapi_cm_route Path::route() const
{
    return {address_.space, address_.local, address_.remote, /*timeout_ms=*/0, /*tos=*/0, /*peer_registers=*/1};
}

// ---- any context

void Path::lost(Errno why, bool silent)
{
    if (silent)
        silent_.store_release(true);
    int none = 0;
    lost_.compare_exchange(none, why.code());
    notify();
}

void Path::heartbeat_answered()
{
    if (u64 sent = heartbeat_ns_.exchange(0))
        latency_ns_.store_relaxed(max<u64>(kapi_now_ns() - sent, 1));
}

void Path::began(const Io& io)
{
    inflight_.fetch_add(1);
    u32 lane = io.lane.load_relaxed();
    stats_.request(lane ? lane - 1 : 0, io.order.is_read, io.order.data_bytes + io.order.user_bytes, io.order.pieces);
    if (kapi_traces(KAPI_TRACE_RTRS_CLIENT_REQUEST))
        trace(KAPI_TRACE_RTRS_CLIENT_REQUEST, io);
}

void Path::ended(const Io& io)
{
    inflight_.fetch_sub(1);
    if (io.answered)
        stats_.ended(io.order.is_read, kapi_now_ns() - io.began_ns.load_relaxed());
    if (kapi_traces(KAPI_TRACE_RTRS_CLIENT_DONE))
        trace(KAPI_TRACE_RTRS_CLIENT_DONE, io);
}

void Path::trace(kapi_trace event, const Io& io)
{
    kapi_trace_rtrs_ends ends = traced();
    kapi_trace_rtrs_io request{io.chunk, io.order.data_bytes + io.order.user_bytes, io.order.is_read, 0, 0};
    if (event == KAPI_TRACE_RTRS_CLIENT_DONE) {
        request.error = io.answered ? io.error : KAPI_ECONNABORTED;
        request.latency_ns = kapi_now_ns() - io.began_ns.load_relaxed();
    }
    kapi_trace_rtrs_request(event, &ends, &request);
}

PathState Path::state()
{
    Guard guard(lock_);
    return state_.state();
}

Errno Path::reason()
{
    Guard guard(lock_);
    return reason_;
}

Path::Place Path::place()
{
    Guard guard(lock_);
    return place_;
}

// ---- commands

// The worker is notified under the lock: the path's removal waits for the worker first, and for calls of its files later.
void Path::want(Want what, bool restart)
{
    Guard guard(lock_);
    if (want_ == Want::removed)
        return;
    want_ = what;
    restart_ = restart;
    changed_.wake(); // another command may wait for what is not wanted any more
    notify();
}

bool Path::is_settled()
{
    Guard guard(lock_);
    return !restart_ && !state_.is(PathState::connecting) && !state_.is(PathState::ending);
}

// Nothing more happens by itself.
bool Path::is_done()
{
    Guard guard(lock_);
    return state_.is(PathState::up) || state_.is(PathState::stopped) || state_.is(PathState::removed);
}

Result<> Path::connect()
{
    constexpr u64 limit_ns = 60'000'000'000, patience_ns = 5'000'000'000;
    want(Want::up, true);
    TRY(changed_.wait_until(kapi_now_ns() + limit_ns, [&] { return is_settled(); }));
    // A server that has not noticed the end of the last link refuses the next one with this error for a moment.
    if (has_been_up_.load_relaxed() && reason() == Errno(KAPI_ECONNRESET))
        static_cast<void>(changed_.wait_until(kapi_now_ns() + patience_ns, [&] { return is_done(); }));
    Guard guard(lock_);
    if (state_.is(PathState::up)) // unless the worker is about to end it
        return want_ == Want::up ? Result<>() : fail(KAPI_ECANCELED);
    if (want_ == Want::removed || reason_ == Errno(0))
        return fail(KAPI_ECANCELED);
    return fail(reason_ == Errno(KAPI_ECONNREFUSED) ? Errno(KAPI_ECONNRESET) : reason_); // as the kernel's own
}

void Path::disconnect()
{
    want(Want::stopped, false);
    changed_.wait_for([&] {
        Guard guard(lock_);
        return want_ != Want::stopped || state_.is(PathState::stopped) || state_.is(PathState::removed);
    });
}

void Path::remove()
{
    begin_removal();
    changed_.wait_for([&] {
        Guard guard(lock_);
        return state_.is(PathState::removed);
    });
    timer_.cancel_sync();
    work_.cancel_sync(); // the timer has queued it, or it has just notified us
}

} // namespace rtrs_clt
