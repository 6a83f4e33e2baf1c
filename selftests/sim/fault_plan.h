// SPDX-License-Identifier: GPL-2.0
// What goes wrong in a run, and when.
#pragma once

#include "course.h"

class FaultPlan {
public:
    explicit FaultPlan(Course &course) : course_(course) {}

    /** From now on, for the profile's time. */
    void plan();
    /** Nothing goes wrong any more; returns when everything is up again. */
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
