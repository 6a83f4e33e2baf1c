// SPDX-License-Identifier: GPL-2.0
#include "reservations.h"

#include "psock.h"
#include "socket.h"

namespace kcm {

// Of whom a connection was reclaimed. Ends without the lock.
struct Reservations::Reclaimed {
    Ref<SendQueue> owner;
    bool asked = false; // to transmit, meanwhile
    ~Reclaimed()
    {
        if (asked)
            owner->socket.transmit_later();
    }
};

void Reservations::own(SendQueue& queue, Psock& psock)
{
    psock.lane.owner = Ref<SendQueue>::share(queue);
    psock.reserved.add(1);
    queue.socket.reserved.sends_on = &psock;
}

// queue no longer has psock, as far as a program is shown.
void Reservations::disown(SendQueue& queue, Psock& psock)
{
    if (queue.socket.reserved.sends_on == &psock)
        queue.socket.reserved.sends_on = nullptr;
    psock.unreserved.add(1);
}

void Reservations::wait_in_line(SendQueue& queue)
{
    if (queue.turn.waiting)
        return;
    queue.turn.waiting = true;
    queue.turn.ticket = ++tickets_;
    queue.socket.reserved.waiting++;
    waiting_.fetch_add(1);
    if (queue.to) {
        queue.to->lane.line.push_back(Ref<SendQueue>::share(queue));
        queue.to->lane.in_line.fetch_add(1);
    } else {
        line_.push_back(Ref<SendQueue>::share(queue));
        in_line_.fetch_add(1);
    }
}

// Takes queue out of the line.
Ref<SendQueue> Reservations::stop_waiting(SendQueue& queue)
{
    if (!queue.turn.waiting)
        return nullptr;
    queue.turn.waiting = false;
    queue.socket.reserved.waiting--;
    waiting_.fetch_sub(1);
    if (queue.to) {
        queue.to->lane.in_line.fetch_sub(1);
        return queue.to->lane.line.remove(queue);
    }
    in_line_.fetch_sub(1);
    return line_.remove(queue);
}

// Of those who can use psock, who has waited longest.
SendQueue* Reservations::first_in_line(Psock& psock)
{
    SendQueue* own = psock.lane.line.front();
    SendQueue* any = line_.front();
    if (!own || !any)
        return own ? own : any;
    return own->turn.ticket < any->turn.ticket ? own : any;
}

// psock has no owner: the first in line who can use it gets it. Nobody does when it has failed: who noted that has yet to
// remove it, and until then its last owner would get it again and again.
void Reservations::make_available(Psock& psock, Ref<SendQueue>& kick)
{
    if (psock.failed())
        psock.lane.up = false;
    if (!psock.lane.up)
        return;
    if (SendQueue* first = first_in_line(psock)) {
        kick = stop_waiting(*first);
        kick->turn.granted = Ref<Psock>::share(psock);
        own(*kick, psock);
        return;
    }
    available_.push_back(Ref<Psock>::share(psock));
    available_count_.fetch_add(1);
}

bool Reservations::is_removed(Psock& psock)
{
    return !psock.lane.up && !psock.lane.held_back;
}

Ref<Psock> Reservations::take_available(Psock& psock)
{
    available_count_.fetch_sub(1);
    return available_.remove(psock);
}

// Takes psock from a queue that it is parked at. Null: it is not, or sends at the moment, and looks afterwards who waits.
Ref<Psock> Reservations::reclaim(Psock& psock, Reclaimed& from)
{
    if (!psock.lane.parked)
        return nullptr;
    Ref<Psock> taken = psock.lane.owner->socket.take_parked(from.asked);
    if (!taken)
        return nullptr;
    HW_ASSERT(taken.get() == &psock);
    psock.lane.parked = false;
    from.owner = std::move(psock.lane.owner);
    return parked_.remove(psock);
}

// Is a connection parked that was not asked for since the ticket was given? An owner that was asked, and was sending, looks for
// waiting queues when it has sent.
bool Reservations::has_unasked(u64 ticket)
{
    Psock* first = parked_.front();
    return first && first->lane.asked < ticket;
}

// As reclaim(), for any parked connection. There may be very many, so it asks for some of those that has_unasked() is about.
Ref<Psock> Reservations::reclaim_any(u64 ticket, Reclaimed& from)
{
    for (unsigned i = 0; i < asked_at_a_time && has_unasked(ticket); i++) {
        Psock& psock = *parked_.front();
        Ref<Psock> reclaimed = psock.lane.up ? reclaim(psock, from) : nullptr;
        if (reclaimed)
            return reclaimed;
        psock.lane.asked = tickets_;
        parked_.push_back(parked_.remove(psock));
    }
    return nullptr;
}

void Reservations::add(Psock& psock)
{
    Ref<SendQueue> kick;
    {
        Guard guard(lock_);
        psock.lane.up = true;
        set_held_back(psock, false);
        if (!psock.lane.owner)
            make_available(psock, kick);
    }
    if (kick)
        kick->wake();
}

// Nobody gets psock now. Its place on the list.
Ref<Psock> Reservations::withdraw(Psock& psock, Reclaimed& from)
{
    psock.lane.up = false;
    if (psock.lane.parked)
        return reclaim(psock, from);
    if (!static_cast<ListNode<Available>&>(psock).linked())
        return nullptr;
    return take_available(psock);
}

void Reservations::set_held_back(Psock& psock, bool held_back)
{
    bool was = std::exchange(psock.lane.held_back, held_back);
    if (was != held_back)
        held_back ? held_back_.fetch_add(1) : held_back_.fetch_sub(1);
}

void Reservations::hold_back(Psock& psock)
{
    Reclaimed from;
    Ref<Psock> dropped;
    Ref<SendQueue> kick;
    {
        Guard guard(lock_);
        dropped = withdraw(psock, from);
        set_held_back(psock, true);
        kick = psock.lane.owner;
    }
    if (kick)
        kick->wake();
}

void Reservations::remove(Psock& psock)
{
    Reclaimed from;
    Ref<Psock> dropped;
    Ref<SendQueue> kick;
    {
        Guard guard(lock_);
        dropped = withdraw(psock, from);
        set_held_back(psock, false);
        kick = psock.lane.owner;
    }
    for (bool first = true; first || kick; first = false) {
        if (kick)
            kick->wake();
        kapi_resched(); // there may be one of each socket
        Guard guard(lock_);
        SendQueue* refused = psock.lane.line.front();
        kick = refused ? stop_waiting(*refused) : nullptr;
    }
    if (from.owner)
        psock.lane.given_back.wake(); // the owner no longer does
}

Result<Ref<Psock>> Reservations::take(SendQueue& queue)
{
    Reclaimed from;
    Ref<SendQueue> waited;
    Guard guard(lock_);
    if (Ref<Psock> granted = std::move(queue.turn.granted))
        return granted;
    Psock* wanted = queue.to.get();
    if (wanted && is_removed(*wanted))
        return fail(KAPI_ENOTCONN);
    Psock* free = wanted ? wanted : available_.front();
    if (free && free->lane.up && !free->lane.owner) {
        waited = stop_waiting(queue);
        Ref<Psock> taken = take_available(*free);
        own(queue, *taken);
        return taken;
    }
    wait_in_line(queue);
    // Only now: a sender that has it parked sees the waiter from here on, or has been seen to have ended.
    Ref<Psock> reclaimed;
    if (!wanted)
        reclaimed = reclaim_any(queue.turn.ticket, from);
    else if (wanted->lane.up)
        reclaimed = reclaim(*wanted, from);
    if (reclaimed) {
        waited = stop_waiting(queue);
        own(queue, *reclaimed);
    } else if (!wanted && has_unasked(queue.turn.ticket)) {
        return fail(KAPI_EAGAIN);
    }
    return reclaimed;
}

Ref<Psock> Reservations::take_if_free(SendQueue& queue)
{
    Reclaimed from;
    Guard guard(lock_);
    if (queue.turn.waiting || queue.turn.granted)
        return nullptr;
    Psock* free = available_.front();
    Ref<Psock> taken = free ? take_available(*free) : reclaim_any(++tickets_, from);
    if (taken)
        own(queue, *taken);
    return taken;
}

bool Reservations::contended(Psock& psock) const
{
    return in_line_.load_relaxed() != 0 || psock.lane.in_line.load_relaxed() != 0;
}

bool Reservations::park(Psock& psock)
{
    Guard guard(lock_);
    if (!psock.lane.up || first_in_line(psock) || !available_.empty())
        return false;
    psock.lane.parked = true;
    psock.lane.asked = tickets_;
    disown(*psock.lane.owner, psock);
    parked_.push_back(Ref<Psock>::share(psock));
    return true;
}

void Reservations::unpark(Psock& psock)
{
    Ref<Psock> listed;
    Guard guard(lock_);
    psock.lane.parked = false;
    psock.lane.owner->socket.reserved.sends_on = &psock;
    psock.reserved.add(1);
    listed = parked_.remove(psock);
}

void Reservations::give_back(Psock& psock)
{
    Ref<SendQueue> owner, kick;
    Ref<Psock> listed;
    {
        Guard guard(lock_);
        owner = std::move(psock.lane.owner);
        if (std::exchange(psock.lane.parked, false))
            listed = parked_.remove(psock);
        else
            disown(*owner, psock);
        make_available(psock, kick);
    }
    psock.lane.given_back.wake();
    if (kick)
        kick->wake();
}

void Reservations::forget(SendQueue& queue)
{
    Ref<Psock> granted;
    Ref<SendQueue> dropped;
    {
        Guard guard(lock_);
        dropped = stop_waiting(queue);
        granted = std::move(queue.turn.granted);
    }
    if (granted)
        give_back(*granted);
}

bool Reservations::usable(Psock& psock)
{
    Guard guard(lock_);
    return psock.lane.up;
}

bool Reservations::lost(Psock& psock)
{
    if (psock.failed())
        return true;
    Guard guard(lock_);
    return is_removed(psock);
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

Ref<SendQueue> Reservations::owner(Psock& psock)
{
    Guard guard(lock_);
    return psock.lane.parked ? Ref<SendQueue>() : psock.lane.owner;
}

Reservations::Shown Reservations::look(Socket& socket)
{
    Guard guard(lock_);
    const Reserved& reserved = socket.reserved;
    return {reserved.sends_on ? static_cast<int>(reserved.sends_on->index) : -1, reserved.waiting};
}

} // namespace kcm
