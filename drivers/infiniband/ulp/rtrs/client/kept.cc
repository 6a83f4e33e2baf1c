// SPDX-License-Identifier: GPL-2.0
#include "kept.h"

namespace rtrs_clt {

void Kept::add(Io& io, u64 until_ns)
{
    io.given = false;
    io.kept_until_ns = until_ns;
    list_.with([&](List& list) {
        io.kept.store_release(true);
        io.next = list.first;
        list.first = &io;
    });
}

bool Kept::give(Io& io)
{
    if (!io.kept.load_acquire())
        return true;
    return list_.with([&](List&) {
        if (!io.kept.load_relaxed())
            return true;
        io.given = true;
        return false;
    });
}

Io* Kept::expired(u64 now_ns)
{
    return list_.with([&](List& list) {
        Io* free = nullptr;
        for (Io** at = &list.first; *at;) {
            Io& io = **at;
            if (now_ns < io.kept_until_ns && !is_over(io, now_ns)) {
                at = &io.next;
                continue;
            }
            *at = io.next;
            io.kept.store_release(false);
            if (!io.given)
                continue; // its user has the permit
            io.next = free;
            free = &io;
        }
        return free;
    });
}

} // namespace rtrs_clt
