// SPDX-License-Identifier: GPL-2.0
// The faults of a run, and their times.
#pragma once

#include "course.h"

class FaultPlan {
public:
    explicit FaultPlan(Course &course) : course_(course) {}

    /** Runs faults for the profile's time. */
    void plan();
    /** Ends all faults; returns when everything is up again. */
    void end();

private:
    struct Kind {
        bool happens;
        bool needs_steady;
        void (*strike)(FaultPlan &faults, Machine &machine);
    };
    void one();
    void cut(Machine &machine);
    void famine(Machine &machine);
    Machine &other_than(const Machine &machine);

    Course &course_;
};
