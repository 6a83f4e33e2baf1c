// SPDX-License-Identifier: GPL-2.0
// The messages that a path has to send.
//
// Messages that must not be lost wait on three queues: send (never given to the transport), retransmit (given to its present
// stream, not yet acknowledged) and again (given to an earlier stream). When the stream ends, retransmit becomes the
// beginning of again, which is sent before send. Messages are marked when they are sent again, and the receiver drops those
// that it already has. A program can queue any number of messages: whole queues move in one step, and no walk under the lock
// covers all of one.
//
// One lock guards the queues of all paths of a connection. A message can move between paths, and must be removed from a
// queue under the lock of the queue that has it at that moment.
#pragma once

#include "../lock_order.h"
#include "batch.h"
#include "latency.h"
#include "peers_memory.h"

#include <hawser/lock.h>

namespace rds {

class SendQueue : Pinned {
public:
    // peers: counts the answers of all paths; null: they are not bounded together.
    explicit SendQueue(Spin<PathLock>& lock, PeersMemory* peers = nullptr) : lock_(lock), peers_(peers) {}

    // Any context. Gives message the next number and queues it, unless it was cancelled meanwhile. False: the
    // connection has ended.
    [[nodiscard]] bool enqueue(Ref<Message> message);
    // Any context. The same. waits: it may wait for others. Then it is set to whether it does: two are on their way, and few
    // wait. When acked() returns true, or some time later, the queue is to be transmitted.
    [[nodiscard]] bool enqueue(Ref<Message> message, bool& waits);
    // Any context. As enqueue(), for messages that a peer can cause at any rate; false also when the limit of these is reached.
    [[nodiscard]] bool enqueue_bounded(Ref<Message> message);
    // Any context. Takes message off the queue that it is on, if it is on one, whichever of the connection's it is;
    // bytes already on their way are not called back.
    void cancel(Message& message);

    // Messages that acked() ends in one call, in softirq: an acknowledgement may be of all that a stream took. Before each few of
    // them it looks at whether its turn is over: what one costs is up to those who wait for its end.
    static constexpr unsigned acked_at_once = 4096, acked_of_each = 8;
    // Any context. The peer's transport has everything before una. True: messages wait, and no two are on their way any more; or
    // end_acked() may have something to do.
    bool acked(u32 una);
    // Sleeps. Ends the acknowledged messages that acked() left.
    void end_acked();
    // Has the peer's transport acknowledged the present stream up to position?
    bool is_acked(u32 position);

    // The following functions are for the owner of the path (owner.h).
    // Adds messages to batch until it is full; they are retransmitted unless account() gives them back.
    void fill(Batch& batch);
    // The stream took so many bytes of batch, and is at end_seq after them; or the bytes of so many whole messages. What it did
    // not take is queued again, or noted in batch.
    void account(Batch& batch, u32 taken, u32 end_seq);
    // For a path without streams: the next message, removed from the queue, so that a cancellation leaves it to the caller.
    Ref<Message> take();
    void give_back(Ref<Message> message);
    // As if message had been queued and taken. False: others are before it, or the connection has ended.
    bool pass(Message& message);

    void stream_began();
    void stream_ended();
    // Any context. Messages that were sent, and that no acknowledgement can be expected for, are given up; with_present: also
    // those that the present stream has. end_dropped() ends them.
    void give_up_sent(bool with_present);
    // Sleeps. Ends them. How many.
    u32 end_dropped();
    // Messages that were never sent go to other, with other's numbers, and so do all that sockets enqueue from now on, for good:
    // on another path they could overtake those that moved. The peer may have the rest, under numbers that the other path does
    // not know.
    void move_to(SendQueue& other);
    bool has_pinned(); // the present stream was given memory of a program
    bool has_new(); // messages that were never sent
    bool has_sent_before(); // over an earlier stream
    // The end: nothing is queued any more.
    void close();

