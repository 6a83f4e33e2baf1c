// SPDX-License-Identifier: GPL-2.0
#include "socket.h"

#include "net.h"

namespace kcm {

namespace {

// How long a closed socket goes on sending what was sent before.
constexpr u64 drain_limit_ns = 60'000'000'000;

} // namespace

Socket::Socket(kapi_sk* of, bool is_datagram, Ref<Mux> shared)
    : sk(of), datagram(is_datagram), mux(std::move(shared)), transmit_work_(*this), give_up_work_(*this),
      batch_work_(*this)
{
}

Socket::~Socket()
{
    HW_ASSERT(queued_ == 0 && receiving.bundles.empty());
}

Result<Socket*> Socket::create(Net& net, kapi_sk* sk, int type, Socket* sibling)
{
    Ref<Mux> mux = sibling ? sibling->mux : TRY(Mux::create(net));
    bool datagram = sibling ? sibling->datagram : type == KCM_ABI_SOCK_DGRAM;
    auto* socket = make<Socket>(Alloc::charged, sk, datagram, mux);
    Result<> added = socket ? mux->add(*socket) : fail(KAPI_ENOMEM);
    if (!added) {
        dispose(socket);
        if (!sibling)
            net.remove(*mux);
        return fail(added.error());
    }
    return socket;
}

// The caller's reference to sk lasts until this returns.
void Socket::release()
{
    watch_errors(false);
    mux->distributor.leave(*this);
    Unfinished unfinished;
    bool empty, too_much;
    {
        Guard guard(send_lock_);
        closed_ = true;
        unfinished = take_unfinished();
        end_batch();
        empty = queued_ == 0;
        drains_ = !empty;
        too_much = drains_ && !mux->start_draining(queued_bytes_ + drain_overhead);
    }
    if (too_much || !mux->has_connections()) { // or nobody is there to send it to
        stop_sending();
        drop_all_unsent();
    }
    if (batch_work_.cancel()) // every batch has ended, and no other begins
        unref();
    // Not before: a work that transmits may wait for a program, and nobody else drops anything.
    give_up_unfinished(unfinished);
    if (!empty) {
        ref();
        if (!give_up_work_.queue(mux->workqueue(), drain_limit_ns))
            unref();
        // What was left may have gone since: then finish() had nothing to bring forward.
        if (finished_.load())
            end_waiting();
    }
    // A file whose last reference a thread of the kernel's gave up is closed by a work that closes those of all programs.
    // Sending and giving back take the locks of this user's TCP sockets.
    if (kapi_in_program()) [[likely]]
        transmit();
    else
        transmit_later();
}

// What is being built, if anything, is not going to be sent.
Socket::Unfinished Socket::take_unfinished()
{
    Unfinished taken{std::move(building_), std::move(building_for_)};
    if (taken.message) {
        uncharge(*taken.queue, u64{taken.message->length()} + taken.message->overhead());
        taken.queue->building = false;
        taken.room = look_for_room(*taken.queue);
    }
    return taken;
}

// As take_unfinished(), if it is for a connection that is gone. False: it is not, or there is none.
bool Socket::take_lost(Unfinished& lost)
{
    if (!building_ || !building_for_->to || !mux->reservations.lost(*building_for_->to))
        return false;
    lost = take_unfinished();
    return true;
}

// The queue may be of no use any more, and others may have waited for the room.
void Socket::give_up_unfinished(const Unfinished& unfinished)
{
    if (unfinished.queue)
        unfinished.queue->wake();
    notify_room(unfinished.room);
}

void Socket::give_up_begun_for(u64 id)
{
    Unfinished begun;
    {
        Guard guard(send_lock_);
        if (building_ && building_for_->to && building_for_->to->id == id)
            begun = take_unfinished();
    }
    give_up_unfinished(begun);
}

// By a call without bytes. The end of a spliced file returns no result: then the socket reports what is lost.
Result<> Socket::end_begun(bool spliced)
{
    Unfinished lost;
    {
        Guard guard(send_lock_);
        if (spliced || hides_error_ || !take_lost(lost)) {
            if (building_)
                complete();
            return {};
        }
    }
    give_up_unfinished(lost);
    return fail(KAPI_ENOTCONN);
}

// What TCP has nothing of is not going to be sent.
void Socket::stop_sending()
{
    given_up_.store_release(1);
    Guard guard(send_lock_);
    runnable_.splice_front(stalled_);
}

// TCP has a part of the message that is left, if of any, and will not get the rest: its connection ends. Who may wait for TCP's
// lock resets it, when the message is gone; otherwise it is reset when it is given back.
void Socket::drop_cut(SendQueue& queue, bool may_wait)
{
    Ref<Outgoing> cut;
    Room room;
    {
        Guard guard(send_lock_);
        if (queue.messages.empty() || !queue.messages.front()->is_cut())
            return;
        cut = queue.messages.pop_front();
        queued_ -= cut->count();
        uncharge(queue, u64{cut->left()} + cut->overhead());
        room = look_for_room(queue);
    }
    queue.psock->tx_aborts.add(1);
    queue.psock->mark_for_reset();
    queue.psock->fail(KAPI_ECONNABORTED);
    notify_room(room);
    cut = nullptr;
    if (may_wait)
        kapi_stream_reset(queue.psock->stream());
}

// At once, and without a lock of TCP: what is left to this user's works is there for as long as programs stop these. Only what a
// transmitter is about to send stays for that one.
void Socket::drop_all_unsent()
{
    u32 nobody = 0;
    if (!transmitters_.compare_exchange(nobody, 1))
        return;
    while (Ref<SendQueue> queue = next_queue()) {
        while (drop_unsent(*queue))
            kapi_resched();
        drop_cut(*queue, kapi_in_program());
        stop_using(*queue);
    }
    transmitters_.exchange(0); // release() transmits
}

void Socket::give_up()
{
    stop_sending();
    transmit();
    unref();
}

// Closed, and nothing is left to be sent. By the transmitter, once.
void Socket::finish()
{
    if (finished_.exchange(1))
        return;
    {
        Guard guard(send_lock_);
        HW_ASSERT(queued_bytes_ == 0);
        if (std::exchange(drains_, false))
            mux->forget_draining(drain_overhead);
    }
    mux->reservations.forget(any_);
    mux->remove(*this);
    end_waiting();
}

// The queue of works may stand still for as long as programs like, so nothing is left to it: the reference goes here. The
// caller may be in that work, which then drops it itself.
void Socket::end_waiting()
{
    if (give_up_work_.cancel())
        unref();
}

void Socket::watch_errors(bool on)
{
    if (errors_.exchange(on) != u32{on})
        mux->count_watcher(on);
}

void Socket::connections_gone(int error)
{
    report(error);
    give_up_if_closed();
}

void Socket::give_up_if_closed()
{
    bool closed;
    {
        Guard guard(send_lock_);
        closed = closed_;
    }
    if (closed) {
        stop_sending();
        transmit_later();
    }
}

void Socket::add_totals(kcm_totals& totals) const
{
    totals.mux.rx_msgs += rx_msgs;
    totals.mux.rx_bytes += rx_bytes;
    totals.mux.tx_msgs += tx_msgs;
    totals.mux.tx_bytes += tx_bytes;
}

void Socket::report(int error)
{
    kapi_sk_set_error(sk, error);
    readers_.wake(KAPI_HUP); // all
    senders_.wake();
    pollers_.wake(KAPI_IN | KAPI_OUT | KAPI_ERR);
}

void Socket::rest_is_read()
{
    readers_.wake(KAPI_HUP);
    pollers_.wake(KAPI_IN | KAPI_ERR);
    kapi_sk_signal(sk, KAPI_IN);
}

u64 Socket::deadline_after(u64 timeout_ns)
{
    return timeout_ns == KAPI_FOREVER ? KAPI_FOREVER : kapi_now_ns() + timeout_ns;
}

// Of the wait alone: an error of a connection has the same numbers, and another meaning.
Result<> Socket::waited(Result<> result, u64 deadline_ns)
{
    if (result)
        return result;
    int error = result.error().code();
    if (error == KAPI_ETIMEDOUT)
        return fail(KAPI_EAGAIN);
    return fail(error == KAPI_EINTR && deadline_ns == KAPI_FOREVER ? KAPI_ERESTARTSYS : error);
}

} // namespace kcm
