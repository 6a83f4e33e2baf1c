// SPDX-License-Identifier: GPL-2.0
// A malicious peer: it sends arbitrary RDS over TCP, has addresses of its own, and runs no RDS. All
// that it may achieve is the delivery of its own well-formed messages.
#pragma once

#include <list>
#include <memory>
#include <vector>

#include "wire_peer.h"

struct Course;

class Adversary {
public:
    Adversary(Course &course, sim::Node &node);

    /** True if a message from there may have any contents. */
    bool is_at(const kapi_addr &addr) const { return node_.initial_net().holds(addr); }
    /** Begins to connect to all machines. */
    void start();
    /** Stops and closes everything; from outside of any task. Before that it never closes kept streams. */
    void end();
    std::uint64_t acts() const { return acts_; }

private:
    struct Talk {
        explicit Talk(sim::Node &node) : stream(node) {}
        WireStream stream;
        kapi_u64 sequence = 1;
        kapi_u32 generation = 0, memory = 0;
    };

    void listen();
    void speak();
    void answer();
    bool connect(Talk &talk);
    void converse(Talk &talk);
    void act(Talk &talk);
    void keep(std::unique_ptr<Talk> talk);
    // Its actions.
    void handshake(Talk &talk);
    void false_handshake(Talk &talk);
    void message(Talk &talk);
    void old_message(Talk &talk);
    void wrong_length(Talk &talk);
    void extensions(Talk &talk);
    void congestion_map(Talk &talk);
    void ping(Talk &talk);
    void send_pings(Talk &talk, unsigned count);
    void garbage(Talk &talk);
    void send(Talk &talk, const rds::Header &header, std::size_t payload);

    Course &course_;
    sim::Node &node_;
    sim::Random &random_;
    kapi_listener *listener_ = nullptr;
    bool ending_ = false;
    std::uint64_t acts_ = 0;
    std::vector<sim::TaskRef> tasks_;
    std::list<std::unique_ptr<Talk>> kept_; // open and silent
};
