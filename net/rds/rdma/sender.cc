// SPDX-License-Identifier: GPL-2.0
#include "sender.h"

namespace rds_rdma {

namespace {

// Messages at most without an acknowledgement. One costs as much as a small message, and what a socket waits for is asked for
// besides (Socket::wants_room_soon()).
constexpr u32 ack_every = 32;
// Of messages whose requests report no completion, which are held until a later one does. A report costs 3 % of a small message.
constexpr u32 most_held = 16 * 1024;

} // namespace

Sender::~Sender()
{
    free_retired();
    if (!slots_)
        return;
    for (u64 i = tail_.load(); i != head_; i++)
        release(slot(i), false);
}

// Of an operation that is left in the slots, the memory that it has mapped stays mapped. The queue pair is freed: regions can be.
void Sender::abandon()
{
    headers_.abandon();
    for (u64 i = tail_.load(); i != head_; i++) {
        rds_out* out = std::exchange(slot(i).out, nullptr);
        if (!out)
            continue;
        if (slot(i).operation)
            slot(i).operation->free_regions();
        rds_out_abandon(out);
    }
    static_cast<void>(slots_.release());
}

Result<> Sender::build(u32 capacity, u32 max_unsignaled)
{
    capacity_ = capacity;
    max_unsignaled_ = max_unsignaled;
    pieces_ = min(max_pieces, ends_.device.attrs.max_sge);
    TRY(headers_.make(ends_.domain, places() + 1, KAPI_MAP_TO_DEVICE));
    slots_.reset(make<Slots>(Alloc::sleep));
    chain_.reset(make<Chain>(Alloc::sleep));
    if (!slots_ || !chain_)
        return fail(KAPI_ENOMEM);
    return {};
}

// ---- messages

bool Sender::waits_for_room(u64 head)
{
    if (!waits_for([&] { return has_room(head); }))
        return false;
    ends_.counters.count(Stat::tx_ring_full);
    return true;
}

// Returns the acknowledgement in it.
u64 Sender::fill_header(Header& header, u8 flags)
{
    header.flags |= flags;
    u64 ack = ends_.ack.load();
    header.ack = ack;
    header.checksum = 0;
    header.checksum = header_checksum(header);
    return ack;
}

u64 Sender::write_header(u32 index, const Header& from, u8 flags)
{
    headers_.sync(index, KAPI_MAP_FOR_CPU);
    headers_.at(index) = from;
    u64 ack = fill_header(headers_.at(index), flags);
    headers_.sync(index, KAPI_MAP_FOR_DEVICE);
    return ack;
}

kapi_wr& Sender::next_request()
{
    kapi_wr& wr = chain_->wr[chain_->count++];
    wr = {};
    wr.cookie = head_++;
    return wr;
}

// Mostly the next message of the peer acknowledges, so it is not to send an acknowledgement of its own for each message. What
// remains is asked for by tick(). A foreign peer does not understand that, so the last message of each call asks: what was to
// follow may be cancelled.
bool Sender::asks(const Header& header, bool last)
{
    u64 number = header.sequence;
    last_sent_.store_release(number);
    bool asks = (header.flags & rds::flag_ack_required) || (last && !ends_.fragments.to_hawser) ||
                number - max(acked_.load_relaxed(), asked_) >= ack_every;
    if (asks)
        asked_ = number;
    return asks;
}

namespace {

kapi_sge carried_piece(const void* from, u32 length)
{
    return {reinterpret_cast<usize>(from), length, 0};
}

} // namespace

unsigned Sender::add_mapped(Slot& slot, kapi_sge* sges, unsigned most)
{
    kapi_map_place place{};
    kapi_size left = slot.payload.length();
    unsigned count = kapi_map_sges(slot.payload.c(), &place, &left, ends_.domain.pd.get(), sges, most);
    broken_ |= !HW_ASSERT(left == 0);
    return count;
}

// The header and the payload of the next request, whose slot it is; length: of the message. How many pieces.
unsigned Sender::add_pieces(Slot& slot, const Header& from, u8 flags, u32 length)
{
    kapi_sge* sges = chain_->sge[chain_->count];
    if (slot.carries) {
        chain_ack_ = fill_header(*slot.whole, flags);
        sges[0] = carried_piece(slot.whole, header_size + length);
        return 1;
    }
    if (slot.whole) {
        kapi_map_sync(slot.payload.c(), 0, header_size, KAPI_MAP_FOR_CPU);
        chain_ack_ = fill_header(*slot.whole, flags);
        kapi_map_sync(slot.payload.c(), 0, header_size, KAPI_MAP_FOR_DEVICE);
        return add_mapped(slot, sges, pieces_);
    }
    u32 index = static_cast<u32>(head_ % places());
    chain_ack_ = write_header(index, from, flags);
    sges[0] = headers_.sge(index);
    return slot.payload ? 1 + add_mapped(slot, sges + 1, pieces_ - 1) : 1;
}

// What follows may wait for much memory; for the rest prepare() asks.
bool Sender::reports(bool must, bool is_last)
{
    bool reports = must || (is_last && held_ > most_held) || unsignaled_ >= max_unsignaled_;
    unsignaled_ = reports ? 0 : unsignaled_ + 1;
    held_ = reports ? 0 : held_;
    return reports;
}

void Sender::add(rds_out* out, u32 fragments, bool last)
{
    if (ack_wanted_.load_relaxed() && ack_wanted_.exchange(0)) // the headers say it
        ends_.counters.count(Stat::ack_send_piggybacked);
    const Header& header = *static_cast<const Header*>(rds_out_header(out));
    u8 flags = header.sequence && asks(header, last) ? rds::flag_ack_required : 0;
    for (u32 i = 0; i < fragments; i++) {
        bool ends = i + 1 == fragments;
        Slot& to = slot(head_);
        unsigned count = add_pieces(to, header, flags, rds_out_length(out));
        if (ends && !to.carries) {
            held_ += rds_out_length(out);
            rds_out_hold(out);
            to.out = out;
        }
        kapi_wr& wr = next_request();
        wr.sges = chain_->sge[chain_->count - 1];
        wr.n_sges = count;
        wr.op = KAPI_WR_SEND;
        // A foreign peer does not report that it lacks a map. What reports its end kapi has the device send.
        bool unasked = ends && !header.sequence && !ends_.fragments.to_hawser;
        wr.flags = (reports(unasked, ends && last) ? KAPI_WR_SIGNALED : 0) | (ends ? KAPI_WR_SOLICITED : 0) |
                   (to.carries ? KAPI_WR_INLINE : 0);
        // What an operation read is there when the peer is informed, and may end the region.
        if (std::exchange(fence_, false))
            add_fence(wr);
        if (chain_->count == Chain::most)
            flush();
    }
}

// ends: what is in the chain ends with the last request of an operation or message. The next acknowledgement covers no part of an
// operation: over iWARP its completion may come before those of reads that were posted earlier.
//
// What was not posted is released with the connection. An acknowledgement of its own may have gone since the headers were made,
// and says more than they. The kernel's own heeds only the last one of several (rds_ib_process_recv()), so it gets another.
void Sender::flush(bool ends)
{
    unsigned count = std::exchange(chain_->count, 0);
    u64 said = std::exchange(chain_ack_, ~u64{0});
    if (!count || broken_)
        return;
    for (unsigned i = 0; i + 1 < count; i++)
        chain_->wr[i].next = &chain_->wr[i + 1];
    kapi_wr* bad = nullptr;
    broken_ = kapi_qp_send(ends_.qp.get(), chain_->wr, &bad) < 0;
    if (!broken_ && ends)
        posted_.store_release(head_);
    if (!broken_ && !ends_.fragments.to_hawser && said < ack_said_.load()) {
        want_ack();
        send_ack();
    }
}

// Those that have no operation, or whose operation was posted. How many.
unsigned Sender::post_messages(rds_out* const* messages, unsigned count)
{
    unsigned ready = prepare(messages, count);
    for (unsigned i = 0; i < ready; i++)
        add(messages[i], fragments(messages[i]), i + 1 == ready);
    return ready;
}

// What was taken is sent again over the next connection, as something of it may have been received. So an error is no result.
int Sender::post(rds_out* const* messages, unsigned count)
{
    unsigned taken = 0;
    while (taken < count && !broken_) {
        const rds_rdma_op* op = rds_out_rdma(messages[taken]);
        Operated operated = op ? post_operation(messages[taken], *op) : Operated::done;
        if (operated == Operated::later)
            break;
        if (operated == Operated::alone) {
            taken++;
            continue;
        }
        unsigned run = 1;
        while (taken + run < count && !rds_out_rdma(messages[taken + run]))
            run++;
        unsigned posted = post_messages(messages + taken, run);
        taken += posted;
        if (posted < run)
            break;
    }
    flush();
    if (broken_)
        ends_.lost();
    return static_cast<int>(taken);
}

// ---- completions

void Sender::release(Slot& slot, bool completed)
{
    slot.payload.end();
    rds_out* out = std::exchange(slot.out, nullptr);
    Own<Operation> operation(out ? slot.operation : nullptr);
    slot.operation = nullptr;
    if (operation && completed && operation->has_regions())
        return retire(std::move(operation));
    if (operation && completed)
        operation->finish();
    else if (operation && operation->has_failed()) {
        operation->free_regions();
        operation->finish();
    }
    operation.reset();
    if (out)
        rds_out_put(out);
}

void Sender::release_before(u64 end, kapi_wc_status status)
{
    u64 from = tail_.load_relaxed();
    if (end <= from || out_of_order_)
        return;
    for (u64 i = from; i < end; i++) {
        if (slot(i).operation)
            slot(i).operation->note(i + 1 == end ? status : KAPI_WC_OK);
        release(slot(i), true);
    }
    tail_.fetch_add(end - from);
    if (full_.exchange(0))
        rds_path_notify(ends_.conn, 0, RDS_PATH_SEND);
}

void Sender::completed(const kapi_wc& wc)
{
    if (wc.status != KAPI_WC_OK)
        ends_.failed(wc.status);
    if (wc.cookie == ack_cookie) {
        if (wc.status == KAPI_WC_OK)
            release_before(ack_covers_.load_acquire(), KAPI_WC_OK);
        {
            Guard guard(ends_.lock);
            acks_out_--;
        }
        send_ack();
        return;
    }
    u64 from = tail_.load_relaxed();
    if (!HW_ASSERT(wc.cookie >= from && wc.cookie < from + places()))
        return;
    if (wc.status != KAPI_WC_OK && ends_.device.is_iwarp())
        note_failure(slot(wc.cookie), wc.status);
    else
        release_before(wc.cookie + 1, wc.status);
}

// Over iWARP a read that the device could not send fails before those in front of it have ended. So from then on nothing is
// released before the queue is drained.
void Sender::note_failure(Slot& slot, kapi_wc_status status)
{
    out_of_order_ = true;
    if (slot.operation)
        slot.operation->note(status);
}

// ---- acknowledgements

bool Sender::acknowledged(u64 number)
{
    if (number <= acked_.load_relaxed())
        return true;
    if (number > last_sent_.load_acquire())
        return false;
    acked_.store_relaxed(number);
    rds_path_acked(ends_.conn, 0, static_cast<u32>(number) + 1);
    return true;
}

void Sender::begin()
{
    {
        Guard guard(ends_.lock);
        began_ = true;
    }
    send_ack();
}

// A foreign peer does not answer the question. But Soft-RoCE gives up a packet that is alone on its way, and that the peer has no
// receive posted for, after the time for which it may not answer; not if there is another one behind it. The first may be such an
// acknowledgement, so this one goes beside it.
void Sender::tick()
{
    if (last_sent_.load() <= acked_.load_relaxed())
        return;
    (ends_.fragments.to_hawser ? question_wanted_ : ack_wanted_).store_release(1);
    send_ack(carried_ >= header_size ? most_acks : 1);
}

// One at a time but for tick(): when it has completed, the next one says all that was received until then.
void Sender::send_ack(u32 most)
{
    bool failed;
    if (!ack_wanted_.load() && !question_wanted_.load()) // who wants one later calls this later
        return;
    {
        Guard guard(ends_.lock);
        if (!ends_.open || !began_)
            return;
        if (acks_out_ >= most) {
            if (ack_wanted_.load())
                ends_.counters.count(Stat::ack_send_delayed);
            return;
        }
        bool acknowledges = ack_wanted_.exchange(0), asks = question_wanted_.exchange(0);
        if (!acknowledges && !asks)
            return;
        bool carries = carried_ >= header_size;
        u8 flags = asks ? rds::flag_ack_required : 0;
        Header carried{};
        kapi_sge sge = carries ? carried_piece(&carried, header_size) : headers_.sge(ack_slot());
        u64 says = carries ? fill_header(carried, flags) : write_header(ack_slot(), Header{}, flags);
        ack_said_.store_release(says); // before it is posted
        if (!acks_out_)
            ack_covers_.store_release(posted_.load_acquire());
        acks_out_++;
        kapi_wr wr{};
        wr.cookie = ack_cookie;
        wr.sges = &sge;
        wr.n_sges = 1;
        wr.op = KAPI_WR_SEND;
        wr.flags = KAPI_WR_SIGNALED | KAPI_WR_SOLICITED | (carries ? KAPI_WR_INLINE : 0);
        kapi_wr* bad = nullptr;
        failed = kapi_qp_send(ends_.qp.get(), &wr, &bad) < 0;
    }
    ends_.counters.count(failed ? Stat::ack_send_failure : Stat::ack_sent);
    if (failed)
        ends_.lost();
}

} // namespace rds_rdma
