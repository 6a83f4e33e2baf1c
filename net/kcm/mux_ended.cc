// SPDX-License-Identifier: GPL-2.0
// Connections that have ended: who is notified, and how those go that no program can unattach, because it has closed their TCP
// sockets.
#include "mux.h"
#include "socket.h"

namespace kcm {

void Mux::report_failure(Psock& psock, bool was_last)
{
    reservations.remove(psock);
    {
        Guard guard(lock_);
        note_ended(psock);
    }
    if (retire_forgotten())
        retire_later();
    // Each is woken, and signalled, without the lock.
    constexpr unsigned at_a_time = 16;
    Place<Socket> place;
    for (;;) {
        // Another one may have been attached since it failed.
        was_last = was_last && !has_connections();
        if (!was_last && !watchers_.load_relaxed())
            return;
        Ref<Socket> reported[at_a_time];
        unsigned count = 0;
        bool any = visit_next(place, at_a_time, [&](Socket& socket) {
            if (was_last || socket.wants_errors())
                reported[count++] = Ref<Socket>::share(socket);
        });
        if (!any)
            return;
        for (unsigned i = 0; i < count; i++)
            was_last ? reported[i]->connections_gone(psock.error()) : reported[i]->report(psock.error());
        kapi_resched();
    }
}

// No connection is left to send on. Sockets that are open may get another one; those that are closed do not wait for it.
void Mux::give_up_closed()
{
    constexpr unsigned at_a_time = 16;
    Place<Socket> place;
    while (!has_connections()) {
        Ref<Socket> some[at_a_time];
        unsigned count = 0;
        if (!visit_next(place, at_a_time, [&](Socket& socket) { some[count++] = Ref<Socket>::share(socket); }))
            return;
        for (unsigned i = 0; i < count; i++)
            some[i]->give_up_if_closed();
        kapi_resched();
    }
}

bool Mux::has_many_ended()
{
    Guard guard(lock_);
    return ended_count_ > ended_kept;
}

void Mux::note_ended(Psock& psock)
{
    if (!is_on<Members>(psock) || is_on<Ended>(psock))
        return;
    ended_.push_back(Ref<Psock>::share(psock));
    ended_count_++;
}

// Nothing else looks at it before another one ends or is attached. It is the first to be looked at.
void Mux::read_on(Psock& psock)
{
    {
        Guard guard(lock_);
        if (ended_count_ <= ended_kept || !is_on<Ended>(psock))
            return;
        ended_.push_front(ended_.remove(psock));
    }
    retire_later();
}

// One that nobody can unattach, when there are many; it is no member any more. Those that are passed over have their turn again
// when the others have had theirs.
Mux::Removed Mux::take_forgotten()
{
    Guard guard(lock_);
    for (unsigned looked = 0; looked < ended_looked_at && ended_count_ > ended_kept; looked++) {
        Psock& psock = *ended_.front();
        if (!psock.leaving && psock.is_forgotten() && !reservations.is_owned(psock))
            return remove(psock);
        ended_.push_back(ended_.remove(psock));
    }
    return {};
}

// When programs have closed the TCP sockets of connections that have ended, these would stay as long as the multiplexor does.
// True: there may be more.
bool Mux::retire_forgotten()
{
    for (unsigned i = 0; i < ended_looked_at; i++) {
        Removed removed = take_forgotten();
        if (!removed.member)
            return false;
        retire(removed);
    }
    return true;
}

// In work of its own: to close a TCP socket may take as long as its program has allowed for that (SO_LINGER).
void Mux::retire_later()
{
    ref();
    if (!retire_work_.queue(workqueue()))
        unref();
}

void Mux::retire_some()
{
    if (retire_forgotten())
        retire_later();
    unref();
}

} // namespace kcm
