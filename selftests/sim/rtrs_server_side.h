// SPDX-License-Identifier: GPL-2.0
// The machine of a run of RTRS that serves, and its faults.
#pragma once

#include "rtrs_devices.h"
#include "rtrs_disk.h"

class RtrsServerSide {
public:
    RtrsServerSide(RtrsCourse &course, sim::Node &node);

    // From a task of the machine.
    void boot();
    void stop();
    /** An administrator ends a path. */
    void disconnect(unsigned path);

    // From outside of its tasks.
    void crash();
    void reload();
    bool is_steady() const { return steady_ && devices.are_there(); }
    /** No client has left anything here. */
    bool is_idle() const;

    sim::Node &node;
    RtrsDevices devices;
    RtrsDisk disk;

private:
    RtrsCourse &course_;
    kapi_module *module_ = nullptr;
    rtrs_srv_core *server_ = nullptr;
    bool steady_ = false;
};
