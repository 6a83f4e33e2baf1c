// SPDX-License-Identifier: GPL-2.0
// The network between the nodes: owners of addresses, delay and loss of packets.
#pragma once

#include <kapi/types.h>

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "node.h"

struct kapi_net;
struct kapi_listener;

namespace sim {

struct Fabric;
struct Tcb;
using TcbRef = std::shared_ptr<Tcb>;

struct Packet {
    kapi_addr from{}, to{};
    bool syn = false, ack = false, fin = false, rst = false;
    kapi_u32 seq = 0, acked = 0, window = 0;
    std::vector<unsigned char> payload;

    kapi_u32 length() const { return static_cast<kapi_u32>(payload.size()) + syn + fin; }
};

using PacketRef = std::shared_ptr<const Packet>;

/** One direction between two nodes. */
struct Link {
    bool cut = false;
    std::uint64_t delay_ns = 50 * kMicrosecond; // at least
    std::uint64_t jitter_ns = 100 * kMicrosecond;
    std::uint64_t spread_ns = 0; // each connection takes its own way, longer by up to so much
    std::uint64_t bytes_per_s = 0; // 0: no limit; what the queue before it does not hold is lost
    std::uint64_t free_at_ns = 0;
    unsigned lose_one_in = 0; // packets; 0: none
    unsigned duplicate_one_in = 0;
};

/** The ends that receive a reset made by the network. */
enum class Sees { both, first, second };

class Network {
public:
    static constexpr std::uint64_t kQueueNs = kSecond; // what waits before a slow link is sent within this

    explicit Network(World &world) : world_(world) {}
    ~Network();

    Link &link(const Node &from, const Node &to) { return links_[{from.index(), to.index()}]; }
    /** All packets between the two vanish, in both directions. */
    void cut(const Node &a, const Node &b, bool cut = true);
    /** No link is cut, loses or doubles packets any more: but for those that a slow link's queue does not hold. */
    void heal_all();

    /** Each new connection is reset after about so many bytes (0: never), at a byte that the seed picks. */
    void reset_after_about(std::uint64_t bytes) { reset_after_bytes_ = bytes; }
    /** Resets the connections between two nodes now; returns how many. */
    unsigned reset(const Node &a, const Node &b, Sees sees);
    /** Established connections between two nodes, each counted once. */
    unsigned connections(const Node &a, const Node &b) const;
    std::uint64_t resets_done() const { return resets_done_; }
    std::uint64_t connections_made() const { return connections_made_; }

    // For RDMA.
    std::shared_ptr<Fabric> rdma; // made when a device is plugged in
    /** Has arrive() called at the other machine, as late as the link is, or never; things of one flow stay in order. */
    void carry(const Node &from, Node &to, std::uint64_t flow, std::size_t size, std::function<void()> arrive);

    // For TCP.
    void send(const Node &from, Packet packet);
    std::uint64_t packets() const { return packets_; } // that were sent
    kapi_net *owner_of(const kapi_addr &addr, kapi_net *near) const;
    void drop_node(const Node &node);
    void drop_net(kapi_net &net);
    void end();

    const std::list<TcbRef> &tcbs() const { return tcbs_; } // all that can still receive
    void add(const TcbRef &tcb);
    void remove(Tcb &tcb);
    std::list<kapi_listener *> listeners;
    std::uint64_t budget_for_reset();     // of a new connection: bytes until it is reset, or 0
    void count_reset() { resets_done_++; }
    void count_connection() { connections_made_++; }
    TcbRef find(const kapi_net *net, const kapi_addr &local, const kapi_addr &remote) const;
    bool port_taken(const kapi_net *net, const kapi_addr &local) const;

private:
    bool transmit(Link &link, std::size_t size, std::uint64_t &sent_ns);
    void arrive(const PacketRef &packet, unsigned from_index, unsigned from_net);

    template <class Condition> void remove_if(Condition condition);

    World &world_;
    std::map<std::pair<unsigned, unsigned>, Link> links_;
    std::list<TcbRef> tcbs_;
    std::unordered_multimap<std::uint64_t, Tcb *> by_ports_; // of tcbs_: namespace and both ports
    std::unordered_map<std::uint64_t, unsigned> local_ports_; // how many of them a namespace and port has
    // Packets of one connection arrive in order; those of different ones may overtake each other.
    using Flow = std::tuple<unsigned, unsigned, kapi_u16, kapi_u16>; // nodes, ports
    struct Way {
        std::uint64_t extra_ns, last_arrival_ns;
    };
    std::map<Flow, Way> ways_;
    std::map<std::tuple<unsigned, unsigned, std::uint64_t>, std::uint64_t> carried_; // when the last of a flow arrives
    std::uint64_t reset_after_bytes_ = 0, resets_done_ = 0, connections_made_ = 0, packets_ = 0;
};

} // namespace sim
