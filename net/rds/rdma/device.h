// SPDX-License-Identifier: GPL-2.0
// The RDMA devices of the host, and who uses each: a device that goes waits until its connections have ended.
#pragma once

#include "../../lock_order.h"
#include "../transport.h"

#include <hawser/lock.h>
#include <hawser/ref.h>
#include <hawser/verbs.h>
#include <hawser/wait.h>
#include <kapi/share.h>

namespace rds_rdma {

using namespace hw;

// What a connection needs of its device: requests to send, two of the largest messages; and pieces of a request, its header
// among them.
inline constexpr u32 fragment_size = 4096; // payload of a fragment at most, and of a buffer to receive into
inline constexpr u32 send_requests = 512, most_unsignaled = 64;
inline constexpr u32 most_acks = 2;                     // of its own, at once
inline constexpr u32 requests_besides = most_acks + 1; // and a registration
inline constexpr u32 least_pieces = 6;

// How many buffers a fragment between hawser hosts fills at most at a device. To send it takes its header, as many pieces as it
// has pages, a piece where it begins within a page, and two where the message ends.
inline constexpr u32 most_buffers = 4;
constexpr u32 buffers_at(const kapi_rdma_attrs& attrs)
{
    return attrs.max_sge >= most_buffers + 4 ? most_buffers : least_pieces - 4;
}

class Device;
class UserRegion;

// What the connections and regions of one namespace have at a device, and no others: a key of another namespace opens nothing.
struct Domain : Pinned {
    Domain(Device& d, const kapi_net* h) : device(d), host(h) {}
    Device& device;
    const kapi_net* const host;
    ProtectionDomain pd;
    // Under the lock of the devices:
    Domain* next = nullptr;
    u32 users = 0;
};

// A connection or a region that uses a device. Embedded; under the lock of the devices.
struct DeviceUser {
    rds_conn* conn = nullptr; // is notified (RDS_PATH_LOST) when the device goes
    UserRegion* region = nullptr; // ends then
    u32 payer = 0; // the user for whom the region is counted
    Device* device = nullptr;
    Domain* domain = nullptr;
    DeviceUser *next = nullptr, **link = nullptr;
};

class Device : Pinned {
public:
    Device(kapi_rdma_dev* d, const kapi_rdma_attrs& a) : dev(d), attrs(a) {}
    kapi_rdma_dev* const dev;
    const kapi_rdma_attrs attrs;
    // Of programs; and pages of one, of which no message needs more.
    u32 most_regions() const { return min(attrs.max_mr / 2, 32768u); }
    u32 pages_of_region() const { return min(attrs.max_mr_pages, 1 + RDS_MAX_MESSAGE / 4096); }
    bool is_iwarp() const { return (attrs.flags & KAPI_RDMA_IWARP) != 0; }
    bool fence_hangs() const { return (attrs.flags & KAPI_RDMA_FENCE_HANGS) != 0; }
    bool can(rds_rdma_kind kind) const
    {
        u32 needs = kind >= RDS_OP_MASKED_ADD ? KAPI_RDMA_MASKED_ATOMICS : kind > RDS_OP_WRITE ? KAPI_RDMA_ATOMICS : 0;
        return (attrs.flags & needs) == needs;
    }
    // The same with memory on demand at either end.
    bool can_fetch(rds_rdma_kind kind) const
    {
        return can(kind) && (kind <= RDS_OP_WRITE || (attrs.flags & KAPI_RDMA_ON_DEMAND_ATOMICS));
    }

private:
    friend class Devices;
    Device* next_ = nullptr;
    DeviceUser* users_ = nullptr;
    Domain* domains_ = nullptr;
    u32 regions_ = 0; // of all users
    u16 regions_of_[KAPI_USERS] = {};
    bool going_ = false;
    WaitQueue idle_;
};

class Devices : Pinned {
public:
    // Init. As kapi_rdma_watch() and kapi_rdma_unwatch().
    Result<> watch();
    void unwatch();
    // Any context. Is dev one that connections of the namespace can be made of?
    bool has(const kapi_rdma_dev* dev, const kapi_net* host);
    // Any context. Is it one that can not do that?
    bool lacks(const kapi_rdma_dev* dev, rds_rdma_kind kind);
    // Sleeps. From here to leave() the device and the namespace's domain stay. ENODEV: it is not known, goes, or is not for this
    // namespace; ENOMEM.
    Result<Domain*> enter(const kapi_rdma_dev* dev, const kapi_net* host, rds_conn* conn, DeviceUser& user);
    void leave(DeviceUser& user); // sleeps
    // Sleeps. The same for a region, of a user's share of those that the device can have.
    Result<Domain*> enter(const kapi_rdma_dev* dev, const kapi_net* host, UserRegion& region, u32 payer, DeviceUser& user);

private:
    static void on_added(void* context, kapi_rdma_dev* dev, const kapi_rdma_attrs* attrs);
    static void on_removed(void* context, kapi_rdma_dev* dev);
    static constexpr kapi_rdma_watch_ops watch_ops{.added = on_added, .removed = on_removed};

    struct List {
        Device* first = nullptr;
        Device* find(const kapi_rdma_dev* dev) const;
    };
    static void link(Device& device, DeviceUser& user);
    Result<Domain*> join(const kapi_net* host, DeviceUser& user);
    void end_regions(Device& device);
    Guarded<List, DevicesLock> list_;
    kapi_rdma_watcher* watcher_ = nullptr;
};

} // namespace rds_rdma
