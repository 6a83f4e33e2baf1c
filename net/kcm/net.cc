// SPDX-License-Identifier: GPL-2.0
#include "net.h"

#include "socket.h"

namespace kcm {

// ---- the module

Result<> Module::start()
{
    Own<Module> module(make<Module>(Alloc::sleep));
    if (!module)
        return fail(KAPI_ENOMEM);
    module->workqueue = kapi_workqueue_create("kcm");
    if (!module->workqueue)
        return fail(KAPI_ENOMEM);
    *kapi_module_slot(KAPI_SLOT_KCM) = module.release();
    return {};
}

void Module::stop()
{
    Module* module = &get();
    kapi_workqueue_destroy(module->workqueue);
    *kapi_module_slot(KAPI_SLOT_KCM) = nullptr;
    dispose(module);
}

// ---- a namespace

Result<Net*> Net::create()
{
    Net* net = make<Net>(Alloc::sleep);
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
    Guard guard(lock_);
    muxes_.push_back(Ref<Mux>::share(mux));
    count_++;
}

void Net::remove(Mux& mux)
{
    kcm_totals own{};
    mux.add_totals(own);
    Ref<Mux> removed;
    Guard guard(lock_);
    removed = muxes_.remove(mux);
    count_--;
    add_to(past_, own);
}

unsigned Net::muxes()
{
    Guard guard(lock_);
    return count_;
}

// The multiplexor behind after, or the first. After may have left the list: then there is none.
Ref<Mux> Net::next(Mux* after)
{
    Guard guard(lock_);
    if (after && !static_cast<ListNode<Muxes>*>(after)->linked())
        return nullptr;
    Mux* mux = after ? muxes_.next(*after) : muxes_.front();
    return mux ? Ref<Mux>::share(*mux) : Ref<Mux>();
}

void Net::totals(kcm_totals& totals)
{
    {
        Guard guard(lock_);
        totals = past_;
    }
    Ref<Mux> mux = next(nullptr);
    while (mux) {
        mux->add_totals(totals);
        mux = next(mux.get());
    }
}

// ---- /proc/net/kcm

namespace {

kcm_socket_row row_of(Socket& socket)
{
    auto received = socket.mux->distributor.load(socket);
    auto sending = socket.send_load();
    auto turn = socket.mux->reservations.look(socket);
    return {
        .index = socket.index,
        .traffic = {socket.rx_msgs, socket.rx_bytes, socket.tx_msgs, socket.tx_bytes},
        .recv_q = received.messages,
        .rmem = static_cast<unsigned>(received.charged),
        .send_q = sending.messages,
        .reserved = turn.sends_on,
        .tx_wait = turn.waits,
        .tx_wait_more = sending.holds || sending.building,
        .rx_wait = received.ready,
    };
}

kcm_connection_row row_of(Psock& psock)
{
    struct kapi_stream_queues queues;
    kapi_stream_queues(psock.stream(), &queues);
    Ref<Socket> owner = psock.mux->reservations.owner(psock);
    return {
        .index = psock.index,
        .traffic = {psock.rx_msgs, psock.rx_bytes, psock.tx_msgs, psock.tx_bytes},
        .recv_q = queues.recv_q,
        .rmem = queues.rmem,
        .send_q = queues.send_q,
        .smem = queues.smem,
        .done = 0,
        .tx_stopped = psock.failed(),
        .rx_stopped = psock.failed() || !psock.receives(),
        .rx_paused = psock.paused(),
        .reserved = owner ? static_cast<int>(owner->index) : -1,
        .rx_need = psock.needed(),
    };
}

} // namespace

void Net::show(const kcm_rows& rows, void* context)
{
    Ref<Mux> mux = next(nullptr);
    while (mux) {
        kcm_totals totals{};
        mux->add_totals(totals);
        kcm_mux_row row{totals.mux, 0, 0};
        mux->for_each([&](Socket&) { row.sockets++; }, [&](Psock&) { row.connections++; });
        rows.mux(context, &row);
        mux->for_each(
            [&](Socket& socket) {
                auto of = row_of(socket);
                rows.socket(context, &of);
            },
            [&](Psock& psock) {
                auto of = row_of(psock);
                rows.connection(context, &of);
            });
        mux = next(mux.get());
    }
}

void add_to(kcm_totals& a, const kcm_totals& b)
{
    // All of it is numbers of one kind.
    static_assert(sizeof(kcm_totals) % sizeof(u64) == 0);
    auto* to = reinterpret_cast<u64*>(&a);
    auto* from = reinterpret_cast<const u64*>(&b);
    for (usize i = 0; i < sizeof(kcm_totals) / sizeof(u64); i++)
        to[i] += from[i];
}

} // namespace kcm
