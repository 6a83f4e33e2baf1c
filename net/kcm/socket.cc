// SPDX-License-Identifier: GPL-2.0
#include "socket.h"

#include "net.h"

namespace kcm {

namespace {

// How long a closed socket goes on sending what was sent before.
constexpr u64 drain_limit_ns = 60'000'000'000;

} // namespace

Socket::Socket(kapi_sk* of, bool is_datagram, Ref<Mux> shared)
    : sk(of), datagram(is_datagram), mux(std::move(shared)), transmit_work_(*this), give_up_work_(*this)
{
}

Socket::~Socket()
{
    HW_ASSERT(queue_.empty() && receiving.bundles.empty());
}

Result<Socket*> Socket::create(Net& net, kapi_sk* sk, int type, Socket* sibling)
{
    Ref<Mux> mux = sibling ? sibling->mux : TRY(Mux::create(net));
    bool datagram = sibling ? sibling->datagram : type == KCM_ABI_SOCK_DGRAM;
    auto* socket = make<Socket>(Alloc::sleep, sk, datagram, mux);
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
    mux->distributor.leave(*this);
    Ref<Outgoing> unfinished;
    bool empty;
    {
        Guard guard(send_lock_);
        closed_ = true;
        unfinished = std::move(building_);
        if (unfinished)
            queued_bytes_.sub(unfinished->length() + unfinished->overhead());
        ready_ = queued_;
        empty = queue_.empty();
    }
    if (!mux->has_connections())
        given_up_.store_release(1); // nobody is there to send it to
    if (!empty) {
        ref();
        if (!give_up_work_.queue(mux->workqueue(), drain_limit_ns))
            unref();
    }
    transmit();
}

void Socket::give_up()
{
    given_up_.store_release(1);
    transmit();
    unref();
}

// Closed, and nothing is left to be sent. By the transmitter, once.
void Socket::finish()
{
    if (finished_.exchange(1))
        return;
    mux->reservations.forget(*this);
    mux->remove(*this);
    // This may be that work, which cannot wait for itself: so it runs once more, and the reference goes at once.
    ref();
    if (!give_up_work_.mod(mux->workqueue(), 0))
        unref();
}

void Socket::connections_gone(int error)
{
    report(error);
    bool closed;
    {
        Guard guard(send_lock_);
        closed = closed_;
    }
    if (closed) {
        given_up_.store_release(1);
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
    waiters.wake(KAPI_IN | KAPI_OUT | KAPI_ERR);
}

} // namespace kcm
