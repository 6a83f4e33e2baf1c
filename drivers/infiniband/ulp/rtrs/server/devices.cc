// SPDX-License-Identifier: GPL-2.0
#include "devices.h"

#include "context.h"

namespace rtrs_srv {

Device* Devices::List::find(const kapi_rdma_dev* dev) const
{
    for (Device* device = first; device; device = device->next_)
        if (device->dev == dev)
            return device->going_ ? nullptr : device;
    return nullptr;
}

Result<> Devices::watch()
{
    return check(kapi_rdma_watch(&watch_ops, this, &watcher_));
}

void Devices::unwatch()
{
    kapi_rdma_unwatch(watcher_);
}

// Without memory for it the device is not used.
void Devices::on_added(void* context, kapi_rdma_dev* dev, const kapi_rdma_attrs* attrs)
{
    if (attrs->flags & KAPI_RDMA_IWARP) // requests and answers are writes with immediate data, which it has not
        return;
    Own<Device> device(make<Device>(Alloc::sleep, dev, *attrs));
    if (!device) {
        kapi_log(KAPI_LOG_WARN, "rtrs_server: no memory for device %s, which is not used", attrs->name);
        return;
    }
    static_cast<Devices*>(context)->list_.with([&](List& list) {
        device->next_ = list.first;
        list.first = device.release();
    });
    Module::get().device_added();
}

void Devices::on_removed(void* context, kapi_rdma_dev* dev)
{
    Devices& devices = *static_cast<Devices*>(context);
    Device* device = devices.list_.with([&](List& list) {
        Device* found = list.find(dev);
        if (found)
            found->going_ = true;
        for (DeviceUser* user = found ? found->users_ : nullptr; user; user = user->next)
            user->path->notify(Path::lost);
        return found;
    });
    if (!device)
        return;
    device->idle_.wait_for([&] { return devices.list_.with([&](List&) { return !device->users_; }); });
    devices.list_.with([&](List& list) {
        Device** at = &list.first;
        while (*at != device)
            at = &(*at)->next_;
        *at = device->next_;
    });
    dispose(device);
}

Result<Device*> Devices::enter(const kapi_rdma_dev* dev, Path& path, DeviceUser& user)
{
    return list_.with([&](List& list) -> Result<Device*> {
        Device* device = list.find(dev);
        if (!device)
            return fail(KAPI_ENODEV);
        user.path = &path;
        user.device = device;
        kapi_copy(user.name, device->attrs.name, sizeof(user.name));
        user.next = device->users_;
        user.link = &device->users_;
        if (user.next)
            user.next->link = &user.next;
        device->users_ = &user;
        return device;
    });
}

void Devices::leave(DeviceUser& user)
{
    list_.with([&](List&) {
        Device* device = std::exchange(user.device, nullptr);
        if (!device)
            return;
        *user.link = user.next;
        if (user.next)
            user.next->link = user.link;
        if (!device->users_)
            device->idle_.wake();
    });
}

} // namespace rtrs_srv
