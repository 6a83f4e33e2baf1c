// SPDX-License-Identifier: GPL-2.0
#include "receiver.h"

namespace rds_rdma {

Receiver::~Receiver()
{
    if (inc_)
        rds_inc_free(inc_);
}

Result<> Receiver::build(u32 depth)
{
    depth_ = depth;
    TRY(headers_.make(ends_.domain, depth, KAPI_MAP_FROM_DEVICE));
    slots_.reset(make<Slots>(Alloc::sleep));
    if (!slots_)
        return fail(KAPI_ENOMEM);
    Guard guard(lock_);
    for (u32 i = 0; i < depth; i++)
        slots_->free[free_++] = static_cast<u16>(i);
    return {};
}

// ---- the ring

namespace {

constexpr unsigned some = 8; // posted at once: a few places of a ring may wait for others

} // namespace

void Receiver::put_free(u16 index)
{
    Guard guard(lock_);
    slots_->free[free_++] = index;
}

bool Receiver::prepare(u16 index)
{
    Slot& slot = slots_->slot[index];
    if (!slot.buffer) {
        slot.buffer.reset(kapi_rxbuf_create(fragment_size, KAPI_ATOMIC));
        if (!slot.buffer)
            return false;
        ends_.counters.count(Stat::rx_total_frags);
    }
    auto map = Mapping::with([&](kapi_map* to) { return kapi_map_rxbuf(to, ends_.device.dev, slot.buffer.get()); });
    if (!map)
        return false;
    slot.map = std::move(*map);
    return true;
}

// Posts a few. False: there are no more places to fill, or no memory.
bool Receiver::post_some()
{
    kapi_recv_wr wr[some];
    kapi_sge sge[some][2];
    unsigned count = 0;
    bool starved = false;
    if (!ends_.is_open())
        return false;
    const kapi_pd* pd = ends_.domain.pd.get();
    while (count < some && !starved) {
        u16 index;
        {
            Guard guard(lock_);
            if (!free_)
                break;
            index = slots_->free[--free_];
        }
        if (!prepare(index)) {
            put_free(index);
            starved = true;
            break;
        }
        headers_.sync(index, KAPI_MAP_FOR_DEVICE);
        kapi_map_place place{};
        kapi_size length = fragment_size;
        sge[count][0] = headers_.sge(index);
        kapi_map_sges(slots_->slot[index].map.c(), &place, &length, pd, &sge[count][1], 1);
        wr[count] = {.next = nullptr, .cookie = index, .sges = sge[count], .n_sges = 2, .pad = 0, .opaque = {}};
        if (count)
            wr[count - 1].next = &wr[count];
        count++;
    }
    if (starved)
        rds_path_retry_later(ends_.conn, 0, RDS_PATH_RESUME);
    if (!count)
        return false;
    kapi_recv_wr* bad = wr;
    {
        Guard guard(ends_.lock);
        if (ends_.open && kapi_qp_recv(ends_.qp.get(), wr, &bad) == 0)
            return !starved && count == some;
    }
    for (; bad; bad = bad->next) {
        u16 index = static_cast<u16>(bad->cookie);
        slots_->slot[index].map = Mapping();
        put_free(index);
    }
    rds_path_retry_later(ends_.conn, 0, RDS_PATH_RESUME);
    return false;
}

void Receiver::refill(Stat by)
{
    {
        Guard guard(lock_);
        if (free_ < min(some, max(1u, depth_ / some)))
            return;
    }
    ends_.counters.count(by);
    while (post_some())
        ;
}

// ---- what arrives

// True: it waits to be handled.
bool Receiver::arrived(u16 index, const kapi_wc& wc)
{
    Slot& slot = slots_->slot[index];
    slot.map = Mapping();
    if (wc.status != KAPI_WC_OK) {
        ends_.failed();
        return false;
    }
    slot.length = wc.length;
    headers_.sync(index, KAPI_MAP_FOR_CPU);
    const Header& header = headers_.at(index);
    bool good = wc.op == KAPI_WC_RECV && wc.length >= header_size && wc.length <= header_size + fragment_size &&
                (!header.checksum || header_checksum(header) == 0) && sender_.acknowledged(header.ack);
    if (!good) {
        Guard guard(lock_);
        broken_ = true;
    }
    bool only_acknowledges = wc.length == header_size && !header.sport && !header.dport && !header.length;
    if (only_acknowledges && (header.flags & rds::flag_ack_required))
        sender_.want_ack();
    if (!good)
        ends_.lost();
    if (good && only_acknowledges)
        ends_.counters.count(Stat::ack_received);
    return good && !only_acknowledges;
}

void Receiver::received(const kapi_wc* wcs, unsigned n)
{
    bool empty = false;
    for (unsigned i = 0; i < n; i++) {
        u16 index = static_cast<u16>(wcs[i].cookie);
        if (!HW_ASSERT(wcs[i].cookie < depth_))
            continue;
        bool waits = arrived(index, wcs[i]);
        Guard guard(lock_);
        if (waits && !broken_)
            slots_->waiting[(first_ + waiting_++) % most] = index;
        else
            slots_->free[free_++] = index;
        empty |= wcs[i].status == KAPI_WC_OK && free_ + waiting_ == depth_;
    }
    if (empty)
        ends_.counters.count(Stat::rx_ring_empty);
    process(Stat::rx_refill_from_cq);
}

void Receiver::begin()
{
    {
        Guard guard(lock_);
        begun_ = true;
    }
    process(Stat::rx_refill_from_thread);
}

// The oldest that waits, for who is busy.
bool Receiver::take(u16& index)
{
    Guard guard(lock_);
    if (!waiting_ || broken_)
        return false;
    index = slots_->waiting[first_];
    return true;
}

// One context at a time handles what waits. Who comes meanwhile leaves it to that one.
void Receiver::process(Stat by)
{
    {
        Guard guard(lock_);
        again_ = true;
        if (busy_ || !begun_)
            return;
        busy_ = true;
    }
    for (;;) {
        {
            Guard guard(lock_);
            if (!again_) {
                busy_ = false;
                break;
            }
            again_ = false;
        }
        u16 index;
        while (take(index)) {
            Slot& slot = slots_->slot[index];
            Verdict verdict = handle(slot, headers_.at(index));
            if (verdict == Verdict::starved)
                rds_path_retry_later(ends_.conn, 0, RDS_PATH_RESUME);
            if (verdict == Verdict::garbage)
                ends_.lost();
            Guard guard(lock_);
            broken_ |= verdict == Verdict::garbage;
            if (verdict != Verdict::done)
                break;
            first_ = (first_ + 1) % most;
            waiting_--;
            slots_->free[free_++] = index;
        }
        refill(by);
    }
    sender_.send_ack();
}

// ---- messages

Receiver::Verdict Receiver::begin_message(const Header& header, u32 payload)
{
    switch (rds_inc_create(ends_.conn, 0, &header, payload, &inc_)) {
    case 0:
        header_ = header;
        ends_.counters.count(Stat::rx_total_incs);
        return Verdict::done;
    case -KAPI_ENOMEM:
        return Verdict::starved;
    case -KAPI_EAGAIN:
        return Verdict::stalled;
    default:
        return Verdict::garbage;
    }
}

// The message is delivered, or dropped because it was received before: the peer need not keep it.
void Receiver::end_message()
{
    rds_inc_deliver(std::exchange(inc_, nullptr));
    if (header_.flags == rds::flag_congestion_map || !header_.sequence)
        return;
    ends_.ack.store_release(max<u64>(ends_.ack.load(), header_.sequence));
    if (header_.flags & rds::flag_ack_required)
        sender_.want_ack();
}

Receiver::Verdict Receiver::handle(Slot& slot, const Header& header)
{
    if (rds_path_stalled(ends_.conn, 0))
        return Verdict::stalled;
    u32 payload = slot.length - header_size;
    bool first = !inc_;
    if (first) {
        if (Verdict begun = begin_message(header, payload); begun != Verdict::done)
            return begun;
    } else if (header.sequence != header_.sequence || header.length != header_.length || header.sport != header_.sport ||
               header.dport != header_.dport) {
        return Verdict::garbage;
    }
    if (payload != min(rds_inc_left(inc_), fragment_of(header_.length, ends_.to_hawser)))
        return Verdict::garbage;
    if (payload) {
        int attached = rds_inc_attach(inc_, slot.buffer.get(), payload);
        if (attached < 0) {
            if (first) // it begins anew with the same fragment
                rds_inc_free(std::exchange(inc_, nullptr));
            return Verdict::starved;
        }
        if (attached)
            static_cast<void>(slot.buffer.release());
    }
    if (rds_inc_left(inc_) == 0)
        end_message();
    return Verdict::done;
}

} // namespace rds_rdma
