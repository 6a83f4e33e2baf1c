// SPDX-License-Identifier: GPL-2.0
// A connection: a pair of addresses, a transport and a type of service, with its paths. Made by the first message or by
// the peer, it lives until its namespace or transport goes.
#pragma once

#include "congestion.h"
#include "net.h"
#include "path.h"

namespace rds {

// What answers at the other end.
enum class Peer : u32 {
    unknown, // nothing yet: it gets a probe, and nothing else
    hawser,  // one of ours (path.h)
    foreign, // another, or none of whose kind we heard: probes have a number as all messages, and nothing waits for them
};

struct ConnectionLock { static constexpr const char* name = "rds connection"; static constexpr unsigned rank = 20; };

class Connection : public RefCounted<Connection>, public ListNode<Table>, public ListNode<OnMap> {
public:
    static Result<Ref<Connection>> create(Net& net, const rds_transport& transport, const Endpoint& local,
                                          const Endpoint& remote, u8 tos);
    static void destroy(Connection* connection);

    Net& net;
    const rds_transport& transport;
    const Endpoint local, remote; // port 0
    const u8 tos;

    bool loops() const { return transport.type == RDS_TRANSPORT_LOOP; }
    // Our address is the smaller one: we connect, the peer listens.
    bool connects() const { return local.ip < remote.ip; }
    bool matches(const rds_transport& t, const Endpoint& l, const Endpoint& r, u8 t_o_s) const
    {
        return &transport == &t && remote.ip == r.ip && local.ip == l.ip && tos == t_o_s && remote.scope == r.scope;
    }
    void* state() const { return state_; }
    Path& path(unsigned index) { return *paths_[index]; }
    unsigned path_count() const { return transport.max_paths; }
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
    // The path of what comes from a local port: the same for ever, or messages could overtake each other.
    Path& path_for(u16 port);
    // Waits until paths() is known. Sleeps. ETIMEDOUT, EINTR.
    Result<> wait_for_handshake(u64 deadline_ns);
    Peer peer() const { return static_cast<Peer>(peer_.load_acquire()); }
    // A probe or its answer came in over path. Any context.
    void handshake_received(Path& path, const Header& header, bool is_reply);
    // Sends a probe or an answer over path. Any context.
    void send_handshake(Path& path, bool is_reply);
    void write_handshake_to(Path& path, Header& header, bool is_reply);
    // Path 0 was asked often enough.
    void no_answer();
    // Whether the peer has as many paths, as far as we know.
    bool uses(const Path& path) const { return path.index() == 0 || paths() == 0 || path.index() < paths(); }
    // Whether path may have a stream now; when it may later, it is notified.
    bool may_come_up(const Path& path) const;
    // A path has a new stream: before and after it may be sent on. Any context.
    void path_coming_up(Path& path);
    void path_came_up(Path& path);

    // Congestion. Our map changed: it travels on path 0, so that two maps never overtake each other.
    void map_changed();
    void map_received(const Incoming& incoming);
    // A sender met a set bit: if the peer stays silent, it is asked again.
    void met_congestion(u16 port);

    u32 checked_generation = 0; // of the host's addresses, when loops() was last known to be right (senders', racy)

private:
    HW_MADE_BY_CREATE;
    Connection(Net& n, const rds_transport& t, const Endpoint& l, const Endpoint& r, u8 t_o_s)
        : net(n), transport(t), local(l), remote(r), tos(t_o_s)
    {
    }
    Result<> build();
    void publish(); // after it was entered in the table
    friend class ConnectionTable;
    void heard(Path& path, u32 generation);
    void came_without_name();
    void ask_all();
    void set_paths(unsigned count);
    void check_congestion();

    Own<Path> paths_[max_paths];
    void* state_ = nullptr;
    Ref<CongestionMap> local_map_, remote_map_;
    Spin<ConnectionLock> lock_;
    Atomic<u32> dying_{0};
    const u32 generation_ = kapi_random_u32() | 1; // told to the peer: whose numbers ours are
    Atomic<u32> paths_agreed_{0};
    Atomic<u32> peer_indexes_{0};
    Atomic<u32> peer_{static_cast<u32>(Peer::unknown)};
    // Ports that sent before paths() was known stay on the first path.
    static constexpr unsigned max_early = 64;
    u16 early_[max_early] HW_GUARDED_BY(lock_) = {};
    unsigned early_count_ HW_GUARDED_BY(lock_) = 0; // more than max_early: all stay there
    WaitQueue handshake_waiters_;

    Atomic<u32> refreshing_{0};      // congestion_work_ is at it
    Atomic<u32> congested_port_{0};  // that a sender met
    u64 refresh_delay_ns_ = 0;       // the work's
    u64 refresh_seen_ns_ = 0;
    void ask_for_map();
    Work<Connection, &Connection::check_congestion> congestion_work_{*this};
};

} // namespace rds
