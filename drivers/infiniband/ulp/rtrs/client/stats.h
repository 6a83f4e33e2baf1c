// SPDX-License-Identifier: GPL-2.0
// What a path counts. Any context. What each request counts is one copy a CPU.
#pragma once

#include <hawser/atomic.h>
#include <hawser/memory.h>

namespace rtrs_clt {

using namespace hw;

inline void free_counters(kapi_counters* counters) { kapi_counters_destroy(counters); }

class Stats : Pinned {
public:
    // Lists are counted by their number of entries: none, 1, 2, 3 to 4, and so on to 32, and more.
    static constexpr u32 list_sizes = 8;
    // Latencies are counted by the first of 1, 2, 4 ... 65536 ms that they are below, or as longer ones.
    static constexpr u32 latencies = 18;
    enum Count : u32 { reads, read_bytes, writes, write_bytes, failovers, completed, handled, latency_of_reads,
                       latency_of_writes = latency_of_reads + latencies, counts = latency_of_writes + latencies };

    struct PerCpu {
        Atomic<u64> lists[list_sizes]{}; // of requests of this CPU
        Atomic<u64> migrated_from{0}, migrated_to{0}; // calls of the handler: expected on it; unexpected
        u64 rest[6] = {}; // two cache lines each
    };

    // Sleeps. ENOMEM.
    Result<> make();

    void request(u32 cpu, bool is_read, u32 bytes, u32 entries);
    void ended(bool is_read, u64 latency_ns);
    void failed_over() { kapi_counters_add(counters_.get(), failovers, 1); }
    // n work completions were handled at once, on the CPU where that was expected, or on another one.
    void completions(u32 n, u32 expected_cpu, u32 cpu);

    // Since the last reset.
    u64 read(u32 what) const
    {
        u64 base = base_[what].load_acquire(); // first: what it was taken from is less than what follows
        return kapi_counters_read(counters_.get(), what) - base;
    }
    u32 most_at_once() const { return most_at_once_.load_relaxed(); }
    u64 longest_ns() const { return longest_ns_.load_relaxed(); }
    PerCpu& of_cpu(u32 cpu) const { return cpus_.get()[cpu < count_ ? cpu : 0]; }
    u32 cpus() const { return count_; }

    // Counts are read at the same time, so that a reset is not exact.
    void reset(u32 first, u32 end);
    void reset_requests() { reset(reads, failovers + 1); }
    void reset_completions();
    void reset_latencies();
    void reset_lists();
    void reset_migrations();
    void reset_reconnects();
    void reset_all();

    Atomic<u32> connects{0}, failed_connects{0};

private:
    static void free_cpus(PerCpu* cpus) { kapi_free(cpus); }
    Own<kapi_counters, free_counters> counters_;
    Own<PerCpu, free_cpus> cpus_;
    u32 count_ = 0;
    Atomic<u64> base_[counts]{};
    Atomic<u32> most_at_once_{0};
    Atomic<u64> longest_ns_{0};
};

} // namespace rtrs_clt
