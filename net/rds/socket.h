// SPDX-License-Identifier: GPL-2.0
// An RDS socket. The kernel's struct sock owns it; its reference count is the sock's.
#pragma once

#include "../lock_order.h"
#include "bind.h"
#include "buffer_limit.h"
#include "congestion.h"
#include "gathered.h"
#include "incoming.h"
#include "memory_region.h"
#include "message.h"
#include "net.h"
#include "path.h"

#include <hawser/lock.h>
#include <hawser/wait.h>

namespace rds {

class Connection;
struct SendControls;

class Socket : Pinned, public HashNode<Bound>, public ListNode<Watching> {
public:
    static Result<Socket*> create(Net& net, kapi_sk* sk);
    static void destroy(Socket* socket);
    void ref() const { kapi_sk_hold(sk); }
    bool ref_unless_dead() const { return kapi_sk_hold_unless_dead(sk) != 0; }
    void unref() const { kapi_sk_put(sk); }

    Net& net;
    kapi_sk* const sk;
    WaitQueue pollers;
    WaitQueue receivers; // threads that wait for what recvmsg() returns; each takes some
    WaitQueue senders;   // threads that wait for room, in turn

    // bind.cc's. Set once, under the bucket's lock, before the socket can be found.
    const Endpoint& bound_key() const { return bound_key_; }
    void set_bound_key(const Endpoint& endpoint) { bound_key_ = endpoint; }

    // Names (socket.cc).
    Result<> bind(std::span<const std::byte> name);
    Result<> connect(std::span<const std::byte> name);
    Result<int> name(void* sockaddr, bool peer);
    // close(). Sleeps.
    void release();

    // Sending (send.cc). Bytes sent.
    Result<u32> send(const rds_send& send);
    // Receiving (receive.cc).
    Result<u32> receive(rds_receive& receive);
    unsigned poll(kapi_poll* poll);
    // There is something for one receiver. Any context.
    void notify_input()
    {
        pollers.wake(KAPI_IN | KAPI_RDNORM);
        receivers.wake();
    }

    // Options (options.cc).
    Result<> set_option(int option, const kapi_optval* value, int length);
    Result<int> get_option(int option, const kapi_optval* value, int& length, bool& report);
    Result<> ioctl(unsigned command, const kapi_optval* argument);

    // The transport's acknowledgement, or a cancellation: message no longer counts.
    void send_done(Message& message);
    // SO_SNDBUF was changed. Any context.
    void send_limit_changed();
    void zerocopy_done(Ref<ZerocopyBatch> batch); // through the notice box
    void rdma_done(Ref<RdmaNotice> notice);       // the same
    // Any context. Queues incoming unless the socket is closed. True: the queue is at its hard limit now, and its path must
    // not be read.
    bool deliver(Ref<Incoming> incoming);
    // Path p is not read until there is room; false when there is room already.
    bool stall(Path& p);
    void unstall(Path& p);
    // pull.cc. Any context. Path p has a message for this socket: true when the program is about to receive, so that it can
    // stay there until await_no_more(), or until the program calls p.pull(). notifies: the caller is to wake it.
    bool await_program(Path& p, bool& notifies);
    void await_no_more(Path& p); // any context
    // A stream that overdraws has so many bytes for the socket, though the queue is at its limit: true when it takes more.
    // beyond: what is let through of this stream. posted: it comes through a ring. Any context.
    bool takes_overdraft(usize bytes, usize beyond, bool posted);
    bool stalls(Path& p);
    // Any context. Can a message of so many bytes be queued? False: what cannot be charged is as much as the user may have, and
    // it cannot be either, or the user has twice as much.
    bool has_memory_for(usize bytes);
    // Any context. The same beyond that, for what waits in a ring, where it holds up all programs.
    bool may_overdraw_memory() const { return net.module.peers_share.of_socket(sk, PeersShare::overdrawn).share(1) >= 0; }
    // Any context. Can an answer to a ping be queued? There may be any number of them.
    bool has_room_for_answer(usize bytes);
    // Any context. A message that was not charged is ending.
    void uncharged_ended(const Incoming& incoming);
    // A remote congestion map changed. ports: the groups of those that may have changed. Any context.
    void congestion_changed(u64 ports);

