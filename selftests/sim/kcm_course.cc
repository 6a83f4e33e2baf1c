// SPDX-License-Identifier: GPL-2.0
#include "kcm_course.h"

#include <algorithm>
#include <utility>

using namespace sim;

void KcmCourse::fail(const std::string &why)
{
    world.print_tasks();
    world.fail("%s", why.c_str());
}

void KcmCourse::in_task(Node &node, const char *name, std::function<void()> body)
{
    TaskRef task = world.spawn(node, name, std::move(body));
    if (!world.run_until([&] { return task->is_done(); }, 4 * kSettleNs))
        fail(std::string(name) + " on " + node.name() + " does not end");
}

std::size_t KcmCourse::size()
{
    Random &random = world.random();
    std::size_t most = random.one_in(3) ? profile.largest : std::min<std::size_t>(profile.largest, 500);
    return KcmLedger::smallest + random.below(most - KcmLedger::smallest + 1);
}
