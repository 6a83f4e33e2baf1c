// SPDX-License-Identifier: GPL-2.0
#include "net.h"

#include "socket.h"

namespace kcm {

// ---- the module

Result<> Module::start()
{
    Module* module = make<Module>(Alloc::sleep);
    if (!module)
        return fail(KAPI_ENOMEM);
    *kapi_module_slot(KAPI_SLOT_KCM) = module;
    return {};
}

void Module::stop()
{
    Module* module = &get();
    module->users.stop();
    *kapi_module_slot(KAPI_SLOT_KCM) = nullptr;
    dispose(module);
}

// ---- a namespace

Result<Net*> Net::create(kapi_net* host)
{
    Net* net = make<Net>(Alloc::charged, host);
    if (!net)
        return fail(KAPI_ENOMEM);
    return net;
}

void Net::destroy(Net* net)
{
    dispose(net);
}

void Net::add(Mux& mux)
{
    {
        Guard guard(lock_);
        mux.number = ++last_number_;
        muxes_.push_back(Ref<Mux>::share(mux));
        count_++;
    }
    Ref<Mux> none;
    by_number_.insert(by_number_.hash_of({&mux.number, 1}), mux, Alloc::charged, [](const Mux&) { return false; },
                      [] { return true; }, none);
}

void Net::remove(Mux& mux)
{
    kcm_totals own{};
    mux.add_totals(own);
    by_number_.remove(mux);
    Ref<Mux> removed;
    Guard guard(lock_);
    removed = muxes_.remove(mux);
    count_--;
    departures_++;
    add_to(past_, own);
}

unsigned Net::muxes()
{
    Guard guard(lock_);
    return count_;
}

// Null: there is none.
Ref<Mux> Net::find(u64 number)
{
    return by_number_.find(by_number_.hash_of({&number, 1}), [&](const Mux& mux) { return mux.number == number; });
}

// The multiplexor behind after, or the first. When after is gone those before its place are passed over, a piece at a time: there
// may be very many, and bottom halves are off under the lock.
Ref<Mux> Net::next(Ref<Mux> after)
{
    u64 behind = after ? after->number : 0;
    return next_behind(behind, std::move(after));
}

// The first one with a larger number. after: the one with that number, if it is known.
Ref<Mux> Net::next_behind(u64 behind, Ref<Mux> after)
{
    constexpr unsigned piece = 64;
    for (;;) {
        Ref<Mux> before = std::move(after); // goes without the lock: nobody else may hold it any more
        kapi_resched();
        if (kapi_fatal_signal_pending())
            return nullptr;
        Guard guard(lock_);
        bool there = before && static_cast<const ListNode<Muxes>*>(before.get())->linked();
        Mux* mux = there ? muxes_.next(*before) : muxes_.front();
        Mux* passed = nullptr;
        for (unsigned steps = 0; mux && mux->number <= behind && steps < piece; steps++, mux = muxes_.next(*mux))
            passed = mux;
        if (!mux || mux->number > behind)
            return mux ? Ref<Mux>::share(*mux) : Ref<Mux>();
        after = Ref<Mux>::share(*passed);
    }
}

bool Net::has_departed_since(u64& departures)
{
    Guard guard(lock_);
    return std::exchange(departures, departures_) != departures_;
}

void Net::totals(kcm_totals& totals)
{
    u64 departures;
    unsigned tries = 0;
    // As Mux::add_totals().
    do {
        {
            Guard guard(lock_);
            totals = past_;
            departures = departures_;
        }
        for (Ref<Mux> mux = next(nullptr); mux; mux = next(std::move(mux))) {
            mux->add_totals(totals);
            kapi_resched();
        }
    } while (has_departed_since(departures) && ++tries < totals_tries);
}

// ---- /proc/net/kcm

namespace {

kcm_socket_row row_of(Socket& socket)
{
    auto received = socket.mux->distributor.load(socket);
    auto sending = socket.send_load();
    auto reserved = socket.mux->reservations.look(socket);
    return {
        .index = socket.index,
        .traffic = {socket.rx_msgs, socket.rx_bytes, socket.tx_msgs, socket.tx_bytes},
        .recv_q = received.messages,
        .rmem = static_cast<unsigned>(received.charged),
        .send_q = sending.messages,
        .reserved = reserved.sends_on,
        .tx_wait = reserved.waiting != 0,
        .tx_wait_more = sending.holds || sending.building,
        .rx_wait = received.ready,
    };
}

kcm_connection_row row_of(Psock& psock)
{
    struct kapi_stream_queues queues;
    kapi_stream_queues(psock.stream(), &queues);
    Ref<SendQueue> owner = psock.mux->reservations.owner(psock);
    return {
        .index = psock.index,
        .traffic = {psock.rx_msgs, psock.rx_bytes, psock.tx_msgs, psock.tx_bytes},
        .recv_q = queues.recv_q,
        .rmem = queues.rmem,
        .send_q = queues.send_q,
        .smem = queues.smem,
        .done = 0,
        .tx_stopped = psock.failed(),
        .rx_stopped = psock.failed(),
        .rx_paused = psock.paused(),
        .reserved = owner ? static_cast<int>(owner->socket.index) : -1,
        .rx_need = psock.needed(),
    };
}

// A row for each socket (T = Socket) or connection (Psock). Rows are made under the lock, a few at a time, and shown
// without it. False: nobody wants more.
template <class T, class Row> bool show_all(Mux& mux, int (*show)(void*, const Row*), void* context)
{
    constexpr unsigned at_a_time = 8;
    Mux::Place<T> place;
    for (;;) {
        HW_UNINITIALIZED Row rows[at_a_time];
        unsigned made = 0;
        mux.visit_next(place, at_a_time, [&](T& item) { rows[made++] = row_of(item); });
        if (!made)
            return true;
        if (kapi_fatal_signal_pending())
            return false;
        for (const Row* row = rows; row < rows + made; row++)
            if (show(context, row))
                return false;
    }
}

bool show_mux(Mux& mux, const kcm_rows& rows, void* context)
{
    kcm_totals totals{};
    mux.add_totals(totals);
    kcm_mux_row row{totals.mux, mux.socket_count(), 0};
    mux.visit_all<Psock>([&](Psock&) { row.connections++; });
    return !rows.mux(context, &row) && show_all<Socket>(mux, rows.socket, context) &&
        show_all<Psock>(mux, rows.connection, context);
}

} // namespace

void Net::show(const kcm_rows& rows, void* context)
{
    Ref<Mux> mux = next(nullptr);
    while (mux && show_mux(*mux, rows, context))
        mux = next(std::move(mux));
}

void add_to(kcm_totals& a, const kcm_totals& b)
{
    add_difference(a, b, {});
}

void add_difference(kcm_totals& a, const kcm_totals& now, const kcm_totals& before)
{
    // All of it is numbers of one kind.
    static_assert(sizeof(kcm_totals) % sizeof(u64) == 0);
    auto* to = reinterpret_cast<u64*>(&a);
    auto* is = reinterpret_cast<const u64*>(&now);
    auto* was = reinterpret_cast<const u64*>(&before);
    for (usize i = 0; i < sizeof(kcm_totals) / sizeof(u64); i++)
        to[i] += is[i] - was[i];
}

} // namespace kcm