    struct Info {
        Endpoint bound, peer;
        u32 sndbuf, rcvbuf;               // as set
        u64 send_limit, receive_limit;    // as far as they have grown
        u64 inode;
        u64 sending, unread; // payload
    };
    Info info();
    // Where a walk along the queue in pieces has come to. It holds the message.
    struct Place {
        Ref<Incoming> last; // that was looked at
        usize visited = 0;
        usize skip = 0; // so many are to be passed over, when last was let go
        void release() { last = nullptr, skip = visited; }
    };
    // Calls visit(Incoming&) under the lock for some messages from place on. False at the end. Any context.
    template <class Visit> bool visit_received(Place& place, unsigned some, Visit&& visit)
    {
        Ref<Incoming> old;
        Guard guard(lock_);
        if (closed_)
            return false;
        old = std::move(place.last);
        bool stays = old && is_on<SocketQueue>(*old);
        if (old && !stays)
            place.skip = 0; // those before it were received, too
        Incoming* i = stays ? received_.next(*old) : received_.front();
        for (unsigned looked = 0; i; i = received_.next(*i)) {
            if (place.skip) {
                place.skip--;
            } else {
                visit(*i);
                place.visited++;
            }
            if (++looked == some) {
                place.last = Ref<Incoming>::share(*i);
                return true;
            }
        }
        return false;
    }

private:
    HW_MADE_BY_CREATE;
    Socket(Net& net, kapi_sk* sk);
    ~Socket();

