// SPDX-License-Identifier: GPL-2.0
// Peers, a program and the environment of KCM, step by step: connections that carry messages, pieces or garbage, are reset,
// closed or not read; any call on any socket, also several at a time and interrupted; memory that is scarce, faults or
// stalls; buffers, links, namespaces, the module. Each step is eight bytes: the action, and seven of parameters; the first eight
// are the seed. At the end faults stop: messages that had to arrive have arrived, whole, once, in order, new messages pass in
// both directions on all healthy connections, unattached TCP sockets carry bytes, and all memory is freed.
#include <kapi/sim/sim.h>

#include <cstdint>
#include <vector>

#include "selftests/fuzz/kcm_course.h"

using namespace sim;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    std::vector<Step> steps = steps_of(data, size);
    if (steps.empty())
        return 0;
    Step first = steps.front();
    steps.erase(steps.begin());
    World world(first[1]);
    KcmCourse course(world);
    auto task = world.spawn(course.node(), "course", [&] { course.run(steps); });
    if (!world.run_until([&] { return task->is_done(); }, 20'000 * kSecond))
        world.fail("stuck");
    world.run_for(200 * kSecond); // TCP ends
    return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t *data, std::size_t size, std::size_t max_size, unsigned int seed)
{
    return mutate_steps(data, size, max_size, seed);
}
