// SPDX-License-Identifier: GPL-2.0
#include "network.h"

#include <kapi/errno.h>

#include <algorithm>

#include "rdma.h"
#include "tcp.h"

namespace sim {

namespace {

constexpr std::size_t kPacketHeaders = 66;

std::uint64_t key(const kapi_net *net, kapi_u16 local, kapi_u16 remote = 0)
{
    return std::uint64_t{net->id} << 32 | std::uint64_t{local} << 16 | remote;
}

} // namespace

Network::~Network() = default;

void Network::add(const TcbRef &tcb)
{
    tcb->place = tcbs_.insert(tcbs_.end(), tcb);
    by_ports_.emplace(key(tcb->net, tcb->local.port, tcb->remote.port), tcb.get());
    local_ports_[key(tcb->net, tcb->local.port)]++;
}

/** The caller holds a reference. */
void Network::remove(Tcb &tcb)
{
    auto [from, to] = by_ports_.equal_range(key(tcb.net, tcb.local.port, tcb.remote.port));
    auto found = std::find_if(from, to, [&](const auto &entry) { return entry.second == &tcb; });
    if (found == to)
        return;
    by_ports_.erase(found);
    local_ports_[key(tcb.net, tcb.local.port)]--;
    tcbs_.erase(tcb.place);
}

template <class Condition> void Network::remove_if(Condition condition)
{
    for (auto it = tcbs_.begin(); it != tcbs_.end();) {
        TcbRef tcb = *it++;
        if (condition(*tcb))
            remove(*tcb);
    }
}

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
        return near; // every node has the loopback addresses
    for (const auto &node : world_.nodes())
        for (const auto &net : node->nets())
            if (net.get() != near && net->holds(addr))
                return net.get();
    return nullptr;
}

TcbRef Network::find(const kapi_net *net, const kapi_addr &local, const kapi_addr &remote) const
{
    auto [from, to] = by_ports_.equal_range(key(net, local.port, remote.port));
    for (auto it = from; it != to; ++it)
        if (same_ip(it->second->local, local) && same_ip(it->second->remote, remote))
            return it->second->shared_from_this();
    return nullptr;
}

bool Network::port_taken(const kapi_net *net, const kapi_addr &local) const
{
    auto count = local_ports_.find(key(net, local.port));
    bool taken = count != local_ports_.end() && count->second &&
                 std::any_of(tcbs_.begin(), tcbs_.end(), [&](const TcbRef &tcb) {
                     return tcb->net == net && tcb->local.port == local.port && same_ip(tcb->local, local);
                 });
    return taken || std::any_of(listeners.begin(), listeners.end(),
                                [&](const kapi_listener *listener) { return listener->matches(net, local); });
}

/** When a packet has left for its link; false when the queue before it is full. */
bool Network::transmit(Link &link, std::size_t size, std::uint64_t &sent_ns)
{
    sent_ns = world_.now_ns();
    if (!link.bytes_per_s)
        return true;
    std::uint64_t begins = std::max(sent_ns, link.free_at_ns);
    if (begins - sent_ns > kQueueNs)
        return false;
    sent_ns = link.free_at_ns = begins + (size + kPacketHeaders) * kSecond / link.bytes_per_s;
    return true;
}

void Network::send(const Node &from, Packet made)
{
    packets_++;
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
    Link &wire = link(from, *target->node);
    Random &random = world_.host_random();
    std::uint64_t sent_ns;
    if (wire.cut || random.one_in(wire.lose_one_in) || !transmit(wire, packet->payload.size(), sent_ns)) {
        world_.note("packet lost", packet->seq, packet->length());
        return;
    }
    unsigned copies = random.one_in(wire.duplicate_one_in) ? 2 : 1;
    Flow flow{from.index(), target->node->index(), packet->from.port, packet->to.port};
    auto [way, is_new] = ways_.try_emplace(flow);
    if (is_new)
        way->second.extra_ns = random.below(wire.spread_ns);
    while (copies--) {
        std::uint64_t arrival_ns = sent_ns + wire.delay_ns + way->second.extra_ns + random.below(wire.jitter_ns + 1);
        std::uint64_t &last = way->second.last_arrival_ns;
        arrival_ns = last = std::max(arrival_ns, last + 1);
        world_.at(arrival_ns, [this, packet, index = from.index(), net = source->id] { arrive(packet, index, net); });
    }
}

void Network::carry(const Node &from, Node &to, std::uint64_t flow, std::size_t size, std::function<void()> act)
{
    Link &wire = link(from, to);
    Random &random = world_.host_random();
    std::uint64_t sent_ns;
    if (wire.cut || random.one_in(wire.lose_one_in) || !transmit(wire, size, sent_ns)) {
        world_.note("lost", flow, size);
        return;
    }
    std::uint64_t &last_ns = carried_[{from.index(), to.index(), flow}];
    for (unsigned copies = random.one_in(wire.duplicate_one_in) ? 2 : 1; copies; copies--) {
        std::uint64_t arrival_ns = sent_ns + wire.delay_ns + random.below(wire.jitter_ns + 1);
        arrival_ns = last_ns = std::max(arrival_ns, last_ns + 1);
        hardware_after(to, arrival_ns - world_.now_ns(), [this, a = from.index(), b = to.index(), act] {
            if (!links_[{a, b}].cut)
                act();
        });
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
    if (net->node->is_paused()) { // it waits in the network card
        world_.at(net->node->resumes_at_ns(), [this, arrived, from_index, from_net] {
            arrive(arrived, from_index, from_net);
        });
        return;
    }
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
            add(tcb);
            tcb->post({Tcb::Input::packet, arrived});
            return;
        }
    }
    Packet answer; // no socket has this address
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
    std::vector<TcbRef> ends(tcbs_.begin(), tcbs_.end());
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
    return static_cast<unsigned>(std::count_if(tcbs_.begin(), tcbs_.end(), [&](const TcbRef &tcb) {
        kapi_net *other = owner_of(tcb->remote, tcb->net);
        return tcb->node == &a && other && other->node == &b && tcb->state == TcpState::established && !tcb->orphan;
    }));
}

void Network::drop_node(const Node &node)
{
    for (auto &tcb : tcbs_) {
        if (tcb->node != &node)
            continue;
        world_.cancel(tcb->timer);
        tcb->state = TcpState::closed;
        tcb->inbox.clear();
        tcb->worker = nullptr;
    }
    remove_if([&](const Tcb &tcb) { return tcb.node == &node; });
    std::erase_if(listeners, [&](const kapi_listener *listener) { return listener->net->node == &node; });
    if (rdma)
        drop_rdma(node);
}

void Network::drop_net(kapi_net &net)
{
    for (auto &tcb : tcbs_) {
        if (tcb->net != &net)
            continue;
        if (!tcb->orphan)
            world_.fail("a namespace goes with a stream open");
        world_.cancel(tcb->timer);
        tcb->state = TcpState::closed;
        tcb->inbox.clear();
    }
    remove_if([&](const Tcb &tcb) { return tcb.net == &net; });
    for (const kapi_listener *listener : listeners)
        if (listener->net == &net)
            world_.fail("a namespace goes with a listener open");
    if (rdma)
        drop_rdma(net);
}

void Network::end()
{
    remove_if([](const Tcb &) { return true; }); // orphans in their last moments; what core still holds is counted by the nodes
}

} // namespace sim
