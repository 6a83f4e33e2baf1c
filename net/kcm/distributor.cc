// SPDX-License-Identifier: GPL-2.0
#include "distributor.h"

#include "psock.h"
#include "socket.h"
#include "uapi.h"

namespace kcm {

namespace {

constexpr unsigned candidates = 64; // sockets that are looked at for a choice

} // namespace

void Wakes::add(Socket& socket)
{
    if (count_ && sockets_[count_ - 1].get() == &socket)
        return;
    if (count_ == sizeof(sockets_) / sizeof(sockets_[0]))
        flush();
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
    bool readable = q.begun.bundle || !q.bundles.empty();
    q.readable.store_release(readable);
    if (q.joined && !q.disabled) {
        if (!readable)
            list = &idle_;
        else if (q.charged < (was_full ? limit / 2 : limit))
            list = &roomy_;
    }
    if (list == q.list)
        return;
    Ref<Socket> keep = q.list ? q.list->remove(socket) : Ref<Socket>::share(socket);
    q.list = list;
    if (list)
        list->push_back(std::move(keep));
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

// Behind those of its connection that came before it, before those that came after it.
void Distributor::insert(RefList<Bundle, Queued>& list, Ref<Bundle> bundle)
{
    Bundle* later = nullptr;
    for (Bundle* b = list.back(); b; b = list.previous(*b)) {
        if (b->connection != bundle->connection)
            continue;
        if (b->sequence < bundle->sequence)
            break;
        later = b;
    }
    if (later)
        list.insert_before(*later, std::move(bundle));
    else
        list.push_back(std::move(bundle));
}

void Distributor::give(Socket& socket, Ref<Bundle> bundle, bool newest)
{
    ReceiveQueue& q = socket.receiving;
    bundle->holder = &socket;
    q.charged += bundle->true_size();
    q.messages += newest ? bundle->count() : bundle->unread_count();
    if (newest)
        q.bundles.push_back(std::move(bundle));
    else
        insert(q.bundles, std::move(bundle));
    // In turn: the one that was given something is the last now.
    if (q.list == &roomy_) {
        Ref<Socket> keep = roomy_.remove(socket);
        roomy_.push_back(std::move(keep));
    }
    place(socket);
}

void Distributor::give_held(Wakes& wakes)
{
    while (!held_.empty()) {
        Socket* socket = pick();
        if (!socket)
            break;
        give(*socket, held_.pop_front(), false);
        wakes.add(*socket);
    }
    update_open();
}

void Distributor::move_all(Socket& socket, Wakes& wakes)
{
    ReceiveQueue& q = socket.receiving;
    while (Ref<Bundle> bundle = q.bundles.pop_front()) {
        bundle->holder = nullptr;
        insert(held_, std::move(bundle));
    }
    q.charged = 0;
    q.messages = 0;
    place(socket);
    give_held(wakes);
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
    Wakes wakes;
    Ref<Psock> resume;
    {
        Guard guard(lock_);
        socket.receiving.joined = true;
        receivers_.fetch_add(1);
        place(socket);
        give_held(wakes);
        resume = next_blocked();
    }
    if (resume)
        resume->resume_later();
}

void Distributor::leave(Socket& socket)
{
    Wakes wakes;
    Taken lost; // who began to read it has closed
    Guard guard(lock_);
    ReceiveQueue& q = socket.receiving;
    if (q.joined && !q.disabled)
        receivers_.fetch_sub(1);
    q.joined = false;
    lost = std::move(q.begun);
    move_all(socket, wakes);
}

void Distributor::set_disabled(Socket& socket, bool disabled)
{
    Wakes wakes;
    Ref<Psock> resume;
    {
        Guard guard(lock_);
        ReceiveQueue& q = socket.receiving;
        if (q.disabled == disabled)
            return;
        q.disabled = disabled;
        if (disabled) {
            receivers_.fetch_sub(1);
            move_all(socket, wakes);
        } else {
            receivers_.fetch_add(1);
            place(socket);
            give_held(wakes);
        }
        resume = next_blocked();
    }
    if (resume)
        resume->resume_later();
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
    update_open();
    if (open_.load_relaxed())
        return true;
    if (!static_cast<ListNode<Blocked>&>(psock).linked())
        blocked_.push_back(Ref<Psock>::share(psock));
    return false;
}

void Distributor::deliver(Ref<Bundle> bundle, Wakes& wakes)
{
    Guard guard(lock_);
    Socket* socket = held_.empty() ? pick() : nullptr;
    if (!socket) {
        insert(held_, std::move(bundle));
        give_held(wakes);
        return;
    }
    give(*socket, std::move(bundle), true);
    wakes.add(*socket);
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

// ---- readers

void Distributor::take_next(Socket& socket, bool peek, Taken& taken)
{
    ReceiveQueue& q = socket.receiving;
    if (q.begun.bundle) [[unlikely]] {
        if (peek) {
            taken = q.begun;
            return;
        }
        taken = std::move(q.begun);
        place(socket);
        taken.resume = next_blocked();
        return;
    }
    Bundle* first = q.bundles.front();
    if (!first)
        return;
    taken.index = static_cast<unsigned>(__builtin_ctzll(first->unread));
    taken.entry = first->entry(taken.index);
    if (peek) {
        taken.bundle = Ref<Bundle>::share(*first);
        return;
    }
    first->unread &= first->unread - 1;
    q.messages--;
    if (first->unread) {
        taken.bundle = Ref<Bundle>::share(*first);
        return;
    }
    q.charged -= first->true_size();
    taken.bundle = q.bundles.pop_front();
    taken.bundle->holder = nullptr;
    place(socket);
    taken.resume = next_blocked();
}

// Connections wait until nothing is held any more, so that it is for readers to give that out.
bool Distributor::take(Socket& socket, bool peek, Taken& taken)
{
    {
        Guard guard(lock_);
        take_next(socket, peek, taken);
        if (held_.empty()) [[likely]]
            return static_cast<bool>(taken.bundle);
    }
    Wakes wakes;
    Guard guard(lock_);
    give_held(wakes);
    if (!taken.resume)
        taken.resume = next_blocked();
    return static_cast<bool>(taken.bundle);
}

// Makes a message unread in its bundle, which may still be queued for its other messages, maybe elsewhere by now.
void Distributor::relink(Socket& socket, Taken& taken, Wakes& wakes)
{
    Bundle& bundle = *taken.bundle;
    bundle.entry(taken.index) = taken.entry;
    bool queued = bundle.unread != 0;
    bundle.unread |= 1ull << taken.index;
    if (queued) {
        if (bundle.holder) {
            bundle.holder->receiving.messages++;
            wakes.add(*bundle.holder);
        }
        return;
    }
    ReceiveQueue& q = socket.receiving;
    if (!q.joined || q.disabled) {
        insert(held_, taken.bundle);
        give_held(wakes);
        return;
    }
    bundle.holder = &socket;
    q.charged += bundle.true_size();
    q.messages++;
    q.bundles.push_front(taken.bundle); // the first of its connection: those before it were read
    place(socket);
    wakes.add(socket);
}

void Distributor::put_back(Socket& socket, Taken& taken, Wakes& wakes)
{
    Guard guard(lock_);
    relink(socket, taken, wakes);
}

void Distributor::put_rest_back(Socket& socket, Taken& taken, Bundle::Entry rest, Wakes& wakes)
{
    Guard guard(lock_);
    ReceiveQueue& q = socket.receiving;
    taken.entry = rest;
    if (q.begun.bundle) { // another thread reads parts too
        relink(socket, taken, wakes);
        return;
    }
    q.begun.bundle = taken.bundle;
    q.begun.index = taken.index;
    q.begun.entry = rest;
    q.begun.begun = true;
    place(socket);
    wakes.add(socket);
}

bool Distributor::readable(Socket& socket)
{
    return socket.receiving.readable.load_acquire();
}

Distributor::Load Distributor::load(Socket& socket)
{
    Guard guard(lock_);
    const ReceiveQueue& q = socket.receiving;
    return {q.messages + (q.begun.bundle ? 1 : 0), q.charged, q.list == &idle_};
}

void Distributor::clear()
{
    RefList<Bundle, Queued> lost;
    {
        Guard guard(lock_);
        lost.splice_front(held_);
        update_open();
    }
    lost.clear();
}

} // namespace kcm
