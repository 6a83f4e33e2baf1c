// SPDX-License-Identifier: GPL-2.0
#include "shortage.h"

#include "psock.h"
#include "socket.h"

namespace kcm {

namespace {

constexpr u64 look_ns = 100'000'000; // of one connection at the others

} // namespace

Result<Ref<Shortage>> Shortage::get(Shortages& all, u64 user)
{
    const u64 key[] = {user};
    u32 hash = all.hash_of(key);
    auto is_its = [&](const Shortage& other) { return other.user_ == user; };
    Ref<Shortage> found = all.find(hash, is_its);
    if (found)
        return found;
    auto* made = make<Shortage>(Alloc::charged, all, user);
    if (!made)
        return fail(KAPI_ENOMEM);
    auto fresh = Ref<Shortage>::adopt(made);
    Shortages::Insert result = all.insert(hash, *fresh, Alloc::sleep, is_its, [] { return true; }, found);
    return result == Shortages::Insert::exists ? found : fresh;
}

void Shortage::destroy(Shortage* shortage)
{
    shortage->all_.remove(*shortage);
    dispose(shortage);
}

Shortage::List& Shortage::list_of(u64 held)
{
    unsigned bits = 63 - static_cast<unsigned>(__builtin_clzll(held | 1));
    return waiting_[min(bits / 2, lists - 1)];
}

bool Shortage::reading_may_help(u64 missing)
{
    u64 read = read_.load();
    return received_.load() - read >= missing;
}

bool Shortage::may_end(const Parts& parts, u64 waited_ns, u64 patience, bool reading_may_help)
{
    return waited_ns >= patience && (read_.load() - parts.read_before >= parts.missing || !reading_may_help);
}

// Those that hold most first. Who was looked at is behind the others like it: the next look finds those.
void Shortage::look_at_some(Seen& seen)
{
    unsigned steps = 0;
    for (unsigned i = lists; i-- > 0;) {
        List& list = waiting_[i];
        Psock* last = list.back();
        for (Psock *p = list.front(), *next; p && steps < looked_at; p = next, steps++) {
            next = p == last ? nullptr : list.next(*p);
            list.push_back(list.remove(*p));
            if (p->receives() && !p->gives_way())
                seen.psocks[seen.count++] = p;
        }
    }
}

void Shortage::look(Psock& psock, u64 now)
{
    HW_UNINITIALIZED Seen seen;
    seen.count = 0;
    look_at_some(seen);
    u64 least = psock.parts.missing;
    bool alone = true;
    for (unsigned i = 0; i < seen.count; i++) {
        least = min(least, seen.psocks[i]->parts.missing);
        alone &= seen.psocks[i] == &psock;
    }
    if (may_end(psock.parts, now - psock.parts.since_ns, patience_alone_ns, reading_may_help(psock.parts.missing)))
        return psock.give_way();
    if (alone)
        return;
    bool may_help = reading_may_help(least);
    u64 before = gave_way_ns_;
    // Whether reading helps is asked for the one that looks: those that lack most would otherwise wait the longest for their end.
    auto may = [&](const Parts& parts, u64 patience) {
        Parts judged = parts;
        judged.missing = min(parts.missing, psock.parts.missing);
        return may_end(judged, now - max(parts.since_ns, before), patience, may_help);
    };
    if (!may(psock.parts, patience_ns))
        return;
    // The others have begun to wait at about the same time.
    u64 freed = 0;
    for (unsigned i = 0; i < seen.count && freed < least; i++) {
        Psock& p = *seen.psocks[i];
        if (!may(p.parts, patience_ns / 2))
            continue;
        freed += p.parts.held;
        p.give_way();
        gave_way_ns_ = now;
    }
}

void Shortage::wait(Psock& psock, u64 held, u64 missing)
{
    Guard guard(lock_);
    u64 now = kapi_now_ns();
    if (!is_on<Starved>(psock)) {
        psock.parts = {.held = held, .missing = missing, .since_ns = now, .read_before = read_.load(), .looked_ns = now};
        list_of(held).push_back(Ref<Psock>::share(psock));
    } else if (now - psock.parts.looked_ns >= look_ns) {
        psock.parts.looked_ns = now;
        look(psock, now);
    }
}

Ref<Psock> Shortage::remove(Psock& psock)
{
    return is_on<Starved>(psock) ? list_of(psock.parts.held).remove(psock) : Ref<Psock>();
}

void Shortage::got_memory(Psock& psock)
{
    Ref<Psock> removed;
    Guard guard(lock_);
    removed = remove(psock);
    psock.stay();
}

void Shortage::stop(Psock& psock)
{
    Ref<Psock> removed;
    Guard guard(lock_);
    removed = remove(psock);
}

} // namespace kcm
