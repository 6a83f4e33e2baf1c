// SPDX-License-Identifier: GPL-2.0
// A server that a user has opened: its listeners and its sessions. And the module with what all of them share.
#pragma once

#include "glue/rtrs_srv_core.h"
#include "session.h"

namespace rtrs_srv {

struct Settings {
    Geometry geometry;
    bool always_invalidate = true; // a client's key to a chunk ends with each request
};

class Context : Pinned {
public:
    // Sleeps. The errors of kapi_cm_listen().
    static Result<Context*> open(kapi_net* net, const rtrs_srv_core_ops& ops, void* user, u16 port);
    // Sleeps. All sessions end.
    static void close(Context* context);

    // Sleeps. A device has come, which may have GIDs to listen on.
    void listen_on_gids();

    // Sleeps. Gives op with its message to the user, whose chunk has this memory; an errno, of either sign: it is not the user's.
    int call(const Session& session, Operation& op, u8* memory, const void* message);
    // Sleeps.
    int link_event(Session& session, rtrs_srv_core_event event);
    // Any context. False: another session has the name until it has ended, which its paths are about to; then, or when its client
    // comes back, all paths of sessions without a name are notified. EEXIST: another session has the name, and its client may
    // use it; EINVAL: the session has another one.
    Result<bool> claim_name(Session& session, const SessionName& name);
    Result<SessionName> claimed_name(const Session& session);
    // Any context. ENOTCONN.
    Result<SessionName> name_of(const Session& session);
    // Any context. A connection that has no path yet has ended.
    void notify();
    // Any context. Nothing arrives any more over a path.
    void path_is_quiet();
    // Any context. The path has ended: it is removed from its session.
    void bury(Path& path);

    Context* next = nullptr; // in the module's list

private:
    HW_MADE_BY_CREATE;
    Context(kapi_net* net, const rtrs_srv_core_ops& ops, void* user, u16 port)
        : net_(net), ops_(ops), user_(user), port_(port)
    {
    }
    ~Context() = default;

    template <kapi_cm_space Space>
    static int on_request(void* context, kapi_cm* cm, const kapi_cm_offer* offer, void* answer, kapi_size* size);
    Result<> asked(kapi_cm* cm, kapi_cm_space space, const kapi_cm_offer& offer);
    Result<> listen(kapi_cm_space space, CmListener& listener);
    void work();
    Own<Connection> pop_asked();
    bool remove_buried();
    void look_at_parked(bool retry);
    void give_up(Own<Connection> parked);
    Result<> place(Own<Connection>& connection);
    Result<Ref<Path>> make_path(Session& session, const Connection& first);
    Result<> place_query(Path& lost, Own<Connection>& connection);
    Result<> await(Session& session, Own<Connection>& connection, u64 limit_ns);
    Result<> park(Own<Connection>& connection, u64 limit_ns) HW_REQUIRES(lock_);
    void claim_again(Session& session) HW_REQUIRES(lock_);
    Result<Ref<Session>> find_or_create(const ConnectRequest& request);
    Ref<Session> find(const Uuid& uuid);
    void remove_if_empty(Session& session);
    bool is_empty();

    kapi_net* const net_;
    const rtrs_srv_core_ops ops_;
    void* const user_;
    const u16 port_;
    CmListener ip_, gid_; // gid_ under the module's serial lock

    Spin<ContextLock> lock_;
    RefList<Session, OfContext> sessions_ HW_GUARDED_BY(lock_);
    u32 count_ HW_GUARDED_BY(lock_) = 0;
    Connection* asked_ HW_GUARDED_BY(lock_) = nullptr; // owned
    Connection** asked_end_ HW_GUARDED_BY(lock_) = &asked_;
    u32 asked_count_ HW_GUARDED_BY(lock_) = 0;
    RefList<Path, Buried> buried_ HW_GUARDED_BY(lock_);
    Connection* parked_ HW_GUARDED_BY(lock_) = nullptr; // owned; each waits for the end of the path before it, which has one
    u32 parked_count_ HW_GUARDED_BY(lock_) = 0;
    bool closing_ HW_GUARDED_BY(lock_) = false;
    Atomic<bool> quiet_{false}; // a path, and who waits for that is asked for again
    WaitQueue emptied_;
    Work<Context, &Context::work> work_{*this};
    Work<Context, &Context::notify> look_{*this}; // at the time of those that are parked
};

class Module : Pinned {
public:
    static Module& get() { return *static_cast<Module*>(*kapi_module_slot(KAPI_SLOT_RTRS_SRV)); }
    static Result<> start(kapi_module* self, const Settings& settings);
    static void stop();

    void add(Context& context);
    void remove(Context& context);
    void device_added();

    const Settings settings;
    Budget budget;
    Devices devices;
    kapi_workqueue* workqueue = nullptr;
    kapi_sysfs_class* sysfs = nullptr;

private:
    HW_MADE_BY_CREATE;
    explicit Module(const Settings& s);
    ~Module();
    SleepLock serial_;
    Context* contexts_ HW_GUARDED_BY(serial_) = nullptr;
};

} // namespace rtrs_srv
