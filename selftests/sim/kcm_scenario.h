// SPDX-License-Identifier: GPL-2.0
// One simulated run of KCM: two machines whose programs exchange framed messages over several TCP connections, through KCM
// on both sides or on one, while connections break, memory fails, sockets come and go, and machines fall and rise again.
#pragma once

#include <memory>

#include "kcm_course.h"
#include "kcm_side.h"

class KcmScenario {
public:
    explicit KcmScenario(std::uint64_t seed);
    KcmScenario(const KcmScenario &) = delete;
    KcmScenario &operator=(const KcmScenario &) = delete;

    /** Returns when all promises were kept; ends the process otherwise. */
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
