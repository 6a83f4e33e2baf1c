// SPDX-License-Identifier: GPL-2.0
// A machine of a run, with the namespaces in which programs run, and its faults.
#pragma once

#include <memory>
#include <vector>

#include "program.h"
#include "rds_host.h"

struct Course;
class Machine;

/** A network namespace with an address of its own, and its programs. It may be away for a time. */
struct Site {
    Machine &machine;
    unsigned number; // determines the address
    kapi_net *net;   // null while it is away
    std::vector<std::unique_ptr<Program>> programs;

    kapi_addr address(kapi_u16 port = 0) const;
    void start_programs(Course &course);
    void stop_programs();
};

class Machine {
public:
    static constexpr int kSmallestBuffer = 5000; // of TCP, in bytes

    Machine(Course &course, sim::Node &node, unsigned index) : node(node), index(index), host(node), course_(course) {}

    /** One more namespace; the first is the initial one. */
    void add_site();

    // From a task of the machine.
    void configure(const RdsHost::Net &net);
    void boot();
    void stop_programs();

    // Faults, from outside of its tasks. Those after the first four need a steady machine.
    void famine();
    void reopen_soon();
    void pause();
    void set_clock();
    void crash();
    void reload();
    void reopen();
    void change_buffers();
    void delete_nets();

    sim::Node &node;
    const unsigned index;
    RdsHost host;
    bool steady = false; // up, with its programs running, and no fault active here
    std::vector<std::unique_ptr<Site>> sites;

private:
    void spawn(const char *name, std::function<void()> body, sim::TaskKind kind = sim::TaskKind::process);
    void end_nets(const std::vector<Site *> &going);
    void bring_back(Site &site);
    void bring_back_soon(Site &site);
    std::uint64_t without_faults();

    Course &course_;
};
