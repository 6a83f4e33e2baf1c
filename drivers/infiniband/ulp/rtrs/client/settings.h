// SPDX-License-Identifier: GPL-2.0
// What an administrator can set of a session. Each is read anew whenever it is needed.
#pragma once

#include "../common/heartbeat.h"

namespace rtrs_clt {

using namespace hw;

enum Policy : u32 { round_robin = 0, min_inflight = 1, min_latency = 2 };

struct Settings : Pinned {
    Atomic<u32> policy{min_inflight};            // Policy
    Atomic<s32> max_reconnects{-1};           // attempts in a row before a path stays disconnected; -1: no limit
    // The longest time between two attempts, of which the first ones come sooner. A path that is restored is to be used again
    // within five seconds.
    Atomic<u32> reconnect_delay_ms{2000};
    // A peer's device that does not answer requests is noticed by ours after about two seconds, whatever these are.
    Atomic<u32> heartbeat_ms{rtrs::default_heartbeat_ms};
    Atomic<u32> heartbeats_missed{rtrs::default_heartbeats_missed};
    Atomic<u32> no_path_ms{0};                // how long a request waits for a path; 0: it fails at once, as upstream
};

} // namespace rtrs_clt
