// SPDX-License-Identifier: GPL-2.0
// What a program does with files below /sys/class of its machine. Paths begin with "/sys/class/".
#pragma once

#include <kapi/sysfs.h>

#include <cstddef>
#include <string>
#include <vector>

namespace sim {

class Node;

// From a task. -ENOENT: there is no such file; -EACCES: it cannot be read or written; else what show or store returned.
int sysfs_read(const std::string &path, std::string &text);
int sysfs_write(const std::string &path, const std::string &text);
/** The names in a folder, sorted; none if there is no such folder. */
std::vector<std::string> sysfs_list(const std::string &path);
/** 0444 and so on; 0: there is no such file. */
unsigned sysfs_mode(const std::string &path);

/** How many classes and folders there are. */
std::size_t sysfs_folders(const Node &node);
/** A crash. */
void forget_sysfs(const Node &node);

} // namespace sim
