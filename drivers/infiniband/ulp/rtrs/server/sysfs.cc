// SPDX-License-Identifier: GPL-2.0
#include "sysfs.h"

#include "session.h"

#include "../common/path_name.h"

namespace rtrs_srv {

namespace {

// Shows what Write(object, text) writes.
template <class Object, void (*Write)(Object&, Text&)> int show(void* context, char* to)
{
    Text text(to, KAPI_SYSFS_TEXT);
    Write(*static_cast<Object*>(context), text);
    return static_cast<int>(text.length());
}

// Gives Take(object, line) what was written, without its newline.
template <class Object, Result<> (*Take)(Object&, TextView)>
int store(void* context, const char* text, kapi_size length)
{
    auto taken = Take(*static_cast<Object*>(context), line_of(text, length));
    return taken ? 0 : taken.error().to_c();
}

// ---- a session

constexpr u32 least_interval_ms = 10, most_interval_ms = 3'600'000, most_missed = 1000;

void show_interval(Session& session, Text& text)
{
    text.number(session.heartbeat_interval_ms.load_relaxed()).add("\n");
}

void show_missed(Session& session, Text& text)
{
    text.number(session.heartbeat_missed.load_relaxed()).add("\n");
}

Result<> store_interval(Session& session, TextView line)
{
    session.heartbeat_interval_ms.store_relaxed(static_cast<u32>(TRY(parse_number(line, least_interval_ms, most_interval_ms))));
    session.notify_all(Path::changed);
    return {};
}

Result<> store_missed(Session& session, TextView line)
{
    session.heartbeat_missed.store_relaxed(static_cast<u32>(TRY(parse_number(line, 1, most_missed))));
    return {};
}

constexpr kapi_sysfs_file of_session[] = {
    {"heartbeat_interval_ms", show<Session, show_interval>, store<Session, store_interval>},
    {"heartbeat_missed", show<Session, show_missed>, store<Session, store_missed>},
};

// ---- a path

void show_device(Path& path, Text& text) { text.add(path.device_name()).add("\n"); }
void show_port(Path& path, Text& text) { text.number(path.device_port()).add("\n"); }

void show_source(Path& path, Text& text)
{
    write_address(text, path.space(), path.client());
    text.add("\n");
}

void show_destination(Path& path, Text& text)
{
    write_address(text, path.space(), path.server());
    text.add("\n");
}

void show_disconnect(Path&, Text& text) { text.add("Usage: echo 1 > disconnect\n"); }

Result<> store_disconnect(Path& path, TextView line)
{
    if (line != "1")
        return fail(KAPI_EINVAL);
    path.notify(Path::lost);
    return {};
}

constexpr kapi_sysfs_file of_path[] = {
    {"hca_name", show<Path, show_device>, nullptr},
    {"hca_port", show<Path, show_port>, nullptr},
    {"src_addr", show<Path, show_source>, nullptr},
    {"dst_addr", show<Path, show_destination>, nullptr},
    {"disconnect", show<Path, show_disconnect>, store<Path, store_disconnect>},
};

// ---- its statistics

void show_rdma(Path& path, Text& text)
{
    for (Stat stat : {Stat::reads, Stat::read_bytes, Stat::writes, Stat::write_bytes})
        text.number(static_cast<s64>(path.stats.read(stat))).add(" ");
    text.number(path.stats.inflight()).add("\n");
}

void show_completions(Path& path, Text& text)
{
    text.number(path.stats.most_completions()).add(" ");
    text.number(static_cast<s64>(path.stats.read(Stat::completions))).add(" ");
    text.number(static_cast<s64>(path.stats.read(Stat::completion_calls))).add("\n");
}

void show_reset(Path&, Text& text) { text.add("echo 1 to reset all statistics\n"); }

// The documents say 0, upstream's code 1.
Result<> store_reset(Path& path, TextView line)
{
    if (line != "0" && line != "1")
        return fail(KAPI_EINVAL);
    path.stats.reset();
    return {};
}

constexpr kapi_sysfs_file of_stats[] = {
    {"rdma", show<Path, show_rdma>, nullptr},
    {"wc_completion", show<Path, show_completions>, nullptr},
    {"reset_all", show<Path, show_reset>, store<Path, store_reset>},
};

} // namespace

std::span<const kapi_sysfs_file> session_files() { return of_session; }
std::span<const kapi_sysfs_file> path_files() { return of_path; }
std::span<const kapi_sysfs_file> stats_files() { return of_stats; }

} // namespace rtrs_srv