    bool has_unsent();
    bool is_empty();
    // Nothing, or answers that are not needed when the stream ends: what enqueue_bounded() queued.
    bool has_only_answers();
    bool has_answers(); // of those, one is queued or not acknowledged
    u64 next_number();
    u32 length();     // messages, without answers to pings
    u64 sent_again(); // over another stream, since the beginning
    Latency::Counts latency(); // of messages of sockets
    // Where a walk in pieces has come to. It holds the message, and by it the connection. Without last the walk begins where the
    // last piece of any walk along these queues did, if that is not behind next, and else passes over messages from the front on.
    struct Place {
        Ref<Message> last; // that was looked at
        u64 next = 0;      // the number from which on messages were not visited
        u32 moves = 0;
    };
    // Calls visit(Message&) under the lock for the next few messages from place on, in the order of their numbers. False at
    // the end. Any context.
    template <class Visit> bool visit_some(bool retransmits, Place& place, Visit&& visit)
    {
        using On = Message::On;
        constexpr unsigned some = 64;
        Ref<Message> old;
        Guard guard(lock_);
        On on;
        Message* m = begin_piece(retransmits, place, on);
        old = std::move(place.last);
        for (unsigned looked = 0;; m = queue(on).next(*m)) {
            if (!m && on == On::again) {
                on = On::send;
                m = send_.front();
            }
            if (!m)
                return false;
            if (!looked)
                note_piece(*m, on);
            if (m->header().sequence >= place.next) {
                visit(*m);
                place.next = m->header().sequence + 1;
            }
            if (++looked == some) {
                m->on = on; // moves of several do not note it
                place.last = Ref<Message>::share(*m);
                place.moves = moves_;
                return true;
            }
        }
    }

private:
    using Queue = RefList<Message, PathQueue>;
    Queue& queue(Message::On on) HW_REQUIRES(lock_)
    {
        return on == Message::On::send ? send_ : on == Message::On::again ? again_ : retransmit_;
    }
    Message* begin_piece(bool retransmits, const Place& place, Message::On& on) HW_REQUIRES(lock_);
    void note_piece(Message& first, Message::On on) HW_REQUIRES(lock_);
    static void forget_piece(Message& first);
    void several_move() HW_REQUIRES(lock_);
    u32 complete(Queue& done, bool stream_goes_on = false);
    static void complete_left(Queue& done);
    static void notify_sender(Message& message, bool stream_goes_on);
    bool fill(Batch& batch, Queue& spent);
    void has_joined(Message& message) HW_REQUIRES(lock_);
    void has_left(Message& message) HW_REQUIRES(lock_);
    // timed: it is queued now; else it has waited on another path.
    bool append(Ref<Message> message, bool timed = true) HW_REQUIRES(lock_);
    bool move_some(SendQueue& other) HW_REQUIRES(lock_);
    bool reap(Queue& done, unsigned most) HW_REQUIRES(lock_);
    bool reap(Queue& from, Queue& done, unsigned most) HW_REQUIRES(lock_);
    bool reap_some(unsigned most);
    bool has_two_under_way() HW_REQUIRES(lock_) { return retransmit_.front() != retransmit_.back(); }
    bool waits_for_others(u32 bytes) HW_REQUIRES(lock_);
    bool end_wait();
    static constexpr unsigned at_once = 64; // messages that end under one lock
    bool stream_has(const Message& message) HW_REQUIRES(lock_);
    bool is_acked(const Message& message) HW_REQUIRES(lock_);
    RefList<Message, OwnerQueue>& given_up_with(Message& message) HW_REQUIRES(lock_);
    void end_given_up();
    void take_resent(Queue& taken) HW_REQUIRES(lock_);
    void keep_for_stream(Message& message) HW_REQUIRES(lock_);
    void add_pong(Message& pong) HW_REQUIRES(lock_);
    void drop_pong(Message& pong) HW_REQUIRES(lock_);
    void count_pongs(u32 added, u32 gone) HW_REQUIRES(lock_);
    void put_back(Ref<Message> message) HW_REQUIRES(lock_);

    Spin<PathLock>& lock_;
    PeersMemory* const peers_;
    Latency latency_ HW_GUARDED_BY(lock_);
    Queue send_ HW_GUARDED_BY(lock_);
    Queue again_ HW_GUARDED_BY(lock_);
    Queue retransmit_ HW_GUARDED_BY(lock_);
    u64 next_ HW_GUARDED_BY(lock_) = 1;
    u32 una_ HW_GUARDED_BY(lock_) = 0;
    bool una_known_ HW_GUARDED_BY(lock_) = false;
    u32 moves_ HW_GUARDED_BY(lock_) = 0; // of several messages at once, which may differ from Message::on
    Message* piece_ HW_GUARDED_BY(lock_) = nullptr; // the first one of a walk's last piece; on one of the three, not a reference
    RefList<Message, OwnerQueue> pongs_ HW_GUARDED_BY(lock_); // each is also on one of the three, with a number of its own
    u32 pong_count_ HW_GUARDED_BY(lock_) = 0;
    Queue end_with_stream_ HW_GUARDED_BY(lock_); // or are acknowledged: given up, and on no other queue (Message::On::leaving)
    Queue dropped_ HW_GUARDED_BY(lock_); // given up, and not yet ended; Message::on is of an earlier queue
    RefList<Message, OwnerQueue> given_up_ HW_GUARDED_BY(lock_); // of retransmit: cancelled, and TCP has pages of the program
    u32 stream_ HW_GUARDED_BY(lock_) = 0; // how many have ended
    bool pinned_ HW_GUARDED_BY(lock_) = false; // the present one was given memory of a program
    u64 sent_again_ HW_GUARDED_BY(lock_) = 0;
    u32 others_ HW_GUARDED_BY(lock_) = 0; // messages on the three that are no pongs
    bool closed_ HW_GUARDED_BY(lock_) = false;
    bool waits_ HW_GUARDED_BY(lock_) = false; // what was enqueued last
    u8 waiting_ HW_GUARDED_BY(lock_) = 0;     // enqueued since the last fill(), of those that may wait
    u8 waiting_kbytes_ HW_GUARDED_BY(lock_) = 0;
    SendQueue* moved_to_ HW_GUARDED_BY(lock_) = nullptr;
};

} // namespace rds
