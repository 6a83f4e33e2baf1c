// SPDX-License-Identifier: GPL-2.0
// Slow motion: what a test changes so that it comes between two steps of another thread.
#pragma once

#include <cstdint>

namespace sim {

/**
 * From now on, who gives back a lock of this name stands still for so long, as a virtual processor whose host does something
 * else. Null: nobody does.
 */
void stand_still_after(const char *lock, std::uint64_t duration_ns);

} // namespace sim
