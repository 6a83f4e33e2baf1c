// SPDX-License-Identifier: GPL-2.0
#include "module.h"

namespace rtrs_clt {

Result<> Module::start(kapi_module* self, const Presets& with)
{
    presets = with;
    queue = kapi_workqueue_create("rtrs_client", 0);
    int err = queue ? kapi_sysfs_class_create(self, "rtrs-client", &sysfs) : -KAPI_ENOMEM;
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
    if (queue)
        kapi_workqueue_destroy(queue);
}

} // namespace rtrs_clt
