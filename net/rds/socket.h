// SPDX-License-Identifier: GPL-2.0
// An RDS socket. The kernel's struct sock owns it; its reference count is the sock's.
#pragma once

#include "bind.h"
#include "incoming.h"
#include "message.h"
#include "net.h"
#include "path.h"

#include <hawser/lock.h>
#include <hawser/wait.h>

namespace rds {

class Connection;

struct SocketLock { static constexpr const char* name = "rds socket"; static constexpr unsigned rank = 40; };

struct TellingLock { static constexpr const char* name = "rds telling"; static constexpr unsigned rank = 38; };

class Socket : Pinned, public ListNode<Bound>, public ListNode<Monitors> {
public:
    static Result<Socket*> create(Net& net, kapi_sk* sk);
    static void destroy(Socket* socket);
    void ref() const { kapi_sk_hold(sk); }
    bool ref_unless_dead() const { return kapi_sk_hold_unless_dead(sk) != 0; }
    void unref() const { kapi_sk_put(sk); }

    Net& net;
    kapi_sk* const sk;
    WaitQueue waiters;

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

    // Options (options.cc).
    Result<> set_option(int option, const kapi_optval* value, int length);
    Result<int> get_option(int option, const kapi_optval* value, int& length, bool& report);
    Result<> ioctl(unsigned command, const kapi_optval* argument);

    // The transport's acknowledgement, or a cancellation: message no longer counts.
    void send_done(Message& message);
    // SO_SNDBUF is another. Any context.
    void send_limit_changed();
    void zerocopy_done(Ref<ZerocopyBatch> batch); // through the notice box
    // Any context. Queues incoming unless the socket is closed. True: the queue is at its hard limit now.
    bool deliver(Ref<Incoming> incoming);
    // Path p is not read until there is room; false when there is room already.
    bool stall(Path& p);
    void unstall(Path& p);
    bool stalls(Path& p);
    // A remote congestion map changed (monitoring sockets).
    void congestion_changed(u64 ports);

    struct Info { Endpoint bound, peer; u32 sndbuf, rcvbuf; u64 inode; };
    Info info();
    template <class Visit> void for_each_received(Visit&& visit)
    {
        Guard guard(lock_);
        for (Incoming* i = received_.front(); i; i = received_.next(*i))
            visit(*i);
    }

private:
    HW_MADE_BY_CREATE;
    Socket(Net& net, kapi_sk* sk);
    ~Socket();

    // send.cc
    struct Target {
        Endpoint local, remote;
        const rds_transport* transport;
        u8 tos;
        Ref<Connection> connection; // null: not looked up yet
        Path* path;                 // of connection; null: not chosen yet
    };
    Result<Target> target(const rds_send& send);
    Result<Ref<Message>> build(const rds_send& send, const Target& target);
    Result<Ref<NoticeBox>> notice_box();
    Result<> route(Target& target);
    Path& choose_path(const Target& target, bool may_wait, u64 deadline_ns);
    Result<> wait_for_congestion(Connection& connection, u16 port, bool may_wait, u64 deadline_ns);
    Result<> reserve(Message& message, bool may_wait, u64 deadline_ns);
    bool try_reserve(Message& message);
    bool has_send_room() HW_REQUIRES(lock_);
    bool room_came() HW_REQUIRES(lock_);
    Ref<Message> account_sent(Message& message) HW_REQUIRES(lock_); // off the list and the accounts
    void wake_senders();
    Result<> waited(Result<> result, u64 timeout_ns);
    void cancel_sends(const Endpoint* destination);
    // receive.cc
    enum class CongestionChange { none, set, cleared };
    // What a receiver took, all under one lock.
    struct Input {
        Ref<Incoming> incoming;
        u64 freed_ports = 0; // a notice, that comes before data
        CongestionChange change = CongestionChange::none;
        bool closed = false, traced = false, stalls = false;
    };
    bool take_input(bool peek, Input& input);
    void put_back(Ref<Incoming> incoming);
    Result<u32> put_notice(rds_receive& receive, u64 freed_ports);
    Result<u32> hand_over(Incoming& incoming, bool traced, rds_receive& receive);
    Result<> put_trace(Incoming& incoming, rds_receive& receive);
    bool put_zerocopy(rds_receive& receive);
    void account_receive(Incoming& incoming, bool added) HW_REQUIRES(lock_);
    CongestionChange update_congestion() HW_REQUIRES(lock_);
    void tell_congestion(CongestionChange change);
    bool is_closed();
    void room_made();
    u32 receive_limit() const { return kapi_sk_rcvbuf(sk) / 2; }
    usize hard_limit() const;
    // info.cc
    Result<int> get_info(int option, const kapi_optval* value, int& length, bool& report);
    // options.cc
    Result<> cancel_sent_to(const kapi_optval* value, int length);
    Result<> set_monitor(bool on);
    Result<> set_transport(const kapi_optval* value, int length);
    Result<> set_rx_traces(const kapi_optval* value, int length);
    Result<> rdma_option(int option, const kapi_optval* value, int length);

    Endpoint bound_key_;
    Spin<SocketLock> lock_;
    bool closed_ HW_GUARDED_BY(lock_) = false;
    bool bound_ HW_GUARDED_BY(lock_) = false;
    Endpoint bound_to_ HW_GUARDED_BY(lock_);
    Endpoint peer_ HW_GUARDED_BY(lock_);
    u32 connect_scope_ HW_GUARDED_BY(lock_) = 0;
    const rds_transport* transport_ HW_GUARDED_BY(lock_) = nullptr; // holds its module
    u8 tos_ HW_GUARDED_BY(lock_) = 0;
    Ref<Connection> connection_ HW_GUARDED_BY(lock_); // of the last message
    Path* path_ HW_GUARDED_BY(lock_) = nullptr;       // of connection_

    RefList<Incoming, SocketQueue> received_ HW_GUARDED_BY(lock_);
    u64 received_bytes_ HW_GUARDED_BY(lock_) = 0; // payload
    u64 received_true_ HW_GUARDED_BY(lock_) = 0;  // memory
    bool congested_ HW_GUARDED_BY(lock_) = false;
    Spin<TellingLock> telling_; // from reading congested_ until the map says it
    RefList<Path, Stalled> stalled_ HW_GUARDED_BY(lock_);

    RefList<Message, SocketQueue> sending_ HW_GUARDED_BY(lock_);
    u64 sending_bytes_ HW_GUARDED_BY(lock_) = 0;
    u64 sending_true_ HW_GUARDED_BY(lock_) = 0;
    bool room_wanted_ HW_GUARDED_BY(lock_) = false; // somebody found no room and is to be woken
    RefList<ZerocopyBatch, ZerocopyBatch> zerocopy_ HW_GUARDED_BY(lock_);
    Ref<NoticeBox> notice_box_ HW_GUARDED_BY(lock_); // null: nothing was sent with MSG_ZEROCOPY
    ZerocopyBatch* zerocopy_last_ HW_GUARDED_BY(lock_) = nullptr; // the youngest on zerocopy_, or null

    bool monitors_ HW_GUARDED_BY(lock_) = false;
    u64 watched_ports_ HW_GUARDED_BY(lock_) = 0; // groups of ports (mod 64) that met congestion
    u64 freed_ports_ HW_GUARDED_BY(lock_) = 0;
    u32 seen_congestion_generation_ HW_GUARDED_BY(lock_) = 0;
    Atomic<u32> met_congestion_{0};
    int recverr_ = 0;
    u8 trace_count_ HW_GUARDED_BY(lock_) = 0;
    u8 traces_[3] HW_GUARDED_BY(lock_) = {};
};

} // namespace rds
