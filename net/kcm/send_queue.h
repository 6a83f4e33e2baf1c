// SPDX-License-Identifier: GPL-2.0
// Messages of one socket that are sent in order: all that may take any connection, or all for one connection.
//
// Each queue has its own connection while it sends, so a peer that does not read stops no other queue.
#pragma once

#include "counter.h"
#include "outgoing.h"

namespace kcm {

using namespace hw;

class Psock;
class Socket;

struct Sending;     // list tag: queues of a socket that have something to do, or wait
struct ByAddress;   // list tag: queues of a socket that are for one connection
struct WantsToSend; // list tag: queues that wait for a connection

// A queue's part, under the lock of the reservations.
struct Turn {
    Ref<Psock> granted; // waited for, not picked up yet
    bool waiting = false;
    u64 ticket = 0;     // of two that wait, the smaller one came first
};

class SendQueue : Pinned, public ListNode<Sending>, public ListNode<ByAddress>, public ListNode<WantsToSend> {
public:
    // The queue of a socket for any connection: a member of it.
    explicit SendQueue(Socket& of);
    ~SendQueue();
    // One for the connection `to`. Sleeps. ENOMEM.
    static Result<Ref<SendQueue>> create(Socket& socket, Ref<Psock> to);
    // A reference to a queue is one to its socket, too.
    void ref() const;
    void unref() const;
    // There may be something to do: the socket's transmitter looks at it soon. Any context, no lock held.
    void wake();

    Socket& socket;
    const Ref<Psock> to; // null: any
    u64 id_in_table() const; // of the connection that it is for
    Turn turn;

    // Under the socket's send lock.
    RefList<Outgoing, ToSend> messages; // whole ones, in order
    u64 bytes = 0;            // that TCP does not have, with those of a message that is being built, and overhead
    bool building = false;    // the message that is being built belongs here
    bool room_wanted = false; // a sender was refused because it is full
    bool woken = false;       // since the transmitter began its last step with it

    // Of the transmitter.
    Ref<Psock> psock;    // it sends on it
    bool parked = false; // psock is kept for the next message only: Reservations::park()
    bool waits = false;  // for a connection
    bool unpushed = false; // TCP may wait for what was to follow on psock

private:
    HW_MADE_BY_CREATE;
    SendQueue(Socket& of, Ref<Psock> address);

    mutable Atomic<u32> count_{1};
};

} // namespace kcm
