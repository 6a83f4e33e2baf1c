// SPDX-License-Identifier: GPL-2.0
// Who allocates memory that may have to wait for IO.
#pragma once

#include <cstdint>
#include <string>

namespace sim {

/** A task of this name is in a call that may sleep, and maybe allocates. */
void note_sleep(const std::string &task, std::uint32_t id);
/** How many such calls tasks of this name have made outside of kapi_reclaim_without_io(). */
std::uint64_t calls_that_may_wait_for_io(const std::string &task);

} // namespace sim
