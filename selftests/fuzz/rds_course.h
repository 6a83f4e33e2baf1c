// SPDX-License-Identifier: GPL-2.0
// The machines of the fuzzer sequence, and the steps.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "net/rds/wire.h"
#include "selftests/fuzz/steps.h"
#include "selftests/sim/rds_host.h"
#include "selftests/sim/wire_peer.h"

constexpr kapi_u16 kLastPort = 777;

/** One stream of the peer, and its received data. */
struct RdsWire {
    explicit RdsWire(sim::Node &node) : stream(node) {}

    void begin()
    {
        stream.deaf = false;
        probes = answers = texts = 0;
    }
    void count_received()
    {
        for (const WireStream::Received &arrived : stream.take()) {
            auto kind = rds::classify(arrived.header);
            if (!kind)
                sim::world().fail("received invalid data");
            probes += *kind == rds::MessageKind::probe;
            answers += *kind == rds::MessageKind::probe_reply;
            texts += kapi_u16{arrived.header.dport} == kLastPort;
        }
    }
    void send(const rds::Header &header, const std::string &payload)
    {
        std::string all(reinterpret_cast<const char *>(&header), sizeof(header));
        all += payload;
        stream.queue(all.data(), all.size());
    }

    WireStream stream;
    unsigned probes = 0, answers = 0, texts = 0; // probes: not answered yet
};

/** See sequence_fuzz.cc. */
class RdsCourse {
public:
    RdsCourse(sim::World &world, bool victim_is_larger)
        : world_(world), peer_(world.add_node("peer")), node_(world.add_node("victim")), host_(node_),
          peers_(sim::address(victim_is_larger ? "10.0.0.1" : "10.0.0.3")), own_(sim::address("10.0.0.2")),
          peer_opens_(victim_is_larger)
    {
        peer_.initial_net().add(peers_);
        node_.initial_net().add(own_);
    }

    sim::Node &node() { return node_; }
    void run(const std::vector<Step> &steps);

private:
    static constexpr unsigned kStreams = 8, kSockets = 3;
    static constexpr kapi_u16 kPeersPort = 500;

    kapi_addr at(const kapi_addr &addr, kapi_u16 port) const
    {
        kapi_addr result = addr;
        result.port = port;
        return result;
    }
    static rds::Header header_of(const Step &step, kapi_u64 sequence, kapi_u32 length);
    void listen(bool on);
    void accept_all();
    void step_of_peer(const Step &step);
    void step_of_program(const Step &step);
    void step_of_world(const Step &step);
    void pause(std::uint64_t length_ns);
    void call(RdsSocket &socket, const Step &step);
    void reload();
    void open(RdsSocket &socket, kapi_u16 port);
    void behave();
    void connect(RdsWire &wire, unsigned path);
    void shake_hands(RdsWire &wire, unsigned path);
    bool has_received(RdsSocket &socket);
    void check_run(std::size_t room, const RdsSocket::Run &run);

    sim::World &world_;
    sim::Node &peer_, &node_;
    RdsHost host_;
    const kapi_addr peers_, own_;
    const bool peer_opens_;
    kapi_listener *listener_ = nullptr;
    std::vector<std::unique_ptr<RdsWire>> wires_;
    std::vector<std::unique_ptr<RdsSocket>> sockets_;
    std::array<kapi_u64, kStreams> sequence_{};
    kapi_u16 next_port_ = 30000; // a multiple of 8
    std::vector<unsigned char> memory_ = std::vector<unsigned char>(1 << 20);
};
