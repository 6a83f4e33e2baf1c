// SPDX-License-Identifier: GPL-2.0
// Whether the RDS of a foreign peer goes on, while its device answers ours. The kernel's own acknowledges from its softirq,
// whatever its sockets do, so silence is no full socket. On Soft-RoCE a peer's queue pair may forget that there is more to send,
// and goes on when its RDS posts the next message. A ping makes it do so.
#pragma once

#include "../transport.h"

#include <hawser/base.h>

namespace rds_rdma {

using namespace hw;

class Watch {
public:
    // What there is at a tick.
    struct Seen {
        bool heard;      // something has arrived since the last one
        bool stalled;    // what has arrived waits here: maybe what the peer would say waits behind it
        bool incomplete; // of a message the rest is missing
        u64 asked, acked; // up to there acknowledgements were asked for; were received
    };

    rds_tick tick(const Seen& seen)
    {
        bool unacked = seen.asked > seen.acked, held = seen.stalled;
        ignored_ = unacked && seen.acked == acked_ && !held ? ignored_ + 1 : 0;
        acked_ = seen.acked;
        silent_ = (unacked || seen.incomplete) && !seen.heard && !held ? silent_ + 1 : 0;
        if (silent_ == first_ask || silent_ == 2 * first_ask || silent_ == last_ask)
            return RDS_TICK_ASKS;
        return ignored_ >= ignored_after ? RDS_TICK_IGNORED : RDS_TICK_ANSWERED;
    }
    // It is asked no more before it says something.
    bool has_given_up() const { return silent_ >= last_ask; }

private:
    // In ticks, which come each second.
    static constexpr u32 first_ask = 2, last_ask = 4 * first_ask, ignored_after = 10;
    static_assert(last_ask < ignored_after);

    u32 silent_ = 0;  // ticks
    u32 ignored_ = 0; // ticks without another acknowledgement
    u64 acked_ = 0;
};

} // namespace rds_rdma
