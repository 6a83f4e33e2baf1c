// SPDX-License-Identifier: GPL-2.0
// The simulator's control panel: everything a test needs.
//
//     sim::World world(seed);
//     sim::Node &a = world.add_node("a");
//     a.initial_net().add(sim::address("10.0.0.1"));
//     auto task = world.spawn(a, "program", [&] { ... calls into core ... });
//     world.run_until([&] { return task->is_done(); }, 10 * sim::kSecond);
//
// A broken rule (lock order, sleeping under a lock, a call from a callback, a leak) ends the process with the seed and
// the last events. Environment: SIM_TRACE=1 prints every event, SIM_LAST=n the last n at a failure, SIM_LOG=level what
// modules log, SIM_TRAP_ALLOC=n stops at an allocation that leaked.
#pragma once

#include "lock.h"
#include "network.h"
#include "node.h"
#include "program_socket.h"
#include "user.h"
#include "world.h"
