// SPDX-License-Identifier: GPL-2.0
// When a path's worker runs: events, at once or later.
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

// The owner's. One look serves all reasons to look again: at each they are found anew.
void Path::arm(u64 time_ns)
{
    timer_.add(RDS_PATH_TICK, time_ns);
}

// While the path is up the timer is never set for later than this. What a stream does not take of answers, or of a message whose
// sender is gone, needs no look (step_up()).
void Path::arm_tick()
{
    if (!timer_.has(RDS_PATH_TICK) && !queue_.has_only_answers())
        arm(kapi_now_ns() + (unanswered_.load_relaxed() ? unanswered_tick_ns : tick_ns));
}

void Path::retry_later(u32 events, u64 delay_ns)
{
    timer_.add(events, kapi_now_ns() + delay_ns);
}

// A path that moves at this moment notifies the other one after it has moved everything.
void Path::transmit_later()
{
    if (Path* other = moved_to_.load_acquire()) [[unlikely]]
        return other->transmit_later();
    retry_later(RDS_PATH_SEND);
}

} // namespace rds
