// SPDX-License-Identifier: GPL-2.0
// Lines of the kernel's log about peers. Debug lines (dynamic debug) are about everything, the others about what an administrator
// has to know (Documentation/networking/rds.rst, Notes in the kernel's log).
#pragma once

#include "address.h"

#include <hawser/atomic.h>
#include <kapi/host.h>
#include <kapi/trace_rds.h>

namespace rds {

using namespace hw;

class Connection;
class Path;
enum class PathState : u8;

// "rds: ADDRESS what". Any context, as the next two.
void note(kapi_log_level level, const Ip& peer, const char* what);
// The first path was lost.
void note_loss(const Connection& connection, kapi_trace_rds_reason reason);
// Any path has another state: a debug line.
void note_change(const Path& path, PathState from, PathState to, kapi_trace_rds_reason reason);

// For lines that users and peers can cause as often as they like. All lines of the host share one limit, so these would suppress
// what is to be said about others.
class Notice : Pinned {
public:
    explicit constexpr Notice(u64 pause_ns) : pause_ns_(pause_ns) {}
    // At most once in the pause. Any context.
    bool is_due()
    {
        u64 now = kapi_now_ns(), next = next_ns_.load_relaxed();
        return now >= next && next_ns_.compare_exchange(next, now + pause_ns_);
    }

private:
    const u64 pause_ns_;
    Atomic<u64> next_ns_{0};
};

// One for each cause.
struct Notices {
    static constexpr u64 second_ns = 1'000'000'000;
    Notice garbage{second_ns}, restarted{second_ns};
    Notice connections_of_users{60 * second_ns}, connections_of_peers{60 * second_ns}, memory_of_peers{60 * second_ns};
    Notice parts_of_messages{60 * second_ns};
};

} // namespace rds
