// SPDX-License-Identifier: GPL-2.0
// A connection: a pair of addresses, a transport and a type of service, with its paths. Made by the first message or by
// the peer, it exists until it is unused for a while (collector.h), or its namespace or transport ends.
#pragma once

#include "../lock_order.h"
#include "congestion.h"
#include "early_ports.h"
#include "map_refresh.h"
#include "net.h"
#include "one_way.h"
#include "path.h"

namespace rds {

// What answers at the other end.
enum class Peer : u32 {
    unknown, // nothing yet: it gets a probe, and nothing else
    hawser,  // runs this code (receiver_memory.h)
    foreign, // another, or one that does not show its kind: probes have numbers, and nothing waits for answers
};

class Connection : public RefCounted<Connection>, public HashNode<Table>, public ListNode<OnMap> {
public:
    static Result<Ref<Connection>> create(Net& net, const rds_transport& transport, const Endpoint& local,
                                          const Endpoint& remote, u8 tos, Alloc mode);
    static void destroy(Connection* connection);

    Net& net;
    const rds_transport& transport;
    const Endpoint local, remote; // port 0
    const u8 tos;
    OneWay one_way; // of all its paths: those of a request and of its answer are chosen by the ports
    // Messages to it may wait for others, to be in one packet with them.
    bool gathers_packets() const { return one_way.sends() && !transport.post; }

    bool loops() const { return transport.type == RDS_TRANSPORT_LOOP; }
    // Our address is the smaller one: we connect, the peer listens.
    bool connects() const { return local.ip < remote.ip; }
    bool matches(const rds_transport& t, const Endpoint& l, const Endpoint& r, u8 t_o_s) const
    {
        return &transport == &t && remote == r && local == l && tos == t_o_s;
    }
    void* state() const { return state_; }
    Path& path(unsigned index) { return *paths_[index]; }
    unsigned path_count() const { return transport.max_paths; }
    // Whether programs are shown a path: the connection has it, or it still has a stream, or already.
    bool shows(unsigned index) const { return index < max(1u, paths()) || !paths_[index]->is_down(); }
    // Guards the queues of all paths.
    Spin<PathLock>& path_lock() { return path_lock_; }
    // Takes message off the queue it is on; bytes already on their way are not called back. Any context.
    void cancel(Message& message);
    CongestionMap& local_map() { return *local_map_; }
    CongestionMap& remote_map() { return *remote_map_; }

    bool dying() const { return dying_.load_acquire() != 0; }
    // Sleeps. Closes all paths, gives all messages back; out of the table before.
    void kill();
    // Calls into the transport from other than a path's owner: null while or after it is torn down.
    template <class Use> bool with_state(Use&& use)
    {
        Guard guard(lock_);
        return state_ && !dying() && use(state_);
    }

    // The handshake. How many paths the peer agreed to, 0: not known yet.
    unsigned paths() const { return paths_agreed_.load_acquire(); }
    bool peer_indexes() const { return peer_indexes_.load_acquire() != 0; }
    // The path of messages from a local port: always the same, or messages could overtake each other. If the peer does without
    // it, they move to another one (Path::step_left_out()).
    Path& path_for(u16 port);
    // Waits until paths() is known. Sleeps. ETIMEDOUT, EINTR.
    Result<> wait_for_handshake(u64 deadline_ns);
    // Waits until the first path is up; a hold on its stream (rds_transport). Sleeps. EAGAIN: it is not; EINTR, ENETUNREACH.
    Result<void*> hold_stream(u64 deadline_ns);
    Peer peer() const { return static_cast<Peer>(peer_.load_acquire()); }
    // A probe or its answer came in over path. Any context.
    void handshake_received(Path& path, const Header& header, bool is_reply);
    // Whether this is a probe by the sender that a path had when it was last answered. Any context.
    bool is_peers(const Header& header);
    // Sends a probe or an answer over path. Any context.
    void send_handshake(Path& path, bool is_reply);
    void write_handshake_to(Path& path, Header& header, bool is_reply);
    // Marks the peer as foreign, if its present kind is the expected one. Any context.
    void assume_foreign(Peer expected);
    // The transport has learnt what the peer is, for whose stream the path is not up yet.
    void peer_is(Peer kind);
    // It has no handshakes: the transport said what it is, and the kernel's own does not expect any from there.
    bool is_mute() const { return transport.names_peer && peer() == Peer::foreign; }
    // Whether the peer has as many paths, as far as is known.
    bool uses(const Path& path) const { return path.index() == 0 || paths() == 0 || path.index() < paths(); }
    // The first path that has to be up, or to be answered, before path may have a stream. Null: it may have one now. When
    // that changes, path is notified. Any context.
    Path* waits_for(const Path& path) const;
    Path* missing_path() const; // the first of those that the peer agreed to and that are not up; nullptr if all are
    // Whether path, which is up, may be closed to be opened again: a stream will come, and is taken for this path's. From
    // decide(), if it is done then.
    bool may_open_again(const Path& path) const;
    // Calls use(), which begins or ends a path's stream depending on the other paths' states: one path at a time. Any context.
    template <class Use> bool decide(Use&& use)
    {
        Guard guard(lock_);
        return use();
    }
    // A path has a new stream. Queues what is sent first on it, and, once it may be used, what waited for it. Any context.
    void queue_greeting(Path& path);
    void path_is_up(Path& path);
    // The stream of path has ended, and it has no other yet.
    void path_is_down(Path& path);
    void first_path_is_silent(); // the others no longer wait for an answer on it

