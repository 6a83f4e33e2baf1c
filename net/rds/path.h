// SPDX-License-Identifier: GPL-2.0
// A path: one ordered stream of messages between two hosts, over a succession of transport streams.
//
// What must not be lost waits on two queues: send (not yet given to the transport) and retransmit (given, not yet
// acknowledged). When the transport's stream ends, the second goes back in front of the first, marked as retransmitted,
// and the receiver drops what it had.
//
// One owner at a time transmits (busy_): the thread in sendmsg, or the path's worker. The worker alone connects and
// closes, and owns the path while it does.
//
// Why each message arrives exactly once, between two hosts that run this code:
// - A stream is read to its end, and only then is the next one of its path begun. What was given to a stream and not
//   acknowledged is sent again on the next, in order, and the receiver drops numbers below the one it expects.
// - That holds as long as the receiver remembers the sender's numbers. Its memory has a name (memory_), which changes
//   whenever it forgets, that is when it hears another sender (one life of a connection) on this path, or is new itself.
// - On each new stream nothing with a number is sent before the receiver has answered a probe on it, so the sender
//   knows by which memory its messages will be met. If that is not the memory they were first sent to (sent_to_), it
//   gives up those that it has sent: they may have arrived, and nobody could tell.
// - Probes and answers have no number, and stand before all that has one: a receiver that stops reading because a
//   socket is full has read them.
#pragma once

#include "incoming.h"
#include "message.h"
#include "transport.h"

#include <hawser/lock.h>
#include <hawser/state_machine.h>
#include <hawser/wait.h>
#include <hawser/work.h>

#include <array>

namespace rds {

class Connection;
class Net;
struct Stalled; // list tag: paths that a full socket keeps from being read

enum class PathState : u8 { down, connecting, up, closing };
enum class PathEvent : u8 { connect, establish, adopt, lose, closed };

struct PathRules {
    static constexpr const char* name = "rds path";
    using Row = Transition<PathState, PathEvent>;
    static constexpr std::array<Row, 6> table{{
        {PathState::down, PathEvent::connect, PathState::connecting},
        {PathState::down, PathEvent::adopt, PathState::up},
        {PathState::connecting, PathEvent::establish, PathState::up},
        {PathState::connecting, PathEvent::lose, PathState::closing},
        {PathState::up, PathEvent::lose, PathState::closing},
        {PathState::closing, PathEvent::closed, PathState::down},
    }};
#ifndef __KERNEL__
    static void taken(PathState from, PathEvent event); // for the simulator's coverage
#endif
};

struct PathLock { static constexpr const char* name = "rds path"; static constexpr unsigned rank = 30; };

class Path : public ListNode<Stalled> {
public:
    Path(Connection& connection, unsigned index);
    ~Path();
    Path(const Path&) = delete;

    Connection& connection() const { return connection_; }
    unsigned index() const { return index_; }
    // A path lives as long as its connection.
    void ref() const;
    void unref() const;

    // Any context. Gives message the next sequence number and queues it, unless it was cancelled meanwhile. False: the
    // connection has ended.
    [[nodiscard]] bool enqueue(Ref<Message> message);
    // What the peer is told rather than sent: made when its turn comes, so once however often it was asked for, and
    // always the truth of that moment. It goes before all messages.
    enum Told : u32 { told_probe = 1, told_reply = 2, told_map = 4 };
    // Any context. The caller notifies.
    void tell(Told what) { due_.fetch_or(what); }
    // Any context. As enqueue(), for what a peer may ask for without end; false too when enough of it is queued.
    [[nodiscard]] bool enqueue_bounded(Ref<Message> message);
    // Sends what is queued, in the caller's context. Sleeps.
    void transmit();
    // Any context. Tells the worker (rds_path_event bits).
    void notify(u32 events);
    // Any context. The peer's transport has everything before una.
    void acked(u32 una);
    // Any context. A complete message came in. False: read no further until notified.
    bool receive(Ref<Incoming> incoming);
    // Takes message off the queues; bytes already on their way are not called back. Any context.
    void cancel(Message& message);
    // Sleeps. Closes for good: no call to the transport follows, the queues are empty.
    void kill();

    // The handshake, any context.
    // The numbers that come now are this sender's (0: nobody's yet). True when they were another's before.
    bool heard(u32 sender);
    u32 sender();
    u32 memory();
    // The peer answered a probe over the present stream; memory is what it remembers our numbers by, 0: not told.
    void answered(u32 memory);
    bool is_answered() const { return answered_.load_acquire() != 0; }
    // The peer started over and cannot tell what it had: what was sent to it is given up, with what the present stream
    // has or without.
    void give_up_sent(bool with_present);

    // A socket's queue is at its limit: true when the path must not be read until resumed().
    bool stall_on(Socket& socket);
    void resumed(Socket& socket);
    bool stalled() const { return stalled_.load_acquire() != 0; }
    // Does events again after delay_ns, for want of memory. Any context.
    void retry_later(u32 events, u64 delay_ns = 10'000'000);

