// SPDX-License-Identifier: GPL-2.0
#include "rests.h"

#include "psock.h"
#include "socket.h"

#include <hawser/steps.h>

#include <utility>

namespace kcm {

static bool is_before(const Taken& a, const Taken& b)
{
    if (a.bundle->arrival != b.bundle->arrival)
        return a.bundle->arrival < b.bundle->arrival;
    return a.index != b.index ? a.index < b.index : a.entry.start < b.entry.start;
}

static bool adjoin(const Taken& a, const Taken& b)
{
    return a.bundle.get() == b.bundle.get() && a.index == b.index && a.entry.end() == b.entry.start;
}

// The part belongs to another socket, too, or to none any more. Its memory is to spare.
void Rests::unlink(Rest*& link, Own<Rest>& spare)
{
    Rest* gone = std::exchange(link, link->next);
    gone->part.bundle = nullptr;
    count_--;
    if (gone != &own_)
        spare.reset(gone);
}

Taken Rests::take(u32 room)
{
    Own<Rest> spare;
    Taken taken = first_->part;
    Bundle::Entry& rest = first_->part.entry;
    if (rest.length <= room || count_ >= many) {
        unlink(first_, spare);
        return taken;
    }
    taken.entry.length = room;
    rest = {rest.start + room, rest.length - room};
    return taken;
}

// The rest is what is read next from the moment on in which the part is taken: if another reader took a part of the next message
// meanwhile, its rest would be read before this one.
void Rests::split(Taken& taken, u32 room)
{
    if (taken.entry.length <= room) [[likely]]
        return;
    HW_ASSERT(empty());
    own_.part.bundle = taken.bundle;
    own_.part.index = taken.index;
    own_.part.entry = {taken.entry.start + room, taken.entry.length - room};
    own_.next = nullptr;
    first_ = &own_;
    count_ = 1;
    taken.entry.length = room;
}

bool Rests::insert(Taken& part, Own<Rest>& spare)
{
    Rest** link = &first_;
    Rest** before = nullptr;
    for (; *link && is_before((*link)->part, part); link = &(*link)->next) {
        HW_STEP();
        before = link;
    }
    if (*link && adjoin(part, (*link)->part)) {
        part.entry.length += (*link)->part.entry.length;
        unlink(*link, spare);
    }
    if (before && adjoin((*before)->part, part)) {
        part.entry = {(*before)->part.entry.start, (*before)->part.entry.length + part.entry.length};
        link = before;
        unlink(*link, spare);
    }
    if (part.is_whole())
        return true;
    Rest* rest = own_.part.bundle ? spare.release() : &own_;
    if (!rest)
        return false;
    rest->part = std::move(part);
    rest->next = std::exchange(*link, rest);
    count_++;
    return false;
}

} // namespace kcm
