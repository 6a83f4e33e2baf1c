// SPDX-License-Identifier: GPL-2.0
// One simulated run of KCM: two machines whose programs exchange framed messages over several TCP connections, through KCM
// on both sides or on one, while connections break, memory fails, sockets are opened and closed, and machines crash and restart.
#pragma once

#include <memory>

#include "kcm_course.h"
#include "kcm_side.h"

class KcmScenario {
public:
    explicit KcmScenario(std::uint64_t seed);
    KcmScenario(const KcmScenario &) = delete;
    KcmScenario &operator=(const KcmScenario &) = delete;

    /** Returns when all guarantees were kept; ends the process otherwise. */
    Outcome run();

private:
    void plan_falls();
    void end_half_open();
    void trouble();
    void calm_down(bool excused);
    void end();

    KcmCourse course_;
    std::unique_ptr<KcmSide> a_, b_;
    unsigned falls_left_ = 0;
};
