// SPDX-License-Identifier: GPL-2.0
#include "partial.h"

namespace rds {

namespace {

constexpr u64 ms = 1'000'000;
// The least that a message must receive while others wait. Over a slow link many messages share the rate, not always evenly.
constexpr u64 least_bytes_per_s = 2048;

} // namespace

bool Partial::take(PeersMemory& memory, u32 size)
{
    if (!memory.take_partial(size)) {
        note_waiting(memory, size);
        retry_delay_ns_.store_relaxed(memory.retry_delay_ns());
        return false;
    }
    note_waiting(memory, 0);
    size_.store_relaxed(size);
    got_.store_relaxed(0);
    began_ns_.store_release(max<u64>(kapi_now_ns(), 1));
    return true;
}

void Partial::give(PeersMemory& memory, u32 size)
{
    began_ns_.store_relaxed(0);
    memory.give_partial(size);
}

void Partial::note_waiting(PeersMemory& memory, u32 size)
{
    if (waiting_.load_relaxed() != size)
        memory.note_waiting(waiting_.exchange(size), size);
}

// A message that begins or ends meanwhile may be judged by another's numbers. That is rare, and its sender sends it again.
Partial::Look Partial::look(u64 now)
{
    u64 began_ns = began_ns_.load_acquire();
    if (!began_ns)
        return {};
    if (looked_ns_ < began_ns) {
        looked_ns_ = began_ns;
        is_slow_ = false;
    }
    u32 got = got_.load_relaxed();
    u64 time_ns = now - min(now, looked_ns_);
    if (time_ns >= PeersMemory::look_ns) {
        is_slow_ = got < time_ns / ms * least_bytes_per_s / 1000;
        got_.fetch_sub(got);
        looked_ns_ = now;
    }
    return {began_ns, size_.load_relaxed(), got != 0, is_slow_};
}

} // namespace rds
