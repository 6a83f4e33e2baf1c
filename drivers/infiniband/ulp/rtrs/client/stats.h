// SPDX-License-Identifier: GPL-2.0
// What a path counts. Any context. What requests count is one copy a CPU.
#pragma once

#include <hawser/atomic.h>
#include <hawser/memory.h>

namespace rtrs_clt {

using namespace hw;

inline void free_counters(kapi_counters* counters) { kapi_counters_destroy(counters); }

class Stats : Pinned {
public:
    enum Count : u32 { reads, read_bytes, writes, write_bytes, failovers, completed, handled, counts };

    // Sleeps. ENOMEM.
    Result<> make()
    {
        counters_.reset(kapi_counters_create(counts));
        return counters_ ? Result<>() : fail(KAPI_ENOMEM);
    }
    void request(bool is_read, u32 bytes)
    {
        kapi_counters_add(counters_.get(), is_read ? reads : writes, 1);
        kapi_counters_add(counters_.get(), is_read ? read_bytes : write_bytes, bytes);
    }
    void failed_over() { kapi_counters_add(counters_.get(), failovers, 1); }
    // n work completions were handled at once.
    void completions(u32 n)
    {
        kapi_counters_add(counters_.get(), completed, n);
        kapi_counters_add(counters_.get(), handled, 1);
        if (n > most_at_once_.load_relaxed())
            most_at_once_.store_relaxed(n);
    }
    u64 read(Count what) const { return kapi_counters_read(counters_.get(), what); }
    u32 most_at_once() const { return most_at_once_.load_relaxed(); }

    Atomic<u32> connects{0}, failed_connects{0};

private:
    Own<kapi_counters, free_counters> counters_;
    Atomic<u32> most_at_once_{0};
};

} // namespace rtrs_clt
