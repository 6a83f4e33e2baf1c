// SPDX-License-Identifier: GPL-2.0
// The chunks of requests that have ended without an answer. The server may still work on such a request, with the chunk's
// memory, because it has not noticed the end of the path, or because the request takes long. A new request in this chunk over
// another path would change data that the old one still writes to a disk. So the permit does not come back before each path that
// the request was sent over has come up again since, which a server refuses as long as it works on what came over that path
// before; or is not tried for some time, or has not reached the server for that time.
#pragma once

#include "io.h"
#include "lock_order.h"

#include <hawser/lock.h>

namespace rtrs_clt {

class Kept {
public:
    // For a path that does not come back: a server notices its end in this time (the kernel's own in 35 s).
    static constexpr u64 patience_ns = 40'000'000'000;

    // Any context. The server works on nothing that was sent for io.
    static bool is_over(const Io& io, u64 now_ns)
    {
        return io.tried.is_empty() && now_ns >= io.unnoticed_until_ns.load_relaxed();
    }
    // Any context. Before the user is called with the end of the request. until_ns: when its chunk can be used in any case.
    void add(Io& io, u64 until_ns);
    // Any context. Its user gives the permit back. False: its chunk is kept, and a later call returns the permit.
    bool give(Io& io);
    // Any context. Returns the permits that are free now, in a list, or null.
    [[nodiscard]] Io* expired(u64 now_ns);
    bool has_any() { return list_.with([](List& list) { return list.first != nullptr; }); }
    // No path is left.
    [[nodiscard]] Io* all() { return expired(~u64{0}); }

private:
    struct List {
        Io* first = nullptr;
    };
    Guarded<List, KeptLock> list_;
};

} // namespace rtrs_clt
