// SPDX-License-Identifier: GPL-2.0
// Files of sessions and paths below /sys/class/rtrs-server: Documentation/ABI/testing/sysfs-class-rtrs-server.
#pragma once

#include <kapi/sysfs.h>

#include <span>

namespace rtrs_srv {

// The context of the first is a Session, of the others a Path.
std::span<const kapi_sysfs_file> session_files();
std::span<const kapi_sysfs_file> path_files();
std::span<const kapi_sysfs_file> stats_files();

} // namespace rtrs_srv
