// SPDX-License-Identifier: GPL-2.0
// From sendmsg to the socket's send queue.
#include "net.h"
#include "socket.h"

namespace kcm {

namespace {

// One message with its overhead, whatever the send buffer: it is in memory until its end is known.
constexpr u64 max_outgoing = 64u << 20;
// For so long messages wait for the rest of their batch.
constexpr u64 batch_limit_ns = 10'000'000;

} // namespace

// ---- the queues

// Null: nothing waits for that connection.
SendQueue* Socket::find_queue(Psock* to)
{
    if (!to)
        return &any_;
    return addressed_ ? addressed_->find(to->id) : nullptr;
}

void Socket::charge(SendQueue& queue, u64 bytes)
{
    queue.bytes += bytes;
    queued_bytes_.add(bytes);
    if (drains_)
        mux->count_draining(bytes);
}

void Socket::uncharge(SendQueue& queue, u64 bytes)
{
    queue.bytes -= bytes;
    queued_bytes_.sub(bytes);
    if (drains_)
        mux->forget_draining(bytes);
}

// A queue without a message has nothing to do, and one for a certain connection goes.
Socket::Unlisted Socket::unlist_if_idle(SendQueue& queue)
{
    Unlisted unlisted;
    if (!queue.messages.empty() || queue.woken)
        return unlisted;
    if (static_cast<ListNode<Sending>&>(queue).linked())
        unlisted.sending = runnable_.remove(queue);
    if (!queue.building && static_cast<ListNode<ByAddress>&>(queue).linked())
        unlisted.by_address = addressed_->remove(queue);
    return unlisted;
}

// Who is refused for want of room gets a signal when there is some, if the program asked for signals.
bool Socket::has_room_or_wants_it(SendQueue* queue)
{
    if (has_room(queue))
        return true;
    if (queue)
        queue->room_wanted = true;
    if (queue != &any_) {
        room_wanted_ = true;
        room_for_all_wanted_ |= !addressed_have_room();
    }
    return false;
}

// The message goes on that is being built, or there is room for another one.
bool Socket::may_add(Psock* to)
{
    Guard guard(send_lock_);
    SendQueue* queue = find_queue(to);
    return building_ || has_room_or_wants_it(queue);
}

bool Socket::is_full(Psock* to)
{
    Guard guard(send_lock_);
    return !has_room(find_queue(to));
}

// Something has left the queue: who is to be notified, without the lock.
Socket::Room Socket::look_for_room(SendQueue& queue)
{
    bool room = has_room(&queue), room_for_all = room_for_all_wanted_ && addressed_have_room();
    // Its own limit has refused, now that of all does: the room may come by another queue, when this one is gone.
    if (!room && queue.bytes < kapi_sk_sndbuf(sk))
        room_for_all_wanted_ |= std::exchange(queue.room_wanted, false);
    bool wanted = (room && std::exchange(queue.room_wanted, false)) || room_for_all;
    if (room_for_all)
        room_for_all_wanted_ = false;
    return {room || room_for_all, wanted};
}

void Socket::notify_room(Room room)
{
    if (room.there) {
        senders_.wake();
        pollers_.wake(KAPI_OUT | KAPI_WRNORM);
    }
    if (room.wanted)
        kapi_sk_signal(sk, KAPI_OUT);
}

Result<> Socket::wait_for_room(const Part& part, bool may_wait, u64 deadline_ns)
{
    // What is held for the rest of a batch would fill the buffer.
    release_batch();
    if (may_add(part.to))
        return {};
    if (!may_wait)
        return fail(KAPI_EAGAIN);
    TRY(waited(senders_.wait_until(deadline_ns, [&] { return may_add(part.to) || kapi_sk_has_error(sk); }), deadline_ns));
    if (part.leaves_errors)
        return kapi_sk_has_error(sk) ? fail(KAPI_EAGAIN) : Result<>();
    return check(kapi_sk_take_error(sk));
}

// ---- messages

void Socket::complete()
{
    SendQueue& queue = *building_for_;
    building_->number = next_number_++;
    queued_ += building_->count();
    queue.messages.push_back(std::move(building_));
    queue.building = false;
    if (!static_cast<ListNode<Sending>&>(queue).linked())
        batched_.push_back(std::move(building_for_));
    else
        building_for_ = nullptr; // the lists have references, too
}

// Before it can be seen that a task transmits it.
void Socket::trace_sent(const Outgoing& bytes, const Psock* to, bool ends)
{
    if (kapi_traces(KAPI_TRACE_KCM_SEND))
        for (u32 i = 0; i < bytes.count(); i++)
            kapi_trace_kcm_message(KAPI_TRACE_KCM_SEND, to ? to->id : 0, ends, bytes.length_of(i));
}

// All messages that are whole may go.
void Socket::end_batch()
{
    may_go_below_ = next_number_;
    batched_.splice_front(runnable_);
    runnable_.splice_front(batched_);
}

// Adds to the message that is being built, or begins one.
Result<Socket::Added> Socket::add(Part& part, Spare& spare)
{
    Unfinished lost;
    Result<Added> added = add_unless_lost(part, spare, lost);
    if (lost.queue) [[unlikely]]
        give_up_unfinished(lost);
    return added;
}

// A message that was begun for a connection that is gone since will not end: only its own rest may not begin another one. A part
// that names none is refused once, so where its call's error may be hidden it is taken, and discarded with the message.
Result<Socket::Added> Socket::add_unless_lost(Part& part, Spare& spare, Unfinished& lost)
{
    u64 size = u64{part.bytes->length()} + part.bytes->overhead();
    Guard guard(send_lock_);
    bool unnamed = !part.alone && !part.to;
    if (!(unnamed && hides_error_) && take_lost(lost) && (unnamed || (!part.alone && part.to == lost.queue->to.get())))
        return fail(KAPI_ENOTCONN);
    if (building_) {
        if (part.alone || (part.to && building_for_->to.get() != part.to))
            return fail(KAPI_EINVAL); // another message is being built, whose receiver must not get this
        if (u64{building_->length()} + building_->overhead() + part.bytes->length() > max_outgoing)
            return fail(KAPI_EMSGSIZE);
        trace_sent(*part.bytes, part.to, part.ends);
        building_->append(std::move(part.bytes));
    } else {
        SendQueue* queue = find_queue(part.to);
        if (!has_room(queue))
            return Added::no_room;
        if (!queue && !spare.queue)
            return Added::no_queue;
        if (!queue) {
            if (!addressed_)
                addressed_ = std::move(spare.table);
            queue = spare.queue.get();
            addressed_->insert(std::move(spare.queue));
        }
        trace_sent(*part.bytes, part.to, part.ends);
        building_ = std::move(part.bytes);
        building_for_ = Ref<SendQueue>::share(*queue);
        queue->building = true;
    }
    charge(*building_for_, size);
    hides_error_ = !part.goes || part.spliced;
    if (part.ends)
        complete();
    if (part.goes)
        end_batch();
    return Added::yes;
}

// A queue for the connection, and the table of them if this is the first one.
Result<> Socket::make_spare(Psock& to, Spare& spare)
{
    bool has_table;
    {
        Guard guard(send_lock_);
        has_table = static_cast<bool>(addressed_);
    }
    if (!has_table)
        spare.table = TRY(AddressTable::create());
    spare.queue = TRY(SendQueue::create(*this, Ref<Psock>::share(to)));
    return {};
}

// Makes what add() lacked, or waits for it.
Result<> Socket::wait_and_add(Part& part, Added added, bool may_wait, u64 deadline_ns)
{
    Spare spare;
    while (added != Added::yes) {
        if (added == Added::no_room)
            TRY(wait_for_room(part, may_wait, deadline_ns));
        else
            TRY(make_spare(*part.to, spare));
        added = TRY(add(part, spare));
    }
    return {};
}

// As add(), once there is room.
Result<> Socket::add_when_room(Part part, const kcm_send& send)
{
    Spare none;
    Added added = TRY(add(part, none));
    if (added == Added::yes) [[likely]]
        return {};
    bool may_wait = !(send.flags & KCM_ABI_MSG_DONTWAIT);
    return wait_and_add(part, added, may_wait, deadline_after(may_wait ? kapi_sk_sndtimeo_ns(sk) : 0));
}

// Everything that is queued may go.
void Socket::release_batch()
{
    {
        Guard guard(send_lock_);
        end_batch();
    }
    transmit();
}

// The rest of a batch may never come: the next call of a sendmmsg() can fail before it reaches KCM, or its copy take for ever.
// One timer serves all batches that begin before it has run: a sender of many sets it once in such a time, and never takes it
// back.
void Socket::limit_batch()
{
    // The lock was held since the message was added: end_late_batch() has cleared this before it, or sees the message.
    if (batch_limited_.load_relaxed() || batch_limited_.exchange(1)) [[likely]]
        return;
    ref();
    if (!batch_work_.queue(mux->workqueue(), batch_limit_ns))
        unref();
}

void Socket::end_late_batch()
{
    batch_limited_.exchange(0);
    bool holds;
    {
        Guard guard(send_lock_);
        holds = may_go_below_ != next_number_;
        end_batch();
    }
    if (holds)
        transmit();
    unref();
}

// A call that fails is the last of its sendmmsg(), which then ends what the calls before it began.
Result<u32> Socket::send(const kcm_send& send)
{
    auto sent = send_one(send);
    if (!sent)
        release_batch();
    return sent;
}

// Several messages of these lengths, as one object.
Result<Ref<Outgoing>> Socket::copy_several(const kcm_send& send, std::span<const u32> lengths, u32 size)
{
    Ref<Outgoing> bytes = TRY(Outgoing::create(nullptr, send.msg, size));
    if (lengths.size() > 1)
        TRY(bytes->divide(lengths));
    return bytes;
}

// Each message of several. What was copied together is queued together, and waits for the last one. An error behind the first
// is left to the next call.
Result<u32> Socket::send_each(const kcm_send& send, const Control& control, Psock* wanted)
{
    HW_UNINITIALIZED u32 lengths[Control::most];
    u32 sent = 0;
    for (u32 next = 0; next < control.count;) {
        auto [count, size] = control.read(next, lengths);
        auto bytes = copy_several(send, {lengths, count}, size);
        Result<> added = bytes ? add_when_room({.bytes = std::move(*bytes), .to = wanted, .ends = true, .goes = false,
                                                .alone = true, .leaves_errors = sent != 0}, send)
                               : fail(bytes.error());
        if (!added && !sent)
            return fail(added.error());
        if (!added)
            break;
        next += count;
        sent += size;
        if (next == control.count)
            break;
        if (is_full(wanted)) // the next copy may take for ever, and nobody else could make room
            release_batch();
        else
            limit_batch();
    }
    if (sent < send.size || !(send.flags & KCM_ABI_MSG_BATCH))
        release_batch();
    else
        limit_batch();
    return sent;
}

// The connection that a message names. What was begun for one that is gone ends with the attempt to send the rest.
Result<Ref<Psock>> Socket::find_wanted(u64 id)
{
    Ref<Psock> wanted = mux->find(id);
    if (wanted && !wanted->failed())
        return wanted;
    give_up_begun_for(id);
    return fail(KAPI_ENOTCONN);
}

Result<u32> Socket::send_one(const kcm_send& send)
{
    bool by_more = datagram || send.spliced;
    bool ends = by_more ? !(send.flags & KCM_ABI_MSG_MORE) : (send.flags & KCM_ABI_MSG_EOR) != 0;
    bool goes = !(send.flags & KCM_ABI_MSG_BATCH);
    Control control;
    if (send.control_length)
        control = TRY(parse_control(send));
    Ref<Psock> wanted;
    if (control.addressed)
        wanted = TRY(find_wanted(control.id));
    if (send.size || !send.spliced) // the end of a spliced file returns no result
        TRY(check(kapi_sk_take_error(sk)));
    if (send.size > max_outgoing)
        return fail(KAPI_EMSGSIZE);
    if (control.count && (send.flags & KCM_ABI_MSG_WAITALL)) // io_uring would send the rest without its lengths
        return fail(KAPI_EINVAL);
    if (control.count)
        return send_each(send, control, wanted.get());
    if (send.size) {
        // The copy comes first: it may fault, or take for ever, and then nothing has begun.
        u32 size = static_cast<u32>(send.size);
        Ref<Outgoing> bytes = TRY(Outgoing::create(used_.take(), send.msg, size));
        if (ends && goes && !wanted && send_at_once(bytes)) {
            if (bytes)
                used_.recycle(std::move(bytes));
            return size;
        }
        TRY(add_when_room({.bytes = std::move(bytes), .to = wanted.get(), .ends = ends, .goes = goes,
                           .spliced = send.spliced != 0}, send));
        goes ? transmit() : limit_batch();
        return size;
    }
    if (ends)
        TRY(end_begun(send.spliced));
    goes ? release_batch() : limit_batch();
    return 0;
}

// Those that were refused look for themselves whether there is room in their queue now: there may be very many queues.
void Socket::send_limit_changed()
{
    Room room{true, false};
    {
        Guard guard(send_lock_);
        bool addressed = std::exchange(room_wanted_, false);
        room.wanted = look_for_room(any_).wanted || addressed;
    }
    notify_room(room);
}

Socket::SendLoad Socket::send_load()
{
    Guard guard(send_lock_);
    return {queued_, may_go_below_ != next_number_, static_cast<bool>(building_)};
}

} // namespace kcm
