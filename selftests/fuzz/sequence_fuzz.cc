// SPDX-License-Identifier: GPL-2.0
// A peer and a program, step by step: streams on any path, handshakes, messages, maps, resets, pauses, calls on sockets,
// links and memory that fail. Each step is eight bytes: the action, and seven of parameters; the first eight choose the larger
// address and the seed. At the end the peer behaves correctly, and
// then a message must arrive in each direction, and the modules must unload without a leak.
#include <kapi/sim/sim.h>

#include <cstdint>
#include <vector>

#include "selftests/fuzz/rds_course.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    std::vector<Step> steps = steps_of(data, size);
    if (steps.empty())
        return 0;
    Step first = steps.front();
    steps.erase(steps.begin());
    sim::World world(first[1]);
    RdsCourse course(world, first[0] % 2);
    auto task = world.spawn(course.node(), "course", [&] { course.run(steps); });
    if (!world.run_until([&] { return task->is_done(); }, 1200 * sim::kSecond))
        world.fail("stuck");
    world.run_for(sim::kSecond); // the last packets arrive
    return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t *data, std::size_t size, std::size_t max_size, unsigned int seed)
{
    return mutate_steps(data, size, max_size, seed);
}
