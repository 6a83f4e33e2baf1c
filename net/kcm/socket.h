// SPDX-License-Identifier: GPL-2.0
// A KCM socket. The kernel's struct sock owns it; its reference count is the sock's.
#pragma once

#include "../lock_order.h"
#include "mux.h"
#include "outgoing.h"
#include "uapi.h"

#include <hawser/wait.h>

#include <span>

namespace kcm {

class Socket : Pinned, public ListNode<Members>, public ListNode<Receiver> {
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
    ReceiveQueue receiving;    // under the distributor's lock
    Reserved reserved;         // under the reservations' lock

    // close(). Sleeps.
    void release();

    // send.cc. Bytes sent.
    Result<u32> send(const kcm_send& send);
    void send_limit_changed(); // SO_SNDBUF is another. Any context.
    // transmit.cc. In work of its own; any context.
    void transmit_later();
    // See SendQueue::wake().
    void wake(SendQueue& queue);
    // The connection that is parked here. Null: the socket is transmitting. asked: then transmit_later() must follow. Under
    // the reservations' lock.
    Ref<Psock> take_parked(bool& asked);

    // receive.cc
    Result<u32> receive(kcm_receive& receive);
    unsigned poll(kapi_poll* poll);
    void wake_next_reader();
    void wake_next_thread();
    void wake_readers(); // there is something to read. Any context.

    // options.cc
    Result<> set_option(int option, const kapi_optval* value, int length);
    Result<> get_option(int option, const kapi_optval* value, int& length);
    Result<> ioctl(unsigned command, const kapi_optval* argument, bool nonblocking);

    // A connection ended. Any context.
    bool wants_errors() const { return errors_.load_relaxed() != 0; }
    void watch_errors(bool on);
    void report(int error);
    bool has_error() const { return kapi_sk_has_error(sk) != 0; }
    // Nothing of connections that have ended is left to be read: readers that hold an error back report it.
    void rest_is_read();
    void connections_gone(int error); // the last one ended
    void give_up_if_closed();         // the same, and nothing is to be reported

    SharedCounter rx_msgs, rx_bytes; // of readers
    Counter tx_msgs, tx_bytes;       // of the transmitter
    struct SendLoad { u32 messages; bool holds, building; };
    SendLoad send_load();
    void add_totals(kcm_totals& totals) const;

private:
    HW_MADE_BY_CREATE;
    Socket(kapi_sk* sk, bool datagram, Ref<Mux> mux);
    ~Socket();

