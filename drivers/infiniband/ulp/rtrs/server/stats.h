// SPDX-License-Identifier: GPL-2.0
// What a path counts.
#pragma once

#include <hawser/atomic.h>
#include <hawser/result.h>

namespace rtrs_srv {

using namespace hw;

enum class Stat : u8 { reads, read_bytes, writes, write_bytes, completions, completion_calls, count };

class Stats : Pinned {
public:
    ~Stats() { kapi_counters_destroy(counters_); }
    // Sleeps. ENOMEM.
    Result<> make()
    {
        counters_ = kapi_counters_create(static_cast<unsigned>(Stat::count));
        return counters_ ? Result<>() : fail(KAPI_ENOMEM);
    }
    // Any context. A request that is given to the user, with its message.
    void request(bool is_read, u64 bytes)
    {
        count(is_read ? Stat::reads : Stat::writes, 1);
        count(is_read ? Stat::read_bytes : Stat::write_bytes, bytes);
        inflight_.fetch_add(1);
    }
    void answered() { inflight_.fetch_sub(1); }
    void completions(u32 n)
    {
        count(Stat::completions, n);
        count(Stat::completion_calls, 1);
        if (n > most_completions_.load_relaxed())
            most_completions_.store_relaxed(n);
    }
    u64 read(Stat stat) const
    {
        u64 base = base_[static_cast<u8>(stat)].load_acquire(); // first: what it was taken from is less than what follows
        return kapi_counters_read(counters_, static_cast<unsigned>(stat)) - base;
    }
    u32 inflight() const { return inflight_.load_relaxed(); }
    u32 most_completions() const { return most_completions_.load_relaxed(); }
    // Any context. What is in flight stays counted.
    void reset()
    {
        for (u8 i = 0; i < static_cast<u8>(Stat::count); i++)
            base_[i].store_release(kapi_counters_read(counters_, i));
        most_completions_.store_relaxed(0);
    }

private:
    void count(Stat stat, u64 n) { kapi_counters_add(counters_, static_cast<unsigned>(stat), n); }
    kapi_counters* counters_ = nullptr;
    Atomic<u64> base_[static_cast<u8>(Stat::count)] = {}; // what was counted at the last reset
    Atomic<u32> inflight_{0}, most_completions_{0};
};

} // namespace rtrs_srv
