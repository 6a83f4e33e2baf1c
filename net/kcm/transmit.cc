// SPDX-License-Identifier: GPL-2.0
// Who sends, and what is next. One context is a socket's transmitter at a time: a program that sends when nobody else does,
// or the socket's work. It takes one step with each queue that has something to do, in turn, so that a connection that stands
// still delays no other.
#include "net.h"
#include "socket.h"

namespace kcm {

namespace {

constexpr unsigned few_segments = 4; // of one message, of which most have one
// Steps, each at most one call to TCP, that a transmitter takes at a time. Then the socket's work goes on: a program that
// sends gets back to its own, however much others send on its socket.
constexpr unsigned steps_max = 64;

} // namespace

void Socket::transmit_later()
{
    ref();
    if (!transmit_work_.queue(mux->workqueue()))
        unref();
}

void Socket::transmit_in_work()
{
    transmit();
    unref();
}

void Socket::transmit()
{
    if (transmitters_.fetch_add(1) == 0)
        transmit_until_left();
    // Else the transmitter looks again before it ends.
}

void Socket::wake(SendQueue& queue)
{
    {
        Guard guard(send_lock_);
        queue.woken = true;
        bool listed = static_cast<ListNode<Sending>&>(queue).linked();
        runnable_.push_back(listed ? runnable_.remove(queue) : Ref<SendQueue>::share(queue));
    }
    transmit_later();
}

// Ends being the transmitter. False: transmission was asked for since.
bool Socket::leave()
{
    u32 seen = 1;
    return transmitters_.compare_exchange(seen, 0);
}

// Transmits, and ends being the transmitter when none was asked for since.
void Socket::transmit_until_left()
{
    u32 seen = 1;
    unsigned steps = 0;
    do {
        release_parked();
        if (!transmit_some(steps)) {
            transmitters_.exchange(0);
            transmit_later();
            return;
        }
        finish_if_done();
    } while (!transmitters_.compare_exchange(seen, 0));
}

// Until no queue has anything to do. False: there is more.
bool Socket::transmit_some(unsigned& steps)
{
    while (Ref<SendQueue> queue = next_queue()) {
        if (++steps > steps_max)
            return false;
        if (!send_next(*queue))
            stall(*queue);
    }
    return true;
}

// The queue whose turn it is; the others have theirs before it has another one.
Ref<SendQueue> Socket::next_queue()
{
    Guard guard(send_lock_);
    SendQueue* first = runnable_.front();
    if (!first)
        return nullptr;
    runnable_.push_back(runnable_.remove(*first));
    first->woken = false;
    return Ref<SendQueue>::share(*first);
}

// Waits until it is woken, which it may have been since its step began.
void Socket::stall(SendQueue& queue)
{
    Guard guard(send_lock_);
    if (!queue.woken && !given_up_.load_acquire())
        stalled_.push_back(runnable_.remove(queue));
}

// Nothing of the queue may go now: it needs no connection.
void Socket::stop_using(SendQueue& queue)
{
    release_psock(queue);
    if (std::exchange(queue.waits, false))
        mux->reservations.forget(queue);
    Unlisted unlisted;
    Guard guard(send_lock_);
    unlisted = unlist_if_idle(queue);
    bool batched = !queue.messages.empty() && !may_go(*queue.messages.front());
    if (batched && !queue.woken)
        batched_.push_back(runnable_.remove(queue));
}

void Socket::release_psock(SendQueue& queue)
{
    Ref<Psock> psock = std::move(queue.psock);
    if (!psock)
        return;
    queue.parked = queue.unpushed = false;
    psock->expect_room(false);
    mux->reservations.give_back(*psock);
}

// TCP has a part of a message, or is about to get one: the connection is no longer parked, so that no other queue takes it.
void Socket::keep_psock(SendQueue& queue)
{
    if (std::exchange(queue.parked, false))
        mux->reservations.unpark(*queue.psock);
}

// Between two messages. What TCP holds back for those that were to follow, over another connection now, would wait for a timer.
void Socket::leave_psock(SendQueue& queue)
{
    u32 end;
    if (queue.unpushed)
        static_cast<void>(kapi_stream_send(queue.psock->stream(), nullptr, 0, 0, &end));
    release_psock(queue);
}

// What is only parked here goes: another queue may want it. It is kept for messages that may go now, but not for those that wait
// for the end of their batch.
void Socket::release_parked()
{
    if (!any_.parked)
        return;
    {
        Guard guard(send_lock_);
        if (!any_.messages.empty() && may_go(*any_.messages.front()))
            return;
    }
    release_psock(any_);
}

void Socket::finish_if_done()
{
    bool done;
    {
        Guard guard(send_lock_);
        done = closed_ && queued_ == 0;
    }
    if (done)
        finish();
}

// ---- without a queue

// A message before which there is none goes straight to a connection that is free, by no queue, and stays the caller's. What
// TCP does not take of it is queued before all others. False: it has to be queued behind others.
bool Socket::send_at_once(Ref<Outgoing>& message)
{
    u32 nobody = 0;
    if (queued_bytes_ || !transmitters_.compare_exchange(nobody, 1))
        return false;
    // We are the transmitter. The task that was it when we looked may have left something for when there is room.
    if (queued_bytes_) {
        transmit_until_left();
        return false;
    }
    trace_sent(*message, nullptr, true);
    if (!any_.parked) {
        HW_ASSERT(!any_.psock); // a queue without messages has none
        any_.psock = mux->reservations.take_if_free(any_);
    }
    bool leaves = any_.parked && mux->reservations.holds_back(); // maybe: the other way looks, and gives it back
    if (any_.psock && !leaves && !any_.psock->failed() && send_whole(*message)) [[likely]] {
        done_at_once();
        bool parked = any_.parked;
        if (leave()) [[likely]] {
            if (parked && mux->reservations.wants_back())
                transmit();
            return true;
        }
    } else {
        if (message->is_cut())
            keep_psock(any_); // this may end before the queue's turn comes
        put_first(std::move(message));
    }
    transmit_until_left();
    return true;
}

// Parks the connection for the next message, which saves locks, where no other sender notices a difference.
void Socket::done_at_once()
{
    Psock& psock = *any_.psock;
    if (any_.parked) {
        psock.reserved.add(1);
        psock.unreserved.add(1);
        return;
    }
    any_.parked = mux->reservations.park(psock);
    if (!any_.parked)
        release_psock(any_);
}

Ref<Psock> Socket::take_parked(bool& asked)
{
    u32 nobody = 0;
    if (!transmitters_.compare_exchange(nobody, 1))
        return nullptr;
    any_.parked = false;
    Ref<Psock> parked = std::move(any_.psock);
    asked = !leave();
    if (asked)
        transmitters_.exchange(0);
    return parked;
}

// Its number is 0, or of a message that went before: it may go.
void Socket::put_first(Ref<Outgoing> message)
{
    Guard guard(send_lock_);
    charge(any_, u64{message->left()} + message->overhead());
    any_.messages.push_front(std::move(message));
    queued_ += any_.messages.front()->count();
    // Messages that were added meanwhile for a batch have put it on the list that waits for the batch's end.
    bool listed = static_cast<ListNode<Sending>&>(any_).linked();
    runnable_.push_front(listed ? runnable_.remove(any_) : Ref<SendQueue>::share(any_));
}

// False: TCP took only a part, or nothing.
bool Socket::send_whole(Outgoing& message)
{
    HW_UNINITIALIZED kapi_segment segments[few_segments];
    Psock& psock = *any_.psock;
    auto filled = message.fill(segments, few_segments);
    u32 end;
    u32 flags = filled.bytes < message.left() ? KAPI_STREAM_MORE : 0;
    s64 taken = kapi_stream_send(psock.stream(), segments, filled.segments, flags, &end);
    if (taken < 0) {
        psock.fail(static_cast<int>(-taken));
        return false;
    }
    message.advance(static_cast<u32>(taken));
    count_bytes(psock, message.sent());
    count_messages(psock, message, 0);
    return !message.left();
}

} // namespace kcm
