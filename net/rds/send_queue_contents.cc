// SPDX-License-Identifier: GPL-2.0
// What is queued.
#include "send_queue.h"

namespace rds {

bool SendQueue::has_unsent()
{
    Guard guard(lock_);
    return !again_.empty() || !send_.empty();
}

bool SendQueue::has_pinned()
{
    Guard guard(lock_);
    return pinned_;
}

bool SendQueue::has_new()
{
    Guard guard(lock_);
    return !send_.empty();
}

bool SendQueue::has_sent_before()
{
    Guard guard(lock_);
    return !again_.empty();
}

bool SendQueue::is_empty()
{
    Guard guard(lock_);
    return send_.empty() && again_.empty() && retransmit_.empty() && end_with_stream_.empty();
}

bool SendQueue::has_only_answers()
{
    Guard guard(lock_);
    return others_ == 0;
}

bool SendQueue::has_answers()
{
    Guard guard(lock_);
    return pong_count_ != 0;
}

u64 SendQueue::next_number()
{
    Guard guard(lock_);
    return next_;
}

u32 SendQueue::length()
{
    Guard guard(lock_);
    return others_;
}

u64 SendQueue::sent_again()
{
    Guard guard(lock_);
    return sent_again_;
}

Latency::Counts SendQueue::latency()
{
    Guard guard(lock_);
    return latency_.counts();
}

} // namespace rds
