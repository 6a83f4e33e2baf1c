// SPDX-License-Identifier: GPL-2.0
#include "reservations.h"

#include "psock.h"
#include "socket.h"

namespace kcm {

// Of whom a connection was reclaimed. Ends without the lock.
struct Reservations::Reclaimed {
    Ref<Socket> owner;
    bool asked = false; // to transmit, meanwhile
    ~Reclaimed()
    {
        if (asked)
            owner->transmit_later();
    }
};

void Reservations::own(Socket& socket, Psock& psock)
{
    psock.lane.owner = Ref<Socket>::share(socket);
    psock.reserved.add(1);
    socket.turn.sends_on = static_cast<int>(psock.index);
}

// Takes socket out of the line.
Ref<Socket> Reservations::stop_waiting(Socket& socket)
{
    if (!socket.turn.waiting)
        return nullptr;
    socket.turn.waiting = false;
    waiting_count_.fetch_sub(1);
    return waiting_.remove(socket);
}

// psock has no owner: the first in line who can use it gets it. Nobody does when it has failed: whoever noted that has yet to
// remove it, and until then its last owner would get it again and again.
void Reservations::make_available(Psock& psock, Ref<Socket>& kick)
{
    if (psock.failed())
        psock.lane.up = false;
    if (!psock.lane.up)
        return;
    for (Socket* s = waiting_.front(); s; s = waiting_.next(*s)) {
        if (s->turn.wanted && s->turn.wanted.get() != &psock)
            continue;
        kick = stop_waiting(*s);
        kick->turn.wanted = nullptr;
        kick->turn.granted = Ref<Psock>::share(psock);
        own(*kick, psock);
        return;
    }
    available_.push_back(Ref<Psock>::share(psock));
    available_count_.fetch_add(1);
}

Ref<Psock> Reservations::take_available(Psock& psock)
{
    available_count_.fetch_sub(1);
    return available_.remove(psock);
}

// Takes psock from a socket that keeps it. Null: it does not, or sends at the moment, and looks afterwards who waits.
Ref<Psock> Reservations::reclaim(Psock& psock, Reclaimed& from)
{
    if (!psock.lane.kept)
        return nullptr;
    Ref<Psock> kept = psock.lane.owner->take_kept(from.asked);
    if (!kept)
        return nullptr;
    HW_ASSERT(kept.get() == &psock);
    psock.lane.kept = false;
    from.owner = std::move(psock.lane.owner);
    return kept_.remove(psock);
}

// As reclaim(), of wanted, or of whom it can be when that is null.
Ref<Psock> Reservations::reclaim_any(Psock* wanted, Reclaimed& from)
{
    for (Psock* p = kept_.front(); p; p = kept_.next(*p)) {
        if (!p->lane.up || (wanted && wanted != p))
            continue;
        if (Ref<Psock> reclaimed = reclaim(*p, from))
            return reclaimed;
    }
    return nullptr;
}

void Reservations::add(Psock& psock)
{
    Ref<Socket> kick;
    {
        Guard guard(lock_);
        psock.lane.up = true;
        psock.lane.held_back = false;
        if (!psock.lane.owner)
            make_available(psock, kick);
    }
    if (kick)
        kick->transmit_later();
}

// Takes somebody out of the line who wants psock and no other.
Ref<Socket> Reservations::next_disappointed(Psock& psock)
{
    for (Socket* s = waiting_.front(); s; s = waiting_.next(*s))
        if (s->turn.wanted.get() == &psock)
            return stop_waiting(*s);
    return nullptr;
}

// Nobody gets psock now. Its place on the list.
Ref<Psock> Reservations::withdraw(Psock& psock, Reclaimed& from)
{
    psock.lane.up = false;
    if (psock.lane.kept)
        return reclaim(psock, from);
    if (!static_cast<ListNode<Available>&>(psock).linked())
        return nullptr;
    return take_available(psock);
}

void Reservations::hold_back(Psock& psock)
{
    Reclaimed from;
    Ref<Psock> dropped;
    Ref<Socket> kick;
    {
        Guard guard(lock_);
        dropped = withdraw(psock, from);
        psock.lane.held_back = true;
        kick = psock.lane.owner;
    }
    if (kick)
        kick->transmit_later();
}

void Reservations::remove(Psock& psock)
{
    Reclaimed from;
    Ref<Psock> dropped;
    Ref<Socket> kick;
    {
        Guard guard(lock_);
        dropped = withdraw(psock, from);
        psock.lane.held_back = false;
        kick = psock.lane.owner;
    }
    do {
        if (kick)
            kick->transmit_later();
        Guard guard(lock_);
        kick = next_disappointed(psock);
    } while (kick);
}

Result<Ref<Psock>> Reservations::take(Socket& socket, Psock* wanted)
{
    Reclaimed from;
    Ref<Socket> waited;
    Ref<Psock> before;
    Guard guard(lock_);
    if (Ref<Psock> granted = std::move(socket.turn.granted))
        return granted;
    if (wanted && !wanted->lane.up && !wanted->lane.held_back)
        return fail(KAPI_ENOTCONN);
    Psock* free = wanted ? wanted : available_.front();
    if (free && free->lane.up && !free->lane.owner) {
        waited = stop_waiting(socket); // for another one
        Ref<Psock> taken = take_available(*free);
        own(socket, *taken);
        return taken;
    }
    if (!socket.turn.waiting) {
        socket.turn.waiting = true;
        waiting_count_.fetch_add(1);
        waiting_.push_back(Ref<Socket>::share(socket));
    }
    before = std::exchange(socket.turn.wanted, wanted ? Ref<Psock>::share(*wanted) : Ref<Psock>());
    // Only now: who sends on what it keeps sees afterwards that somebody waits, or has been seen to have ended.
    Ref<Psock> reclaimed = reclaim_any(wanted, from);
    if (reclaimed) {
        waited = stop_waiting(socket);
        socket.turn.wanted = nullptr;
        own(socket, *reclaimed);
    }
    return reclaimed;
}

Ref<Psock> Reservations::take_if_free(Socket& socket)
{
    Reclaimed from;
    Guard guard(lock_);
    if (socket.turn.waiting || socket.turn.granted)
        return nullptr;
    Psock* free = available_.front();
    Ref<Psock> taken = free ? take_available(*free) : reclaim_any(nullptr, from);
    if (taken)
        own(socket, *taken);
    return taken;
}

bool Reservations::keep(Psock& psock)
{
    Guard guard(lock_);
    if (!psock.lane.up || !waiting_.empty() || !available_.empty())
        return false;
    psock.lane.kept = true;
    psock.lane.owner->turn.sends_on = -1;
    psock.unreserved.add(1);
    kept_.push_back(Ref<Psock>::share(psock));
    return true;
}

void Reservations::resume(Psock& psock)
{
    Ref<Psock> listed;
    Guard guard(lock_);
    psock.lane.kept = false;
    psock.lane.owner->turn.sends_on = static_cast<int>(psock.index);
    psock.reserved.add(1);
    listed = kept_.remove(psock);
}

void Reservations::give_back(Psock& psock)
{
    Ref<Socket> owner, kick;
    Ref<Psock> listed;
    {
        Guard guard(lock_);
        owner = std::move(psock.lane.owner);
        owner->turn.sends_on = -1;
        if (std::exchange(psock.lane.kept, false))
            listed = kept_.remove(psock);
        else
            psock.unreserved.add(1);
        make_available(psock, kick);
    }
    psock.lane.given_back.wake();
    if (kick)
        kick->transmit_later();
}

void Reservations::forget(Socket& socket)
{
    Ref<Psock> granted, wanted;
    Ref<Socket> dropped;
    {
        Guard guard(lock_);
        dropped = stop_waiting(socket);
        wanted = std::move(socket.turn.wanted);
        granted = std::move(socket.turn.granted);
    }
    if (granted)
        give_back(*granted);
}

bool Reservations::usable(Psock& psock)
{
    Guard guard(lock_);
    return psock.lane.up;
}

Result<> Reservations::wait_idle(Psock& psock, u64 deadline_ns)
{
    return psock.lane.given_back.wait_until(deadline_ns, [&] { return !is_owned(psock); });
}

bool Reservations::is_owned(Psock& psock)
{
    Guard guard(lock_);
    return static_cast<bool>(psock.lane.owner);
}

Ref<Socket> Reservations::owner(Psock& psock)
{
    Guard guard(lock_);
    return psock.lane.kept ? Ref<Socket>() : psock.lane.owner;
}

Reservations::Look Reservations::look(Socket& socket)
{
    Guard guard(lock_);
    return {socket.turn.waiting, socket.turn.sends_on};
}

} // namespace kcm
