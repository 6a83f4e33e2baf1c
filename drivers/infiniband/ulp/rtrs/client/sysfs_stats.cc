// SPDX-License-Identifier: GPL-2.0
#include "session.h"
#include "sysfs.h"

namespace rtrs_clt {

namespace {

using rtrs::Text;
constexpr u64 ms = 1'000'000;

Text& count(Text& text, u64 value) { return text.number(static_cast<s64>(value)); }

void show_rdma(Path& path, Text& text)
{
    Stats& stats = path.stats();
    for (u32 what : {Stats::reads, Stats::read_bytes, Stats::writes, Stats::write_bytes})
        count(text, stats.read(what)).add(" ");
    count(text, path.inflight()).add(" ");
    count(text, stats.read(Stats::failovers)).add("\n");
}

void show_reconnects(Path& path, Text& text)
{
    count(text, path.stats().connects.load_relaxed()).add(" ");
    count(text, path.stats().failed_connects.load_relaxed()).add("\n");
}

// One number for each CPU, each with a space behind it, as upstream.
void write_migrations(Stats& stats, Text& text, Atomic<u64> Stats::PerCpu::*which)
{
    for (u32 cpu = 0; cpu < stats.cpus(); cpu++)
        count(text, (stats.of_cpu(cpu).*which).load_relaxed()).add(" ");
    text.add("\n");
}

void show_from(Path& path, Text& text) { write_migrations(path.stats(), text, &Stats::PerCpu::migrated_from); }
void show_to(Path& path, Text& text) { write_migrations(path.stats(), text, &Stats::PerCpu::migrated_to); }

void show_migration(Path& path, Text& text)
{
    text.add("from: ");
    show_from(path, text);
    text.add("to: ");
    show_to(path, text);
}

// A line for each CPU: how many lists had no entry, 1, 2, 3 to 4 and so on.
void show_lists(Path& path, Text& text)
{
    text.add("cpu: 0 1 2 3-4 5-8 9-16 17-32 >32\n");
    for (u32 cpu = 0; cpu < path.stats().cpus(); cpu++) {
        count(text, cpu).add(":");
        for (auto& lists : path.stats().of_cpu(cpu).lists)
            count(text.add(" "), lists.load_relaxed());
        text.add("\n");
    }
}

void show_latencies(Path& path, Text& text)
{
    Stats& stats = path.stats();
    for (u32 i = 0; i < Stats::latencies; i++) {
        bool last = i == Stats::latencies - 1;
        count(text.add(last ? ">= " : ""), u64{1} << (last ? i - 1 : i)).add(" ms: ");
        count(text, stats.read(Stats::latency_of_reads + i)).add(" ");
        count(text, stats.read(Stats::latency_of_writes + i)).add("\n");
    }
    count(text.add("maximum ms: "), stats.longest_ns() / ms).add("\n");
}

void show_completions(Path& path, Text& text)
{
    u64 calls = path.stats().read(Stats::handled);
    count(text, path.stats().most_at_once()).add(" ");
    count(text, calls ? path.stats().read(Stats::completed) / calls : 0).add("\n");
}

void show_reset(Path&, Text& text) { text.add("echo 1 to reset all statistics\n"); }

template <void (Stats::*Reset)()> Result<> store_reset(Path& path, TextView line)
{
    if (line != "1")
        return fail(KAPI_EINVAL);
    (path.stats().*Reset)();
    return {};
}

// The documents say 0, upstream's code takes 1.
Result<> store_reset_all(Path& path, TextView line)
{
    return store_reset<&Stats::reset_all>(path, line == "0" ? "1" : line);
}

constexpr kapi_sysfs_file files[] = {
    {"rdma", show<Path, show_rdma>, store<Path, store_reset<&Stats::reset_requests>>},
    {"reconnects", show<Path, show_reconnects>, store<Path, store_reset<&Stats::reset_reconnects>>},
    {"cpu_migration", show<Path, show_migration>, nullptr},
    {"cpu_migration_from", show<Path, show_from>, store<Path, store_reset<&Stats::reset_migrations>>},
    {"cpu_migration_to", show<Path, show_to>, store<Path, store_reset<&Stats::reset_migrations>>},
    {"sg_entries", show<Path, show_lists>, nullptr},
    {"rdma_lat", show<Path, show_latencies>, nullptr},
    {"wc_completion", show<Path, show_completions>, nullptr},
    {"reset_all", show<Path, show_reset>, store<Path, store_reset_all>},
};

} // namespace

std::span<const kapi_sysfs_file> stats_files() { return files; }

} // namespace rtrs_clt
