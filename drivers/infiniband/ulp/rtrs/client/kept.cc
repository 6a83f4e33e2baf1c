// SPDX-License-Identifier: GPL-2.0
#include "kept.h"

namespace rtrs_clt {

template <class Test> Io* Kept::List::take(Test&& is_over)
{
    Io* free = nullptr;
    for (Io** at = &first; *at;) {
        Io& io = **at;
        if (!is_over(io)) {
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
}

void Kept::List::forget_removed(Io& io) const
{
    for (u32 index = 0; index < rtrs::max_paths; index++) {
        if (!removed_ns[index] || !io.tried.has(index))
            continue;
        io.tried.clear(index);
        io.unnoticed_until_ns = max(io.unnoticed_until_ns, removed_ns[index] + patience_ns);
    }
    if (io.tried.is_empty())
        io.kept_until_ns = min(io.kept_until_ns, io.unnoticed_until_ns);
}

void Kept::add(Io& io, u64 until_ns)
{
    io.given = false;
    io.kept_until_ns = until_ns;
    io.unnoticed_until_ns = 0;
    list_.with([&](List& list) {
        list.forget_removed(io);
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

// True: it waits for no path any more, and for no time.
bool Kept::is_over_without(Io& io, u32 index, u64 now_ns)
{
    if (!io.tried.has(index))
        return false;
    io.tried.clear(index);
    if (!io.tried.is_empty())
        return false;
    io.kept_until_ns = min(io.kept_until_ns, io.unnoticed_until_ns);
    return now_ns >= io.kept_until_ns;
}

Io* Kept::path_up(u32 index, u64 now_ns)
{
    return list_.with([&](List& list) { return list.take([&](Io& io) { return is_over_without(io, index, now_ns); }); });
}

void Kept::path_removed(u32 index, u64 now_ns)
{
    list_.with([&](List& list) {
        list.removed_ns[index] = now_ns;
        for (Io* io = list.first; io; io = io->next) {
            if (io->tried.has(index))
                io->unnoticed_until_ns = now_ns + patience_ns;
            is_over_without(*io, index, now_ns);
        }
    });
}

void Kept::path_added(u32 index)
{
    list_.with([&](List& list) { list.removed_ns[index] = 0; });
}

Io* Kept::expired(u64 now_ns)
{
    return list_.with([&](List& list) { return list.take([&](Io& io) { return now_ns >= io.kept_until_ns; }); });
}

} // namespace rtrs_clt
