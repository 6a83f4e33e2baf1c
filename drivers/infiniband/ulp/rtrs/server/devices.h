// SPDX-License-Identifier: GPL-2.0
// The RDMA devices of the host, and which paths use each: a device that goes waits until its paths have let go of it.
#pragma once

#include "lock_order.h"

#include <hawser/lock.h>
#include <hawser/verbs.h>
#include <hawser/wait.h>

namespace rtrs_srv {

using namespace hw;

class Device;
class Path;

// A path that uses a device. Embedded in it; under the lock of the devices.
struct DeviceUser {
    Path* path = nullptr; // is notified when the device goes
    Device* device = nullptr;
    char name[sizeof(kapi_rdma_attrs::name)] = {}; // of the device, which may be gone
    DeviceUser *next = nullptr, **link = nullptr;
};

class Device : Pinned {
public:
    Device(kapi_rdma_dev* d, const kapi_rdma_attrs& a) : dev(d), attrs(a) {}
    kapi_rdma_dev* const dev;
    const kapi_rdma_attrs attrs;

private:
    friend class Devices;
    Device* next_ = nullptr;
    DeviceUser* users_ = nullptr;
    bool going_ = false;
    WaitQueue idle_;
};

class Devices : Pinned {
public:
    // Init. As kapi_rdma_watch() and kapi_rdma_unwatch().
    Result<> watch();
    void unwatch();
    // Any context. From here to leave() the device stays, and path is notified when it is to go. Fails with ENODEV: it is not
    // known, goes, or cannot do what RTRS needs.
    Result<Device*> enter(const kapi_rdma_dev* dev, Path& path, DeviceUser& user);
    void leave(DeviceUser& user);

private:
    static void on_added(void* context, kapi_rdma_dev* dev, const kapi_rdma_attrs* attrs);
    static void on_removed(void* context, kapi_rdma_dev* dev);
    static constexpr kapi_rdma_watch_ops watch_ops{.added = on_added, .removed = on_removed};

    struct List {
        Device* first = nullptr;
        Device* find(const kapi_rdma_dev* dev) const;
    };
    Guarded<List, DevicesLock> list_;
    kapi_rdma_watcher* watcher_ = nullptr;
};

} // namespace rtrs_srv
