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

// The lowest index that nobody has, in its place: a list's order is that of the indexes. Of so many members, which tells
// that there is no gap to be looked for; 0: not known.
template <class T> void Mux::insert_by_index(RefList<T, Members>& list, T& item, u32 members)
{
    bool dense = members && list.back()->index + 1 == members;
    unsigned index = dense ? members : 0;
    T* place = dense ? nullptr : list.front();
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
        insert_by_index(sockets_, socket, socket_count_++);
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
        socket.add_totals(past_);
        departures_++;
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
        insert_by_index(psocks_, *psock, 0);
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
        insert_by_index(psocks_, *psock, 0);
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
    departures_++;
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

u32 Mux::socket_count()
{
    Guard guard(lock_);
    return socket_count_;
}

bool Mux::has_departed_since(u32& departures)
{
    Guard guard(lock_);
    return std::exchange(departures, departures_) != departures_;
}

void Mux::add_totals(kcm_totals& totals)
{
    HW_UNINITIALIZED kcm_totals own;
    u32 departures;
    unsigned tries = 0;
    // Who leaves in the middle of it may be counted neither as one that is there nor as one that was.
    do {
        {
            Guard guard(lock_);
            own = past_;
            departures = departures_;
        }
        visit_all<Psock>([&](Psock& psock) { psock.add_totals(own); });
        visit_all<Socket>([&](Socket& socket) { socket.add_totals(own); });
    } while (has_departed_since(departures) && ++tries < totals_tries);
    own.tx_retries += tx_retries_.load_relaxed();
    add_to(totals, own);
}

} // namespace kcm
