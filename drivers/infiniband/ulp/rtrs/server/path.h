// SPDX-License-Identifier: GPL-2.0
// A path of a session: all connections between a device here and one of the client's. Events set bits; the path's work connects,
// gives information, and ends it. Requests go past the work, see Connection.
#pragma once

#include "connection.h"
#include "devices.h"
#include "regions.h"
#include "stats.h"

#include "../common/heartbeat.h"

#include <hawser/list.h>
#include <hawser/state_machine.h>
#include <hawser/work.h>
#include <kapi/sysfs.h>
#include <kapi/trace_rtrs.h>

namespace rtrs_srv {

class Session;
struct OfSession; // lists

// Their ports may differ.
inline bool same_host(const kapi_addr& a, const kapi_addr& b)
{
    return kapi_compare(a.ip, b.ip, sizeof(a.ip)) == 0 && a.scope == b.scope;
}

struct Buried;

enum class PathState : u8 { connecting, connected, closing, ended };
enum class PathEvent : u8 { up, close, end };

struct PathRules {
    static constexpr const char* name = "rtrs_srv path";
    using Row = Transition<PathState, PathEvent>;
    static constexpr std::array<Row, 4> table{{
        {PathState::connecting, PathEvent::up, PathState::connected},
        {PathState::connecting, PathEvent::close, PathState::closing},
        {PathState::connected, PathEvent::close, PathState::closing},
        {PathState::closing, PathEvent::end, PathState::ended},
    }};
#ifndef __KERNEL__
    static void taken(PathState, PathEvent) {}
#endif
};

class Path : public RefCounted<Path>, public ListNode<OfSession>, public ListNode<Buried> {
public:
    enum Event : u32 {
        lost = 1,        // a connection or the device, or an administrator ends it
        violated = 2,    // the client did what the protocol forbids
        arrived = 4,     // a connection is asked for
        info_asked = 8,
        registered = 16, // the regions that were posted
        info_sent = 32,
        deferred = 64,   // operations are to begin
        idle = 128,      // no operation is left
        ticked = 256,
        others_ended = 512, // another path of the session; or its name is free, or will not be soon
        changed = 1024,     // the interval of heartbeats
        lives = 2048,       // a heartbeat that is waited for was answered
        announced = 4096,   // the user knows the path, or has refused it
    };

    // Sleeps. For the first connection that a client asks for. ENOMEM.
    static Result<Ref<Path>> create(Session& session, const Connection& first);
    static void destroy(Path* path);
    // Any context. It is in its session, and from now on its device or its age may end it. ENODEV.
    Result<> begin();

    // Any context.
    void notify(u32 events);
    void connection_ended();
    // Any context, the context's work. The client has reconnected, and waits: the path ends. False: it has not, or another
    // connection waits already.
    bool make_way(const ConnectRequest& request);
    // Any context. The client has lost it: it ends. False: that is not what the request says.
    bool end_for(const ConnectRequest& request);
    // The context's work. The connection that make_way() was called for waits no more.
    void forget_successor(const ConnectRequest& request);
    // Sleeps, the context's work. Takes the connection, or says why not (ECONNRESET).
    Result<> offer(Own<Connection>& connection);
    // The context's work. begin() has failed: it ends without more ado, and its work does nothing any more.
    void abandon();
    // Sleeps, the context's work. It has ended: nothing of it runs any more.
    void stop();

    Session& session() const { return *session_; }
    const Device& device() const { return *device_; }
    Regions& regions() { return *regions_; }
    const Uuid& uuid() const { return uuid_; }
    const kapi_addr& client() const { return client_; }
    const kapi_addr& server() const { return server_; }
    bool is_closing();
    // Any context. It is closing, or will be: the client has ended one of its connections.
    bool is_over();
    // Any context. The client asks for another path in its place. True: it is over, or ends now, because it has been half open
    // for some seconds: the client has given it up, and this host has not heard of it.
    bool gives_way();
    kapi_cm_space space() const { return space_; }
    const char* device_name() const { return user_.name; }
    u32 device_port() const { return device_port_; }
    // Sleeps, under the session's serial lock. A folder below that of the session's paths. True: there was one.
    Result<> make_folders(kapi_sysfs_dir* parent);
    bool remove_folders();

