// SPDX-License-Identifier: GPL-2.0
#include "region.h"

#include "connection.h"
#include "net.h"

namespace rds_rdma {

namespace {

// A peer whose sockets are full takes nothing.
constexpr u64 longest_wait_ns = 5'000'000'000;
constexpr u32 page_size = 4096;

u32 peers_access(bool atomics)
{
    return KAPI_ACCESS_LOCAL_WRITE | KAPI_ACCESS_REMOTE_WRITE | KAPI_ACCESS_REMOTE_READ |
           (atomics ? KAPI_ACCESS_REMOTE_ATOMIC : 0);
}

} // namespace

// ---- one region

template <class Build> Result<Ref<UserRegion>> UserRegion::make_by(Build build)
{
    auto region = Ref<UserRegion>::adopt(make<UserRegion>(Alloc::charged));
    if (!region)
        return fail(KAPI_ENOMEM);
    if (auto built = build(*region); !built) {
        region->give_up();
        return fail(built.error());
    }
    if (!region->pin_)
        region->registered(true); // from now on it may end with its device
    return region;
}

Result<Ref<UserRegion>> UserRegion::create(const Place& place, const rds_memory& memory)
{
    Pin pin = Pin::adopt(memory.pin);
    return make_by([&](UserRegion& region) {
        region.pin_ = std::move(pin);
        return region.build(place, memory);
    });
}

Result<Ref<UserRegion>> UserRegion::create_local(const Place& place, const rds_memory& memory, bool write)
{
    return make_by([&](UserRegion& region) { return region.build_local(place, memory, write); });
}

Result<> UserRegion::enter(const Place& place, const rds_memory& memory)
{
    auto entered = Module::get().devices.enter(place.dev, place.host, *this, memory.user, user_);
    if (!entered) // a device that went with the connection is as good as no connection
        return fail(entered.error().code() == KAPI_ENODEV ? KAPI_EAGAIN : entered.error().code());
    domain_ = *entered;
    return {};
}

Result<> UserRegion::build(const Place& place, const rds_memory& memory)
{
    TRY(enter(place, memory));
    if (pin_) {
        pages_ = pin_.pages();
        TRY(map(memory.address % page_size));
    } else {
        u64 iova = memory.address % page_size;
        pages_ = static_cast<u32>((iova + memory.bytes + page_size - 1) / page_size);
        TRY(fetch_on_demand(memory, iova, peers_access(domain_->device.can_fetch(RDS_OP_ADD))));
    }
    key_ = kapi_mr_key(mr_.get());
    count(place.counters, Stat::mr_8k_alloc);
    counts_end_.exchange(&place.counters);
    if (!pin_) // else when its request has completed
        count(place.counters, Stat::mr_8k_used);
    return {};
}

// place: where in its page the memory begins, as its cookie says. A device that works on copies may have them elsewhere.
Result<> UserRegion::map(u64 place)
{
    const Device& device = domain_->device;
    if (pages_ > device.attrs.max_mr_pages)
        return fail(KAPI_EMSGSIZE);
    TRY(map_.begin([&](kapi_map* map) {
        return kapi_map_pin(map, device.dev, pin_.c(), KAPI_MAP_BOTH, KAPI_SLEEP_CHARGED);
    }));
    kapi_mr* mr = nullptr;
    TRY(check(kapi_mr_alloc(domain_->pd.get(), pages_, 0, &mr)));
    mr_.reset(mr);
    TRY(check(kapi_mr_map(mr, map_.c())));
    return kapi_mr_address(mr) == place ? Result<>() : fail(KAPI_EINVAL);
}

Result<> UserRegion::build_local(const Place& place, const rds_memory& memory, bool write)
{
    TRY(enter(place, memory));
    TRY(fetch_on_demand(memory, memory.address, write ? KAPI_ACCESS_LOCAL_WRITE : 0));
    sge_ = {memory.address, static_cast<u32>(memory.bytes), kapi_mr_local_key(mr_.get())};
    return {};
}

Result<> UserRegion::fetch_on_demand(const rds_memory& memory, u64 iova, u32 access)
{
    kapi_mr* mr = nullptr;
    TRY(check(kapi_mr_on_demand(domain_->pd.get(), memory.address, memory.bytes, iova, access, &mr)));
    mr_.reset(mr);
    return {};
}

// The kernel's own has a pool of each size.
void UserRegion::count(Counters& counters, Stat of_8k)
{
    constexpr u32 pages_of_8k = 2;
    constexpr unsigned apart = static_cast<unsigned>(Stat::mr_1m_alloc) - static_cast<unsigned>(Stat::mr_8k_alloc);
    counters.count(pages_ <= pages_of_8k ? of_8k : static_cast<Stat>(static_cast<unsigned>(of_8k) + apart));
}

void UserRegion::count_end()
{
    if (Counters* counters = counts_end_.exchange(nullptr))
        count(*counters, Stat::mr_8k_free);
}

void UserRegion::end()
{
    for (u32 now = state_.load(); now < ending;) {
        if (now == fresh || now == registers || now == left_behind || now == syncing) {
            // The device goes: the connection fails, and all that was posted to it completes; nothing more is posted.
            changed_.wait_for([&] { return state_.load() != now; });
            now = state_.load();
            continue;
        }
        if (!state_.compare_exchange(now, ending))
            continue;
        count_end();
        if (kapi_mr_free(mr_.release()) < 0)
            keep_memory();
        map_.end();
        pin_ = Pin();
        Module::get().devices.leave(user_);
        state_.store_release(ended);
        changed_.wake();
        return;
    }
    changed_.wait_for([&] { return state_.load() == ended; });
}

void UserRegion::sync(kapi_map_side side)
{
    u32 now = state_.load();
    do {
        if (now == syncing) {
            changed_.wait_for([&] { return state_.load() != syncing; });
            now = state_.load();
        }
        if (now != valid && now != syncing)
            return;
        now = valid;
    } while (!state_.compare_exchange(now, syncing));
    if (map_)
        kapi_map_sync(map_.c(), 0, map_.length(), side);
    state_.store_release(valid);
    changed_.wake();
}

void UserRegion::give_up()
{
    u32 expected = fresh;
    if (state_.compare_exchange(expected, invalid))
        changed_.wake();
    if (state_.load() != left_behind)
        end();
}

void UserRegion::registered(bool is_valid)
{
    bool alone = false;
    u32 now = state_.load();
    do
        alone = now == left_behind;
    while (!state_.compare_exchange(now, is_valid ? valid : invalid));
    if (alone) {
        ref();
        end_work_.queue(Module::get().workqueue);
    }
    changed_.wake();
}

// The device may use it for ever.
void UserRegion::keep_memory()
{
    map_.leak();
    static_cast<void>(pin_.release());
}

void UserRegion::lost()
{
    keep_memory();
    registered(false);
}

void UserRegion::end_soon()
{
    end_work_.queue(Module::get().workqueue);
}

void UserRegion::end_later()
{
    end();
    unref();
}

Result<> UserRegion::wait()
{
    auto waited = changed_.wait_until(kapi_now_ns() + longest_wait_ns, [&] { return state_.load() != registers; });
    if (!waited && leave_behind())
        return waited;
    return state_.load() == valid ? Result<>() : fail(KAPI_EAGAIN);
}

// False: the request has just completed. What ends one that was left behind does not count that: the namespace and its counters
// may be gone.
bool UserRegion::leave_behind()
{
    Counters* counters = counts_end_.exchange(nullptr);
    u32 expected = registers;
    if (state_.compare_exchange(expected, left_behind)) {
        count(*counters, Stat::mr_8k_free);
        return true;
    }
    counts_end_.exchange(counters);
    if (has_begun_to_end()) // with its device, and may not have been counted
        count_end();
    return false;
}

// ---- on a connection

bool Registrar::is_open()
{
    Guard guard(lock_);
    return ends_ && ends_->is_open();
}

Result<> Registrar::post(UserRegion& region)
{
    Guard guard(lock_);
    if (!ends_)
        return fail(KAPI_EAGAIN);
    if (posted_)
        return fail(KAPI_EBUSY);
    Guard posting(ends_->lock);
    if (!ends_->open)
        return fail(KAPI_EAGAIN);
    kapi_wr wr{};
    wr.cookie = cookie;
    wr.op = KAPI_WR_REGISTER;
    wr.flags = KAPI_WR_SIGNALED;
    wr.access = static_cast<u8>(peers_access(ends_->device.can(RDS_OP_ADD)));
    wr.mr = region.c();
    wr.key = region.key();
    region.registering();
    posted_ = Ref<UserRegion>::share(region);
    kapi_wr* bad = nullptr;
    if (int err = kapi_qp_send(ends_->qp.get(), &wr, &bad); err < 0) {
        Ref<UserRegion> refused = std::move(posted_); // not the last reference
        refused->registered(false);
        return fail(KAPI_EAGAIN);
    }
    return {};
}

Result<> Registrar::make_valid(UserRegion& region)
{
    Result<> posted;
    auto waited = free_.wait_in_turn(kapi_now_ns() + longest_wait_ns, [&] {
        posted = post(region);
        return posted || posted.error().code() != KAPI_EBUSY;
    });
    TRY(waited);
    TRY(posted);
    TRY(region.wait());
    region.count(place_.counters, Stat::mr_8k_used);
    return {};
}

void Registrar::completed(const kapi_wc& wc)
{
    Ref<UserRegion> region;
    {
        Guard guard(lock_);
        region = std::move(posted_);
    }
    if (!HW_ASSERT(region))
        return;
    region->registered(wc.status == KAPI_WC_OK);
    free_.wake();
}

void Registrar::lose_posted()
{
    Ref<UserRegion> region;
    {
        Guard guard(lock_);
        region = std::move(posted_);
    }
    if (region)
        region->lost();
}

void Registrar::close()
{
    {
        Guard guard(lock_);
        ends_ = nullptr;
    }
    free_.wake();
}

} // namespace rds_rdma