    // send.cc
    struct Target {
        Endpoint local, remote;
        const rds_transport* transport = nullptr;
        u8 tos = 0;
        Ref<Connection> connection; // null: not looked up yet
        Path* path = nullptr;       // of connection; null: not chosen yet
        bool gathers = false;       // others follow at once, and are transmitted together
        bool waits = false;         // the last message does, for what is on its way, or for others
        Gathered gathered{};        // those of this call, and of the one before
        bool fills = false;         // the last message took the last room in the send buffer
    };
    // How long a call may wait, for all of its messages.
    struct Wait {
        bool may;
        u64 timeout_ns, deadline_ns;
    };
    Wait wait_of(const rds_send& send);
    Result<> find_target(const rds_send& send, Target& target);
    Result<Ref<Message>> build(const rds_send& send, const SendControls& controls, Target& target);
    template <class Create> Result<Own<RdmaOperation>> make_operation(const rds_send& send, Target& to, Create create);
    Result<> add_operation(Message& message, Own<RdmaOperation> operation, u64 flags, u64 token);
    Result<> check_memory(const SendControls& controls, const rds_transport& transport);
    Result<u32> keep_gathered(const rds_send& send, Target& to, Result<u32> sent);
    Result<u32> queue(const Ref<Message>& message, Target& to, const Wait& wait);
    // send_each.cc
    Result<u32> send_each(const rds_send& send, const SendControls& controls, Target& to);
    Result<u32> send_next(const rds_send& send, const SendControls& controls, Target& to, const Wait& wait);
    Result<Ref<NoticeBox>> notice_box();
    Result<> route(Target& target);
    Path& choose_path(Target& target, const Wait& wait);
    Path& path_to(Connection& connection, const Wait& wait);
    void notify_of_room(CongestionMap& map, u16 port);
    Result<> wait_for_congestion(Target& target, const Wait& wait);
    Result<> waited(Result<> result, u64 timeout_ns);
    void cancel_sends(const Endpoint* destination);
    bool take_sends(const Endpoint* destination, Ref<Message>& place, RefList<Message, OwnerQueue>& taken) HW_REQUIRES(lock_);
    // send_account.cc
    struct SendRoom {
        u64 payload, memory;
    };
    SendRoom send_room() HW_REQUIRES(lock_);
    Result<> reserve(Message& message, Target& target, const Wait& wait);
    bool try_reserve(Message& message, Target& target, bool may_wait);
    bool has_third_free() HW_REQUIRES(lock_);
    bool has_send_room() HW_REQUIRES(lock_);
    bool has_room_in(const SendRoom& room) const HW_REQUIRES(lock_)
    {
        return sending_bytes_ < room.payload && sending_true_ < room.memory;
    }
    bool wants_room_soon() HW_REQUIRES(lock_);
    u64 most_send_limit() const;
    void grow_send_limit(Path& path);
    void met_congestion();
    bool room_came() HW_REQUIRES(lock_);
    Ref<Message> account_sent(Message& message) HW_REQUIRES(lock_); // off the list and the accounts
    void wake_senders();
    // receive.cc
    enum class CongestionChange { none, set, cleared };
    // What a receiver took, all under one lock.
    struct Input {
        Ref<Incoming> incoming;
        Ref<RdmaNotice> rdma; // a notice, that comes before all others
        u64 freed_ports = 0;  // a notice, that comes before data
        CongestionChange change = CongestionChange::none;
        bool closed = false, traced = false, stalls = false, with_lengths = false;
        bool unread = false; // nothing is there, but a path has something
    };
    bool take_input(bool peek, Input& input);
    // The same, also from a stream if there is nothing else. Sleeps.
    bool take_or_pull(bool peek, Input& input)
    {
        return take_input(peek, input) || (input.unread && pull_input(peek, input));
    }
    bool pull_input(bool peek, Input& input);
    Ref<Path> take_unread();
    bool put_back_some(std::span<Ref<Incoming>> messages, Ref<Incoming>& passed, CongestionChange& change);
    void put_back(std::span<Ref<Incoming>> messages);
    void handed_over(u32 bytes, unsigned messages, rds_receive& receive);
    Result<u32> put_notice(rds_receive& receive, u64 freed_ports);
    Result<u32> hand_over(Incoming& incoming, bool traced, rds_receive& receive);
    Result<> put_trace(Incoming& incoming, rds_receive& receive);
    bool put_zerocopy(rds_receive& receive);
    // receive_wait.cc
    Result<> wait_for_input(bool peek, Input& input);
    // True: the caller wakes one of those that wait.
    static constexpr u32 come_for_each = 8;
    bool wakes_receiver() HW_REQUIRES(lock_) { return receiving_ && came_unseen_++ % come_for_each == 0; }
    // receive_run.cc
    struct Run;
    Result<u32> receive_run(Input& input, bool peek, rds_receive& receive);
    Result<u32> hand_over_run(Run& run, bool traced, bool alone, rds_receive& receive);
    Ref<Incoming> take_next(const Incoming& last, usize room);
    u32 add_to_run(Run& run, unsigned most, usize room, rds_receive& receive);
    void release_held(unsigned count);
    unsigned room_for_lengths(const rds_receive& receive) const;
    Result<> put_lengths(const Run& run, u32 first, rds_receive& receive);
    void account_receive(Incoming& incoming, bool added) HW_REQUIRES(lock_);
    void note_uncharged(Incoming& incoming) HW_REQUIRES(lock_);
    CongestionChange update_congestion(bool looped) HW_REQUIRES(lock_);
    void report_congestion(CongestionChange change)
    {
        if (change != CongestionChange::none) [[unlikely]]
            write_congestion(change);
    }
    void write_congestion(CongestionChange change);
    bool is_closed();
    void room_made();
    void resume_more();
    PeersAccount& uncharged() const { return net.module.peers_share.of_socket(sk); }
    PeersAccount& account_of(const Incoming& incoming) const;
    u64 receive_limit() HW_REQUIRES(lock_);
    usize initial_hard_limit() const;
    usize hard_limit(usize initial) HW_REQUIRES(lock_);
    bool is_full(usize initial) HW_REQUIRES(lock_) { return received_true_ >= hard_limit(initial) || uncharged_; }
    bool is_full() HW_REQUIRES(lock_) { return is_full(initial_hard_limit()); }
    // info.cc
    Result<int> get_info(int option, const kapi_optval* value, int& length, bool& report);
    // options.cc
    Result<> cancel_sent_to(const kapi_optval* value, int length);
    Result<> set_monitor(bool on);
    Result<> set_lengths_wanted(int on);
    Result<> set_transport(const kapi_optval* value, int length);
    // socket.cc
    Result<> begin_use(const rds_transport& transport);
    void end_use(const rds_transport& transport);
    Result<> set_rx_traces(const kapi_optval* value, int length);
    // regions.cc
    Result<> get_mr(const kapi_optval* value, int length);
    Result<> get_mr_for_dest(const kapi_optval* value, int length);
    Result<> free_mr(const kapi_optval* value, int length);
    Result<> check_region(const rds_abi_get_mr_args& args);
    Result<Target> usual_target();
    static u64 stream_deadline(bool may_wait);
    Result<u64> add_region(const rds_abi_get_mr_args& args, Target& target, bool may_wait);
    Result<Ref<MemoryRegion>> make_region(const rds_abi_iovec& memory, Connection& connection, u64 deadline_ns);
    Result<Ref<MemoryRegion>> register_on(void* held, const rds_abi_iovec& vec, const Connection& connection);
    Result<u32> put_rdma_notices(rds_receive& receive, Ref<RdmaNotice> notice);
    Result<> put_memory_names(Incoming& incoming, rds_receive& receive);
    MemoryRegion* find_region(u32 key) HW_REQUIRES(lock_);
    bool sync_region(u32 key, bool to_peers);
    bool end_region(u32 key, const Ip* used_by = nullptr);

