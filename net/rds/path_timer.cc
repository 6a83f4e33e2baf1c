// SPDX-License-Identifier: GPL-2.0
#include "path_timer.h"

#include "connection.h"
#include "path.h"

namespace rds {

// Under the lock, also if nothing changes: so the worker that is informed of an event sees what the event is for. And the work is
// never moved while it is cancelled: then it would not be known whether it holds a reference (kapi/work.h).
void PathTimer::add(u32 events, u64 time_ns)
{
    static_cast<void>(HW_ASSERT(!(events & ~all)));
    Guard guard(lock_);
    for (unsigned i = 0; i < count; i++)
        if (events & kinds[i])
            due_ns_[i].store_relaxed(min(due_ns_[i].load_relaxed(), time_ns));
    if (time_ns < set_ns_ && !stopped_)
        set(time_ns);
}

void PathTimer::set(u64 time_ns)
{
    set_ns_ = time_ns;
    u64 now = kapi_now_ns();
    path_.ref(); // the queued work's
    if (!work_.mod(path_.connection().net.module.workqueue, time_ns - min(time_ns, now)))
        path_.unref();
}

u32 PathTimer::take(u64 now)
{
    u32 events = 0;
    for (unsigned i = 0; i < count; i++) {
        if (due_ns_[i].load_relaxed() > now)
            continue;
        due_ns_[i].store_relaxed(never);
        events |= kinds[i];
    }
    return events;
}

u64 PathTimer::first() const
{
    u64 first_ns = never;
    for (const auto& due_ns : due_ns_)
        first_ns = min(first_ns, due_ns.load_relaxed());
    return first_ns;
}

void PathTimer::run()
{
    u32 events;
    {
        Guard guard(lock_);
        events = take(kapi_now_ns());
        set_ns_ = never; // or by add() since the timer ran out: then it is set anew, or finds nothing
        u64 next_ns = first();
        if (next_ns != never && !stopped_)
            set(next_ns);
    }
    if (events)
        path_.notify(events);
    path_.unref();
}

void PathTimer::stop()
{
    {
        Guard guard(lock_);
        stopped_ = true;
    }
    if (work_.cancel_sync())
        path_.unref();
}

} // namespace rds
