// SPDX-License-Identifier: GPL-2.0
// Streams that the peer's host opened and no path has adopted yet.
//
// Any user of that host can open any number of them. The peer's own are found by what they begin with: a hawser sends a probe
// first, which has its name. So a new stream always gets a place; the one that makes room is the oldest of those that show
// least. The same order, from the other end, is that in which they are adopted.
#pragma once

#include "../../lock_order.h"
#include "../transport.h"

#include <hawser/lock.h>
#include <hawser/wait.h>
#include <kapi/stream.h>

namespace rds_tcp {

using namespace hw;

// They have no callbacks yet; their data is not lost. Those that it returns are the caller's, to be closed. Sleeps, but for
// what says otherwise.
class Waiting : Pinned {
public:
    static constexpr unsigned max = 16;
    explicit Waiting(rds_conn* conn) : conn_(conn) {}

    // Keeps stream, and limit of them at most. Returns one that has no place, maybe this one; null: all have.
    // is_first: it counts as that of its path (rds_conn_stream_room()), which has none.
    kapi_stream* put(kapi_stream* stream, u16 peer_port, unsigned limit, bool is_first);
    // The best one whose port fits(); null: none does.
    template <class Fits> kapi_stream* take(Fits&& fits)
    {
        look();
        kapi_stream* taken = nullptr;
        looked_.wait_for([&] { return take_some(fits, taken); });
        return taken;
    }
    kapi_stream* take()
    {
        return take([](u16) { return true; });
    }
    // One that its peer left with nothing in it for us.
    kapi_stream* take_abandoned();
    // Is there one whose port fits()? Any context.
    template <class Fits> bool has(Fits&& fits)
    {
        Guard guard(lock_);
        for (unsigned i = 0; i < count_; i++)
            if (fits(entry_[i].peer_port))
                return true;
        return false;
    }
    bool has()
    {
        return has([](u16) { return true; });
    }

private:
    enum Rank : u8 { silent, speaks, peers };
    struct Entry {
        kapi_stream* stream;
        u16 peer_port;
        Rank rank;
        bool looked;  // its first bytes are known
        bool looking; // by another thread, without the lock: it stays where it is
    };
    // False: a better one may be that which another thread is looking at.
    template <class Fits> bool take_some(Fits&& fits, kapi_stream*& taken)
    {
        Guard guard(lock_);
        unsigned best = count_;
        bool looking = false;
        for (unsigned i = 0; i < count_; i++) {
            if (!fits(entry_[i].peer_port))
                continue;
            if (entry_[i].looking)
                looking = true;
            else if (best == count_ || entry_[i].rank > entry_[best].rank)
                best = i;
        }
        if (looking && (best == count_ || entry_[best].rank != peers))
            return false;
        if (best != count_)
            taken = take_out(best);
        return true;
    }
    void look();
    void look_at(Entry& entry);
    kapi_stream* begin_look() HW_REQUIRES(lock_);
    unsigned least(Rank newcomer) HW_REQUIRES(lock_);
    kapi_stream* remove(unsigned position) HW_REQUIRES(lock_);
    kapi_stream* take_out(unsigned position) HW_REQUIRES(lock_);

    rds_conn* const conn_;
    WaitQueue looked_; // a thread has looked at one
    Spin<StreamsLock> lock_;
    Entry entry_[max] HW_GUARDED_BY(lock_); // oldest first
    unsigned count_ HW_GUARDED_BY(lock_) = 0;
    unsigned counted_ HW_GUARDED_BY(lock_) = 0; // of them, as memory of peers: all, or all but the first of a path
};

} // namespace rds_tcp
