// SPDX-License-Identifier: GPL-2.0
// One simulated run of RDS over TCP: machines, programs that send and receive, faults, and checks of the guarantees.
#pragma once

#include "course.h"
#include "fault_plan.h"

class Scenario {
public:
    explicit Scenario(std::uint64_t seed);
    Scenario(const Scenario &) = delete;
    Scenario &operator=(const Scenario &) = delete;

    /** Returns when all guarantees were kept; ends the process otherwise. */
    Outcome run();

private:
    void lay_links();
    void watch_memory();
    void set_up();
    void calm_round(bool excused);
    void expect_no_congestion();
    void shut_down();
    std::uint64_t settle_ns() const;
    std::uint64_t transfer_ns(std::uint64_t bytes) const;

    Course course_;
    FaultPlan faults_;
    std::uint64_t trip_ns_ = 0; // the longest round trip to another machine
};
