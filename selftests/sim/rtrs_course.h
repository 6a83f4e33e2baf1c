// SPDX-License-Identifier: GPL-2.0
// Shared state of one run of RTRS.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "profile.h"
#include "rtrs_profile.h"

struct RtrsCourse {
    explicit RtrsCourse(std::uint64_t seed) : world(seed), profile(world.random()) {}

    /** Prints what each task waits for, then fails the run. */
    [[noreturn]] void fail(const std::string &why);
    /** Runs body as a task of a machine, to its end. */
    void in_task(sim::Node &node, const char *name, std::function<void()> body);
    /** What is written to a block, the nth time. */
    static std::string contents(std::uint64_t block, unsigned nth, std::size_t size);

    static constexpr std::uint64_t kSettleNs = 60 * sim::kSecond; // without faults everything ends within this time
    static constexpr kapi_u16 kPort = 1234;
    static constexpr unsigned kPaths = 2;
    static constexpr const char *kClient[kPaths] = {"10.0.0.1", "10.0.1.1"}, *kServer[kPaths] = {"10.0.0.2", "10.0.1.2"};

    sim::World world;
    const RtrsProfile profile;
    std::uint64_t next_block = 1; // none has two owners
    bool calm = false;            // no fault begins any more
    Outcome outcome{};
};
