// SPDX-License-Identifier: GPL-2.0
// A KCM socket. The kernel's struct sock owns it; its reference count is the sock's.
#pragma once

#include "mux.h"
#include "outgoing.h"
#include "uapi.h"

#include <hawser/wait.h>

namespace kcm {

struct SendLock { static constexpr const char* name = "kcm send"; static constexpr unsigned rank = 35; };

class Socket : Pinned, public ListNode<Members>, public ListNode<Receiver>, public ListNode<WantsToSend> {
public:
    // Of a new multiplexor of net, or of sibling's. Sleeps. ENOMEM, ENFILE.
    static Result<Socket*> create(Net& net, kapi_sk* sk, int type, Socket* sibling);
    static void destroy(Socket* socket) { dispose(socket); }
    void ref() const { kapi_sk_hold(sk); }
    bool ref_unless_dead() const { return kapi_sk_hold_unless_dead(sk) != 0; }
    void unref() const { kapi_sk_put(sk); }

    kapi_sk* const sk;
    const bool datagram;       // SOCK_DGRAM, else SOCK_SEQPACKET
    const Ref<Mux> mux;
    unsigned index = 0;        // in the multiplexor's list, under its lock
    WaitQueue waiters;
    ReceiveQueue receiving;    // under the distributor's lock
    Turn turn;                 // under the reservations' lock

    // close(). Sleeps.
    void release();

    // send.cc. Bytes sent.
    Result<u32> send(const kcm_send& send);
    void send_limit_changed(); // SO_SNDBUF is another. Any context.
    // transmit.cc. In work of its own; any context.
    void transmit_later();
    // The connection that the socket only keeps. Null: it is transmitting. asked: then transmit_later() is to follow. Under
    // the reservations' lock.
    Ref<Psock> take_kept(bool& asked);

    // receive.cc
    Result<u32> receive(kcm_receive& receive);
    unsigned poll(kapi_poll* poll);
    void wake_readers(); // there is something to read. Any context.

    // options.cc
    Result<> set_option(int option, const kapi_optval* value, int length);
    Result<> get_option(int option, const kapi_optval* value, int& length);
    Result<> ioctl(unsigned command, const kapi_optval* argument, bool nonblocking);

    // A connection ended. Any context.
    bool wants_errors() const { return errors_.load_relaxed() != 0; }
    void report(int error);
    void connections_gone(int error); // the last one ended

    Counter rx_msgs, rx_bytes, tx_msgs, tx_bytes; // of readers; of the transmitter
    struct SendLoad { u32 messages; bool holds, building; };
    SendLoad send_load();
    void add_totals(kcm_totals& totals) const;

private:
    HW_MADE_BY_CREATE;
    Socket(kapi_sk* sk, bool datagram, Ref<Mux> mux);
    ~Socket();

    // send.cc
    struct Addressed { bool given = false; u64 id = 0; };
    static Result<Addressed> parse_control(const kcm_send& send);
    Result<> wait_for_room(bool may_wait, u64 deadline_ns);
    bool has_room() HW_REQUIRES(send_lock_) { return queued_bytes_ < kapi_sk_sndbuf(sk); }
    bool has_room_or_wants_it() HW_REQUIRES(send_lock_);
    struct Room { bool there, wanted; };
    Room look_for_room() HW_REQUIRES(send_lock_);
    void tell(Room room);
    bool may_add();
    Result<bool> add(Ref<Outgoing>& part, bool ends, bool goes);
    Result<> add_when_room(Ref<Outgoing> part, bool ends, const kcm_send& send);
    void complete() HW_REQUIRES(send_lock_);
    void go();
    // transmit.cc
    void transmit();
    bool leave();
    bool send_at_once(Ref<Outgoing>& message);
    void done_at_once();
    bool send_whole(Outgoing& message);
    void put_first(Ref<Outgoing> message);
    void count_bytes(u32 bytes);
    void count_message();
    void transmit_until_left();
    void transmit_in_work();
    void transmit_all();
    bool transmit_batch();
    struct Batch;
    enum class Step { done, wait, let_go, drop, refuse, send };
    Step prepare(Batch& batch);
    void collect(Batch& batch) HW_REQUIRES(send_lock_);
    bool send_batch(Batch& batch);
    struct Left { bool any, cut; }; // messages that may go; the first of them is partly with TCP
    Left account(u32 bytes);
    void drop_head();
    void connection_lost();
    void let_go();
    void finish();
    void give_up();
    // receive.cc
    Result<u32> hand_over(Taken& taken, kcm_receive& receive);
    Result<> wait_for_message(bool may_wait);
    Result<> put_connection(const Bundle& bundle, kcm_receive& receive);
    // options.cc
    Result<> get_stats(const kapi_optval* value, int& length);

    Spin<SendLock> send_lock_;
    RefList<Outgoing, ToSend> queue_ HW_GUARDED_BY(send_lock_); // whole messages
    u32 queued_ HW_GUARDED_BY(send_lock_) = 0;     // messages on it
    u32 ready_ HW_GUARDED_BY(send_lock_) = 0;      // of which so many, from the first, may go: the others are a batch
    Counter queued_bytes_; // that TCP does not have, with those of building_ and overhead; changed under the lock
    Ref<Outgoing> building_ HW_GUARDED_BY(send_lock_);
    bool closed_ HW_GUARDED_BY(send_lock_) = false;
    bool room_wanted_ HW_GUARDED_BY(send_lock_) = false; // somebody was told that there is none

    UsedMessages used_;
    Ref<Psock> psock_;   // of the transmitter: it sends on it
    bool keeps_ = false; // of the transmitter: it only keeps it, for the next message
    Atomic<u32> transmitters_{0}; // who asked for transmission since somebody began; not 0: somebody does it
    Atomic<u32> given_up_{0};     // closed, and it takes too long: what is not sent yet is not going to be
    Atomic<u32> finished_{0};
    Atomic<u32> errors_{0}, tell_connection_{0}, max_message_{0};
    Work<Socket, &Socket::transmit_in_work> transmit_work_;
    Work<Socket, &Socket::give_up> give_up_work_;
};

} // namespace kcm
