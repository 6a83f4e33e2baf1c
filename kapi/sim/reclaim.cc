// SPDX-License-Identifier: GPL-2.0
// Memory is there without waiting for anything here: it is only counted who would wait.
#include "reclaim.h"

#include <kapi/reclaim.h>

#include <map>
#include <set>

#include "node.h"

namespace sim {

namespace {

thread_local std::set<std::uint32_t> without_io; // tasks
thread_local std::map<std::string, std::uint64_t> calls;

} // namespace

void note_sleep(const std::string &task, std::uint32_t id)
{
    if (!without_io.contains(id))
        calls[task]++;
}

std::uint64_t calls_that_may_wait_for_io(const std::string &task)
{
    return calls[task];
}

} // namespace sim

unsigned int kapi_reclaim_without_io(void) noexcept
{
    return sim::without_io.insert(sim::World::current_task()->id).second;
}

void kapi_reclaim_restore(unsigned int before) noexcept
{
    if (before)
        sim::without_io.erase(sim::World::current_task()->id);
}
