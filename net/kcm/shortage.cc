// SPDX-License-Identifier: GPL-2.0
#include "shortage.h"

#include "psock.h"
#include "socket.h"

namespace kcm {

namespace {

constexpr unsigned looked_at = 64; // bottom halves are off meanwhile
constexpr u64 look_ns = 100'000'000; // of one connection at the others

} // namespace

// Who holds most of those that wait for this one's user; the last of them to wait, when several do. Null: it waits alone, or
// reading would help one of them.
Psock* Shortage::choose(Psock& psock)
{
    Psock* most = nullptr;
    unsigned seen = 0, others = 0;
    for (Psock* p = waiting_.front(); p && seen < looked_at; p = waiting_.next(*p), seen++) {
        if (p->user != psock.user)
            continue;
        if (may_end_by_reading(p->parts.missing))
            return nullptr;
        others += p != &psock;
        if (!most || p->parts.held >= most->parts.held)
            most = p;
    }
    return others ? most : nullptr;
}

Ref<Psock> Shortage::wait(Psock& psock, u64 held, u64 missing)
{
    Guard guard(lock_);
    u64 now = kapi_now_ns();
    psock.parts.held = held;
    psock.parts.missing = missing;
    bool waits_already = is_on<Starved>(psock);
    if (!waits_already)
        waiting_.push_back(Ref<Psock>::share(psock));
    else if (now - psock.parts.looked_ns < look_ns)
        return nullptr;
    psock.parts.looked_ns = now;
    Psock* most = choose(psock);
    if (!most || !waits_already)
        psock.parts.since_ns = now;
    if (!most || now - max(psock.parts.since_ns, changed_ns_) < patience_ns)
        return nullptr;
    changed_ns_ = now;
    return waiting_.remove(*most);
}

void Shortage::stop(Psock& psock)
{
    Ref<Psock> removed;
    Guard guard(lock_);
    if (!is_on<Starved>(psock))
        return;
    changed_ns_ = kapi_now_ns();
    removed = waiting_.remove(psock);
}

} // namespace kcm
