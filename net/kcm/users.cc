// SPDX-License-Identifier: GPL-2.0
#include "users.h"

#include <utility>

namespace kcm {

namespace {

// Works of one queue that run at once on a CPU. All of them may be waiting for programs.
constexpr unsigned works_at_once = 32;

} // namespace

WorkQueue& Users::choose(u64 id)
{
    WorkQueue* free = nullptr;
    for (WorkQueue* own = queues_; own < queues_ + own_queues; own++) {
        if (own->muxes && own->user == id)
            return *own;
        if (!own->muxes && !free)
            free = own; // the first, which has a queue if any of them has
    }
    return free ? *free : queues_[own_queues + seed_.hash_of({&id, 1}) % shared_queues];
}

Result<WorkQueue*> Users::get(u64 id)
{
    kapi_workqueue* made = nullptr;
    for (;;) {
        WorkQueue* chosen;
        {
            Guard guard(lock_);
            chosen = &choose(id);
            if (!chosen->queue)
                chosen->queue = std::exchange(made, nullptr);
            if (chosen->queue) {
                chosen->user = id;
                chosen->muxes++;
                muxes_++;
            } else {
                chosen = nullptr;
            }
        }
        if (chosen) {
            kapi_workqueue_destroy(made); // another call was quicker
            return chosen;
        }
        made = kapi_workqueue_create_cheap("kcm", works_at_once);
        if (!made)
            return fail(KAPI_ENOMEM);
    }
}

void Users::put(WorkQueue& queue)
{
    {
        Guard guard(lock_);
        queue.muxes--;
        if (--muxes_)
            return;
    }
    changed_.wake();
}

bool Users::has_muxes()
{
    Guard guard(lock_);
    return muxes_ != 0;
}

void Users::stop()
{
    // Works may still have the last references to multiplexors.
    changed_.wait_for([&] { return !has_muxes(); });
    for (unsigned i = 0; i < own_queues + shared_queues; i++) {
        kapi_workqueue* queue;
        {
            Guard guard(lock_);
            queue = std::exchange(queues_[i].queue, nullptr);
        }
        kapi_workqueue_destroy(queue); // so nobody is in put() any more
    }
}

} // namespace kcm
