// SPDX-License-Identifier: GPL-2.0
#include "fault_plan.h"

#include <algorithm>

using namespace sim;

namespace {
constexpr unsigned kTries = 10;
} // namespace

/** A machine that this one has connections to, unless the search takes too long: in a cluster most have none. */
Machine &FaultPlan::other_than(const Machine &machine)
{
    auto &machines = course_.machines;
    for (unsigned tries = 0;; tries++) {
        std::size_t step = 1 + course_.world.random().below(machines.size() - 1);
        Machine &other = *machines[(machine.index + step) % machines.size()];
        if (!course_.profile.cluster || tries == kTries || course_.world.network().connections(machine.node, other.node))
            return other;
    }
}

void FaultPlan::cut(Machine &a)
{
    Machine &b = other_than(a);
    Network &network = course_.world.network();
    bool one_way = course_.world.random().one_in(3);
    network.link(a.node, b.node).cut = true;
    if (!one_way)
        network.link(b.node, a.node).cut = true;
    course_.world.note("cut", a.index, b.index);
    course_.world.after(course_.world.random().below(4 * kSecond),
                        [&network, &a, &b] { network.cut(a.node, b.node, false); });
}

/** Memory runs out, mostly when all paths to a machine reconnect: no later traffic may repair losses of that time. */
void FaultPlan::famine(Machine &machine)
{
    Random &random = course_.world.random();
    machine.famine();
    if (!random.one_in(4))
        course_.world.network().reset(machine.node, other_than(machine).node, static_cast<Sees>(random.below(3)));
}

/** One of this run's faults, at one machine. */
void FaultPlan::one()
{
    const Profile &profile = course_.profile;
    const Kind kinds[] = {
        {profile.resets, false, [](FaultPlan &self, Machine &machine) {
             auto seen = static_cast<Sees>(self.course_.world.random().below(3));
             self.course_.world.network().reset(machine.node, self.other_than(machine).node, seen);
         }},
        {profile.cuts, false, [](FaultPlan &self, Machine &machine) { self.cut(machine); }},
        {profile.crashes, true, [](FaultPlan &, Machine &machine) { machine.crash(); }},
        {profile.reloads, true, [](FaultPlan &, Machine &machine) { machine.reload(); }},
        {profile.reopens, true, [](FaultPlan &, Machine &machine) { machine.reopen(); }},
        {profile.famines, true, [](FaultPlan &self, Machine &machine) { self.famine(machine); }},
        {profile.buffers, true, [](FaultPlan &, Machine &machine) { machine.change_buffers(); }},
        {profile.pauses, false, [](FaultPlan &, Machine &machine) { machine.pause(); }},
        {profile.clock_jumps, false, [](FaultPlan &, Machine &machine) { machine.set_clock(); }},
        {profile.net_deletions, true, [](FaultPlan &, Machine &machine) { machine.delete_nets(); }},
    };
    Random &random = course_.world.random();
    Machine &machine = *course_.machines[random.below(course_.machines.size())];
    std::vector<const Kind *> possible;
    for (const Kind &kind : kinds)
        if (kind.happens)
            possible.push_back(&kind);
    const Kind &chosen = *possible[random.below(possible.size())];
    if (machine.steady || !chosen.needs_steady)
        chosen.strike(*this, machine);
}

void FaultPlan::plan()
{
    const Profile &profile = course_.profile;
    Random &random = course_.world.random();
    for (auto &machine : course_.machines) {
        machine->node.faults().one_in = profile.fail_one_in;
        if (profile.famines)
            machine->famine();
        if (profile.reopens && random.one_in(2))
            machine->reopen_soon();
    }
    for (unsigned i = 0; i < profile.faults; i++)
        course_.world.after(random.below(profile.fault_time_ns), [this] { one(); });
}

void FaultPlan::end()
{
    Network &network = course_.world.network();
    course_.calm = true;
    network.heal_all();
    network.reset_after_about(0);
    for (auto &machine : course_.machines)
        machine->node.faults().one_in = 0;
    auto all_back = [this] {
        return std::all_of(course_.machines.begin(), course_.machines.end(), [](const auto &m) {
                   return m->steady && !m->node.is_paused();
               }) &&
               std::all_of(course_.sites.begin(), course_.sites.end(), [](const Site *site) { return site->net; });
    };
    if (!course_.world.run_until(all_back, 100 * kSecond))
        course_.fail("a machine or a namespace does not come back");
    network.heal_all();
}
