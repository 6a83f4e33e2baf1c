// SPDX-License-Identifier: GPL-2.0
// What two machines send each other to connect and disconnect: datagrams that may be lost, doubled and late.
#include <kapi/errno.h>

#include <algorithm>

#include "rdma_cm.h"

namespace sim {

namespace {

constexpr unsigned kDefaultAckTimeout = 17; // 0.5 s
constexpr std::size_t kDatagram = 256;

void receive(const CmMessage &message);

const kapi_rdma_dev *sender(const Node &from, const CmMessage &message)
{
    for (const auto &dev : fabric().devices)
        if (dev->node == &from && dev->holds(dev->net, message.from))
            return dev.get();
    return nullptr;
}

void transmit(const Node &from, const CmMessage &message)
{
    kapi_net *target = world().network().owner_of(message.to, nullptr);
    if (!target)
        return;
    const kapi_rdma_dev *dev = sender(from, message);
    if (dev)
        expect_no_address(*dev, message.data);
    carry_from(dev, from, *target->node, message.from_cm, kDatagram, [message] { receive(message); });
}

CmMessage answer_to(const CmMessage &message, CmMessage::Kind kind, kapi_u32 reason = 0)
{
    CmMessage answer{.kind = kind, .from_cm = message.to_cm, .to_cm = message.from_cm, .from = message.to, .to = message.from};
    answer.reason = reason;
    return answer;
}

void set_timer(kapi_cm &cm)
{
    kapi_u64 serial = ++cm.timer_serial;
    std::uint64_t when = kCmWaitNs + world().host_random().below(400 * kMillisecond);
    hardware_after(*cm.node, when, [id = cm.id, serial] {
        kapi_cm *again = fabric().cm(id);
        if (!again || again->timer_serial != serial || again->destroyed)
            return;
        if (again->sent < kCmTries) {
            again->sent++;
            transmit(*again->node, again->last);
            set_timer(*again);
        } else if (again->last.kind == CmMessage::disconnect) {
            cm_end(*again, KAPI_CM_DISCONNECTED, -KAPI_ECONNRESET);
        } else {
            cm_end(*again, KAPI_CM_UNREACHABLE, -KAPI_ETIMEDOUT);
        }
    });
}

kapi_cm_listener *find_listener(const kapi_net *net, const CmMessage &message)
{
    for (auto &[id, listener] : fabric().listeners)
        if (!listener->closed && listener->matches(net, message.space, message.to))
            return listener;
    return nullptr;
}

kapi_rdma_dev *device_of(const kapi_net *net, const kapi_addr &addr)
{
    for (const auto &dev : fabric().devices)
        if (!dev->going && dev->holds(net, addr) && dev->is_usable(net))
            return dev.get();
    return nullptr;
}

void take_request(const CmMessage &message)
{
    kapi_net *net = world().network().owner_of(message.to, nullptr);
    kapi_rdma_dev *dev = net ? device_of(net, message.to) : nullptr;
    if (!dev)
        return;
    for (auto &[id, cm] : fabric().cms) {
        if (!cm->listener || cm->peer != message.from_cm)
            continue;
        if (cm->state == CmState::answered)
            transmit(*cm->node, cm->last); // our reply was lost
        return;
    }
    kapi_cm_listener *listener = find_listener(net, message);
    if (!listener)
        return transmit(*net->node, answer_to(message, CmMessage::reject, kNobodyListens));
    if (listener->waiting.size() >= listener->backlog)
        return; // the peer asks again
    kapi_cm *cm = make_cm(*net, *dev, message.space, CmState::request_received);
    cm->local = message.to;
    cm->remote = message.from;
    cm->tos = message.tos;
    cm->listener = listener->id;
    cm->peer = message.from_cm;
    cm->request = message;
    cm_offer(*listener, *cm);
}

void take_reply(kapi_cm &cm, const CmMessage &message)
{
    if (cm.state == CmState::established && cm.peer == message.from_cm) { // ours was lost
        transmit(*cm.node, answer_to(message, CmMessage::ready));
        return;
    }
    if (cm.state != CmState::request_sent || cm.is_over() || !cm.qp) {
        transmit(*cm.node, answer_to(message, CmMessage::reject, kStale));
        return;
    }
    cm.state = CmState::established;
    cm.timer_serial++;
    cm.peer = message.from_cm;
    cm_use_options(cm, cm.options, message);
    if (!world().host_random().one_in(8))
        transmit(*cm.node, answer_to(message, CmMessage::ready));
    cm_report(cm, {.kind = CmEvent::established, .data = message.data});
}

void take_reject(kapi_cm &cm, const CmMessage &message)
{
    if (cm.state != CmState::request_sent && cm.state != CmState::answered && cm.state != CmState::request_received)
        return;
    bool listens = message.reason != kNobodyListens;
    cm.state = CmState::over;
    cm_end(cm, KAPI_CM_REJECTED, listens ? -KAPI_ECONNRESET : -KAPI_ECONNREFUSED, message.reason,
           message.reason == kConsumer ? message.data : std::vector<unsigned char>{});
}

void receive(const CmMessage &message)
{
    world().note("connection message", message.kind, message.from_cm);
    if (message.kind == CmMessage::request)
        return take_request(message);
    kapi_cm *cm = fabric().cm(message.to_cm);
    if (!message.to_cm && message.kind == CmMessage::reject) // the peer does not ask any more
        for (auto &[id, other] : fabric().cms)
            if (other->peer == message.from_cm)
                cm = other;
    if (!cm || cm->destroyed) {
        kapi_net *net = world().network().owner_of(message.to, nullptr);
        if (net && message.kind == CmMessage::disconnect)
            transmit(*net->node, answer_to(message, CmMessage::disconnected));
        if (net && message.kind == CmMessage::reply)
            transmit(*net->node, answer_to(message, CmMessage::reject, kStale));
        return;
    }
    switch (message.kind) {
    case CmMessage::reply:
        return take_reply(*cm, message);
    case CmMessage::ready:
        return cm_data_received(*cm);
    case CmMessage::reject:
        return take_reject(*cm, message);
    case CmMessage::disconnect:
        if (cm->state == CmState::disconnecting) // they cross
            transmit(*cm->node, answer_to(message, CmMessage::disconnected));
        [[fallthrough]];
    case CmMessage::disconnected:
        if (cm->state != CmState::request_sent)
            cm_end(*cm, KAPI_CM_DISCONNECTED, -KAPI_ECONNRESET);
        return;
    case CmMessage::request:
        return;
    }
}

std::uint64_t rnr_timer_ns(unsigned code)
{
    constexpr std::uint64_t kUnit = 10 * kMicrosecond;
    if (code < 2)
        return code ? kUnit : 65536 * kUnit;
    return (code % 2 ? 3ULL << (code - 3) / 2 : 1ULL << code / 2) * kUnit;
}

} // namespace

void cm_send(kapi_cm &cm, CmMessage::Kind kind, const void *data, std::size_t size, std::size_t padded, kapi_u32 reason)
{
    CmMessage message{.kind = kind, .from_cm = cm.id, .to_cm = cm.peer, .from = cm.local, .to = cm.remote, .space = cm.space};
    const auto *bytes = static_cast<const unsigned char *>(data);
    message.data.assign(bytes, bytes + size);
    message.data.resize(padded);
    if (const auto &edit = fabric().edit_request; edit && kind == CmMessage::request)
        edit(message.data);
    message.qpn = cm.qp ? cm.qp->qpn : 0;
    message.mtu = cm.qp ? cm.qp->mtu : 0;
    message.reason = reason;
    message.reads_in = cm.options.reads_in;
    message.reads_out = cm.options.reads_out;
    message.retry = cm.options.retry;
    message.rnr_retry = cm.options.rnr_retry;
    message.tos = cm.tos;
    cm.last = message;
    transmit(*cm.node, message);
}

void edit_requests(std::function<void(std::vector<unsigned char> &)> edit)
{
    fabric().edit_request = std::move(edit);
}

void cm_send_until_answered(kapi_cm &cm, CmMessage::Kind kind, const void *data, std::size_t size, std::size_t padded)
{
    cm_send(cm, kind, data, size, padded);
    cm.sent = 1;
    set_timer(cm);
}

void cm_use_options(kapi_cm &cm, const kapi_cm_options &options, const CmMessage &of_peer)
{
    kapi_qp &qp = *cm.qp;
    if (cm.listener)
        qp.mtu = of_peer.mtu;
    qp.retry = cm.listener ? of_peer.retry : options.retry;
    qp.rnr_retry = of_peer.rnr_retry;
    qp.rnr_timer_ns = rnr_timer_ns(options.rnr_timer);
    qp.ack_timeout_ns = 4096ULL << (options.ack_timeout ? options.ack_timeout : kDefaultAckTimeout);
    qp.reads_in = options.reads_in;
    qp.reads_out = std::min(options.reads_out, of_peer.reads_in);
    kapi_net *target = world().network().owner_of(cm.remote, cm.net);
    connect_qp(qp, of_peer.qpn, target ? target->node->index() : 0);
}

void drop_rdma(const Node &node)
{
    Fabric &all = fabric();
    all.watching.erase(node.index());
    std::erase_if(all.watches, [&](const kapi_rdma_watcher *watch) { return watch->node == &node; });
    std::erase_if(all.qps, [&](const auto &entry) { return entry.second->node == &node; });
    std::erase_if(all.cqs, [&](const auto &entry) { return entry.second->node == &node; });
    std::erase_if(all.cms, [&](const auto &entry) { return entry.second->node == &node; });
    std::erase_if(all.listeners, [&](const auto &entry) { return entry.second->node == &node; });
    for (const auto &dev : all.devices) {
        if (dev->node != &node)
            continue;
        for (auto &[id, mapping] : dev->mappings) {
            for (auto host : mapping->host)
                all.mapped.erase(host);
            for (DmaPiece &piece : mapping->pieces) {
                if (!piece.page)
                    continue;
                piece.page->mapped--;
                PageRef::put(piece.page);
            }
        }
        dev->mappings.clear();
        dev->by_address.clear();
        dev->regions.clear();
        dev->objects.clear();
        dev->released.clear();
        dev->coming = dev->going = false;
    }
}

void drop_rdma(const kapi_net &net)
{
    for (const auto &[id, cm] : fabric().cms)
        if (cm->net == &net)
            world().fail("a namespace goes with a connection open");
    for (const auto &[id, listener] : fabric().listeners)
        if (listener->net == &net)
            world().fail("a namespace goes with a listener open");
    std::erase_if(fabric().devices, [&](const auto &dev) { return dev->net == &net && dev->objects.empty(); });
}

} // namespace sim
