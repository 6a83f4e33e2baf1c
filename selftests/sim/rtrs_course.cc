// SPDX-License-Identifier: GPL-2.0
#include "rtrs_course.h"

#include <utility>

using namespace sim;

void RtrsCourse::fail(const std::string &why)
{
    world.print_tasks();
    world.fail("%s", why.c_str());
}

void RtrsCourse::in_task(Node &node, const char *name, std::function<void()> body)
{
    TaskRef task = world.spawn(node, name, std::move(body));
    if (!world.run_until([&] { return task->is_done(); }, 4 * kSettleNs))
        fail(std::string(name) + " on " + node.name() + " does not end");
}

std::string RtrsCourse::contents(std::uint64_t block, unsigned nth, std::size_t size)
{
    std::string bytes(size, '\0');
    Random random(block * 1000 + nth);
    std::uint64_t word = random.next();
    for (std::size_t i = 0; i < size; i++)
        bytes[i] = static_cast<char>((word >> i % 8 * 8) + i / 512);
    return bytes;
}
