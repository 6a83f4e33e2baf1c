// SPDX-License-Identifier: GPL-2.0
// The readers' side of the distributor: messages are taken, and put back when they could not be handed over.
#include "distributor.h"

#include "psock.h"
#include "socket.h"

#include <hawser/steps.h>

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

// Beside the first message those behind it: they lie one behind the other.
static void take_more(const Bundle& bundle, const ReadRoom& room, Taken& taken)
{
    unsigned behind = bundle.count() - taken.index;
    u32 all = bundle.entry(bundle.count() - 1).end() - taken.entry.start;
    if (behind <= room.messages && all <= room.bytes && !(~bundle.unread >> taken.index << (64 - behind))) [[likely]] {
        taken.entry.length = all;
        taken.count = behind;
        return;
    }
    for (unsigned i = taken.index + 1; taken.count < room.messages && i < bundle.count(); i++) {
        HW_STEP();
        u32 length = bundle.entry(i).end() - taken.entry.start;
        if (!(bundle.unread >> i & 1) || length > room.bytes)
            return;
        taken.entry.length = length;
        taken.count++;
    }
}

void Distributor::take_next(Socket& socket, bool peek, const ReadRoom& room, Taken& taken)
{
    ReceiveQueue& q = socket.receiving;
    u32 part = room.splits ? room.bytes : ~u32{0};
    if (const Taken* rest = q.rests.front()) [[unlikely]] {
        if (room.whole)
            return;
        if (peek) {
            taken = *rest;
            return;
        }
        taken = q.rests.take(part);
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
    if (room.whole && taken.entry.length > room.bytes)
        return;
    if (peek) {
        taken.bundle = Ref<Bundle>::share(*first);
        return;
    }
    if (room.messages > 1) [[unlikely]]
        take_more(*first, room, taken);
    first->unread &= ~taken.marks();
    u32 uncounted = min(first->uncounted, taken.count);
    first->uncounted -= uncounted;
    q.messages -= taken.count - uncounted;
    if (first->unread) {
        taken.bundle = Ref<Bundle>::share(*first);
        q.rests.split(taken, part);
        return;
    }
    q.charged -= first->true_size();
    taken.bundle = q.bundles.pop_front();
    q.rests.split(taken, part);
    place(socket);
    taken.resume = next_blocked();
}

// While messages are held, connections wait, even when a reader has made room. So a reader that made room gives the held ones
// out; a connection goes on when none are left.
bool Distributor::take(Socket& socket, bool peek, const ReadRoom& room, Taken& taken)
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

// Makes whole messages unread in their bundle, which may still be queued for its other messages, maybe elsewhere by now. True: it
// is held, to be given to another socket.
bool Distributor::relink(Socket& socket, Taken& taken, Wakes& wakes)
{
    Bundle& bundle = *taken.bundle;
    bool queued = bundle.unread != 0;
    bundle.unread |= taken.marks();
    if (queued) {
        // Its socket's readers know of the bundle: one was woken when it came, each that leaves some wakes the next, and it was
        // never empty since. Which socket that is by now is known only if it is this one.
        if (socket.receiving.bundles.front() == &bundle)
            socket.receiving.messages += taken.count;
        else
            bundle.uncounted += taken.count;
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

void Distributor::put_back(Socket& socket, Taken& taken, Wakes& wakes)
{
    Own<Rests::Rest> spare;
    if (!taken.is_whole()) // not charged: then there is memory, unless the program is being killed for its own
        spare.reset(make<Rests::Rest>(Alloc::sleep));
    bool held = false;
    {
        Guard guard(lock_);
        if (taken.is_whole() || socket.receiving.rests.insert(taken, spare))
            held = relink(socket, taken, wakes);
        else
            wakes.add(socket);
        place(socket);
    }
    if (!held)
        return;
    give_some_held(wakes);
    resume_next(); // one may have stopped while it was held
}

} // namespace kcm
