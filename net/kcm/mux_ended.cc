// SPDX-License-Identifier: GPL-2.0
// Connections that have ended: who is notified, and how those go that no program can unattach, because it has closed their TCP
// sockets.
#include "mux.h"
#include "socket.h"

namespace kcm {

// For those that pick(Socket&) chooses, some at a time: act(Socket&) wakes and signals, so it is called without the lock.
template <class GoesOn, class Pick, class Act> static void notify(Mux& mux, GoesOn&& goes_on, Pick&& pick, Act&& act)
{
    constexpr unsigned at_a_time = 16;
    Mux::Place<Socket> place;
    while (goes_on()) {
        Ref<Socket> some[at_a_time];
        unsigned count = 0;
        bool any = mux.visit_next(place, at_a_time, [&](Socket& socket) {
            if (pick(socket))
                some[count++] = Ref<Socket>::share(socket);
        });
        if (!any)
            return;
        for (unsigned i = 0; i < count; i++)
            act(*some[i]);
        kapi_resched();
    }
}

void Mux::report_failure(Psock& psock, bool was_last)
{
    reservations.remove(psock);
    {
        Guard guard(lock_);
        note_ended(psock);
    }
    if (retire_forgotten())
        retire_later();
    auto goes_on = [&] {
        was_last = was_last && !has_connections(); // another one may have been attached since it failed
        return was_last || watchers_.load_relaxed();
    };
    notify(*this, goes_on, [&](Socket& socket) { return was_last || socket.wants_errors(); }, [&](Socket& socket) {
        was_last ? socket.connections_gone(psock.error()) : socket.report(psock.error());
    });
}

void Mux::report_rest_read()
{
    notify(*this, [] { return true; }, [](Socket& socket) { return socket.has_error(); },
           [](Socket& socket) { socket.rest_is_read(); });
}

// No connection is left to send on. Sockets that are open may get another one; those that are closed do not wait for it.
void Mux::give_up_closed()
{
    notify(*this, [&] { return !has_connections(); }, [](Socket&) { return true; },
           [](Socket& socket) { socket.give_up_if_closed(); });
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
