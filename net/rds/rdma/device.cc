// SPDX-License-Identifier: GPL-2.0
#include "region.h"
#include "ring_shares.h"

namespace rds_rdma {

namespace {

bool suffices(const kapi_rdma_attrs& attrs)
{
    constexpr u32 requests = send_requests + most_unsignaled + requests_besides;
    return attrs.max_wr >= requests && attrs.max_sge >= least_pieces && attrs.max_cqe >= requests + completions_besides;
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
    if (!device) {
        kapi_log(KAPI_LOG_WARN, "rds_rdma: no memory for device %s, which is not used", attrs->name);
        return;
    }
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
            if (user->conn)
                rds_path_notify(user->conn, 0, RDS_PATH_LOST);
        return found;
    });
    if (!device)
        return;
    devices.end_regions(*device);
    device->idle_.wait_for([&] { return devices.list_.with([&](List&) { return !device->users_; }); });
    devices.list_.with([&](List& list) {
        Device** at = &list.first;
        while (*at != device)
            at = &(*at)->next_;
        *at = device->next_;
    });
    dispose(device);
}

bool Devices::has(const kapi_rdma_dev* dev, const kapi_net* host)
{
    return list_.with([&](List& list) { return list.find(dev) && kapi_rdma_usable(dev, host); });
}

bool Devices::lacks(const kapi_rdma_dev* dev, rds_rdma_kind kind)
{
    return list_.with([&](List& list) {
        const Device* device = list.find(dev);
        return device && !device->can(kind);
    });
}

Result<Domain*> Devices::enter(const kapi_rdma_dev* dev, const kapi_net* host, rds_conn* conn, DeviceUser& user)
{
    TRY(list_.with([&](List& list) -> Result<> {
        Device* device = list.find(dev);
        if (!device || !kapi_rdma_usable(dev, host))
            return fail(KAPI_ENODEV);
        user.conn = conn;
        link(*device, user);
        return {};
    }));
    return join(host, user);
}

// The first one of a namespace makes its domain.
Result<Domain*> Devices::join(const kapi_net* host, DeviceUser& user)
{
    Device& device = *user.device;
    Own<Domain> fresh;
    for (;;) {
        Domain* joined = list_.with([&](List&) {
            Domain* domain = device.domains_;
            while (domain && domain->host != host)
                domain = domain->next;
            if (!domain && fresh) {
                domain = fresh.release();
                domain->next = std::exchange(device.domains_, domain);
            }
            user.domain = domain;
            if (domain)
                domain->users++;
            return domain;
        });
        if (joined)
            return joined;
        kapi_pd* pd = nullptr;
        fresh.reset(make<Domain>(Alloc::sleep, device, host));
        int err = fresh ? kapi_pd_create(device.dev, &pd) : -KAPI_ENOMEM;
        if (err) {
            leave(user);
            return fail(Errno::from_c(err));
        }
        fresh->pd.reset(pd);
    }
}

void Devices::link(Device& device, DeviceUser& user)
{
    user.device = &device;
    user.next = device.users_;
    user.link = &device.users_;
    if (user.next)
        user.next->link = &user.next;
    device.users_ = &user;
}

Result<Domain*> Devices::enter(const kapi_rdma_dev* dev, const kapi_net* host, UserRegion& region, u32 payer, DeviceUser& user)
{
    TRY(list_.with([&](List& list) -> Result<> {
        Device* device = list.find(dev);
        if (!device)
            return fail(KAPI_ENODEV);
        if (kapi_share(0, device->regions_of_[payer], device->most_regions() - device->regions_, 1) < 0)
            return fail(KAPI_ENOMEM);
        device->regions_++;
        device->regions_of_[payer]++;
        user.region = &region;
        user.payer = payer;
        link(*device, user);
        return {};
    }));
    return join(host, user);
}

// The device goes: new ones are not made any more, and their owners may end some of them at the same time.
void Devices::end_regions(Device& device)
{
    for (;;) {
        auto region = list_.with([&](List&) {
            for (DeviceUser* user = device.users_; user; user = user->next)
                if (user->region && !user->region->has_begun_to_end())
                    return Ref<UserRegion>::upgrade(*user->region);
            return Ref<UserRegion>();
        });
        if (!region)
            return;
        region->end();
    }
}

void Devices::leave(DeviceUser& user)
{
    // It is gone before the device may go.
    Own<Domain> last = list_.with([&](List&) {
        Domain* domain = std::exchange(user.domain, nullptr);
        if (!domain || --domain->users)
            return Own<Domain>();
        Domain** at = &user.device->domains_;
        while (*at != domain)
            at = &(*at)->next;
        *at = domain->next;
        return Own<Domain>(domain);
    });
    last.reset();
    list_.with([&](List&) {
        Device* device = std::exchange(user.device, nullptr);
        if (!device)
            return;
        if (user.region) {
            device->regions_--;
            device->regions_of_[user.payer]--;
        }
        *user.link = user.next;
        if (user.next)
            user.next->link = user.link;
        if (!device->users_)
            device->idle_.wake();
    });
}

} // namespace rds_rdma
