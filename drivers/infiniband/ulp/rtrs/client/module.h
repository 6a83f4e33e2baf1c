// SPDX-License-Identifier: GPL-2.0
// The client module.
#pragma once

#include "device.h"

#include <kapi/sysfs.h>

namespace rtrs_clt {

class Module : Pinned {
public:
    static Module& get() { return *static_cast<Module*>(*kapi_module_slot(KAPI_SLOT_RTRS)); }

    kapi_workqueue* queue = nullptr;
    Devices devices;
    kapi_sysfs_class* sysfs = nullptr;
};

} // namespace rtrs_clt
