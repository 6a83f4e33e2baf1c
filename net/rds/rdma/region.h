// SPDX-License-Identifier: GPL-2.0
// Memory of a program that peers may read and write by its key, from its registration to its end.
//
// It ends when its owner frees it, or when its device is removed. The removal waits for a region that is being made. If both
// happen, the second waits for the first. A registration is posted to the queue pair of a connection, behind all that is to be
// sent there. Its caller waits for it, but a peer that takes nothing can delay it for any time: then the caller leaves the
// region behind, which ends when the request has completed. Memory that cannot be pinned is registered on demand instead: such a
// region is valid at once, without a request, and the device fetches the program's pages when they are used. A local one of
// those is for operations of this host, and has no key for peers.
#pragma once

#include "queue_ends.h"

#include <hawser/work.h>

namespace rds_rdma {

class UserRegion : public RefCounted<UserRegion> {
public:
    // Where a region is made: for a namespace at a device. The counters are there as long as the namespace's sockets are.
    struct Place {
        const kapi_rdma_dev* dev;
        const kapi_net* host;
        Counters& counters;
    };
    // Sleeps. Takes the pin of memory over in any case; without one it is the calling task's program's.
    static Result<Ref<UserRegion>> create(const Place& place, const rds_memory& memory);
    // Task. Local, as rds_transport's get_local(). Not counted by its size.
    static Result<Ref<UserRegion>> create_local(const Place& place, const rds_memory& memory, bool write);
    static void destroy(UserRegion* region) { dispose(region); }

    // Sleeps. The key is dead afterwards, and nothing of the device is left. The memory of one that the device does not give up
    // stays for ever.
    void end();
    // Any context. The same soon, with one reference.
    void end_soon();
    // Sleeps. As rds_transport's sync_mr().
    void sync(kapi_map_side side);
    bool has_begun_to_end() const { return state_.load_acquire() >= ending; }
    u32 key() const { return key_; } // also of one that ends, by a device that goes
    kapi_mr* c() const { return mr_.get(); }
    // Of a local one: may a connection of this domain, which the caller uses, use it? Then as a piece of a request.
    bool serves(const Domain& domain) const { return state_.load_acquire() == valid && domain_ == &domain; }
    kapi_sge sge() const { return sge_; }

    // Any context. Of the one request that makes it valid.
    void registering() { state_.store_release(registers); }
    void registered(bool valid);
    // The same; the device is broken and never completed it: the memory that it may use stays for ever.
    void lost();
    // Sleeps. The request is completed: is the region valid? EAGAIN: no; ETIMEDOUT, EINTR: not completed, and end() is called
    // when it is.
    Result<> wait();
    // Any context. Counts it by its size.
    void count(Counters& counters, Stat of_8k);
    // Sleeps. By its maker: ends it unless that is done when the request completes.
    void give_up();

private:
    HW_MADE_BY_CREATE;
    UserRegion() = default;
    ~UserRegion() { HW_ASSERT(state_.load() == ended); }
    template <class Build> static Result<Ref<UserRegion>> make_by(Build build);
    Result<> enter(const Place& place, const rds_memory& memory);
    Result<> build(const Place& place, const rds_memory& memory);
    Result<> map(u64 place);
    Result<> build_local(const Place& place, const rds_memory& memory, bool write);
    Result<> fetch_on_demand(const rds_memory& memory, u64 iova, u32 access);
    void count_end();
    void keep_memory();
    bool leave_behind();
    void end_later();

    // fresh: only its maker changes it.
    enum State : u32 { fresh, registers, left_behind, valid, syncing, invalid, ending, ended };
    Atomic<u32> state_{fresh};
    DeviceUser user_;
    Atomic<Counters*> counts_end_{nullptr}; // null: it was counted, or none was allocated
    const Domain* domain_ = nullptr; // there while it is valid
    kapi_sge sge_{};
    u32 pages_ = 0;
    Pin pin_;
    Mapping map_;
    Region mr_;
    u32 key_ = 0;
    WaitQueue changed_;
    Work<UserRegion, &UserRegion::end_later> end_work_{*this};
};

// Registers regions on one connection, one at a time. It may be used longer than the connection exists.
class Registrar : public RefCounted<Registrar> {
public:
    static constexpr u64 cookie = (1ull << 62) + 1; // of its requests

    static void destroy(Registrar* registrar) { dispose(registrar); }
    // ends: until close().
    explicit Registrar(QueueEnds& ends) : place_{ends.device.dev, ends.domain.host, ends.counters}, ends_(&ends) {}
    const kapi_rdma_dev* device() const { return place_.dev; }
    const UserRegion::Place& place() const { return place_; }

    // Any context. May it be tried?
    bool is_open();
    // Sleeps. As UserRegion::wait().
    Result<> make_valid(UserRegion& region);
    // The completion queue's.
    void completed(const kapi_wc& wc);
    // Any context. No request is posted any more.
    void close();
    void lose_posted(); // the device is broken, and the queue pair is gone

private:
    Result<> post(UserRegion& region);

    const UserRegion::Place place_;
    Spin<RegisterLock> lock_;
    QueueEnds* ends_ HW_GUARDED_BY(lock_);
    Ref<UserRegion> posted_ HW_GUARDED_BY(lock_);
    WaitQueue free_;
};

} // namespace rds_rdma
