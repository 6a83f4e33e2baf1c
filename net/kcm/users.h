// SPDX-License-Identifier: GPL-2.0
// The users that have multiplexors, and the queues for their works.
//
// Works take the locks of programs' TCP sockets, and a program can hold such a lock for as long as it likes. In one queue for
// all, some hundreds of such sockets would stop all works. With a queue for each user they stop only the works of that user, and
// use no more threads than the queue may have. One queue for each multiplexor is no solution: a user can make any number.
//
// The number of queues must not grow with the number of users either. The first users have one each, as long as they have a
// multiplexor; later users, while all of these are taken, share the others. So many users together can delay one another, but
// no user that had a queue before.
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

    // Whose connections wait for memory: of each user who has attached any.
    Shortages shortages;

private:
    WorkQueue& choose(u64 id) HW_REQUIRES(lock_);
    bool has_muxes();

    Spin<UsersLock> lock_;
    // Queues are kept for later users: without works they cost almost nothing.
    WorkQueue queues_[own_queues + shared_queues] HW_GUARDED_BY(lock_);
    unsigned muxes_ HW_GUARDED_BY(lock_) = 0;
    WaitQueue changed_;
    const HashSeed seed_; // so that no user can choose with whom to share
};

} // namespace kcm
