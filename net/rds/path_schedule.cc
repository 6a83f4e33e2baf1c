// SPDX-License-Identifier: GPL-2.0
// When a path's worker runs: events, the timer, and what is tried again a little later.
#include "connection.h"
#include "path.h"

namespace rds {

void Path::notify(u32 events)
{
    events_.fetch_or(events);
    if (connection_.dying())
        return;
    ref(); // the queued work's
    if (!work_.queue(connection_.net.module.workqueue))
        unref();
}

// The owner's. One timer serves all reasons to look again, and is never put off: at each look they are found anew.
void Path::arm(u64 time_ns)
{
    u64 due_ns = due_ns_.load_relaxed();
    if ((due_ns && due_ns <= time_ns) || connection_.dying())
        return;
    due_ns_.store_relaxed(time_ns);
    u64 now = kapi_now_ns();
    ref();
    if (!timer_.mod(connection_.net.module.workqueue, time_ns - min(time_ns, now)))
        unref();
}

// While the path is up the timer is never set for later than this. What a stream does not take of answers, or of a message whose
// sender is gone, needs no look (step_up()).
void Path::arm_tick()
{
    if (!due_ns_.load_relaxed() && !queue_.has_only_answers())
        arm(kapi_now_ns() + (unanswered_.load_relaxed() ? unanswered_tick_ns : tick_ns));
}

void Path::ticked()
{
    due_ns_.store_release(0);
    notify(RDS_PATH_TICK);
    unref();
}

void Path::retry_later(u32 events, u64 delay_ns)
{
    later_.fetch_or(events);
    if (connection_.dying())
        return;
    ref();
    if (!retry_.queue(connection_.net.module.workqueue, delay_ns))
        unref();
}

// A path that moves at this moment notifies the other one after it has moved everything.
void Path::transmit_later()
{
    if (Path* other = moved_to_.load_acquire()) [[unlikely]]
        return other->transmit_later();
    retry_later(RDS_PATH_SEND);
}

void Path::retried()
{
    notify(later_.exchange(0));
    unref();
}

} // namespace rds