    // Congestion. Our map changed: it travels on path 0, so that two maps never overtake each other.
    void map_changed();
    void map_received(const Incoming& incoming);
    // A sender met a set bit: if the peer stays silent, its map is requested again. Any context.
    void met_congestion(u16 port) { map_refresh_.met(port); }
    // Senders wait for the peer's congestion map, which may be behind messages that are not read. Its first path looks as long as
    // they may.
    bool waits_for_map() const { return map_refresh_.is_awaited(); }
    bool may_wait_for_map() const { return map_refresh_.is_running(); }

    // A line in the log of the host, rate-limited: what happened to the peer. Any context.
    void note(kapi_log_level level, const char* what) const;

    // For the collector (collector.h), whose idle is. What changes with each message, stream and loss:
    u64 activity();
    bool is_charged() const { return charged_; } // it was made in a program's call, and its cgroup pays
    bool is_empty();    // nothing is queued or unacknowledged but answers, which are not needed
    bool has_streams(); // a path is not down
    Ending ending();    // the worst of its paths'
    void retire();      // closes its streams, unless they are used again. Any context
    void end_streams(); // at once, whatever is in flight. Any context
    struct { u64 activity = 0, since_ns = 0; } idle;
    // Sockets whose last message went this way; as long as there is one, a lost path is connected again.
    void add_user(u32 user)
    {
        users_.fetch_add(1);
        note_user(user);
    }
    // One whose program waits for a stream.
    void note_user(u32 user)
    {
        if (user != payer)
            other_user_.store_relaxed(user);
    }
    void drop_user() { users_.fetch_sub(1); }
    bool has_users() const { return users_.load_relaxed() != 0; }

    // Who can pay for what a transport needs when the payer cannot: the last other one who sent something, if there is one.
    u32 other_user() const
    {
        u32 user = other_user_.load_relaxed();
        return user == nobody ? payer : user;
    }

    u32 payer = ConnectionShares::peers; // to whose share it counts; constant once it is in the table
    u32 checked_generation = 0; // of the host's addresses, when loops() was last known to be right (senders', racy)

private:
    HW_MADE_BY_CREATE;
    Connection(Net& n, const rds_transport& t, const Endpoint& l, const Endpoint& r, u8 t_o_s)
        : net(n), transport(t), local(l), remote(r), tos(t_o_s)
    {
    }
    Result<> build(Alloc mode);
    void note_sender(Path& path, u32 generation);
    void probe_all();
    bool is_kept(Path& path, Path* by);
    void agree_on_paths(Path* by, bool wake);
    void set_paths(unsigned count, bool wake);

    Spin<PathLock> path_lock_;
    Own<Path> paths_[max_paths];
    void* state_ = nullptr;
    bool charged_ = false;
    Ref<CongestionMap> local_map_, remote_map_;
    Spin<ConnectionLock> lock_;
    Atomic<u32> dying_{0};
    Atomic<u32> users_{0};
    static constexpr u32 nobody = ~0u;
    Atomic<u32> other_user_{nobody};
    const u32 generation_ = kapi_random_u32() | 1; // in our probes: names the sender of our numbers
    Atomic<u32> paths_said_{0}; // by the peer, in its last handshake
    Atomic<u32> paths_agreed_{0};
    Atomic<u32> foreign_generation_{0}; // what a foreign peer said last, 0: nothing
    Atomic<u32> peer_indexes_{0};
    Atomic<u32> peer_{static_cast<u32>(Peer::unknown)};
    EarlyPorts early_ HW_GUARDED_BY(lock_);
    WaitQueue handshake_waiters_, stream_waiters_; // of wait_for_handshake() and hold_stream(), in turn

    MapRefresh map_refresh_{*this};
};

} // namespace rds
