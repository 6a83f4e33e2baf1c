// SPDX-License-Identifier: GPL-2.0
#include "session.h"
#include "sysfs.h"

#include "../common/path_name.h"

namespace rtrs_clt {

namespace {

using rtrs::Text;

void show_device(Path& path, Text& text)
{
    Path::Place place = path.place();
    text.add(place.device).add("\n");
}

void show_port(Path& path, Text& text)
{
    text.number(path.place().info.port).add("\n");
}

void show_source(Path& path, Text& text)
{
    write_address(text, path.address().space, path.place().info.local);
    text.add("\n");
}

void show_destination(Path& path, Text& text)
{
    write_address(text, path.address().space, path.place().info.remote);
    text.add("\n");
}

void show_state(Path& path, Text& text)
{
    text.add(path.state() == PathState::up ? "connected\n" : "disconnected\n");
}

void show_exact_state(Path& path, Text& text)
{
    text.add(name_of(path.state())).add("\n");
}

void show_error(Path& path, Text& text)
{
    text.number(path.reason().to_c()).add("\n");
}

void show_latency(Path& path, Text& text)
{
    text.number(static_cast<s64>(path.latency_ns())).add(" ns\n");
}

// ---- commands

Result<> expect_one(TextView line)
{
    return line == "1" ? Result<>() : fail(KAPI_EINVAL);
}

void show_reconnect(Path&, Text& text) { text.add("Usage: echo 1 > reconnect\n"); }
void show_disconnect(Path&, Text& text) { text.add("Usage: echo 1 > disconnect\n"); }
void show_remove(Path&, Text& text) { text.add("Usage: echo 1 > remove_path\n"); }

Result<> store_reconnect(Path& path, TextView line)
{
    TRY(expect_one(line));
    return path.connect();
}

Result<> store_disconnect(Path& path, TextView line)
{
    TRY(expect_one(line));
    path.disconnect();
    return {};
}

Result<> store_remove(Path& path, TextView line)
{
    TRY(expect_one(line));
    return path.session().remove_path_of("remove_path", path);
}

constexpr kapi_sysfs_file files[] = {
    {"hca_name", show<Path, show_device>, nullptr},
    {"hca_port", show<Path, show_port>, nullptr},
    {"src_addr", show<Path, show_source>, nullptr},
    {"dst_addr", show<Path, show_destination>, nullptr},
    {"state", show<Path, show_state>, nullptr},
    {"state_detail", show<Path, show_exact_state>, nullptr},
    {"last_error", show<Path, show_error>, nullptr},
    {"cur_latency", show<Path, show_latency>, nullptr},
    {"reconnect", show<Path, show_reconnect>, store<Path, store_reconnect>},
    {"disconnect", show<Path, show_disconnect>, store<Path, store_disconnect>},
    {"remove_path", show<Path, show_remove>, store<Path, store_remove>},
};

} // namespace

std::span<const kapi_sysfs_file> path_files() { return files; }

} // namespace rtrs_clt
