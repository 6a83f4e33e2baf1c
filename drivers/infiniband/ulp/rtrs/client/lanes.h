// SPDX-License-Identifier: GPL-2.0
// Which connections take requests. All connections of one number, one of each path, are a lane; a permit belongs to a lane, so
// that requests of different CPUs do not meet.
#pragma once

#include "io.h"
#include "lock_order.h"
#include "settings.h"

#include "../common/wire.h"

#include <hawser/lock.h>
#include <hawser/memory.h>

namespace rtrs_clt {

class Lanes : Pinned {
public:
    // Sleeps. ENOMEM.
    Result<> make(u32 count);
    ~Lanes();
    // Any context. A session has at most max_paths paths.
    void add(u32 number, Connection& connection);
    // Any context. No request is on its way to it when this returns. It may be in none.
    void remove(u32 number, Connection& connection);
    // Any context. Sends the request over the path that the policy prefers, or if that one cannot, over any. ECONNABORTED: there
    // is no path, or it is of another generation; an error that is_momentary(): a path that can has no room; else as
    // Connection::post() of the preferred one.
    Result<> send(Io& io, u32 policy);
    // The send queue is full (EAGAIN), or the data could not be mapped: nothing says whether a bounce buffer or an IOMMU is full
    // for the moment, or the device never reaches the memory.
    static bool is_momentary(Errno why);
    // Any context. With the last path the server's user ends what the session had there, and begins anew with the next one. A
    // request means something else then: so it is sent in the generation that it was made for, or not at all.
    u32 generation() const { return generation_.load_acquire(); }
    void end_generation() { generation_.fetch_add(1); }

private:
    struct Lane : Pinned {
        Spin<LaneLock> lock;
        u32 count HW_GUARDED_BY(lock) = 0;
        u32 turn HW_GUARDED_BY(lock) = 0;
        Connection* open[rtrs::max_paths] HW_GUARDED_BY(lock) = {};
        Connection* choose(u32 policy) HW_REQUIRES(lock);
        Connection* in_turn() HW_REQUIRES(lock);
        Connection* least_busy() HW_REQUIRES(lock);
        Connection* fastest() HW_REQUIRES(lock);
        Result<> send_by_another(Io& io, const Connection& than, Errno why) HW_REQUIRES(lock);
    };
    static void free_lanes(Lane* lanes) { kapi_free(lanes); }
    Own<Lane, free_lanes> lanes_;
    u32 count_ = 0;
    Atomic<u32> generation_{0};
};

} // namespace rtrs_clt
