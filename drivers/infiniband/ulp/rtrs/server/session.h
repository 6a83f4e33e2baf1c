// SPDX-License-Identifier: GPL-2.0
// A session: the paths of one client that belong together, and the chunks that they share.
#pragma once

#include "path.h"
#include "sleep_lock.h"

namespace rtrs_srv {

class Context;
struct OfContext; // a list

class Session : public RefCounted<Session>, public ListNode<OfContext> {
public:
    // Sleeps. ENOMEM.
    static Result<Ref<Session>> create(Context& context, const Uuid& uuid);
    static void destroy(Session* session);

    Context& context() const { return context_; }
    const Uuid& uuid() const { return uuid_; }

    // Any context.
    Ref<Path> find(const Uuid& path);
    // The path that a connection names, or else the one between its addresses: the one in whose place it may come.
    Ref<Path> find_before(const Connection& connection);
    // Sleeps, the context's work. EEXIST: there is one between the same addresses; ECONNRESET: there are too many.
    Result<> add(const Ref<Path>& path);
    // The same. The others are notified.
    void remove(Path& path);
    bool is_empty();
    bool has_closing_path();
    // Under the context's lock. All of its paths are over, or it has none, and its client is back for none of them.
    bool is_given_up();
    // Its client is back with this path, and waits for the end of one, or was turned down and may return until then. It may so
    // also when the path that it waited for has gone.
    struct Awaited {
        Uuid path;
        u64 until_ns;
        bool operator==(const Awaited&) const = default;
    };
    // The same. Of this path; or else the one that ends first, for a new one.
    Awaited& awaited(const Uuid& path);
    // A path other than this is between these addresses.
    bool has_other(const Path& path, const kapi_addr& client, const kapi_addr& server);
    void notify_all(u32 events);

    // Sleeps. The first path makes the chunks, and the queue. ENOMEM.
    Result<> make_chunks();
    // Of calls of the user, each of which may last as long as a disk does: no other session waits behind them.
    kapi_workqueue* calls() const { return calls_; }
    // Sleeps. The path has a folder below the session's, which is there as long as one of a path is. EEXIST, EINVAL, ENOMEM.
    Result<> show(Path& path);
    void hide(Path& path);
    // Sleeps. A path is up or down, of which the user is notified if it is the first or was the last. ECONNRESET: the user has
    // ended the session, and may not begin it again with this path, because the client has not noticed.
    Result<> path_up(bool may_begin);
    void path_down();

    void* priv() const { return priv_.load_acquire(); }
    void set_priv(void* priv) { priv_.store_release(priv); }
    bool is_connected() const { return paths_up_.load_relaxed() != 0; }

    Chunks chunks;
    SessionName name{}; // under the context's lock; empty before the first information request
    bool name_wanted = false; // the same; another session waits for it
    Atomic<u32> heartbeat_interval_ms{default_heartbeat_ms}, heartbeat_missed{default_heartbeats_missed};

private:
    HW_MADE_BY_CREATE;
    Result<> show_self() HW_REQUIRES(serial_);
    void hide_self() HW_REQUIRES(serial_);
    Session(Context& context, const Uuid& uuid) : context_(context), uuid_(uuid) {}
    ~Session();

    Context& context_;
    const Uuid uuid_;
    Awaited awaited_[max_paths]{}; // under the context's lock
    Atomic<void*> priv_{nullptr};
    kapi_workqueue* calls_ = nullptr; // before there are requests
    Spin<SessionLock> lock_;
    RefList<Path, OfSession> paths_ HW_GUARDED_BY(lock_);
    u32 count_ HW_GUARDED_BY(lock_) = 0;
    SleepLock making_; // one making of chunks at a time, which does not wait for the user
    SleepLock serial_; // one call of the user for the session, or one making of folders, at a time
    kapi_sysfs_dir *folder_ HW_GUARDED_BY(serial_) = nullptr, *paths_folder_ HW_GUARDED_BY(serial_) = nullptr;
    u32 shown_ HW_GUARDED_BY(serial_) = 0; // paths with a folder
    Atomic<u32> paths_up_{0};
    bool was_up_ HW_GUARDED_BY(serial_) = false;
};

} // namespace rtrs_srv
