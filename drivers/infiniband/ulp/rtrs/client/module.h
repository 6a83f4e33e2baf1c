// SPDX-License-Identifier: GPL-2.0
// The client module.
#pragma once

#include "device.h"
#include "settings.h"

#include <kapi/sysfs.h>
#include <kapi/work.h>

namespace rtrs_clt {

class Module : Pinned {
public:
    static Module& get() { return *static_cast<Module*>(*kapi_module_slot(KAPI_SLOT_RTRS)); }

    // Init. ENOMEM, or what sysfs and the verbs fail with; then there is nothing to stop.
    Result<> start(kapi_module* self, const Presets& with);
    // Init. No session is left.
    void stop();

    kapi_workqueue* queue = nullptr;
    kapi_workqueue* reports = nullptr; // calls of users, which may wait for what works of the other queue do
    Devices devices;
    Presets presets;
    kapi_sysfs_class* sysfs = nullptr;

private:
    void end();
};

} // namespace rtrs_clt
