// SPDX-License-Identifier: GPL-2.0
// The RDMA devices of the host, and which paths use each: a device that goes waits until its paths have let go of it.
//
// Client and server have a list each, with Rules of their own:
//     Path, Lock                       what uses a device, and the class of the list's lock
//     module                           its name in the log
//     suffices(attrs)                  can paths use such a device?
//     added()                          there is one more
//     goes(path)                       the device of path goes. Under the lock
#pragma once

#include <hawser/lock.h>
#include <hawser/verbs.h>
#include <hawser/wait.h>

namespace rtrs {

using namespace hw;

template <class Rules> class Device;
template <class Rules> class Devices;

// A path that uses a device. Embedded in what the path has there; under the lock of the devices.
template <class Rules> struct DeviceUser {
    typename Rules::Path* path = nullptr;
    Device<Rules>* device = nullptr;
    char name[sizeof(kapi_rdma_attrs::name)] = {}; // of the device, which may be gone
    DeviceUser *next = nullptr, **link = nullptr;
};

template <class Rules> class Device : Pinned {
public:
    Device(kapi_rdma_dev* d, const kapi_rdma_attrs& a) : dev(d), attrs(a) {}
    kapi_rdma_dev* const dev;
    const kapi_rdma_attrs attrs;

private:
    friend class Devices<Rules>;
    Device* next_ = nullptr;
    DeviceUser<Rules>* users_ = nullptr;
    bool going_ = false;
    WaitQueue idle_;
};

template <class Rules> class Devices : Pinned {
public:
    using Path = typename Rules::Path;
    using Device = rtrs::Device<Rules>;
    using DeviceUser = rtrs::DeviceUser<Rules>;

    // Init. As kapi_rdma_watch() and kapi_rdma_unwatch().
    Result<> watch() { return check(kapi_rdma_watch(&watch_ops, this, &watcher_)); }
    void unwatch() { kapi_rdma_unwatch(watcher_); }
    // Any context. From here to leave() the device stays, and path is notified when it is to go. Fails with ENODEV: it is not
    // known, goes, or cannot do what RTRS needs.
    Result<Device*> enter(const kapi_rdma_dev* dev, Path& path, DeviceUser& user)
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
            return device->users_ = &user, device;
        });
    }
    // Any context. Also for a user that did not enter.
    void leave(DeviceUser& user)
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

private:
    // Without memory for it the device is not used.
    static void on_added(void* context, kapi_rdma_dev* dev, const kapi_rdma_attrs* attrs)
    {
        if (!Rules::suffices(*attrs))
            return;
        Own<Device> device(make<Device>(Alloc::sleep, dev, *attrs));
        if (!device) {
            kapi_log(KAPI_LOG_WARN, "%s: no memory for device %s, which is not used", Rules::module, attrs->name);
            return;
        }
        static_cast<Devices*>(context)->list_.with([&](List& list) {
            device->next_ = list.first;
            list.first = device.release();
        });
        Rules::added();
    }
    static void on_removed(void* context, kapi_rdma_dev* dev) { static_cast<Devices*>(context)->remove(dev); }
    static constexpr kapi_rdma_watch_ops watch_ops{.added = on_added, .removed = on_removed};

    void remove(const kapi_rdma_dev* dev)
    {
        Device* device = list_.with([&](List& list) {
            Device* found = list.find(dev);
            if (found)
                found->going_ = true;
            for (DeviceUser* user = found ? found->users_ : nullptr; user; user = user->next)
                Rules::goes(*user->path);
            return found;
        });
        if (!device)
            return;
        device->idle_.wait_for([&] { return list_.with([&](List&) { return !device->users_; }); });
        list_.with([&](List& list) {
            Device** at = &list.first;
            while (*at != device)
                at = &(*at)->next_;
            *at = device->next_;
        });
        dispose(device);
    }

    struct List {
        Device* first = nullptr;
        Device* find(const kapi_rdma_dev* dev) const
        {
            for (Device* device = first; device; device = device->next_)
                if (device->dev == dev)
                    return device->going_ ? nullptr : device;
            return nullptr;
        }
    };
    Guarded<List, typename Rules::Lock> list_;
    kapi_rdma_watcher* watcher_ = nullptr;
};

} // namespace rtrs
