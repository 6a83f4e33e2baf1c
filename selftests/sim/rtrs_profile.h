// SPDX-License-Identifier: GPL-2.0
// The parameters of a run of RTRS, from its seed.
#pragma once

#include <kapi/sim/sim.h>

#include <cstdint>
#include <string>

struct RtrsProfile {
    explicit RtrsProfile(sim::Random &random);

    bool always_invalidate;
    bool waits;                // requests that are made while there is no path wait for one
    bool one_path_lives;       // what happens to paths happens to the second one only, so that no request may fail
    bool cuts, devices, disconnects, reloads, server_crashes, client_crashes, pauses, holds; // what happens
    unsigned faults;           // their number
    std::uint64_t fault_time_ns; // in which they happen
    std::uint64_t fail_one_in; // allocations
    unsigned programs, rounds; // and requests of each while there are faults
    unsigned depth;            // requests of the session at a time
    unsigned heartbeat_ms;     // of the client: it may notice a loss long before the server does
    std::size_t chunk, largest;// bytes of a chunk, and of a request
    std::uint64_t bio_ns;      // most that the disk takes for a request
    bool whole_answers;        // else as with a client that is the kernel's own
    unsigned slow_one_in;      // requests take much longer; 0: none

    bool may_fail() const { return !one_path_lives; }
    std::string describe() const;
};