    static constexpr u64 drain_overhead = 4096; // of a closed socket, beside what it has to send
    // control.cc
    struct Control {
        bool addressed = false;
        u64 id = 0;
        u32 count = 0; // of lengths; 0: one message, or a part of one
        const u8* lengths = nullptr;
        static constexpr u32 most = 64, most_bytes = 32 * 1024; // of small messages that are copied together
        u32 length(u32 i) const;
        // Those from next on that are copied together, one at least.
        struct Some { u32 count, size; };
        Some read(u32 next, u32* to) const;
        Result<> add(int type, const u8* data, usize size);
        Result<> check_lengths(usize size) const;
    };
    static Result<Control> parse_control(const kcm_send& send);
    static unsigned room_for_lengths(const kcm_receive& receive, bool beside_connection);
    Result<> put_control(const Taken& taken, const ReadRoom& room, u32 size, kcm_receive& receive);
    // send.cc
    // queue null: one that is to be made.
    bool has_room(const SendQueue* queue) HW_REQUIRES(send_lock_)
    {
        return (!queue || queue->bytes < kapi_sk_sndbuf(sk)) && (queue == &any_ || addressed_have_room());
    }
    // All queues for one connection have a limit together, or a socket could hold a full one for each of its connections.
    static constexpr u64 addressed_share = 64; // of SO_SNDBUF
    bool addressed_have_room() HW_REQUIRES(send_lock_)
    {
        return queued_bytes_ - any_.bytes < addressed_share * kapi_sk_sndbuf(sk);
    }
    bool has_room_or_wants_it(SendQueue* queue) HW_REQUIRES(send_lock_);
    struct Room { bool there, wanted; };
    Room look_for_room(SendQueue& queue) HW_REQUIRES(send_lock_);
    void notify_room(Room room);
    bool may_add(Psock* to);
    bool is_full(Psock* to);
    using AddressTable = IdTable<SendQueue, ByAddress>;
    struct Spare { Own<AddressTable> table; Ref<SendQueue> queue; }; // what add() may lack
    enum class Added { yes, no_room, no_queue };
    struct Part {
        Ref<Outgoing> bytes;
        Psock* to;
        bool ends, goes;
        bool spliced = false;
        bool alone = false;         // does not go on with what was begun
        bool leaves_errors = false; // to the next call
    };
    // What was being built and is given up: its references go, and give_up_unfinished() follows, without the lock.
    struct Unfinished { Ref<Outgoing> message; Ref<SendQueue> queue; Room room{}; };
    Unfinished take_unfinished() HW_REQUIRES(send_lock_);
    bool take_lost(Unfinished& lost) HW_REQUIRES(send_lock_);
    void give_up_unfinished(const Unfinished& unfinished);
    void give_up_begun_for(u64 id);
    Result<> end_begun(bool spliced);
    Result<Ref<Psock>> find_wanted(u64 id);
    Result<> wait_for_room(const Part& part, bool may_wait, u64 deadline_ns);
    Result<Added> add(Part& part, Spare& spare);
    Result<Added> add_unless_lost(Part& part, Spare& spare, Unfinished& lost);
    Result<> add_when_room(Part part, const kcm_send& send);
    Result<> wait_and_add(Part& part, Added added, bool may_wait, u64 deadline_ns);
    static void trace_sent(const Outgoing& bytes, const Psock* to, bool ends);
    void complete() HW_REQUIRES(send_lock_);
    void end_batch() HW_REQUIRES(send_lock_);
    void release_batch();
    void limit_batch();
    void end_late_batch();
    // What waits to be sent.
    Result<> make_spare(Psock& to, Spare& spare);
    SendQueue* find_queue(Psock* to) HW_REQUIRES(send_lock_);
    void charge(SendQueue& queue, u64 bytes) HW_REQUIRES(send_lock_);
    void uncharge(SendQueue& queue, u64 bytes) HW_REQUIRES(send_lock_);
    struct Unlisted { Ref<SendQueue> sending, by_address; }; // references that go without the lock
    Unlisted unlist_if_idle(SendQueue& queue) HW_REQUIRES(send_lock_);
    // transmit.cc: the transmitter, and the choice of the next queue
    void transmit();
    bool leave();
    void transmit_until_left();
    void transmit_in_work();
    bool transmit_some(unsigned& steps);
    Ref<SendQueue> next_queue();
    void stall(SendQueue& queue);
    void stop_using(SendQueue& queue);
    void release_parked();
    void finish_if_done();
    void keep_psock(SendQueue& queue);
    void release_psock(SendQueue& queue);
    void leave_psock(SendQueue& queue);
    Result<Ref<Outgoing>> copy_several(const kcm_send& send, std::span<const u32> lengths, u32 size);
    Result<u32> send_each(const kcm_send& send, const Control& control, Psock* wanted);
    Result<u32> send_one(const kcm_send& send);
    bool send_at_once(Ref<Outgoing>& message);
    void done_at_once();
    bool send_whole(Outgoing& message);
    void put_first(Ref<Outgoing> message);
    // transmit_batch.cc: one call to TCP
    struct Batch;
    enum class Step { nothing, wait, again, drop, refuse, release, send };
    Step prepare(SendQueue& queue, Batch& batch);
    void collect(SendQueue& queue, Batch& batch) HW_REQUIRES(send_lock_);
    bool may_go(const Outgoing& message) HW_REQUIRES(send_lock_) { return message.number < may_go_below_; }
    bool send_next(SendQueue& queue);
    bool send_batch(SendQueue& queue, Batch& batch);
    struct Left { bool any, cut; }; // messages that may go; the first of them is partly with TCP
    Left account(SendQueue& queue, u32 bytes);
    bool drop_unsent(SendQueue& queue);
    void connection_lost(SendQueue& queue);
    void count_bytes(Psock& psock, u32 bytes);
    void count_messages(Psock& psock, const Outgoing& message, u32 before);
    void finish();
    void give_up();
    void end_waiting();
    void stop_sending();
    void drop_all_unsent();
    void drop_cut(SendQueue& queue, bool may_wait);
    // socket.cc: of calls that wait
    static u64 deadline_after(u64 timeout_ns);
    static Result<> waited(Result<> result, u64 deadline_ns);
    // receive.cc
    bool keeps_rest(const kcm_receive& receive) const;
    bool peeks(const kcm_receive& receive) const;
    void put_back(Taken& taken, u32 read);
    Result<u32> hand_over(Taken& taken, const ReadRoom& room, kcm_receive& receive);
    Result<> wait_for_message(bool may_wait, u64& deadline_ns);
    bool error_is_next();
    void trace_delivery(const Taken& taken, u32 size);
    ReadRoom room_of(const kcm_receive& receive) const;
    [[gnu::always_inline]] inline bool take(const kcm_receive& receive, const ReadRoom& room, Taken& taken);
    static constexpr unsigned max_runs = 64; // of messages that a call returns
    u32 receive_more(kcm_receive& receive);
    // options.cc
    Result<> get_stats(const kapi_optval* value, int& length);
    Result<> get_attached(const kapi_optval* value, int& length);

