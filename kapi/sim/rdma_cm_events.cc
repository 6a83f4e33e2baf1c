// SPDX-License-Identifier: GPL-2.0
// What is reported to core of connections: in a context that other users share, so it may be late.
#include <kapi/errno.h>

#include <algorithm>

#include "rdma_cm.h"

namespace sim {

kapi_cm *make_cm(kapi_net &net, kapi_rdma_dev &dev, kapi_cm_space space, CmState state)
{
    auto *cm = new kapi_cm{.id = fabric().next_id++, .node = net.node, .net = &net, .dev = &dev, .space = space, .local = {},
                           .remote = {}, .state = state};
    dev.made("connection");
    net.sockets += !net.initial;
    fabric().cms[cm->id] = cm;
    account(*cm->node, "connection", cm, [](void *object) { delete static_cast<kapi_cm *>(object); });
    return cm;
}

void free_cm(kapi_cm &cm)
{
    fabric().cms.erase(cm.id);
    cm.dev->gone("connection");
    cm.net->sockets -= !cm.net->initial;
    settle(*cm.node, "connection", &cm);
    delete &cm;
}

namespace {

void deliver(kapi_cm &cm, const CmEvent &event)
{
    AtomicScope atomic;
    switch (event.kind) {
    case CmEvent::resolved:
        return cm.ops.resolved(cm.context, cm.dev);
    case CmEvent::established:
        return cm.ops.established(cm.context, event.data.empty() ? nullptr : event.data.data(), event.data.size());
    case CmEvent::ended:
        kapi_cm_end end = event.end;
        end.data = event.data.empty() ? nullptr : event.data.data();
        end.size = event.data.size();
        return cm.ops.ended(cm.context, &end);
    }
}

void deliver_all(kapi_cm &cm)
{
    while (!cm.events.empty() && !cm.destroyed) {
        CmEvent event = std::move(cm.events.front());
        cm.events.pop_front();
        deliver(cm, event);
        enter_any("connection event");
    }
    cm.delivering = false;
    world().wake(cm.idle);
}

/** Other users of the machine are served before us, and now and then one of them takes its time. */
std::uint64_t other_users_time()
{
    return some_time(200 * kMicrosecond, world().host_random().one_in(4) ? 500 * kMillisecond : 20 * kMillisecond);
}

void deliver_soon(const kapi_cm &cm)
{
    hardware_after(*cm.node, other_users_time(), [id = cm.id] {
        kapi_cm *again = fabric().cm(id);
        if (!again || !again->taken || again->delivering || again->destroyed || again->events.empty())
            return;
        again->delivering = true;
        world().spawn(*again->node, "connection events", [again] { deliver_all(*again); }, TaskKind::work);
    });
}

void offer(kapi_cm_listener &listener, kapi_cm &cm)
{
    kapi_cm_offer request{cm.request.data.data(), cm.request.data.size(), cm.request.reads_out, cm.request.reads_in,
                            cm.request.tos, cm.request.retry};
    unsigned char answer[KAPI_CM_REJECT_BYTES] = {};
    kapi_size size = 0;
    int taken;
    cm.delivering = true; // its new owner's kapi_cm_destroy() waits for this call's end, as for that of any other
    {
        AtomicScope atomic;
        taken = listener.ops.request(listener.context, &cm, &request, answer, &size);
    }
    bool attached = cm.taken;
    if (taken && !attached)
        broken("a connection is taken without kapi_cm_attach()");
    if (!taken && attached)
        broken("a connection is attached and not taken");
    if (size > sizeof(answer))
        broken("a rejection of %zu bytes", static_cast<std::size_t>(size));
    if (taken) {
        if (cm.dev->going)
            cm_end(cm, KAPI_CM_DEVICE_REMOVED, -KAPI_ENODEV);
        cm.delivering = false;
        deliver_soon(cm); // what happened before
        world().wake(cm.idle);
        return;
    }
    cm_send(cm, CmMessage::reject, answer, size, KAPI_CM_REJECT_BYTES, kConsumer);
    free_cm(cm);
}

void offer_all(kapi_cm_listener &listener)
{
    while (!listener.waiting.empty() && !listener.closed) {
        kapi_cm *cm = fabric().cm(listener.waiting.front());
        listener.waiting.pop_front();
        if (cm)
            offer(listener, *cm);
        enter_any("connection request");
    }
    listener.delivering = false;
    world().wake(listener.idle);
}

} // namespace

void cm_report(kapi_cm &cm, CmEvent event)
{
    if (cm.ended)
        return;
    cm.ended = event.kind == CmEvent::ended;
    world().note("connection event", cm.id, event.kind);
    cm.events.push_back(std::move(event));
    deliver_soon(cm);
}

void cm_end(kapi_cm &cm, kapi_cm_why why, int error, kapi_u32 reason, std::vector<unsigned char> data)
{
    cm.timer_serial++;
    CmEvent event{.kind = CmEvent::ended};
    event.data = std::move(data);
    event.end.why = why;
    event.end.error = error;
    event.end.reason = reason;
    cm_report(cm, std::move(event));
}

void cm_offer(kapi_cm_listener &listener, kapi_cm &cm)
{
    listener.waiting.push_back(cm.id);
    hardware_after(*listener.node, other_users_time(), [id = listener.id] {
        auto found = fabric().listeners.find(id);
        if (found == fabric().listeners.end() || found->second->delivering || found->second->waiting.empty())
            return;
        kapi_cm_listener *again = found->second;
        again->delivering = true;
        world().spawn(*again->node, "connection requests", [again] { offer_all(*again); }, TaskKind::work);
    });
}

void cm_remove_device(kapi_rdma_dev &dev)
{
    std::vector<kapi_cm *> all;
    for (auto &[id, cm] : fabric().cms)
        if (cm->dev == &dev)
            all.push_back(cm);
    for (kapi_cm *cm : all) {
        kapi_u64 id = cm->id;
        bool waits = std::any_of(fabric().listeners.begin(), fabric().listeners.end(), [&](const auto &entry) {
            const auto &waiting = entry.second->waiting;
            return std::find(waiting.begin(), waiting.end(), id) != waiting.end();
        });
        if (waits)
            free_cm(*cm);
        else
            cm_end(*cm, KAPI_CM_DEVICE_REMOVED, -KAPI_ENODEV);
    }
}

void cm_queue_failed(kapi_cm &cm)
{
    cm_end(cm, KAPI_CM_QUEUE_ERROR, -KAPI_EIO);
}

void cm_data_received(kapi_cm &cm)
{
    if (cm.state != CmState::answered)
        return;
    cm.state = CmState::established;
    cm.timer_serial++;
    cm_report(cm, {.kind = CmEvent::established});
}

} // namespace sim
