// SPDX-License-Identifier: GPL-2.0
// A path: one ordered stream of messages between two hosts, over a succession of transport streams.
//
// Its parts: who transmits (owner.h), what is to be sent (send_queue.h), how (transmit.h), what comes in
// (path_receive.h), and why nothing is lost or doubled (receiver_memory.h). Here is the life of its streams: the worker
// alone connects and closes, and owns the path while it does (path_worker.cc).
#pragma once

#include "back_off.h"
#include "owner.h"
#include "partial.h"
#include "path_receive.h"
#include "path_timer.h"
#include "probe_timer.h"
#include "trace.h"
#include "transmit.h"
#include "transport.h"

#include <hawser/state_machine.h>
#include <hawser/work.h>

#include <array>

namespace rds {

class Connection;
class Net;

enum class PathState : u8 {
    down = KAPI_RDS_DOWN,
    connecting = KAPI_RDS_CONNECTING,
    up = KAPI_RDS_UP,
    closing = KAPI_RDS_CLOSING
};
// How a path's last stream ended: there was none, all that the peer sent on it came in, or that is not known.
enum class Ending : u32 { none, complete, lost };
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

class Path : public ListNode<Stalled> {
public:
    Path(Connection& connection, unsigned index);
    Path(const Path&) = delete;

    Connection& connection() const { return connection_; }
    unsigned index() const { return index_; }
    // A path lives as long as its connection.
    void ref() const;
    void unref() const;

    // Sending. Any context; as in SendQueue.
    [[nodiscard]] bool enqueue(Ref<Message> message) { return queue_.enqueue(std::move(message)); }
    [[nodiscard]] bool enqueue(Ref<Message> message, bool& waits) { return queue_.enqueue(std::move(message), waits); }
    [[nodiscard]] bool enqueue_bounded(Ref<Message> message) { return queue_.enqueue_bounded(std::move(message)); }
    void cancel(Message& message) { queue_.cancel(message); }
    void queue_control(Control what) { transmitter_.queue_control(what); }
    void acked(u32 una);
    bool has_pinned() { return queue_.has_pinned(); }
    // Sends what is queued, in the caller's context. Sleeps.
    void transmit();
    // Over loopback a message needs no queue when nothing is before it. False: it is to be queued. Sleeps.
    [[nodiscard]] bool pass(const Ref<Message>& message);

    // Any context. The stream has all that was enqueued, and could take more: so it was just now.
    bool took_all();

    // Receiving. Any context; as in PathReceiver.
    void receive(Ref<Incoming> incoming) { receiver_.receive(std::move(incoming)); }
    bool stalled() const { return receiver_.stalled(); }
    bool may_read(MessageKind kind) { return receiver_.may_read(kind); }
    Result<bool> find_place(const Header& header) { return receiver_.find_place(header); }
    bool leaves_to_program(const Header& header) { return receiver_.leaves_to_program(header); }
    void resumed(Socket& socket);
    // A program comes for the messages that were left to it. Sleeps.
    void pull();
    Partial& partial() { return partial_; }

    // Any context. Informs the worker (rds_path_event bits).
    void notify(u32 events);
    // Any context. The same after delay_ns, for want of memory; as in PathTimer.
    void retry_later(u32 events, u64 delay_ns = 10'000'000);
    // Any context. Messages that were enqueued are transmitted then, if not before.
    void transmit_later();
    // Any context. The same for the transport, which could not receive.
    void receive_later(u32 events);
    // The owner's. The worker looks again within a tick, if there are messages.
    void arm_tick();
    // Sleeps. Closes for good: no call to the transport follows, the queues are empty.
    void kill();
    void start_looping(); // loopback: up from the start, for ever
    bool is_up() const { return up_.load_acquire() != 0; }
    bool is_down() { return state() == PathState::down; }
    bool is_connecting() { return state() == PathState::connecting; }
    bool drained(); // up, and nothing but answers is queued or unacknowledged
    bool may_be_recycled();
    bool has_only_answers() { return queue_.has_only_answers(); }
    Ending ending() const { return static_cast<Ending>(ending_.load_acquire()); }

    // The handshake. Any context; as in ReceiverMemory.
    bool note_sender(u32 sender, bool hawser) { return receiver_.note_sender(sender, hawser); }
    u32 sender() { return receiver_.sender(); }
    u32 proven_sender() const { return proven_sender_.load_relaxed(); } // when a hawser last answered; 0: none did
    u32 receiver_id() { return receiver_.receiver_id(); }
    // The peer answered a probe over the present stream; peers_id is what it remembers our numbers by, 0: not said.
    void answered(u32 peers_id);
    void note_unnamed() { receiver_.note_unnamed(); }
    bool is_answered() const { return answered_.load_acquire() != 0; }
    // A foreign peer had the time to answer over the present stream, and did not: its host may be set to answer no peer.
    bool is_silent() const { return silent_.load_acquire() != 0; }
    bool is_answered_by_hawser() { return is_up() && is_answered() && receiver_.has_name(); }
    // The last handshake over the present stream had no names: only a foreign peer sends one, because a hawser does not
    // send such a handshake first. Any context.
    void note_foreign(bool foreign) { said_foreign_.store_relaxed(foreign); }
    bool has_said_foreign() const { return said_foreign_.load_relaxed() != 0; }
    // The peer started over and cannot know what it had: what was sent to it is given up, with what the present stream
    // has or without. Any context.
    void give_up_sent(bool with_present);

