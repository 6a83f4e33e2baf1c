// SPDX-License-Identifier: GPL-2.0
#include "network.h"

#include <kapi/errno.h>

#include <algorithm>

#include "tcp.h"

namespace sim {

Network::~Network() = default;

void Network::cut(const Node &a, const Node &b, bool cut)
{
    link(a, b).cut = cut;
    link(b, a).cut = cut;
    world_.note(cut ? "cut" : "heal", a.index(), b.index());
}

void Network::heal_all()
{
    for (auto &[ends, link] : links_) {
        link.cut = false;
        link.lose_one_in = link.duplicate_one_in = 0;
    }
    world_.note("heal all");
}

kapi_net *Network::owner_of(const kapi_addr &addr, kapi_net *near) const
{
    if (near && near->holds(addr))
        return near; // loopback addresses are everybody's own
    for (const auto &node : world_.nodes())
        for (const auto &net : node->nets())
            if (net.get() != near && net->holds(addr))
                return net.get();
    return nullptr;
}

TcbRef Network::find(const kapi_net *net, const kapi_addr &local, const kapi_addr &remote) const
{
    for (const auto &tcb : tcbs)
        if (tcb->net == net && tcb->local.port == local.port && tcb->remote.port == remote.port &&
            same_ip(tcb->local, local) && same_ip(tcb->remote, remote))
            return tcb;
    return nullptr;
}

bool Network::port_taken(const kapi_net *net, const kapi_addr &local) const
{
    bool taken = std::any_of(tcbs.begin(), tcbs.end(), [&](const TcbRef &tcb) {
        return tcb->net == net && tcb->local.port == local.port && same_ip(tcb->local, local);
    });
    return taken || std::any_of(listeners.begin(), listeners.end(),
                                [&](const kapi_listener *listener) { return listener->matches(net, local); });
}

void Network::send(const Node &from, Packet made)
{
    auto packet = std::make_shared<const Packet>(std::move(made));
    kapi_net *source = nullptr;
    for (const auto &net : from.nets())
        if (net->holds(packet->from))
            source = net.get();
    if (!source)
        return; // its address has moved away: no route
    kapi_net *target = owner_of(packet->to, source);
    if (!target)
        return;
    const Link &wire = link(from, *target->node);
    Random &random = world_.host_random();
    if (wire.cut || random.one_in(wire.lose_one_in)) {
        world_.note("packet lost", packet->seq, packet->length());
        return;
    }
    unsigned copies = random.one_in(wire.duplicate_one_in) ? 2 : 1;
    Flow flow{from.index(), target->node->index(), packet->from.port, packet->to.port};
    while (copies--) {
        std::uint64_t arrival_ns = world_.now_ns() + wire.delay_ns + random.below(wire.jitter_ns + 1);
        std::uint64_t &last = last_arrival_ns_[flow];
        arrival_ns = last = std::max(arrival_ns, last + 1);
        world_.at(arrival_ns, [this, packet, index = from.index(), net = source->id] { arrive(packet, index, net); });
    }
}

void Network::arrive(const PacketRef &arrived, unsigned from_index, unsigned from_net)
{
    const Packet &packet = *arrived;
    const Node &from = *world_.nodes()[from_index];
    kapi_net *source = nullptr; // when it is still there
    for (const auto &own : from.nets())
        if (own->id == from_net)
            source = own.get();
    kapi_net *net = owner_of(packet.to, source);
    if (!net || link(from, *net->node).cut)
        return;
    if (TcbRef tcb = find(net, packet.to, packet.from)) {
        tcb->post({Tcb::Input::packet, arrived});
        return;
    }
    if (packet.rst)
        return;
    if (packet.syn && !packet.ack) {
        for (kapi_listener *listener : listeners) {
            if (!listener->matches(net, packet.to))
                continue;
            if (listener->queue.size() + listener->embryos > listener->backlog)
                return; // the caller will try again
            auto tcb = std::make_shared<Tcb>(world_, *net, packet.to, packet.from);
            tcb->listener = listener;
            listener->embryos++;
            tcbs.push_back(tcb);
            tcb->post({Tcb::Input::packet, arrived});
            return;
        }
    }
    Packet answer; // nobody is here
    answer.from = packet.to;
    answer.to = packet.from;
    answer.rst = true;
    answer.seq = packet.ack ? packet.acked : 0;
    answer.ack = !packet.ack;
    answer.acked = packet.seq + packet.length();
    send(*net->node, answer);
}

std::uint64_t Network::budget_for_reset()
{
    return reset_after_bytes_ ? 1 + world_.host_random().below(2 * reset_after_bytes_) : 0;
}

unsigned Network::reset(const Node &a, const Node &b, Sees sees)
{
    unsigned count = 0;
    std::vector<TcbRef> ends(tcbs.begin(), tcbs.end());
    for (const auto &tcb : ends) {
        kapi_net *other = owner_of(tcb->remote, tcb->net);
        if (tcb->node != &a || !other || other->node != &b || tcb->state != TcpState::established)
            continue;
        TcbRef peer = find(other, tcb->remote, tcb->local);
        if (sees != Sees::second)
            tcb->post({Tcb::Input::lost, nullptr, -KAPI_ECONNRESET});
        if (sees != Sees::first && peer)
            peer->post({Tcb::Input::lost, nullptr, -KAPI_ECONNRESET});
        count++;
    }
    resets_done_ += count;
    world_.note("reset connections", count, static_cast<std::uint64_t>(sees));
    return count;
}

unsigned Network::connections(const Node &a, const Node &b) const
{
    return static_cast<unsigned>(std::count_if(tcbs.begin(), tcbs.end(), [&](const TcbRef &tcb) {
        kapi_net *other = owner_of(tcb->remote, tcb->net);
        return tcb->node == &a && other && other->node == &b && tcb->state == TcpState::established && !tcb->orphan;
    }));
}

void Network::drop_node(const Node &node)
{
    for (auto &tcb : tcbs) {
        if (tcb->node != &node)
            continue;
        world_.cancel(tcb->timer);
        tcb->state = TcpState::closed;
        tcb->inbox.clear();
        tcb->worker = nullptr;
    }
    std::erase_if(tcbs, [&](const TcbRef &tcb) { return tcb->node == &node; });
    std::erase_if(listeners, [&](const kapi_listener *listener) { return listener->net->node == &node; });
}

void Network::drop_net(kapi_net &net)
{
    for (auto &tcb : tcbs) {
        if (tcb->net != &net)
            continue;
        if (!tcb->orphan)
            world_.fail("a namespace goes with a stream open");
        world_.cancel(tcb->timer);
        tcb->state = TcpState::closed;
        tcb->inbox.clear();
    }
    std::erase_if(tcbs, [&](const TcbRef &tcb) { return tcb->net == &net; });
    for (const kapi_listener *listener : listeners)
        if (listener->net == &net)
            world_.fail("a namespace goes with a listener open");
}

void Network::end()
{
    tcbs.clear(); // orphans in their last moments; what core still holds is counted by the nodes
}

} // namespace sim
