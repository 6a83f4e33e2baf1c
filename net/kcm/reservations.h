// SPDX-License-Identifier: GPL-2.0
// The assignment of connections to send queues: a connection belongs to one queue for whole messages. Queues that find none
// free wait in line, and get the next free one. Those that can use only one connection wait in a separate line.
#pragma once

#include "../lock_order.h"
#include "send_queue.h"

#include <hawser/list.h>
#include <hawser/lock.h>
#include <hawser/wait.h>

namespace kcm {

using namespace hw;

struct Available;   // list tag: connections without an owner, or that are parked

// A connection's part, under the lock of the reservations: the lane that messages take to TCP.
struct Lane {
    Ref<SendQueue> owner;
    bool up = false;        // may be given to a queue
    bool held_back = false; // not now, but maybe again
    bool parked = false;    // the owner may send on it at once, and others may take it
    u64 asked = 0;          // the last ticket when it was parked, or when its owner was last asked for it
    RefList<SendQueue, WantsToSend> line; // queues that can use only this one
    Atomic<u32> in_line{0};
    WaitQueue given_back;
};

// What is shown of a socket, under the same lock.
struct Reserved {
    const Psock* sends_on = nullptr; // the connection that one of its queues got last, which may have no index yet
    u32 waiting = 0;                 // queues
};

class Reservations : Pinned {
public:
    // psock can be sent on from now on, unless it has failed.
    void add(Psock& psock);
    // psock is given to no queue until add() or remove(); queues that can use only this one wait. Its owner, if any, is woken.
    void hold_back(Psock& psock);
    // psock is given to no queue any more; those that can use only this one are woken and refused. Its owner is woken, too.
    void remove(Psock& psock);
    // A connection for queue: the one that its messages are for, or any. Null: it waits, and is woken. EAGAIN: it waits, but
    // not all were looked at that it could get at once; call again soon. ENOTCONN: that one cannot be sent on any more.
    Result<Ref<Psock>> take(SendQueue& queue);
    // As take() for a queue without address, but it does not wait: null also when it is waiting already, or would be EAGAIN.
    Ref<Psock> take_if_free(SendQueue& queue);
    // The queue no longer needs psock, between two messages.
    void give_back(Psock& psock);
    // As give_back(), but its owner may continue with the next message without a reservation, as long as it would get this
    // one: no queue waits and no other connection is free. False: give it back. Of the transmitter.
    bool park(Psock& psock);
    // The owner needs the parked connection for longer: no other queue gets it until give_back(). Of the transmitter.
    void unpark(Psock& psock);
    // Should the parked connection be given back? A queue waits, or another connection is free.
    bool wants_back() const { return waiting_.load() != 0 || available_count_.load_relaxed() != 0; }
    // Is a connection held back, which may be the parked one?
    bool holds_back() const { return held_back_.load_relaxed() != 0; }
    // The queue needs no connection any more.
    void forget(SendQueue& queue);
    // Does another queue wait for psock?
    bool contended(Psock& psock) const;
    bool usable(Psock& psock);
    // Is nothing sent on psock any more?
    bool lost(Psock& psock);
    bool is_owned(Psock& psock); // or parked
    // Waits until psock has no owner, which is held back. ETIMEDOUT, EINTR.
    Result<> wait_idle(Psock& psock, u64 deadline_ns);
    // Null also when psock is only parked.
    Ref<SendQueue> owner(Psock& psock);
    struct Shown { int sends_on; u32 waiting; }; // an index, or -1
    Shown look(Socket& socket);

private:
    void make_available(Psock& psock, Ref<SendQueue>& kick) HW_REQUIRES(lock_);
    void set_held_back(Psock& psock, bool held_back) HW_REQUIRES(lock_);
    void own(SendQueue& queue, Psock& psock) HW_REQUIRES(lock_);
    void disown(SendQueue& queue, Psock& psock) HW_REQUIRES(lock_);
    SendQueue* first_in_line(Psock& psock) HW_REQUIRES(lock_);
    void wait_in_line(SendQueue& queue) HW_REQUIRES(lock_);
    Ref<SendQueue> stop_waiting(SendQueue& queue) HW_REQUIRES(lock_);
    struct Reclaimed;
    Ref<Psock> reclaim(Psock& psock, Reclaimed& from) HW_REQUIRES(lock_);
    bool is_removed(Psock& psock) HW_REQUIRES(lock_);
    bool has_unasked(u64 ticket) HW_REQUIRES(lock_);
    Ref<Psock> reclaim_any(u64 ticket, Reclaimed& from) HW_REQUIRES(lock_);
    Ref<Psock> take_available(Psock& psock) HW_REQUIRES(lock_);
    Ref<Psock> withdraw(Psock& psock, Reclaimed& from) HW_REQUIRES(lock_);

    static constexpr unsigned asked_at_a_time = 64;

    Spin<ReservationsLock> lock_;
    RefList<Psock, Available> available_ HW_GUARDED_BY(lock_);
    RefList<Psock, Available> parked_ HW_GUARDED_BY(lock_); // by lane.asked
    RefList<SendQueue, WantsToSend> line_ HW_GUARDED_BY(lock_); // for any connection
    u64 tickets_ HW_GUARDED_BY(lock_) = 0;
    Atomic<u32> in_line_{0};       // of line_
    Atomic<u32> held_back_{0};     // connections
    Atomic<u32> waiting_{0};       // of all lines
    Atomic<u32> available_count_{0};
};

} // namespace kcm
