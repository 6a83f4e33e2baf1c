// SPDX-License-Identifier: GPL-2.0
// Counts of state transitions in this process, over all its worlds.
#pragma once

#include <map>
#include <string>

/** The count of each legal transition of core, by name, including 0. */
std::map<std::string, unsigned long> &transitions_taken();
