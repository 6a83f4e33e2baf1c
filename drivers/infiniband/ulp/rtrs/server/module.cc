// SPDX-License-Identifier: GPL-2.0
#include "context.h"

namespace rtrs_srv {

// Half of the machine's memory is what peers can make the server hold.
Module::Module(const Settings& s) : settings(s), budget(kapi_memory_total() / 2) {}

Module::~Module()
{
    if (workqueue)
        kapi_workqueue_destroy(workqueue);
    kapi_sysfs_class_destroy(sysfs);
}

Result<> Module::start(kapi_module* self, const Settings& settings)
{
    Own<Module> made(make<Module>(Alloc::sleep, settings));
    if (!made)
        return fail(KAPI_ENOMEM);
    made->workqueue = kapi_workqueue_create("rtrs_server", 0);
    if (!made->workqueue)
        return fail(KAPI_ENOMEM);
    TRY(check(kapi_sysfs_class_create(self, "rtrs-server", &made->sysfs)));
    Module* module = made.release();
    *kapi_module_slot(KAPI_SLOT_RTRS_SRV) = module; // devices come from here on
    if (auto watched = module->devices.watch(); !watched) {
        *kapi_module_slot(KAPI_SLOT_RTRS_SRV) = nullptr;
        dispose(module);
        return watched;
    }
    return {};
}

void Module::stop()
{
    Module* module = &get();
    module->devices.unwatch();
    kapi_workqueue_destroy(std::exchange(module->workqueue, nullptr)); // its works look at the module
    *kapi_module_slot(KAPI_SLOT_RTRS_SRV) = nullptr;
    dispose(module);
}

void Module::add(Context& context)
{
    Guard guard(serial_);
    context.next = std::exchange(contexts_, &context);
    context.listen_on_gids();
}

void Module::remove(Context& context)
{
    Guard guard(serial_);
    Context** at = &contexts_;
    while (*at != &context)
        at = &(*at)->next;
    *at = context.next;
}

void Module::device_added()
{
    Guard guard(serial_);
    for (Context* context = contexts_; context; context = context->next)
        context->listen_on_gids();
}

} // namespace rtrs_srv