    Endpoint bound_key_;
    Spin<SocketLock> lock_;
    bool closed_ HW_GUARDED_BY(lock_) = false;
    bool bound_ HW_GUARDED_BY(lock_) = false;
    Endpoint bound_to_ HW_GUARDED_BY(lock_);
    u32 bind_scope_ HW_GUARDED_BY(lock_) = 0; // of the address that it is bound to, or that a call is about to bind it to
    Endpoint peer_ HW_GUARDED_BY(lock_);
    u32 connect_scope_ HW_GUARDED_BY(lock_) = 0;
    const rds_transport* transport_ HW_GUARDED_BY(lock_) = nullptr; // holds its module
    u8 tos_ HW_GUARDED_BY(lock_) = 0;
    Ref<Connection> connection_ HW_GUARDED_BY(lock_); // of the last message
    Path* path_ HW_GUARDED_BY(lock_) = nullptr;       // of connection_
    Gathered gathered_ HW_GUARDED_BY(lock_);          // by calls with MSG_BATCH

    RefList<Incoming, SocketQueue> received_ HW_GUARDED_BY(lock_);
    u64 received_bytes_ HW_GUARDED_BY(lock_) = 0; // payload
    u64 received_true_ HW_GUARDED_BY(lock_) = 0;  // memory
    ReceiveLimit receive_limit_ HW_GUARDED_BY(lock_);
    // Memory of messages that were not charged, because the limit was reached; also of those that are being copied.
    u64 uncharged_ HW_GUARDED_BY(lock_) = 0;
    u64 next_place_ HW_GUARDED_BY(lock_) = 0;     // of the next message that comes
    u32 receiving_ HW_GUARDED_BY(lock_) = 0;      // threads that wait for what comes, or are about to
    u32 came_unseen_ HW_GUARDED_BY(lock_) = 0;    // since one of them looked; the first woke one, which wakes the next one
    u64 overdrawn_ HW_GUARDED_BY(lock_) = 0;      // bytes that lost streams brought since the queue is full
    bool poor_ HW_GUARDED_BY(lock_) = false;      // little is left below the limit of the charge
    bool congested_ HW_GUARDED_BY(lock_) = false;
    bool looped_full_ HW_GUARDED_BY(lock_) = false; // by a message over loopback; until half of it is taken
    Spin<CongestionReportLock> reporting_; // from reading congested_ until the map has it
    Ref<CongestionMap> full_on_ HW_GUARDED_BY(reporting_); // the map with this socket's bit set; null: none
    Ref<Path> unread_ HW_GUARDED_BY(lock_); // it has a message that waits for this socket's program
    RefList<Path, Stalled> stalled_ HW_GUARDED_BY(lock_);
    Work<Socket, &Socket::resume_more> resume_more_{*this};

    RefList<Message, OwnerQueue> sending_ HW_GUARDED_BY(lock_);
    u64 sending_bytes_ HW_GUARDED_BY(lock_) = 0;
    u64 sending_true_ HW_GUARDED_BY(lock_) = 0;
    SendLimit send_limit_ HW_GUARDED_BY(lock_);
    // A sender found no room and is to be woken: when a third is free, as by TCP, if it looks again by itself.
    enum class RoomWanted : u8 { none, third, any } room_wanted_ HW_GUARDED_BY(lock_) = RoomWanted::none;
    RefList<ZerocopyBatch, ZerocopyBatch> zerocopy_ HW_GUARDED_BY(lock_);
    Ref<NoticeBox> notice_box_ HW_GUARDED_BY(lock_); // null: nothing was sent with MSG_ZEROCOPY
    ZerocopyBatch* zerocopy_last_ HW_GUARDED_BY(lock_) = nullptr; // the youngest on zerocopy_, or null

    RefList<RdmaNotice, RdmaNotice> rdma_notices_ HW_GUARDED_BY(lock_);
    RefList<MemoryRegion, OwnedRegions> regions_ HW_GUARDED_BY(lock_);
    u32 region_count_ HW_GUARDED_BY(lock_) = 0;

    bool monitors_ HW_GUARDED_BY(lock_) = false;
    u64 watched_ports_ HW_GUARDED_BY(lock_) = 0; // groups of ports (mod 64) that met congestion
    u64 freed_ports_ HW_GUARDED_BY(lock_) = 0;
    u32 seen_congestion_generation_ HW_GUARDED_BY(lock_) = 0;
    Atomic<u32> recverr_{0}; // RDS_RECVERR: a sender beside setsockopt() sees either value
    bool lengths_wanted_ HW_GUARDED_BY(lock_) = false; // RDS_RECV_LENGTHS
    u32 held_ HW_GUARDED_BY(lock_) = 0;                // by calls that return many messages, without their first ones
    u8 trace_count_ HW_GUARDED_BY(lock_) = 0;
    u8 traces_[3] HW_GUARDED_BY(lock_) = {};
};

} // namespace rds