    // For RDS_INFO_*.
    struct Snapshot { u64 next_tx, next_rx; PathState state; bool sending; u32 drops; };
    Snapshot snapshot();
    template <class Visit> void for_each_message(bool retransmits, Visit&& visit)
    {
        Guard guard(lock_);
        auto& queue = retransmits ? retransmit_ : send_;
        for (Message* m = queue.front(); m; m = queue.next(*m))
            visit(*m);
    }
    bool is_up() const { return up_.load_acquire() != 0; }
    void start_looping(); // loopback: up from the start, for ever
    bool drained(); // up, nothing queued, nothing unacknowledged

private:
    using Queue = RefList<Message, PathQueue>;
    static constexpr unsigned batch_messages = 16;
    static constexpr unsigned batch_segments = 40;
    struct Batch;

    // The owner's part.
    bool acquire();
    bool release();
    bool pump();
    bool pump_stream();
    bool pump_loop();
    bool may_send_numbered() const;
    void collect(Batch& batch);
    bool collect_told(Batch& batch);
    Ref<Message> make_told(Told what);
    Ref<Message> take_first() HW_REQUIRES(lock_);
    bool account(Batch& batch, u32 taken, u32 end_seq);
    void reap(Queue& done) HW_REQUIRES(lock_);
    void complete(Queue& done);

    // The worker's part.
    void run();
    void ticked();
    void retried();
    void step();
    bool step_down();
    bool step_connecting(u32& events);
    bool step_up(u32& events);
    bool step_closing();
    bool asking() const;
    bool was_asked();
    void ask_again();
    void start_connecting();
    void came_up();
    void lose();
    void closed();
    void requeue_unacknowledged() HW_REQUIRES(lock_);
    void back_off();
    void arm(u64 delay_ns);
    bool has_work();
    void unstall();
    void drop_all(Queue& done) HW_REQUIRES(lock_);
    void drop_sent(Queue& done) HW_REQUIRES(lock_);
    void move_queue_to(Path& other);

    bool in_sequence(const Header& header);
    void answer_ping(const Header& header);
    bool deliver(Ref<Incoming> incoming);

    Connection& connection_;
    const unsigned index_;

    Spin<PathLock> lock_;
    StateMachine<PathState, PathEvent, PathRules> state_ HW_GUARDED_BY(lock_){PathState::down};
    Queue send_ HW_GUARDED_BY(lock_);
    Queue retransmit_ HW_GUARDED_BY(lock_);
    u64 next_tx_ HW_GUARDED_BY(lock_) = 1;
    u64 next_rx_ HW_GUARDED_BY(lock_) = 1;
    u32 una_ HW_GUARDED_BY(lock_) = 0;
    bool una_known_ HW_GUARDED_BY(lock_) = false;
    u32 probe_end_ HW_GUARDED_BY(lock_) = 0; // of the last probe that a stream took whole
    u32 drops_ HW_GUARDED_BY(lock_) = 0;
    u32 pongs_queued_ HW_GUARDED_BY(lock_) = 0;
    Ref<Socket> stalled_on_ HW_GUARDED_BY(lock_);
    bool dead_ HW_GUARDED_BY(lock_) = false;
    u32 sender_ HW_GUARDED_BY(lock_) = 0;  // whose numbers next_rx_ counts
    u32 memory_ HW_GUARDED_BY(lock_);      // names next_rx_ from one forgetting to the next
    u32 sent_to_ HW_GUARDED_BY(lock_) = 0; // the peer's memory that the messages marked as sent were sent to

    Atomic<u32> busy_{0};       // bit 0: owned; bit 1: somebody else wanted to
    Atomic<u32> events_{0};     // for the worker
    Atomic<u32> up_{0};         // state_ is up
    Atomic<u32> write_full_{0}; // the stream took less than it was offered
    Atomic<u32> stalled_{0};    // a full socket keeps us from reading
    Atomic<u32> ticking_{0};    // the timer is set for tick()
    // Of the present stream:
    Atomic<u32> due_{0};      // Told
    Atomic<u32> answered_{0}; // the peer answered a probe

    // The owner's:
    Ref<Message> current_; // partly given to the stream
    u32 current_offset_ = 0;
    // The worker's:
    bool wanted_ = false;
    unsigned asked_ = 0; // probes sent over the present stream, for want of an answer
    u64 retry_at_ns_ = 0;
    u64 back_off_ns_ = 0;
    u64 connect_deadline_ns_ = 0;
    u64 up_since_ns_ = 0;
    u64 next_tick_ns_ = 0;
    bool peer_gone_ = false; // close without waiting for the peer
    WaitQueue idle_;         // kill() waits for the owner

    Work<Path, &Path::run> work_{*this};
    Work<Path, &Path::ticked> timer_{*this};
    Work<Path, &Path::retried> retry_{*this}; // its own, lest a tick puts it off
};

} // namespace rds
