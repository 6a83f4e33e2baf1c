// SPDX-License-Identifier: GPL-2.0
// The parameters of a run, from its seed, and its statistics.
#pragma once

#include <kapi/sim/sim.h>

#include <cstdint>
#include <string>

struct Profile {
    explicit Profile(sim::Random &random);

    unsigned nodes, sockets;       // sockets in each namespace
    bool cluster;                  // too many machines for each program to send to all
    unsigned port_step;            // from one namespace's ports to the next one's; 0: all have the same
    unsigned namespaces;           // of each node, the initial one included
    unsigned messages;             // of each program while there are faults
    std::size_t largest;           // bytes of a message
    kapi_u32 sndbuf, rcvbuf;       // of sockets
    bool slow_receivers, nonblocking;
    std::uint64_t fault_time_ns;   // duration of faults
    unsigned faults;               // their number
    bool crashes, reloads, buffers, cuts, resets, net_deletions;
    bool pauses, clock_jumps;      // a machine stops or sleeps; its wall clock is set
    std::uint64_t reset_after;     // bytes of a connection
    unsigned lose_one_in;
    std::uint64_t fail_one_in;     // allocations
    bool lengths;                  // programs send and receive several messages in a call
    bool zerocopy, bad_memory;     // programs send from their own pages; their memory faults and stalls
    bool reopens;                  // sockets close and open again under traffic
    bool famines;                  // short times almost without memory, the first at the start
    bool hot;                      // all send to one socket, whose program is slow
    bool adversary;                // with a malicious peer
    unsigned idle_ms;              // net.rds.idle_connection_ms; 0: the default
    bool uneven;                   // links and connections' paths differ by orders of magnitude
    /** Approximate numbers of one machine's messages while there are faults, and in a round without. */
    std::uint64_t bytes_of_a_node() const;
    std::uint64_t bytes_of_a_round() const;
    std::string describe() const;

private:
    std::uint64_t average() const;
    void choose_faults(sim::Random &random);
    void choose_extremes(sim::Random &random);
    void choose_size(sim::Random &random);
};

struct Outcome {
    std::uint64_t hash, messages, events, resets, connections, crashes, reloads, net_deletions, allocation_faults;
    std::uint64_t hostile_acts, hostile_messages; // the second one: delivered
    double simulated_seconds;
};
