// SPDX-License-Identifier: GPL-2.0
// The users who have multiplexors, and the queues for their works.
//
// Works take the locks of programs' TCP sockets, and a program can hold such a lock for as long as it likes. In one queue for
// all, some hundreds of such sockets would stop everybody's works. With a queue for each user they stop that user's, and take
// no more threads than the queue may have. A queue for each multiplexor would not do: one user can make any number of them.
//
// Nor may the number of queues grow with that of users. Those who come first have one of their own, as long as they have a
// multiplexor; those who come when all of these are taken share the others. So many users together can stop one another, but
// nobody who was there before.
#pragma once

#include "../lock_order.h"
#include "shortage.h"

#include <hawser/hash_table.h>
#include <hawser/wait.h>
#include <hawser/work.h>

namespace kcm {

using namespace hw;

// A queue, and whose multiplexors use it.
struct WorkQueue {
    kapi_workqueue* queue = nullptr; // made when it is needed first
    u64 user = 0;                    // kapi_user(), of one that is not shared
    unsigned muxes = 0;
    Shortage shortage; // of memory, of those whose multiplexors these are
    Atomic<u64> draining{0}; // bytes that their closed sockets have yet to send
};

class Users : Pinned {
public:
    // Queues for one user each, and for all others.
    static constexpr unsigned own_queues = 48, shared_queues = 16;

    // A multiplexor of the user with this id is made. Its works' queue, until put(). Sleeps. ENOMEM.
    Result<WorkQueue*> get(u64 id);
    // That multiplexor is gone. Any context; the caller may be one of the queue's works.
    void put(WorkQueue& queue);
    // No multiplexor is made any more. Waits for the end of those that are left, and of all works. Sleeps.
    void stop();

private:
    WorkQueue& choose(u64 id) HW_REQUIRES(lock_);
    bool has_muxes();

    Spin<UsersLock> lock_;
    // All queues stay for whom comes next: without works they cost next to nothing.
    WorkQueue queues_[own_queues + shared_queues] HW_GUARDED_BY(lock_);
    unsigned muxes_ HW_GUARDED_BY(lock_) = 0;
    WaitQueue changed_;
    const HashSeed seed_; // so that nobody can choose with whom he shares
};

} // namespace kcm
