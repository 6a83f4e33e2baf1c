// SPDX-License-Identifier: GPL-2.0
#include "device.h"

namespace rds_rdma {

namespace {

bool suffices(const kapi_rdma_attrs& attrs)
{
    return attrs.max_wr > send_requests && attrs.max_sge >= least_pieces && attrs.max_cqe >= send_requests + 3;
}

} // namespace

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
    if (!suffices(*attrs)) {
        kapi_log(KAPI_LOG_NOTICE, "rds_rdma: device %s is not used, for its queues are too small", attrs->name);
        return;
    }
    Own<Device> device(make<Device>(Alloc::sleep, dev, *attrs));
    kapi_pd* pd = nullptr;
    if (!device || kapi_pd_create(dev, &pd)) {
        kapi_log(KAPI_LOG_WARN, "rds_rdma: no memory for device %s, which is not used", attrs->name);
        return;
    }
    device->pd.reset(pd);
    static_cast<Devices*>(context)->list_.with([&](List& list) {
        device->next_ = list.first;
        list.first = device.release();
    });
}

void Devices::on_removed(void* context, kapi_rdma_dev* dev)
{
    Devices& devices = *static_cast<Devices*>(context);
    Device* device = devices.list_.with([&](List& list) {
        Device* found = list.find(dev);
        if (found)
            found->going_ = true;
        for (DeviceUser* user = found ? found->users_ : nullptr; user; user = user->next)
            rds_path_notify(user->conn, 0, RDS_PATH_LOST);
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

bool Devices::has(const kapi_rdma_dev* dev)
{
    return list_.with([&](List& list) { return list.find(dev) != nullptr; });
}

Device* Devices::enter(const kapi_rdma_dev* dev, rds_conn* conn, DeviceUser& user)
{
    return list_.with([&](List& list) -> Device* {
        Device* device = list.find(dev);
        if (!device)
            return nullptr;
        user.conn = conn;
        user.device = device;
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

} // namespace rds_rdma
