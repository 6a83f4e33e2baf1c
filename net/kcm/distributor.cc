// SPDX-License-Identifier: GPL-2.0
#include "distributor.h"

#include "psock.h"
#include "socket.h"
#include "uapi.h"

namespace kcm {

namespace {

constexpr unsigned candidates = 64; // sockets that are looked at for a choice
constexpr unsigned piece = 64;      // bundles that are given while the lock is held once

} // namespace

void Wakes::add(Socket& socket)
{
    for (unsigned i = count_; i > 0; i--)
        if (sockets_[i - 1].get() == &socket)
            return;
    if (HW_ASSERT(!full()))
        sockets_[count_++] = Ref<Socket>::share(socket);
}

void Wakes::flush()
{
    while (count_) {
        Ref<Socket> socket = std::move(sockets_[--count_]);
        socket->wake_readers();
    }
}

// ---- who can be given something

void Distributor::update_open()
{
    open_.store_release(held_.empty() && (!idle_.empty() || !roomy_.empty()));
}

// Puts the socket on the list where it belongs now, after every change of what it has to read. One that was full has room
// again when half of it is free, so that reader and connection do not take turns.
void Distributor::place(Socket& socket)
{
    ReceiveQueue& q = socket.receiving;
    u64 limit = kapi_sk_rcvbuf(socket.sk);
    bool was_full = !q.list;
    RefList<Socket, Receiver>* list = nullptr;
    bool readable = !q.rests.empty() || !q.bundles.empty();
    q.readable.store_release(readable);
    if (q.joined && !q.disabled) {
        if (!readable)
            list = &idle_;
        else if (q.charged < (was_full ? limit / 2 : limit))
            list = &roomy_;
    }
    if (list == q.list)
        return;
    Ref<Socket> hold_ref = q.list ? q.list->remove(socket) : Ref<Socket>::share(socket);
    q.list = list;
    if (list)
        list->push_back(std::move(hold_ref));
    update_open();
}

Socket* Distributor::pick_idle_or_roomy()
{
    return idle_.front() ? idle_.front() : roomy_.front();
}

Socket* Distributor::pick()
{
    s32 steering = steering_.load_relaxed();
    Socket* best = pick_idle_or_roomy();
    if (!best || steering == KCM_ABI_STEER_ROUND_ROBIN)
        return best;
    u32 cpu = kapi_cpu();
    unsigned seen = 0;
    for (auto* list : {&idle_, &roomy_}) {
        for (Socket* s = list->front(); s && seen < candidates; s = list->next(*s), seen++) {
            if (steering == KCM_ABI_STEER_CPU && s->receiving.cpu.load_relaxed() == cpu)
                return s;
            if (steering == KCM_ABI_STEER_LEAST_LOADED && s->receiving.charged < best->receiving.charged)
                best = s;
        }
    }
    return best;
}

// ---- queues

void Distributor::give(Socket& socket, Ref<Bundle> bundle)
{
    ReceiveQueue& q = socket.receiving;
    bundle->uncounted = 0;
    q.charged += bundle->true_size();
    q.messages += bundle->unread_count();
    q.bundles.insert(std::move(bundle));
    // In turn: the one that was given something is the last now.
    if (q.list == &roomy_) {
        Ref<Socket> hold_ref = roomy_.remove(socket);
        roomy_.push_back(std::move(hold_ref));
    }
    place(socket);
}

// Gives some of what is held to those that have room, until so many have to be woken that the lock must go before. Returns how
// many bundles.
unsigned Distributor::give_held(Wakes& wakes, unsigned most)
{
    unsigned given = 0;
    while (given < most && !held_.empty() && !wakes.full()) {
        Socket* socket = pick();
        if (!socket)
            break;
        give(*socket, held_.pop_front());
        wakes.add(*socket);
        given++;
    }
    update_open();
    return given;
}

// The caller made room, or left messages to others. It continues until nobody has room or nothing is held: a receive buffer may
// have room for millions.
void Distributor::give_all_held()
{
    for (bool more = true; more; kapi_resched()) {
        Wakes wakes;
        Guard guard(lock_);
        more = give_held(wakes, piece) == piece || wakes.full();
    }
}

// As far as it goes in a short time. The last ones to wake are left to the caller.
void Distributor::give_some_held(Wakes& wakes)
{
    unsigned left = piece;
    for (;;) {
        {
            Guard guard(lock_);
            left -= give_held(wakes, left);
        }
        if (!wakes.full())
            return;
        wakes.flush();
    }
}

// The socket receives no more: what it has not read is held for others.
void Distributor::hold_all(Socket& socket)
{
    ReceiveQueue& q = socket.receiving;
    held_.take_all(q.bundles);
    q.charged = q.messages = 0;
    place(socket);
    update_open();
}

Ref<Psock> Distributor::next_blocked()
{
    if (!open_.load_relaxed())
        return nullptr;
    return blocked_.pop_front();
}

// ---- sockets

void Distributor::join(Socket& socket)
{
    {
        Guard guard(lock_);
        socket.receiving.joined = true;
        receivers_.fetch_add(1);
        place(socket);
    }
    give_all_held();
    resume_next();
}

Taken Distributor::take_rest(Socket& socket)
{
    Guard guard(lock_);
    ReceiveQueue& q = socket.receiving;
    return q.rests.empty() ? Taken() : q.rests.take(~u32{0});
}

void Distributor::leave(Socket& socket)
{
    {
        Guard guard(lock_);
        ReceiveQueue& q = socket.receiving;
        if (q.joined && !q.disabled)
            receivers_.fetch_sub(1);
        q.joined = false;
        hold_all(socket);
    }
    while (take_rest(socket).bundle) // who began to read it has closed
        ;
    give_all_held();
    resume_next(); // others may have room for a connection that stopped while messages were held
}

void Distributor::set_disabled(Socket& socket, bool disabled)
{
    {
        Guard guard(lock_);
        ReceiveQueue& q = socket.receiving;
        if (q.disabled == disabled)
            return;
        q.disabled = disabled;
        if (disabled) {
            receivers_.fetch_sub(1);
            hold_all(socket);
        } else {
            receivers_.fetch_add(1);
            place(socket);
        }
    }
    give_all_held();
    resume_next();
}

bool Distributor::disabled(Socket& socket)
{
    Guard guard(lock_);
    return socket.receiving.disabled;
}

// ---- connections

bool Distributor::may_deliver(Psock& psock)
{
    if (open_.load_acquire()) [[likely]]
        return true;
    Guard guard(lock_);
    if (open_.load_relaxed())
        return true;
    if (!static_cast<ListNode<Blocked>&>(psock).linked())
        blocked_.push_back(Ref<Psock>::share(psock));
    return false;
}

void Distributor::deliver(Ref<Bundle> bundle, Wakes& wakes)
{
    if (wakes.full())
        wakes.flush();
    {
        Guard guard(lock_);
        bundle->arrival = ++arrivals_;
        if (Socket* socket = held_.empty() ? pick() : nullptr) [[likely]] {
            give(*socket, std::move(bundle));
            wakes.add(*socket);
            return;
        }
        held_.insert(std::move(bundle));
    }
    give_some_held(wakes);
}

void Distributor::unblock(Psock& psock)
{
    Ref<Psock> dropped;
    Guard guard(lock_);
    if (static_cast<ListNode<Blocked>&>(psock).linked())
        dropped = blocked_.remove(psock);
}

void Distributor::resume_next()
{
    Ref<Psock> resume;
    {
        Guard guard(lock_);
        resume = next_blocked();
    }
    if (resume)
        resume->resume_later();
}

bool Distributor::readable(Socket& socket)
{
    return socket.receiving.readable.load_acquire();
}

Distributor::Load Distributor::load(Socket& socket)
{
    Guard guard(lock_);
    const ReceiveQueue& q = socket.receiving;
    return {q.messages + (q.rests.empty() ? 0 : 1), q.charged, q.list == &idle_};
}

void Distributor::clear()
{
    BundleQueue lost;
    {
        Guard guard(lock_);
        lost.take_all(held_);
    }
    lost.clear();
}

} // namespace kcm
