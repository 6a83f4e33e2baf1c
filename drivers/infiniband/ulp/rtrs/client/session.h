// SPDX-License-Identifier: GPL-2.0
// A session: what a user has opened to a server, over one or several paths.
#pragma once

#include "kept.h"
#include "lanes.h"
#include "path.h"
#include "permits.h"

#include "../common/request.h"

#include <kapi/sysfs.h>

namespace rtrs_clt {

class Module;

rtrs::Uuid random_uuid(); // any context

// What a user is called with. link() in a process context, one call at a time: the first path is up again, or the last one is
// down.
struct User {
    void* priv;
    void (*link)(void* priv, int up);
};

class Session : Pinned {
public:
    struct Config {
        kapi_net* net; // stays until close()
        rtrs::SessionName name;
        u16 port;
        User user;
    };
    // Sleeps. Without a path, visible in sysfs. ENOMEM; EEXIST: the name is in use.
    static Result<Own<Session>> create(Module& module, const Config& config);
    // close() was called.
    ~Session();

    // ---- Task, or sleeps.

    // Adds a path, and waits until it is up; if it does not come up there is none. EEXIST: there is one between these addresses;
    // ENOSPC: too many; else as Path::connect().
    Result<> add_path(const PathAddress& address);
    // From the store of that file of the path: removes it. EBUSY: another call does, or it is being added.
    Result<> remove_path_of(const char* file, Path& path);
    // From here on the user is called when the first path comes up or the last one goes; for some seconds only if it has the
    // session, as a call that it makes with it shows.
    void opened();
    // Any context. It does.
    void user_has_it();
    // No path is left, all requests have ended, and all permits have come back when this returns.
    void close();

    // ---- Requests. Any context, after the first path was added.

    // Those for admin requests are all but one. Null: none is free, and wait was not allowed, which sleeps, or is in vain: the
    // session at the server is over that the user knows of when this is called, for which it is meant; those who have permits
    // have made no use of them for 30 seconds; or there is one permit only, and admin.
    Io* take_permit(bool admin, bool wait);
    void give_permit(Io& io);
    // Where the user's message of a request is to be put: most_user_bytes() at most.
    u8* message(u32 chunk) { return messages().at(chunk); }
    u32 most_user_bytes() const;
    // Then done() is called once: also with EIO or ENOMEM, if no device could map the data for some seconds. EMSGSIZE: more data
    // or pieces than allowed; ECONNABORTED: no path; EBUSY: its chunk is kept from use; EAGAIN, EINVAL: as Connection::post().
    Result<> request(Io& io, const Order& order);

    // ---- Its paths'.

    // Sleeps. The geometry of a session is that of the first offer; a later one is the same, or EINVAL. ENOMEM,
    // also when a path over a device with attrs would take too much.
    Result<> adopt(const rtrs::Offer& offer, const kapi_rdma_attrs& attrs);
    // Any context. What adopt() has made:
    const rtrs::Geometry& geometry() const { return parts().geometry; }
    Messages& messages() { return parts().messages; }
    Io& io(u32 chunk) { return parts().ios.get()[chunk]; }
    u32 region_pages() const { return parts().region_pages; }
    u32 max_io_bytes() const { return parts().max_io_bytes; }
    u32 max_pieces() const { return min(most_pieces, region_pages()); }
    bool has_parts() const { return parts_.load_acquire() != nullptr; }
    // The request has ended; error is positive, or 0. No success of an earlier generation: see Lanes.
    void complete(Io& io, int error);
    // Any context. Its user has waited for it for longer than it may take, on whatever paths.
    bool is_late(const Io& io) const;
    // Of a path that has ended: they are sent again over others.
    void interrupted(Path& path, Io* first);
    // Before requests go over it again: the server has ended what came over it before, or at least noticed its loss long ago.
    void path_returns(const Path& path);
    // The path of link is connected: it takes requests, and counts, from here on to path_down(). Returns whether that is to be
    // reported, by path_up(). ECONNRESET: link makes a session, and another path counts; then the server may have made one for it
    // beside that of the other one.
    Result<bool> count_up(Link& link);
    void path_up(bool reports);
    // It does neither any more. path_ended() follows, when its requests have ended or are over other paths.
    void path_down(Link& link);
    void path_ended();
    void release_expired(); // chunks that are kept from use
    bool has_path_up();
    // Any context. Is there a path that takes requests of one that does not any more? Not when the session is being closed.
    bool can_move_requests();
    // Any context. The route of a path which is up, other than this: the next one behind index, which is that of the one found.
    // False: there is none, or the session is being closed.
    bool route_beside(const Path& path, u32& index, kapi_cm_route& route);
    void notify_paths(); // any context: a setting has changed
    bool is_open(); // all paths that its user wants have been added

