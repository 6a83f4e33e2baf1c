// SPDX-License-Identifier: GPL-2.0
#include "module.h"

namespace rtrs_clt {

Result<> Module::start(kapi_module* self, const Presets& with)
{
    presets = with;
    queue = kapi_workqueue_create("rtrs_client", 0);
    reports = kapi_workqueue_create("rtrs_reports", 512); // the most that the kernel has: each call may last
    int err = queue && reports ? kapi_sysfs_class_create(self, "rtrs-client", &sysfs) : -KAPI_ENOMEM;
    Result<> started = check(err);
    if (started)
        started = devices.watch();
    if (!started)
        end();
    return started;
}

void Module::stop()
{
    devices.unwatch();
    end();
}

void Module::end()
{
    kapi_sysfs_class_destroy(sysfs);
    for (kapi_workqueue* made : {queue, reports})
        if (made)
            kapi_workqueue_destroy(made);
}

} // namespace rtrs_clt