    WaitQueue readers_, senders_, pollers_; // threads in recvmsg(), in sendmsg(), in poll()
    Spin<SendLock> send_lock_;
    SendQueue any_{*this}; // messages that may take any connection
    Own<AddressTable> addressed_ HW_GUARDED_BY(send_lock_); // queues that are not empty; null: there never was any
    // A queue with messages is on one of these:
    RefList<SendQueue, Sending> runnable_ HW_GUARDED_BY(send_lock_); // the transmitter has to look at it
    RefList<SendQueue, Sending> batched_ HW_GUARDED_BY(send_lock_);  // its messages wait for the rest of their batch
    RefList<SendQueue, Sending> stalled_ HW_GUARDED_BY(send_lock_);  // waits for its connection, or for TCP
    u32 queued_ HW_GUARDED_BY(send_lock_) = 0; // whole messages
    u64 next_number_ HW_GUARDED_BY(send_lock_) = 1, may_go_below_ HW_GUARDED_BY(send_lock_) = 1;
    Counter queued_bytes_; // of all queues; changed under the lock
    // Messages for a connection were refused: by the limit of all queues; by that or by their own queue's.
    bool room_for_all_wanted_ HW_GUARDED_BY(send_lock_) = false, room_wanted_ HW_GUARDED_BY(send_lock_) = false;
    Ref<Outgoing> building_ HW_GUARDED_BY(send_lock_);
    Ref<SendQueue> building_for_ HW_GUARDED_BY(send_lock_); // where it belongs
    // Its last part had MSG_BATCH or was spliced: when the next call of that sendmmsg() or sendfile() fails, Linux returns only
    // how much went before, and the program goes on with what was refused.
    bool hides_error_ HW_GUARDED_BY(send_lock_) = false;
    bool closed_ HW_GUARDED_BY(send_lock_) = false;
    bool drains_ HW_GUARDED_BY(send_lock_) = false; // closed with messages: what it has is counted by the multiplexor

    UsedMessages used_;
    Atomic<u32> transmitters_{0}; // requests for transmission since it began; not 0: a thread transmits
    Atomic<u32> given_up_{0};     // closed, and sending takes too long: the rest is discarded
    Atomic<u32> finished_{0};
    Atomic<u32> batch_limited_{0}; // batch_work_ is queued, and has yet to run
    Atomic<u32> errors_{0}, tell_connection_{0}, tell_lengths_{0}, max_message_{0};
    Atomic<u32> polled_{0}; // has a program ever?
    Work<Socket, &Socket::transmit_in_work> transmit_work_;
    Work<Socket, &Socket::give_up> give_up_work_;
    Work<Socket, &Socket::end_late_batch> batch_work_;
};

} // namespace kcm
