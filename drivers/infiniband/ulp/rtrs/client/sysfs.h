// SPDX-License-Identifier: GPL-2.0
// Files of sessions and paths below /sys/class/rtrs-client: Documentation/ABI/testing/sysfs-class-rtrs-client.
#pragma once

#include "../common/text.h"

#include <kapi/sysfs.h>

#include <span>

namespace rtrs_clt {

// The context of the first is a Session, of the others a Path.
std::span<const kapi_sysfs_file> session_files();
std::span<const kapi_sysfs_file> path_files();
std::span<const kapi_sysfs_file> stats_files();

// Shows what write(object, text) writes.
template <class Object, void (*Write)(Object&, rtrs::Text&)> int show(void* context, char* to)
{
    rtrs::Text text(to, KAPI_SYSFS_TEXT);
    Write(*static_cast<Object*>(context), text);
    return static_cast<int>(text.length());
}

// Gives take(object, line) what was written, without its newline.
template <class Object, hw::Result<> (*Take)(Object&, hw::TextView)>
int store(void* context, const char* text, kapi_size length)
{
    auto taken = Take(*static_cast<Object*>(context), rtrs::line_of(text, length));
    return taken ? 0 : taken.error().to_c();
}

} // namespace rtrs_clt
