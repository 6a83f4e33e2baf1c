// SPDX-License-Identifier: GPL-2.0
// One simulated run of RTRS: a machine whose programs write and read blocks of a disk of another machine, over two paths, while
// paths are lost and come back, devices and links go, memory fails, and machines crash and restart.
#pragma once

#include <memory>

#include "rtrs_client_side.h"
#include "rtrs_server_side.h"

class RtrsScenario {
public:
    explicit RtrsScenario(std::uint64_t seed);
    RtrsScenario(const RtrsScenario &) = delete;
    RtrsScenario &operator=(const RtrsScenario &) = delete;

    /** Returns when all guarantees were kept; ends the process otherwise. */
    Outcome run();

private:
    struct Kind {
        bool happens;
        void (RtrsScenario::*strike)();
    };
    void plan_faults();
    void one_fault();
    void cut();
    void take_device();
    void change_path();
    void reload();
    void crash_server();
    void crash_client();
    void pause();
    void hold();
    unsigned path();
    void trouble();
    void calm_down();
    void end();

    RtrsCourse course_;
    std::unique_ptr<RtrsServerSide> server_;
    std::unique_ptr<RtrsClientSide> client_;
    unsigned faults_left_ = 0;
};