    // For RDS_INFO_* and reports.
    struct Snapshot {
        u64 next_tx, next_rx;
        PathState state;
        bool sending;
        u32 drops; // established streams that ended
        kapi_trace_rds_reason reason; // of the last change of state, or why the last stream ended
        u64 since_ns;
        u64 tx_bytes, rx_bytes;
        u32 queued;
        u64 retransmits;
    };
    Snapshot snapshot();
    Latency::Counts latency() { return queue_.latency(); }
    // As in SendQueue.
    template <class Visit> bool visit_messages(bool retransmits, SendQueue::Place& place, Visit&& visit)
    {
        return queue_.visit_some(retransmits, place, std::forward<Visit>(visit));
    }
    template <class Visit> void for_each_message(bool retransmits, Visit&& visit)
    {
        SendQueue::Place place;
        while (visit_messages(retransmits, place, visit))
            ;
    }

private:
    void enter(PathEvent event, kapi_trace_rds_reason reason) { publish(change(event, reason)); }
    // Its two parts: maybe under a lock, and afterwards without.
    struct Change {
        PathState from, to;
        kapi_trace_rds_reason reason;
    };
    Change change(PathEvent event, kapi_trace_rds_reason reason);
    void publish(const Change& change);
    // path_worker.cc
    void run();
    void step();
    bool step_down();
    bool step_connecting(u32& events);
    bool step_up(u32& events);
    bool step_closing();
    bool start_connecting();
    bool recycle(bool accepted);
    void connect_failed();
    void came_up();
    Change leave(kapi_trace_rds_reason reason);
    void begin_closing(kapi_trace_rds_reason reason) { publish(leave(reason)); }
    void note_loss(kapi_trace_rds_reason reason);
    void closed(rds_closing how);
    bool is_wanted();
    void look_by(u64 time_ns) { look_ns_ = min(look_ns_, time_ns); }
    void arm(u64 time_ns);
    void set_trying(bool trying);
    u64 shortest_delay_ns() const;
    void wait_for_retry();
    // path_peer.cc
    void end_dropped();
    void step_left_out();
    bool is_left_out();
    bool is_replaced(rds_stream_waits accepted);
    bool peer_is_dead(u64 now);
    bool waits_for_answer() const;
    bool may_hold_up_map() const;
    bool probe_again();
    bool has_our_handshake();
    void note_silence();
    void let_acknowledgements_pass();

    static constexpr u64 tick_ns = 1'000'000'000, unanswered_tick_ns = 100'000'000;
    PathState state();

    Connection& connection_;
    const unsigned index_;
    Spin<PathLock>& lock_;
    SendQueue queue_;
    Transmitter transmitter_;
    PathReceiver receiver_;
    Partial partial_;
    Owner owner_;

    StateMachine<PathState, PathEvent, PathRules> state_ HW_GUARDED_BY(lock_){PathState::down};
    u32 drops_ HW_GUARDED_BY(lock_) = 0;
    kapi_trace_rds_reason reason_ HW_GUARDED_BY(lock_) = KAPI_RDS_CLOSED; // as in a snapshot
    u64 since_ns_ HW_GUARDED_BY(lock_) = kapi_now_ns();
    Atomic<u32> events_{0};   // for the worker
    Atomic<u32> up_{0};       // state_ is up
    Atomic<u32> unanswered_{0}; // as the transport said last: the next tick comes sooner
    Atomic<u32> ending_{static_cast<u32>(Ending::none)};
    Atomic<u32> answered_{0}; // the peer answered a probe over the present stream
    Atomic<u32> proven_sender_{0};
    Atomic<u32> said_foreign_{0};
    Atomic<u32> silent_{0};
    Atomic<Path*> moved_to_{nullptr}; // which sends what sockets enqueue here, since the peer did without this path

    // The worker's:
    bool wanted_ = false;
    u64 wanted_until_ns_ = 0; // by the peer, for whose messages we may have to connect; later only for sockets of this host
    u64 lost_ns_ = 0;         // when a stream was lost, and the peer may not know it; 0: it does, or notices it itself
    bool was_up_ = false;     // the stream that is being closed was
    bool retires_ = false;    // being closed because nobody uses it
    bool recycles_ = false;   // being closed to be opened again
    bool peer_gone_ = false; // close without waiting for the peer
    bool stalls_long_ = false; // it did at the last tick, with messages that wait for acknowledgements
    bool trying_ = false;    // it counts among those that divide the time of the works
    ProbeTimer probe_timer_;
    BackOff back_off_;
    u64 retry_at_ns_ = 0;
    u64 connect_deadline_ns_ = 0;
    u64 up_since_ns_ = 0;
    u64 overdraws_at_ns_ = 0; // if a full socket has what the stream holds wait
    u64 next_tick_ns_ = 0;
    u64 next_look_ns_ = 0; // of the transport at its stream
    u64 left_out_since_ns_ = 0; // by the peer, with messages that were sent; 0: it is not
    u64 look_ns_ = 0; // when the worker looks again though nothing happens: the first time of all reasons

    Work<Path, &Path::run> work_{*this};
    PathTimer timer_{*this};
};

} // namespace rds
