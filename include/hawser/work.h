// SPDX-License-Identifier: GPL-2.0
// A deferred call of a member function.
#pragma once

#include <hawser/base.h>
#include <kapi/work.h>

namespace hw {

// Run calls owner.*Method() in a sleeping context; never twice at the same time.
template <class T, void (T::*Method)()> class Work : Pinned {
public:
    explicit Work(T& owner) : owner_(&owner) { kapi_work_init(&work_, run); }
    // Queues unless pending; true when it was not.
    bool queue(kapi_workqueue* queue, u64 delay_ns = 0) { return kapi_work_queue(queue, &work_, delay_ns) != 0; }
    // Queues, or moves a pending work to the new delay; true when it was not pending.
    bool mod(kapi_workqueue* queue, u64 delay_ns) { return kapi_work_mod(queue, &work_, delay_ns) == 0; }
    // Not pending afterwards, but maybe running; true when it was pending. Any context.
    bool cancel() { return kapi_work_cancel(&work_) != 0; }
    // Neither pending nor running afterwards; true when it was pending. Sleeps; not from the work itself.
    bool cancel_sync() { return kapi_work_cancel_sync(&work_) != 0; }

private:
    static void run(kapi_work* work)
    {
        // work_ is the first member, so both have one address.
        static_assert(std::is_standard_layout_v<Work> && offsetof(Work, work_) == 0);
        Work* self = reinterpret_cast<Work*>(work);
        (self->owner_->*Method)();
    }

    kapi_work work_;
    T* const owner_;
};

} // namespace hw
