// SPDX-License-Identifier: GPL-2.0
// Shared state of one run: the world, its profile, its machines, and its progress.
#pragma once

#include <memory>
#include <vector>

#include "adversary.h"
#include "ledger.h"
#include "machine.h"
#include "profile.h"

struct Course {
    explicit Course(std::uint64_t seed) : world(seed), profile(world.random()) {}

    /** Prints what each task waits for, then fails the run. */
    [[noreturn]] void fail(const std::string &why);
    /** Runs body as a task of a machine, to its end. */
    void in_task(Machine &machine, const char *name, std::function<void()> body);

    sim::World world;
    const Profile profile;
    Ledger ledger;
    std::vector<std::shared_ptr<std::vector<unsigned char>>> abandoned; // pinned memory of programs that ended
    std::vector<std::unique_ptr<Machine>> machines;
    std::vector<Site *> sites; // of all machines, by number
    std::unique_ptr<Adversary> adversary; // null in most runs
    unsigned calm_rounds = 0;  // rounds that programs may begin
    bool calm = false;         // no fault begins any more
    bool over = false;         // all is shut down
    Outcome outcome{};
};
