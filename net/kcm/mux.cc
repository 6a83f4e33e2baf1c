// SPDX-License-Identifier: GPL-2.0
#include "mux.h"

#include "net.h"
#include "socket.h"

namespace kcm {

Mux::Mux(Net& of, WorkQueue& works) : net(of), host(of.host), works_(works), retire_work_(*this)
{
    kapi_net_get(host);
}

Mux::~Mux()
{
    kapi_net_put(host);
    Module::get().users.put(works_);
}

Result<Ref<Mux>> Mux::create(Net& net)
{
    Users& users = Module::get().users;
    WorkQueue* works = TRY(users.get(kapi_user()));
    auto* mux = make<Mux>(Alloc::charged, net, *works);
    if (!mux) {
        users.put(*works);
        return fail(KAPI_ENOMEM);
    }
    net.add(*mux);
    return Ref<Mux>::adopt(mux);
}

kapi_workqueue* Mux::workqueue() const
{
    return works_.queue;
}

// An index that nobody has, in its place: a list's order is that of the indexes. When the indexes of so many members have no
// gap it is the next one; members may count some that are yet to be inserted. Else it is one of the first few, or behind the
// last: looking for the lowest one might take long.
template <class T> void Mux::insert_by_index(RefList<T, Members>& list, T& item, u32 members)
{
    constexpr unsigned looked_at = 64;
    T* last = list.back();
    bool dense = last && last->index + 1 == members;
    unsigned index = 0;
    T* place = dense ? nullptr : list.front();
    for (; place && place->index == index && index < looked_at; place = list.next(*place))
        index++;
    if (!place || index == looked_at) {
        item.index = last ? last->index + 1 : 0;
        list.push_back(Ref<T>::share(item));
        return;
    }
    item.index = index;
    list.insert_before(*place, Ref<T>::share(item));
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
    Ref<Mux> hold_ref = Ref<Mux>::share(*this);
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
    for (;;) {
        Removed removed = take_any();
        if (!removed.member)
            break;
        retire(removed);
    }
    distributor.clear();
    net.remove(*this);
}

bool Mux::start_draining(u64 bytes)
{
    u64 own = draining_.fetch_add(bytes), of_user = works_.draining.fetch_add(bytes);
    return own < drain_limit && of_user < drain_limit_of_user;
}

void Mux::count_draining(u64 bytes)
{
    draining_.fetch_add(bytes);
    works_.draining.fetch_add(bytes);
}

void Mux::forget_draining(u64 bytes)
{
    draining_.fetch_sub(bytes);
    works_.draining.fetch_sub(bytes);
}

// ---- connections

void Mux::insert(Psock& psock)
{
    insert_by_index(psocks_, psock, psock_count_ - 1);
    by_id_->insert(Ref<Psock>::share(psock));
    past_.attach++;
    if (psock.failed())
        note_ended(psock); // maybe before it was a member
}

Mux::Removed Mux::remove(Psock& psock)
{
    psock_count_--;
    Removed removed;
    removed.was_last = no_longer_alive(psock);
    psock.add_totals(removed.counted);
    add_to(past_, removed.counted);
    departures_++;
    removed.member = psocks_.remove(psock);
    removed.by_id = by_id_->remove(psock);
    if (is_on<Ended>(psock)) {
        removed.ended = ended_.remove(psock);
        ended_count_--;
    }
    return removed;
}

// It has failed, or goes. True: it was the last one that had not.
bool Mux::no_longer_alive(Psock& psock)
{
    bool was_alive = std::exchange(psock.alive, false);
    alive_ -= was_alive;
    return was_alive && alive_ == 0;
}

Result<> Mux::make_table()
{
    {
        Guard guard(lock_);
        if (by_id_)
            return {};
    }
    auto table = TRY((IdTable<Psock, ById>::create()));
    Guard guard(lock_);
    if (!by_id_)
        by_id_ = std::move(table);
    return {};
}

Result<> Mux::attach(int fd, int bpf_fd, u32 max_message)
{
    TRY(make_table());
    if (has_many_ended())
        retire_later(); // no event says that a program has closed the TCP socket of one that has ended
    {
        Guard guard(lock_);
        if (psock_count_ == max_connections)
            return fail(KAPI_ENFILE);
        psock_count_++;
    }
    auto psock = Psock::create(*this, fd, bpf_fd, max_message);
    if (!psock) {
        Guard guard(lock_);
        psock_count_--;
        return fail(psock.error());
    }
    {
        Guard guard(lock_);
        (*psock)->alive = true; // it may fail from start() on
        alive_++;
    }
    if (kapi_traces(KAPI_TRACE_KCM_ATTACH))
        kapi_trace_kcm_connection(KAPI_TRACE_KCM_ATTACH, (*psock)->id, 0);
    (*psock)->start();
    publish(**psock);
    {
        Guard guard(lock_);
        insert(**psock);
    }
    (*psock)->changed(Changes::attached); // only now: a program that listens first and then dumps misses none
    // Only now, so that a task that receives from it finds it.
    (*psock)->begin();
    return {};
}

// psock may be sent on, unless it has failed, maybe meanwhile.
void Mux::publish(Psock& psock)
{
    reservations.add(psock);
    if (psock.failed())
        reservations.remove(psock);
}

bool Mux::has_connections()
{
    Guard guard(lock_);
    return alive_ != 0;
}

Mux::Removed Mux::take_any()
{
    Guard guard(lock_);
    Psock* first = psocks_.front();
    return first ? remove(*first) : Removed();
}

Result<Ref<Psock>> Mux::find_by_fd(int fd)
{
    u64 key;
    TRY(check(kapi_stream_key_of_fd(fd, &key)));
    Ref<Psock> found;
    visit_all<Psock>([&](Psock& psock) {
        if (kapi_stream_key(psock.stream()) == key)
            found = Ref<Psock>::share(psock);
    });
    if (!found)
        return fail(KAPI_ENOENT);
    return found;
}

Result<> Mux::unattach(int fd, u64 deadline_ns)
{
    Ref<Psock> psock = TRY(find_by_fd(fd));
    {
        Guard guard(lock_);
        if (!static_cast<ListNode<Members>&>(*psock).linked())
            return fail(KAPI_ENOENT); // another call was quicker
        if (std::exchange(psock->leaving, true))
            return fail(KAPI_EALREADY);
    }
    reservations.hold_back(*psock);
    bool was_reserved = static_cast<bool>(reservations.owner(*psock));
    auto idle = reservations.wait_idle(*psock, deadline_ns);
    Removed removed;
    if (idle) {
        Guard guard(lock_);
        removed = remove(*psock);
        past_.unattach++;
        past_.unattach_reserved += was_reserved;
    } else {
        publish(*psock); // while no other call may remove it
        Guard guard(lock_);
        psock->leaving = false;
    }
    if (!idle) {
        return fail(idle.error().code() == KAPI_ETIMEDOUT ? KAPI_EAGAIN : idle.error().code());
    }
    retire(removed);
    if (removed.was_last && draining_.load_relaxed())
        give_up_closed();
    return {};
}

// psock is on no list any more and nobody sends on it.
void Mux::retire(const Removed& removed)
{
    Psock& psock = *removed.member;
    reservations.remove(psock);
    psock.detach();
    // One that was forgotten may have delivered something when the last socket had gone.
    if (!socket_count())
        distributor.clear();
    if (kapi_traces(KAPI_TRACE_KCM_UNATTACH))
        kapi_trace_kcm_connection(KAPI_TRACE_KCM_UNATTACH, psock.id, psock.error());
    psock.changed(Changes::detached | (psock.failed() ? Changes::ended : 0u));
    // To detach it takes as long as programs like. What it has received meanwhile is counted now.
    kcm_totals own{};
    psock.add_totals(own);
    Guard guard(lock_);
    add_difference(past_, own, removed.counted);
}

Ref<Psock> Mux::find(u64 id)
{
    Guard guard(lock_);
    Psock* psock = by_id_ ? by_id_->find(id) : nullptr;
    return psock ? Ref<Psock>::share(*psock) : Ref<Psock>();
}

bool Mux::connection_failed(Psock& psock)
{
    Guard guard(lock_);
    return no_longer_alive(psock);
}

// ---- what is counted

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
