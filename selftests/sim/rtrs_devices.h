// SPDX-License-Identifier: GPL-2.0
// The RDMA devices of a machine, one for each path, which may go and come back.
#pragma once

#include "rtrs_course.h"

#include <kapi/sim/rdma_control.h>

class RtrsDevices {
public:
    RtrsDevices(RtrsCourse &course, sim::Node &node, const char *const (&addresses)[RtrsCourse::kPaths]);

    // From outside of tasks.
    /** One goes; and comes back after a time. */
    void take(unsigned path);
    /** What one sends is held by a switch for a time, and arrives afterwards. */
    void hold(unsigned path);
    /** The machine has crashed: when it starts again, all are there. */
    void crashed();
    bool are_there() const { return away_ == 0; }

private:
    void plug(unsigned path);

    RtrsCourse &course_;
    sim::Node &node_;
    kapi_rdma_dev *devices_[RtrsCourse::kPaths] = {};
    unsigned away_ = 0;
};
