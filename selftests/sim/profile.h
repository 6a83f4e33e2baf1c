// SPDX-License-Identifier: GPL-2.0
// What a seed makes of a run, and what the run was like.
#pragma once

#include <kapi/sim/sim.h>

#include <cstdint>
#include <string>

struct Profile {
    explicit Profile(sim::Random &random);

    unsigned nodes, sockets;       // sockets in each namespace
    unsigned namespaces;           // of each node, the initial one included
    unsigned messages;             // each program sends so many while there are faults
    std::size_t largest;           // bytes of a message
    kapi_u32 sndbuf, rcvbuf;       // of sockets
    bool slow_receivers, nonblocking;
    std::uint64_t fault_time_ns;   // faults happen for so long
    unsigned faults;               // so many
    bool crashes, reloads, buffers, cuts, resets, net_deletions;
    std::uint64_t reset_after;     // bytes of a connection
    unsigned lose_one_in;
    std::uint64_t fail_one_in;     // allocations
    bool zerocopy, bad_memory;     // programs send from their own pages; their memory faults and stalls
    bool reopens;                  // sockets close and open again under traffic
    bool famines;                  // for moments there is next to no memory, the first when everything begins
    bool hot;                      // everybody sends to one socket, whose program is slow
    std::string describe() const;

private:
    void choose_faults(sim::Random &random);
    void choose_extremes(sim::Random &random);
};

struct Outcome {
    std::uint64_t hash, messages, events, resets, connections, crashes, reloads, net_deletions, allocation_faults;
    double simulated_seconds;
};