    // Any context, of requests.
    bool takes_requests() const { return takes_requests_.load_acquire(); }
    bool is_quiet() const { return quiet_.load_acquire(); } // nothing arrives over it any more
    Held& held(u32 chunk) { return held_[chunk]; }
    // Heartbeats that were sent over it. Those before the call of beat_sent() are not behind it.
    u32 beats() const { return beats_sent_.load(); }
    void beat_sent() { beats_sent_.fetch_add(1); }
    void beat_answered();
    // The client has answered one that was sent after so many: it has not lost this path before. Each is answered once at most.
    bool has_lived_since(u32 beats) const { return static_cast<s32>(beats_answered_.load() - beats) > 0; }
    // A request waits that begins when the client has not lost the path.
    void ask_for_life();
    void operation_began() { operations_.fetch_add(1); }
    void operation_ended();
    void defer(Operation& op);
    // Of an event that is listened to.
    void trace(kapi_trace event, const Operation& op) const;

    Heartbeat heartbeat;
    Stats stats;

private:
    HW_MADE_BY_CREATE;
    Path(Session& session, const Connection& first);
    ~Path();

    enum class Info { none, waits, registers, announces, given };

    void work();
    void on_timer();
    u32 take_events();
    void change(PathEvent event) HW_REQUIRES(lock_);
    void run_deferred(bool open);
    void begin_held();
    // Each returns an error that ends the path.
    Result<> advance(u32 events);
    bool is_of(const kapi_cm_info& info) const;
    bool is_of_later_attempt(const ConnectRequest& request) const;
    Result<> open_arrivals();
    Result<> open_one(Connection& connection);
    Result<> prepare();
    Result<> give_info(u32 events);
    Result<> take_request();
    Result<bool> may_register();
    Result<> register_more();
    Result<> write_info();
    void announce();
    Result<> up();
    Result<> tick();
    void close();
    void end_connections();
    void queue_end();
    void end();
    void leave();
    Connection& service() { return *connections_[0]; }
    void arm_timer();

    const Ref<Session> session_;
    const Uuid uuid_;
    const kapi_addr client_, server_; // port 0
    const kapi_cm_space space_;
    kapi_rdma_dev* const dev_;
    const u32 device_port_;
    kapi_sysfs_dir *folder_ = nullptr, *stats_folder_ = nullptr;
    const u32 count_; // of connections
    const u16 reconnects_; // of the client's before
    const bool may_begin_; // the client knows of no other path: its user's session may begin with this one
    bool has_successor_ = false; // the context's work
    u16 successor_ = 0;          // the reconnects of the one that waits, which is asked for again when any path ends
    const u64 made_ns_ = kapi_now_ns();
    const Device* device_ = nullptr;
    DeviceUser user_;
    Own<Regions> regions_;
    Held* held_ = nullptr;

    Spin<PathLock> lock_;
    StateMachine<PathState, PathEvent, PathRules> state_ HW_GUARDED_BY(lock_){PathState::connecting};
    u32 events_ HW_GUARDED_BY(lock_) = 0;
    Connection** connections_ = nullptr; // owned; changed under the lock, and not when closing
    Connection* arrivals_ HW_GUARDED_BY(lock_) = nullptr; // of them, not opened yet
    Operation* deferred_ HW_GUARDED_BY(lock_) = nullptr;
    Operation** deferred_end_ HW_GUARDED_BY(lock_) = &deferred_;

    Atomic<bool> takes_requests_{false}, quiet_{false};
    Atomic<u32> operations_{1}; // one for the path until it has closed
    Atomic<u32> beats_sent_{0}, beats_answered_{0};
    Atomic<bool> life_wanted_{false};
    Atomic<bool> over_{false}; // the client has ended a connection

    // The work's own.
    u32 opened_ = 0;
    Info info_ = Info::none;
    u32 next_region_ = 0;
    Buffer info_response_;
    bool is_up_ = false; // for the user; announce() and end()
    int refusal_ = 0;    // the error of announce(), positive

    Work<Path, &Path::work> work_{*this};
    Work<Path, &Path::on_timer> timer_{*this};
    Work<Path, &Path::announce> announce_{*this}; // this and the next among the calls of the user
    Work<Path, &Path::end> end_{*this};
};

} // namespace rtrs_srv
