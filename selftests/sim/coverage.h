// SPDX-License-Identifier: GPL-2.0
// Which state transitions were taken in this process, summed over all its worlds.
#pragma once

#include <map>
#include <string>

/** How often each legal transition of core was taken, by name; those never taken are there with 0. */
std::map<std::string, unsigned long> &transitions_taken();
