// SPDX-License-Identifier: GPL-2.0
#include "mux.h"

#include "net.h"
#include "socket.h"

namespace kcm {

Result<Ref<Mux>> Mux::create(Net& net)
{
    auto* mux = make<Mux>(Alloc::sleep, net);
    if (!mux)
        return fail(KAPI_ENOMEM);
    net.add(*mux);
    return Ref<Mux>::adopt(mux);
}

kapi_workqueue* Mux::workqueue() const
{
    return Module::get().workqueue;
}

// The lowest index that nobody has, in its place: a list's order is that of the indexes.
template <class T> void Mux::insert_by_index(RefList<T, Members>& list, T& item)
{
    unsigned index = 0;
    T* place = list.front();
    for (; place && place->index == index; place = list.next(*place))
        index++;
    item.index = index;
    if (place)
        list.insert_before(*place, Ref<T>::share(item));
    else
        list.push_back(Ref<T>::share(item));
}

// ---- sockets

Result<> Mux::add(Socket& socket)
{
    {
        Guard guard(lock_);
        if (socket_count_ == max_sockets)
            return fail(KAPI_ENFILE);
        socket_count_++;
        insert_by_index(sockets_, socket);
    }
    distributor.join(socket);
    return {};
}

void Mux::remove(Socket& socket)
{
    Ref<Mux> keep = Ref<Mux>::share(*this);
    Ref<Socket> removed;
    bool last;
    {
        Guard guard(lock_);
        removed = sockets_.remove(socket);
        past_.mux.tx_msgs += socket.tx_msgs;
        past_.mux.tx_bytes += socket.tx_bytes;
        past_.mux.rx_msgs += socket.rx_msgs;
        past_.mux.rx_bytes += socket.rx_bytes;
        last = --socket_count_ == 0;
    }
    if (!last)
        return;
    while (Ref<Psock> psock = take_any())
        retire(*psock);
    distributor.clear();
    net.remove(*this);
}

// ---- connections

Result<> Mux::attach(int fd, int bpf_fd, u32 max_message)
{
    Ref<Psock> psock = TRY(Psock::create(*this, fd, bpf_fd, max_message));
    psock->start();
    offer(*psock);
    {
        Guard guard(lock_);
        insert_by_index(psocks_, *psock);
        past_.attach++;
    }
    // Only now, so that whoever receives from it finds it.
    psock->begin();
    return {};
}

// psock may be sent on, unless it has failed, maybe meanwhile.
void Mux::offer(Psock& psock)
{
    reservations.add(psock);
    if (psock.failed())
        reservations.remove(psock);
}

bool Mux::has_connections()
{
    Guard guard(lock_);
    for (Psock* p = psocks_.front(); p; p = psocks_.next(*p))
        if (!p->failed())
            return true;
    return false;
}

Ref<Psock> Mux::take_by_key(u64 key)
{
    Guard guard(lock_);
    for (Psock* p = psocks_.front(); p; p = psocks_.next(*p))
        if (kapi_stream_key(p->stream()) == key)
            return psocks_.remove(*p);
    return nullptr;
}

Ref<Psock> Mux::take_any()
{
    Guard guard(lock_);
    return psocks_.pop_front();
}

Result<> Mux::unattach(int fd, u64 deadline_ns)
{
    u64 key;
    TRY(check(kapi_stream_key_of_fd(fd, &key)));
    Ref<Psock> psock = take_by_key(key);
    if (!psock)
        return fail(KAPI_ENOENT);
    reservations.hold_back(*psock);
    bool was_reserved = static_cast<bool>(reservations.owner(*psock));
    auto idle = reservations.wait_idle(*psock, deadline_ns);
    if (!idle) {
        offer(*psock);
        Guard guard(lock_);
        insert_by_index(psocks_, *psock);
        return fail(idle.error().code() == KAPI_ETIMEDOUT ? KAPI_EAGAIN : idle.error().code());
    }
    {
        Guard guard(lock_);
        past_.unattach++;
        past_.unattach_reserved += was_reserved;
    }
    retire(*psock);
    return {};
}

// psock is on no list any more and nobody sends on it.
void Mux::retire(Psock& psock)
{
    reservations.remove(psock);
    psock.detach();
    kcm_totals own{};
    psock.add_totals(own);
    Guard guard(lock_);
    add_to(past_, own);
}

Ref<Psock> Mux::find(u64 id)
{
    Guard guard(lock_);
    for (Psock* p = psocks_.front(); p; p = psocks_.next(*p))
        if (p->id == id)
            return Ref<Psock>::share(*p);
    return nullptr;
}

void Mux::connection_failed(Psock& psock, int error)
{
    reservations.remove(psock);
    Guard guard(lock_);
    bool last = true;
    for (Psock* p = psocks_.front(); p && last; p = psocks_.next(*p))
        last = p->failed();
    for (Socket* s = sockets_.front(); s; s = sockets_.next(*s))
        if (last)
            s->connections_gone(error);
        else if (s->wants_errors())
            s->report(error);
}

void Mux::add_totals(kcm_totals& totals)
{
    Guard guard(lock_);
    add_to(totals, past_);
    for (Psock* p = psocks_.front(); p; p = psocks_.next(*p))
        p->add_totals(totals);
    for (Socket* s = sockets_.front(); s; s = sockets_.next(*s)) {
        totals.mux.rx_msgs += s->rx_msgs;
        totals.mux.rx_bytes += s->rx_bytes;
        totals.mux.tx_msgs += s->tx_msgs;
        totals.mux.tx_bytes += s->tx_bytes;
    }
    totals.tx_retries += tx_retries_.load_relaxed();
}

} // namespace kcm
