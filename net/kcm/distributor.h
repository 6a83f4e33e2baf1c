// SPDX-License-Identifier: GPL-2.0
// Gives received messages to the sockets of a multiplexor, and holds their queues.
//
// A connection delivers as long as some socket has room. When none has, it stops reading, and resumes when one has
// room again. All queues are under one lock, so that a message can move from a socket that closes to another and keep its
// place among those of its connection. For any number of messages the lock is held for a limited number of steps each
// time: the messages of a closing socket are held for the others in one step, so that no newer message overtakes them,
// and are given out in pieces.
#pragma once

#include "../lock_order.h"
#include "bundle_queue.h"
#include "rests.h"

#include <hawser/list.h>
#include <hawser/lock.h>

namespace kcm {

using namespace hw;

class Mux;
class Psock;
class Socket;

struct Receiver; // list tag: sockets that can be given something
struct Blocked;  // list tag: connections that wait for room

// A socket's part, under the distributor's lock.
struct ReceiveQueue {
    BundleQueue bundles;
    Rests rests;       // of messages of which readers took a part: what is read next, from this socket only
    u64 charged = 0;   // true size of the bundles
    u32 messages = 0;  // unread in them, without Bundle::uncounted
    bool joined = false, disabled = false;
    RefList<Socket, Receiver>* list = nullptr; // that it is on
    // Without the lock:
    Atomic<u32> cpu{0};      // that it last received on, or waited
    Atomic<u32> readable{0}; // is there anything?
};

// Sockets that were given something, to be woken once, without the lock.
class Wakes : Pinned {
public:
    ~Wakes() { flush(); }
    bool full() const { return count_ == most; }
    // Unless it is full. Under the lock.
    void add(Socket& socket);
    void flush(); // without the lock

private:
    static constexpr unsigned most = 8;
    Ref<Socket> sockets_[most];
    unsigned count_ = 0;
};

// What a reader can take.
struct ReadRoom {
    u32 bytes;
    unsigned messages = 1; // at most; if they are several, all that are not the first have to fit
    bool splits = true;    // of a first message that does not fit the rest stays; else that is taken, too
    bool whole = false;    // a first message that does not fit stays
    bool lengths = false, connection = false; // are reported
};

class Distributor : Pinned {
public:
    Distributor() = default;
    ~Distributor() { HW_ASSERT(held_.empty()); }

    // These sleep.
    void join(Socket& socket);
    // The socket receives no more; its unread messages go to others.
    void leave(Socket& socket);
    void set_disabled(Socket& socket, bool disabled);

    bool disabled(Socket& socket);
    void set_steering(int steering) { steering_.store_relaxed(steering); }
    int steering() const { return steering_.load_relaxed(); }

    // Has some socket room? If not, psock waits, and is resumed.
    bool may_deliver(Psock& psock);
    // After may_deliver(). Never fails: without room the messages are held for the next socket that has some.
    void deliver(Ref<Bundle> bundle, Wakes& wakes);
    // The connection no longer waits.
    void unblock(Psock& psock);
    // Resumes a connection that waits, if there is room.
    void resume_next();
    unsigned receivers() const { return receivers_.load_relaxed(); }

    // The first unread messages of one bundle, or the first bytes of one, as many as there is room for: the rest is what socket
    // reads next. Or more, and the rest comes back by put_back(): see Rests. False: there is none, but there may be a connection
    // to resume. With peek, for one message, all of it stays unread. Sleeps.
    bool take(Socket& socket, bool peek, const ReadRoom& room, Taken& taken);
    // What was taken is unread again, in its place. Sleeps.
    void put_back(Socket& socket, Taken& taken, Wakes& wakes);
    // Without the lock, so that a message may come or go meanwhile.
    static bool readable(Socket& socket);

    struct Load { u32 messages; u64 charged; bool ready; };
    Load load(Socket& socket);
    // The last socket has left: unread messages are lost. Sleeps.
    void clear();

private:
    Socket* pick() HW_REQUIRES(lock_);
    Socket* pick_idle_or_roomy() HW_REQUIRES(lock_);
    void place(Socket& socket) HW_REQUIRES(lock_);
    void give(Socket& socket, Ref<Bundle> bundle) HW_REQUIRES(lock_);
    unsigned give_held(Wakes& wakes, unsigned most) HW_REQUIRES(lock_);
    void give_some_held(Wakes& wakes);
    void give_all_held(); // sleeps
    void hold_all(Socket& socket) HW_REQUIRES(lock_);
    void give_older(Socket& socket) HW_REQUIRES(lock_);
    void take_next(Socket& socket, bool peek, const ReadRoom& room, Taken& taken) HW_REQUIRES(lock_);
    Taken take_rest(Socket& socket);
    Ref<Psock> next_blocked() HW_REQUIRES(lock_);
    void update_open() HW_REQUIRES(lock_);
    bool relink(Socket& socket, Taken& taken, Wakes& wakes) HW_REQUIRES(lock_);

    Spin<DistributorLock> lock_;
    RefList<Socket, Receiver> idle_ HW_GUARDED_BY(lock_);  // nothing to read
    RefList<Socket, Receiver> roomy_ HW_GUARDED_BY(lock_); // something, and room for more
    BundleQueue held_ HW_GUARDED_BY(lock_);                // no socket had room
    RefList<Psock, Blocked> blocked_ HW_GUARDED_BY(lock_);
    u64 arrivals_ HW_GUARDED_BY(lock_) = 0; // bundles that were delivered
    Atomic<u32> open_{0};      // a socket has room and nothing is held
    Atomic<u32> receivers_{0}; // sockets that may receive
    Atomic<s32> steering_{0};
};

} // namespace kcm