    kapi_net* net() const { return config_.net; }
    const char* name() const { return config_.name.text; }
    const rtrs::SessionName& session_name() const { return config_.name; }
    u16 port() const { return config_.port; }
    const rtrs::Uuid& uuid() const { return uuid_; }
    u32 connections() const { return connections_; } // of each path
    Devices& devices();
    kapi_workqueue* queue();
    Lanes& lanes() { return lanes_; }
    Settings& settings() { return settings_; }
    // As many serial numbers as a link has connections; 0 is none.
    u64 take_serials() { return serials_.fetch_add(connections_) + 1; }

private:
    HW_MADE_BY_CREATE;
    static constexpr u32 most_pieces = 128; // of one request, as upstream
    Session(Module& module, const Config& config, u32 connections);
    // What depends on the server's geometry.
    struct Parts : Pinned {
        ~Parts();
        Result<> make(const rtrs::Offer& offer, const kapi_rdma_attrs& attrs, u32 connections);
        // ENOMEM: a path over this device would take too much of the memory.
        Result<> check_memory(const kapi_rdma_attrs& attrs, u32 connections) const;
        static void free_ios(Io* ios) { kapi_free(ios); }
        rtrs::Geometry geometry;
        u32 max_io_bytes = 0, message_bytes = 0, region_pages = 0;
        Permits permits;
        Messages messages;
        Own<Io, free_ios> ios;
        u32 count = 0;
    };
    Parts& parts() const { return *parts_.load_relaxed(); }
    bool has_same(const PathAddress& address) HW_REQUIRES(lock_);
    u32 free_index() HW_REQUIRES(lock_);
    Result<> link_path(Path& path);
    Result<> connect_new(Path& path);
    bool claim(Path& path);
    Path* claim_any();
    bool has_unclaimed();
    bool has_no_path();
    void end_path(Path& path);
    Result<> publish(Path& path);
    void end_unanswered(Io& io, Errno error, u64 kept_until_ns);
    void forget_path(const Path& path, u64 unnoticed_until_ns);
    void release(Io* kept);
    void send_again(Io& io);
    bool wait_for_mapping(Io& io, Errno why, u64 since_ns);
    bool park(Io& io);
    bool has_parked() { return parked_.with([](Parked& parked) { return parked.first != nullptr; }); }
    void retry();
    void look_at_kept();
    void report();
    bool take_change();
    bool has_settled() HW_REQUIRES(lock_);
    void announce() HW_REQUIRES(lock_);
    void append(Io& io);
    bool may_take_admin();
    bool has_admin_permit(); // may one more admin request have a permit now?
    s32 take_free(u32 cpu, bool admin);
    s32 wait_for_permit(u32 cpu, bool admin, u32 generation);
    u64 last_use_ns(bool admin, u64 now_ns);

    Module& module_;
    const Config config_;
    const u32 connections_;
    const rtrs::Uuid uuid_;
    Settings settings_;
    kapi_sysfs_dir* dir_ = nullptr;
    kapi_sysfs_dir* paths_dir_ = nullptr;
    Lanes lanes_;
    Atomic<u64> serials_{0};
    Atomic<Parts*> parts_{nullptr};

    Spin<SessionLock> lock_;
    Path* paths_ HW_GUARDED_BY(lock_) = nullptr;
    u32 path_count_ HW_GUARDED_BY(lock_) = 0;
    u32 paths_up_ HW_GUARDED_BY(lock_) = 0;
    u32 paths_ending_ HW_GUARDED_BY(lock_) = 0; // path_down(), but not yet path_ended()
    bool opened_ HW_GUARDED_BY(lock_) = false; // changes are reported
    u32 changes_ HW_GUARDED_BY(lock_) = 0;     // between some path and none that were not reported yet
    u64 held_until_ns_ HW_GUARDED_BY(lock_) = 0; // reports, unless the user has the session
    Atomic<bool> closing_{false};
    Atomic<u64> removed_ns_{0}; // when the last path was removed, or 0
    Atomic<u32> losses_{0}; // of paths that were up
    WaitQueue gone_;

    // Requests that wait for a path, the oldest first.
    struct Parked {
        Io* first = nullptr;
        Io** last = &first;
    };
    Guarded<Parked, ParkedLock> parked_;
    Kept kept_;
    Work<Session, &Session::retry> retry_{*this};
    Work<Session, &Session::look_at_kept> look_{*this};
    Work<Session, &Session::report> report_{*this};
    // report()'s:
    bool reported_up_ = true;
    u64 quiet_since_ns_ = 0;   // nothing of a session that was lost is under way since then; 0: something is
    u64 settles_until_ns_ = 0; // a loss that is to be reported; 0: none is
    Atomic<u32> admin_permits_{0}; // that users have, or are about to take
    // That the user knows of: an older one until its end was reported.
    Atomic<u32> known_generation_{0};
};

} // namespace rtrs_clt
