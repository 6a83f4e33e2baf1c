// SPDX-License-Identifier: GPL-2.0
// Who may send on which connection: a connection belongs to one socket for whole messages. Sockets that find none free
// wait in line, and the next free one is theirs.
#pragma once

#include <hawser/list.h>
#include <hawser/lock.h>
#include <hawser/wait.h>

namespace kcm {

using namespace hw;

class Psock;
class Socket;

struct Available;   // list tag: connections that nobody sends on, or that are kept
struct WantsToSend; // list tag: sockets that wait for one
struct ReservationsLock { static constexpr const char* name = "kcm transmit"; static constexpr unsigned rank = 40; };

// A connection's part, under the lock of the reservations.
struct Lane {
    Ref<Socket> owner;
    bool up = false;        // may be given to somebody
    bool held_back = false; // not now, but maybe again
    bool kept = false;      // owner sends on it only what goes at once, and is asked before others get it
    WaitQueue given_back;
};

// A socket's part, under the same lock.
struct Turn {
    Ref<Psock> granted; // waited for, not picked up yet
    Ref<Psock> wanted;  // waits for this one; null: for any
    bool waiting = false;
    int sends_on = -1;  // index of its connection
};

class Reservations : Pinned {
public:
    // psock can be sent on from now on, unless it has failed.
    void add(Psock& psock);
    // psock is given to nobody until add() or remove(); who wants it and no other waits. Its owner, if any, is told to look.
    void hold_back(Psock& psock);
    // psock is given to nobody any more, and who wants it and no other is told so, as is its owner.
    void remove(Psock& psock);
    // A connection for socket: wanted, or any when that is null. Null: it waits and its transmit work will run.
    // ENOTCONN: wanted cannot be sent on any more.
    Result<Ref<Psock>> take(Socket& socket, Psock* wanted);
    // As take() of any connection, but socket does not wait: null also when it is waiting already.
    Ref<Psock> take_if_free(Socket& socket);
    // The socket is done with psock, at the border of a message.
    void give_back(Psock& psock);
    // As give_back(), but its owner may go on with the next message without asking, as long as it would get this one: nobody
    // waits and no other connection is free. False: give it back. Of the transmitter.
    bool keep(Psock& psock);
    // Should a connection that is kept be given back?
    bool wants_back() const { return waiting_count_.load() != 0 || available_count_.load_relaxed() != 0; }
    // The owner needs what it keeps for longer, and nobody asks until give_back(). Of the transmitter.
    void resume(Psock& psock);
    // The socket wants nothing any more.
    void forget(Socket& socket);
    // Does somebody else wait for what psock's owner has?
    bool contended() const { return waiting_count_.load_relaxed() != 0; }
    bool usable(Psock& psock);
    // Waits until nobody sends on psock, which was removed. ETIMEDOUT, EINTR.
    Result<> wait_idle(Psock& psock, u64 deadline_ns);
    // Null also when it only keeps psock.
    Ref<Socket> owner(Psock& psock);
    struct Look { bool waits; int sends_on; };
    Look look(Socket& socket);

private:
    void make_available(Psock& psock, Ref<Socket>& kick) HW_REQUIRES(lock_);
    void own(Socket& socket, Psock& psock) HW_REQUIRES(lock_);
    Ref<Socket> stop_waiting(Socket& socket) HW_REQUIRES(lock_);
    struct Reclaimed;
    Ref<Psock> reclaim(Psock& psock, Reclaimed& from) HW_REQUIRES(lock_);
    Ref<Psock> reclaim_any(Psock* wanted, Reclaimed& from) HW_REQUIRES(lock_);
    Ref<Psock> take_available(Psock& psock) HW_REQUIRES(lock_);
    Ref<Psock> withdraw(Psock& psock, Reclaimed& from) HW_REQUIRES(lock_);
    Ref<Socket> next_disappointed(Psock& psock) HW_REQUIRES(lock_);
    bool is_owned(Psock& psock);

    Spin<ReservationsLock> lock_;
    RefList<Psock, Available> available_ HW_GUARDED_BY(lock_);
    RefList<Psock, Available> kept_ HW_GUARDED_BY(lock_);
    RefList<Socket, WantsToSend> waiting_ HW_GUARDED_BY(lock_);
    Atomic<u32> waiting_count_{0}, available_count_{0};
};

} // namespace kcm
