// SPDX-License-Identifier: GPL-2.0
// What an administrator can set of a session. Each is read anew whenever it is needed.
#pragma once

#include "../common/heartbeat.h"

namespace rtrs_clt {

using namespace hw;

enum Policy : u32 { round_robin = 0, min_inflight = 1, min_latency = 2 };

// The limits of a number, and its default.
struct Range {
    const char* name; // of its file, and of the module's parameter
    u32 least, most, preset;
};
inline constexpr Range heartbeat_range{"heartbeat_interval_ms", 100, 60000, rtrs::default_heartbeat_ms};
inline constexpr Range missed_range{"heartbeat_missed", 1, 100, rtrs::default_heartbeats_missed};
inline constexpr Range reconnect_range{"reconnect_delay_ms", 100, 600000, 2000};
inline constexpr Range no_path_range{"no_path_timeout_ms", 0, 3600000, 0};
inline constexpr Range io_range{"io_timeout_ms", 0, 3600000, 0};

// What a new session has.
struct Presets {
    u32 heartbeat_ms = heartbeat_range.preset, heartbeats_missed = missed_range.preset;
    u32 reconnect_delay_ms = reconnect_range.preset, no_path_ms = no_path_range.preset, io_ms = io_range.preset;
};

struct Settings : Pinned {
    explicit Settings(const Presets& presets)
        : reconnect_delay_ms(presets.reconnect_delay_ms), heartbeat_ms(presets.heartbeat_ms),
          heartbeats_missed(presets.heartbeats_missed), no_path_ms(presets.no_path_ms), io_ms(presets.io_ms)
    {
    }
    Atomic<u32> policy{min_inflight};            // Policy
    Atomic<s32> max_reconnects{-1};           // attempts in a row before a path stays disconnected; -1: no limit
    // The longest time between two attempts, of which the first ones come sooner. A path that is restored is to be used again
    // within five seconds.
    Atomic<u32> reconnect_delay_ms;
    // A peer's device that does not answer requests is noticed by ours after about four seconds, whatever these are.
    Atomic<u32> heartbeat_ms;
    Atomic<u32> heartbeats_missed;
    // How long a request waits that is made while there is no path; 0: it fails at once, as upstream.
    Atomic<u32> no_path_ms;
    // How long a request may be without an answer on one path: then that path ends, and the request with it. 0: as long as the
    // path lives, since a server with slow disks is not a broken one.
    Atomic<u32> io_ms;
};

} // namespace rtrs_clt
