// SPDX-License-Identifier: GPL-2.0
#include "stats.h"

#include <bit>

namespace rtrs_clt {

namespace {

// The larger one stays; when two meet, maybe the smaller one does.
template <class T> void raise(Atomic<T>& most, T value)
{
    if (value > most.load_relaxed())
        most.store_relaxed(value);
}

} // namespace

Result<> Stats::make()
{
    u32 cpus = kapi_cpus();
    counters_.reset(kapi_counters_create(counts));
    cpus_.reset(static_cast<PerCpu*>(kapi_zalloc(cpus * sizeof(PerCpu), KAPI_SLEEP)));
    if (!counters_ || !cpus_)
        return fail(KAPI_ENOMEM);
    for (; count_ < cpus; count_++)
        ::new (&cpus_.get()[count_]) PerCpu;
    return {};
}

void Stats::request(u32 cpu, bool is_read, u32 bytes, u32 entries)
{
    kapi_counters_add(counters_.get(), is_read ? reads : writes, 1);
    kapi_counters_add(counters_.get(), is_read ? read_bytes : write_bytes, bytes);
    u32 size = entries ? static_cast<u32>(std::bit_width(entries - 1)) + 1 : 0;
    of_cpu(cpu).lists[min(size, list_sizes - 1)].fetch_add(1);
}

void Stats::ended(bool is_read, u64 latency_ns)
{
    constexpr u64 ms = 1'000'000;
    u32 index = min(static_cast<u32>(std::bit_width(latency_ns / ms)), latencies - 1);
    kapi_counters_add(counters_.get(), (is_read ? latency_of_reads : latency_of_writes) + index, 1);
    raise(longest_ns_, latency_ns);
}

void Stats::completions(u32 n, u32 expected_cpu, u32 cpu)
{
    kapi_counters_add(counters_.get(), completed, n);
    kapi_counters_add(counters_.get(), handled, 1);
    raise(most_at_once_, n);
    if (cpu == expected_cpu)
        return;
    of_cpu(expected_cpu).migrated_from.fetch_add(1);
    of_cpu(cpu).migrated_to.fetch_add(1);
}

void Stats::reset(u32 first, u32 end)
{
    for (u32 i = first; i < end; i++)
        base_[i].store_release(kapi_counters_read(counters_.get(), i));
}

void Stats::reset_completions()
{
    reset(completed, handled + 1);
    most_at_once_.store_relaxed(0);
}

void Stats::reset_latencies()
{
    reset(latency_of_reads, counts);
    longest_ns_.store_relaxed(0);
}

void Stats::reset_lists()
{
    for (u32 i = 0; i < count_; i++)
        for (auto& list : of_cpu(i).lists)
            list.store_relaxed(0);
}

void Stats::reset_migrations()
{
    for (u32 i = 0; i < count_; i++) {
        of_cpu(i).migrated_from.store_relaxed(0);
        of_cpu(i).migrated_to.store_relaxed(0);
    }
}

void Stats::reset_reconnects()
{
    connects.store_relaxed(0);
    failed_connects.store_relaxed(0);
}

void Stats::reset_all()
{
    reset_requests();
    reset_completions();
    reset_latencies();
    reset_lists();
    reset_migrations();
    reset_reconnects();
}

} // namespace rtrs_clt
