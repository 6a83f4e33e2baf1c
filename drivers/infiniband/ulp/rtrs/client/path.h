// SPDX-License-Identifier: GPL-2.0
// A path of a session: the addresses of two ports, and, while it is up, a link between them. One work, the worker, makes and
// ends links; everything else leaves a mark and notifies it.
#pragma once

#include "link.h"
#include "path_state.h"
#include "stats.h"

#include "../common/heartbeat.h"

#include <hawser/work.h>
#include <kapi/sysfs.h>
#include <kapi/trace_rtrs.h>

namespace rtrs_clt {

class Session;

struct PathAddress {
    kapi_cm_space space;
    kapi_addr local; // any: the host chooses; port 0
    kapi_addr remote;
};

class Path : Pinned {
public:
    // Sleeps. ENOMEM. Nothing runs before connect().
    static Result<Own<Path>> create(Session& session, const PathAddress& address);
    // remove() was called.
    ~Path();

    // ---- Commands. Task: they wait, until the worker has done it.

    // Ends the link, if there is one, and begins another. Fails as the attempt does, with ECONNRESET when nobody listens; a path
    // that was up before is tried again then.
    // EINTR: a signal came, and the attempt goes on. ECANCELED: another command came.
    Result<> connect();
    // Afterwards it stays disconnected.
    void disconnect();
    // Afterwards nothing of it runs any more. Its requests go to other paths.
    void remove();

    // ---- Any context.

    // The first part of remove(), which is to follow: other commands do nothing from here on.
    void begin_removal() { want(Want::removed, false); }
    void notify() { static_cast<void>(work_.queue(queue_)); }
    // The link is of no use any more. The first error is the reason.
    // silent: the server's host does not answer, so nothing of it is waited for.
    void lost(Errno why, bool silent = false);
    rtrs::Heartbeat& heartbeat() { return heartbeat_; }
    void heartbeat_answered();
    u64 latency_ns() const { return latency_ns_.load_relaxed(); } // of a heartbeat; 0: not known yet
    u32 inflight() const { return inflight_.load_relaxed(); }
    void began(const Io& io);
    void ended(const Io& io);
    Stats& stats() { return stats_; }
    PathState state();
    Errno reason(); // why the last link ended, 0: none did
    kapi_cm_route route() const;
    const PathAddress& address() const { return address_; }
    const rtrs::Uuid& uuid() const { return uuid_; }
    Session& session() const { return session_; }

    // What the last link that was made showed of the connection manager and the device.
    struct Place {
        kapi_cm_info info;
        char device[64];
    };
    Place place();

    Path* next = nullptr;    // in its session's list, under its lock
    u32 index = 0;           // below max_paths, of no other path of the session
    bool removing = false;   // a call does it, under the session's lock
    kapi_sysfs_dir* dir = nullptr;
    kapi_sysfs_dir* stats_dir = nullptr;

private:
    HW_MADE_BY_CREATE;
    Path(Session& session, const PathAddress& address);
    enum class Want : u8 { up, stopped, removed };

    void work();
    void on_time() { notify(); }
    bool act();
    bool act_at_rest(PathState state, Want want);
    bool act_connecting();
    bool act_up();
    u64 time_to_late_request_ns(u64 now) const;
    void note_server(Errno why, bool was_up, bool silent);
    u64 time_to_unreached_ns(u64 now) const;
    void begin_link();
    void established();
    void try_again(Errno why);
    void end_link(Errno why, bool silent = false);
    void decide();
    void stop() HW_REQUIRES(lock_);
    bool gives_up();
    u64 retry_delay_ns();
    u64 longest_delay_ns();
    void advance(PathEvent event) HW_REQUIRES(lock_);
    void trace(kapi_trace event, const Io& io);
    kapi_trace_rtrs_ends traced() const { return {address_.local.ip, address_.remote.ip}; }
    void want(Want what, bool restart);
    bool is_settled();
    bool is_done();
    void after(u64 delay_ns) { static_cast<void>(timer_.mod(queue_, delay_ns)); }

    Session& session_;
    kapi_workqueue* const queue_;
    const PathAddress address_;
    rtrs::Uuid uuid_;
    Work<Path, &Path::work> work_{*this};
    Work<Path, &Path::on_time> timer_{*this};
    Stats stats_;
    rtrs::Heartbeat heartbeat_;
    Atomic<u32> inflight_{0};
    Atomic<u64> latency_ns_{0};
    Atomic<u64> heartbeat_ns_{0}; // when the last one was sent
    Atomic<int> lost_{0};         // why, or 0
    Atomic<bool> silent_{false};  // as of lost()
    Atomic<bool> has_been_up_{false};

    Spin<PathLock> lock_;
    StateMachine<PathState, PathEvent, PathRules> state_ HW_GUARDED_BY(lock_){PathState::stopped};
    Want want_ HW_GUARDED_BY(lock_) = Want::stopped;
    bool restart_ HW_GUARDED_BY(lock_) = false; // an attempt is wanted now, and has not begun
    Errno reason_ HW_GUARDED_BY(lock_){0};
    Place place_ HW_GUARDED_BY(lock_){};
    WaitQueue changed_;

    // The worker's:
    Own<Link> link_;
    u16 links_ = 0;        // that there have been
    u32 attempts_ = 0;     // since it was up
    u64 next_attempt_ns_ = 0;
    u64 earliest_ns_ = 0;  // of an attempt that is asked for
    u64 next_heartbeat_ns_ = 0;
    u64 heard_ns_ = 0;        // when the server was there the last time, with requests of this path that it may have, or 0
    bool unreached_ = false;  // it has not been there since, or was not asked
};

} // namespace rtrs_clt
