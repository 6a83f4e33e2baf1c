// SPDX-License-Identifier: GPL-2.0
// The readers' side of the distributor: messages are taken, and put back when they could not be handed over.
#include "distributor.h"

#include "psock.h"
#include "socket.h"

namespace kcm {

// What is held and arrived before what the socket has is its reader's next, whether the socket has room or not: it came from
// a socket that receives no more, and must not be overtaken here.
void Distributor::give_older(Socket& socket)
{
    const ReceiveQueue& q = socket.receiving;
    const Bundle *held = held_.front(), *own = q.bundles.front();
    if (!held || !own || own->arrival < held->arrival || !q.joined || q.disabled) [[likely]]
        return;
    give(socket, held_.pop_front());
    update_open();
}

// The reader has no room for more. The rest is what is read next from the moment on in which the part is taken: if another reader
// took a part of the next message meanwhile, there were two rests, of which one would have to go where others read it.
void Distributor::split(ReceiveQueue& q, u32 room, Taken& taken)
{
    if (taken.entry.length <= room) [[likely]]
        return;
    q.begun.bundle = taken.bundle;
    q.begun.index = taken.index;
    q.begun.entry = {taken.entry.start + room, taken.entry.length - room, taken.entry.more};
    q.begun.begun = true;
    taken.entry.length = room;
    taken.entry.more = true;
}

void Distributor::take_next(Socket& socket, bool peek, u32 room, Taken& taken)
{
    ReceiveQueue& q = socket.receiving;
    if (q.begun.bundle) [[unlikely]] {
        if (peek) {
            taken = q.begun;
            return;
        }
        taken = std::move(q.begun);
        split(q, room, taken);
        place(socket);
        taken.resume = next_blocked();
        return;
    }
    give_older(socket);
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
    if (first->uncounted)
        first->uncounted--;
    else
        q.messages--;
    if (first->unread) {
        taken.bundle = Ref<Bundle>::share(*first);
        split(q, room, taken);
        return;
    }
    q.charged -= first->true_size();
    taken.bundle = q.bundles.pop_front();
    split(q, room, taken);
    place(socket);
    taken.resume = next_blocked();
}

// While messages are held, connections wait, even when a reader has made room. So a reader that made room gives the held ones
// out; a connection goes on when none are left.
bool Distributor::take(Socket& socket, bool peek, u32 room, Taken& taken)
{
    {
        Guard guard(lock_);
        take_next(socket, peek, room, taken);
        if (held_.empty()) [[likely]]
            return static_cast<bool>(taken.bundle);
    }
    give_all_held();
    Guard guard(lock_);
    if (!taken.resume)
        taken.resume = next_blocked();
    return static_cast<bool>(taken.bundle);
}

// Makes a message unread in its bundle, which may still be queued for its other messages, maybe elsewhere by now. True: it is
// held, to be given to somebody else.
bool Distributor::relink(Socket& socket, Taken& taken, Wakes& wakes)
{
    Bundle& bundle = *taken.bundle;
    bool queued = bundle.unread != 0;
    if (bundle.unread & 1ull << taken.index) {
        // Another part of it was put back. If a third reader has had what was between them, this part is lost.
        Bundle::Entry& other = bundle.entry(taken.index);
        if (!other.join(taken.entry) && taken.entry.join(other))
            other = taken.entry;
        return false;
    }
    bundle.entry(taken.index) = taken.entry;
    bundle.unread |= 1ull << taken.index;
    if (queued) {
        // Its socket's readers know of the bundle: they were woken when it came, and it was never empty since. Which
        // socket that is by now is known only if it is this one.
        if (socket.receiving.bundles.front() == &bundle)
            socket.receiving.messages++;
        else
            bundle.uncounted++;
        return false;
    }
    ReceiveQueue& q = socket.receiving;
    if (!q.joined || q.disabled) {
        held_.insert(taken.bundle);
        return true;
    }
    give(socket, taken.bundle);
    wakes.add(socket);
    return false;
}

// Of two parts that were read of the same message.
static bool joins(Taken& part, const Taken& behind)
{
    return part.bundle.get() == behind.bundle.get() && part.index == behind.index && part.entry.join(behind.entry);
}

static bool is_before(const Taken& a, const Taken& b)
{
    if (a.bundle->arrival != b.bundle->arrival)
        return a.bundle->arrival < b.bundle->arrival;
    return a.index != b.index ? a.index < b.index : a.entry.start < b.entry.start;
}

// What was split off is one with its part again. If others read on behind it, the part is not the end of its message, and of
// what is begun by now the older is read next. True: taken is to be queued.
bool Distributor::rejoin(ReceiveQueue& q, Taken& taken)
{
    Taken& begun = q.begun;
    bool is_part = taken.begun || taken.entry.more;
    if (begun.bundle) {
        if (joins(begun, taken))
            return false;
        bool joined = joins(taken, begun);
        if (joined && !taken.begun && !taken.entry.more) {
            begun.bundle = nullptr; // taken has a reference, too
            return true;
        }
        if (joined || (is_part && is_before(taken, begun)))
            std::swap(begun, taken);
        begun.begun = true;
        return !joined;
    }
    if (!is_part)
        return true;
    begun = std::move(taken);
    begun.begun = true;
    return false;
}

void Distributor::put_back(Socket& socket, Taken& taken, Wakes& wakes)
{
    bool held = false;
    {
        Guard guard(lock_);
        if (rejoin(socket.receiving, taken))
            held = relink(socket, taken, wakes);
        else
            wakes.add(socket);
        place(socket);
    }
    if (held)
        give_some_held(wakes);
}

} // namespace kcm
