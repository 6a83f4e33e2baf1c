// SPDX-License-Identifier: GPL-2.0
#include "receiver.h"

#include "connection.h"
#include "net.h"

namespace rds_rdma {

Receiver::~Receiver()
{
    if (inc_)
        rds_inc_free(inc_);
}

Result<> Receiver::build(u32 depth, u32 buffers)
{
    depth_ = depth;
    buffers_ = buffers;
    TRY(headers_.make(ends_.domain, depth, KAPI_MAP_FROM_DEVICE));
    slots_.reset(make<Slots>(Alloc::sleep));
    if (!slots_)
        return fail(KAPI_ENOMEM);
    Guard guard(lock_);
    for (u32 i = 0; i < depth; i++) {
        slots_->slot[i].sges[0] = headers_.sge(i);
        slots_->free[free_++] = static_cast<u16>(i);
    }
    return {};
}

// ---- the ring

namespace {

constexpr unsigned some = 8; // posted at once: a few places of a ring may wait for others

} // namespace

// Up to `some` places to fill.
unsigned Receiver::take_free(u16* indices)
{
    Guard guard(lock_);
    unsigned n = min<u32>(free_, some);
    for (unsigned i = 0; i < n; i++)
        indices[i] = slots_->free[--free_];
    return n;
}

void Receiver::put_free(const u16* indices, unsigned n)
{
    Guard guard(lock_);
    for (unsigned i = 0; i < n; i++)
        slots_->free[free_++] = indices[i];
}

bool Receiver::prepare(Slot& slot)
{
    for (u32 i = 0; i < buffers_; i++) {
        if (slot.map[i]) {
            if (header_size + i * fragment_size < slot.length) // it was filled, and its bytes were copied
                kapi_map_sync(slot.map[i].c(), 0, fragment_size, KAPI_MAP_FOR_DEVICE);
            continue;
        }
        if (!slot.buffer[i]) {
            slot.buffer[i].reset(kapi_rxbuf_create(fragment_size, KAPI_ATOMIC));
            if (!slot.buffer[i])
                return false;
            ends_.counters.count(Stat::rx_total_frags);
        }
        if (!slot.map[i].begin([&](kapi_map* to) { return kapi_map_rxbuf(to, ends_.device.dev, slot.buffer[i].get()); }))
            return false;
        kapi_map_place place{};
        kapi_size length = fragment_size;
        kapi_map_sges(slot.map[i].c(), &place, &length, ends_.domain.pd.get(), &slot.sges[1 + i], 1);
    }
    return true;
}

// Posts a few. False: there are no more places to fill, or no memory.
bool Receiver::post_some()
{
    u16 indices[some];
    kapi_recv_wr wr[some];
    if (!ends_.is_open())
        return false;
    unsigned wanted = take_free(indices), count = 0;
    while (count < wanted && prepare(slots_->slot[indices[count]])) {
        u16 index = indices[count];
        headers_.sync(index, KAPI_MAP_FOR_DEVICE);
        const kapi_sge* sges = slots_->slot[index].sges;
        wr[count] = {.next = nullptr, .cookie = index, .sges = sges, .n_sges = 1 + buffers_, .pad = 0, .opaque = {}};
        if (count)
            wr[count - 1].next = &wr[count];
        count++;
    }
    bool starved = count < wanted;
    if (starved) {
        put_free(indices + count, wanted - count);
        rds_path_retry_later(ends_.conn, 0, RDS_PATH_RESUME);
    }
    if (!count)
        return false;
    kapi_recv_wr* bad = wr;
    {
        Guard guard(ends_.lock);
        if (ends_.open && kapi_qp_recv(ends_.qp.get(), wr, &bad) == 0)
            return !starved && count == some;
    }
    unsigned posted = bad ? static_cast<unsigned>(bad - wr) : count;
    put_free(indices + posted, count - posted);
    rds_path_retry_later(ends_.conn, 0, RDS_PATH_RESUME);
    return false;
}

void Receiver::fill(Stat by)
{
    ends_.counters.count(by);
    while (post_some())
        ;
}

bool Receiver::has_places() const
{
    return free_ >= min(some, max(1u, depth_ / some));
}

void Receiver::refill(Stat by)
{
    {
        Guard guard(lock_);
        if (!has_places())
            return;
    }
    fill(by);
}

// ---- what arrives

// A peer can send it in each receive, and on any number of connections.
void Receiver::note_garbage(const char* what)
{
    if (Module::get().garbage.is_due())
        rds_conn_note(ends_.conn, what);
}

// True: it waits to be handled.
bool Receiver::arrived(u16 index, const kapi_wc& wc)
{
    Slot& slot = slots_->slot[index];
    if (wc.status != KAPI_WC_OK) {
        ends_.failed(wc.status);
        return false;
    }
    slot.length = wc.length;
    headers_.sync(index, KAPI_MAP_FOR_CPU);
    const Header& header = headers_.at(index);
    bool good = wc.op == KAPI_WC_RECV && wc.length >= header_size && wc.length <= header_size + buffers_ * fragment_size &&
                (!header.checksum || header_checksum(header) == 0) && sender_.acknowledged(header.ack);
    if (!good) {
        note_garbage("sends what is no RDS, its connection ends");
        {
            Guard guard(lock_);
            broken_ = true;
        }
        ends_.lost();
        return false;
    }
    for (u32 i = 0, at = 0; at < wc.length - header_size; i++, at += fragment_size)
        kapi_map_sync(slot.map[i].c(), 0, min(wc.length - header_size - at, fragment_size), KAPI_MAP_FOR_CPU);
    if (wc.length != header_size || header.sport || header.dport || header.length)
        return true;
    // An acknowledgement, maybe with a question.
    if (header.flags & rds::flag_ack_required)
        sender_.want_ack();
    ends_.counters.count(Stat::ack_received);
    return false;
}

// True: nothing is posted.
bool Receiver::arrived(const u16* indices, const bool* waits, unsigned n)
{
    Guard guard(lock_);
    for (unsigned i = 0; i < n; i++) {
        if (waits[i] && !broken_)
            slots_->waiting[(first_ + waiting_++) % most] = indices[i];
        else
            slots_->free[free_++] = indices[i];
    }
    return free_ + waiting_ == depth_;
}

void Receiver::received(const kapi_wc* wcs, unsigned n)
{
    u16 indices[some]{};
    bool waits[some]{};
    unsigned count = 0;
    bool some_good = false, empty = false;
    for (unsigned i = 0; i < n; i++) {
        if (!HW_ASSERT(wcs[i].cookie < depth_))
            continue;
        indices[count] = static_cast<u16>(wcs[i].cookie);
        waits[count] = arrived(indices[count], wcs[i]);
        some_good |= wcs[i].status == KAPI_WC_OK;
        if (++count == some)
            empty |= arrived(indices, waits, std::exchange(count, 0));
    }
    empty |= arrived(indices, waits, count);
    if (empty && some_good)
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

// What is next for the caller that is busy, after a step. stuck: the step failed, and is made again only when another came.
Receiver::Step Receiver::choose(u16& index, Step last, bool stuck)
{
    if (last == Step::handle && !stuck) {
        slots_->free[free_++] = index;
        first_ = (first_ + 1) % most;
        waiting_--;
    }
    bool waits = waiting_ && !broken_, handles = waits && !stuck, fills = last != Step::fill && has_places();
    if (!handles && !fills && std::exchange(again_, false)) {
        handles = waits;
        fills = has_places();
    }
    if (handles)
        index = slots_->waiting[first_];
    busy_ = handles || fills;
    return handles ? Step::handle : fills ? Step::fill : Step::end;
}

// One context at a time handles what waits. Who comes meanwhile leaves it to that one. Between two steps the lock is taken once:
// it costs more than what is decided under it.
void Receiver::process(Stat by)
{
    u16 index = 0;
    Step step;
    {
        Guard guard(lock_);
        again_ = busy_ || !begun_;
        if (again_)
            return;
        step = choose(index, Step::end, false);
    }
    Verdict verdict = Verdict::done;
    while (step != Step::end) {
        if (step == Step::fill)
            fill(by);
        else
            verdict = handle(slots_->slot[index], headers_.at(index));
        if (step == Step::handle && verdict != Verdict::done)
            stopped(verdict);
        Guard guard(lock_);
        step = choose(index, step, verdict != Verdict::done);
    }
    sender_.send_ack();
}

void Receiver::stopped(Verdict verdict)
{
    if (verdict == Verdict::starved)
        rds_path_retry_later(ends_.conn, 0, RDS_PATH_RESUME);
    if (verdict != Verdict::garbage)
        return;
    // It stays the oldest: nothing behind it is handled. Core reports a bad header.
    if (inc_ && !std::exchange(reported_, true))
        note_garbage("sends fragments that do not fit together, its connection ends");
    ends_.lost();
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

// The message is delivered, or dropped because it was received before: the peer need not keep it. It is noted before, for the
// answer of a program that is woken to acknowledge it.
void Receiver::end_message()
{
    ends_.ack.store_release(max<u64>(ends_.ack.load(), header_.sequence));
    rds_inc_deliver(std::exchange(inc_, nullptr));
    if (header_.flags & rds::flag_ack_required)
        sender_.want_ack();
}

// The buffers that the fragment filled, or, where there was no memory for the last time, the rest of them.
Receiver::Verdict Receiver::take_payload(Slot& slot, u32 payload)
{
    bool copies = rds_inc_copies(inc_);
    while (taken_ < payload) {
        RxBuffer& buffer = slot.buffer[taken_ / fragment_size];
        u32 size = min(payload - taken_, fragment_size);
        if (!copies) // before it is the message's
            slot.map[taken_ / fragment_size].end_synced();
        int attached = rds_inc_attach(inc_, buffer.get(), size);
        if (attached < 0)
            return Verdict::starved;
        if (attached)
            static_cast<void>(buffer.release());
        taken_ += size;
    }
    taken_ = 0;
    return Verdict::done;
}

Receiver::Verdict Receiver::handle(Slot& slot, const Header& header)
{
    if (rds_path_stalled(ends_.conn, 0))
        return Verdict::stalled;
    u32 payload = slot.length - header_size;
    if (!inc_) {
        if (Verdict begun = begin_message(header, payload); begun != Verdict::done)
            return begun;
    } else if (header.sequence != header_.sequence || header.length != header_.length || header.sport != header_.sport ||
               header.dport != header_.dport) {
        return Verdict::garbage;
    }
    if (payload != min(rds_inc_left(inc_) + taken_, ends_.fragments.size(header_.length)))
        return Verdict::garbage;
    if (Verdict taken = take_payload(slot, payload); taken != Verdict::done)
        return taken; // the same fragment is tried again
    if (rds_inc_left(inc_) == 0)
        end_message();
    return Verdict::done;
}

} // namespace rds_rdma
