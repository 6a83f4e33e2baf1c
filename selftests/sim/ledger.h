// SPDX-License-Identifier: GPL-2.0
// Records sent messages, and checks that each arrives exactly once, in order and unchanged.
//
// A socket has an identity for each time it is opened. Between two identities messages arrive without a gap from the
// first that arrives; nothing ever arrives twice, at any socket of the port; and at a socket that existed all the
// time everything arrives.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

/** The head of each message; the rest is a pattern that depends on it. */
struct Label {
    std::uint32_t magic;
    std::uint32_t from;    // identity of the sending socket
    std::uint32_t to_node; // the destination
    std::uint32_t to_port;
    std::uint64_t number;  // of this flow, from 0
    std::uint32_t size;
    std::uint32_t check;   // of the fields above
};
static_assert(sizeof(Label) == 32);

class Ledger {
public:
    /** The bytes of the next message of a flow, or of one behind it. */
    std::vector<unsigned char> compose(std::uint32_t from, std::uint32_t to_node, std::uint32_t to_port,
                                       std::size_t size, std::uint64_t behind = 0);
    /** The call that sent it succeeded. */
    void sent(std::uint32_t from, std::uint32_t to_node, std::uint32_t to_port);
    /** A socket received these bytes from a place; fails the run when that breaks a guarantee. */
    void received(std::uint32_t by, std::uint32_t node, std::uint32_t port, std::uint32_t from_node,
                  const unsigned char *bytes, std::size_t size);

    /** A new socket listens at this place from now. */
    std::uint32_t opened(std::uint32_t node, std::uint32_t port);
    /** The sender was closed or crashed: unacknowledged messages may be lost. */
    void closed(std::uint32_t identity);

    /** Every flow between open sockets has delivered its last message. */
    bool all_delivered() const;
    std::string missing() const;
    std::uint64_t total_received() const { return total_received_; }
    std::uint64_t total_sent() const { return total_sent_; }

private:
    using Flow = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>; // from, node, port
    struct State {
        std::uint64_t sent = 0;
        std::vector<bool> seen;          // delivered to any socket
        std::uint64_t next = 0;          // after the last delivered
        std::uint32_t last_by = 0;       // identity that got it
    };
    bool is_open(std::uint32_t identity) const { return open_.contains(identity); }
    bool delivered(const Flow &flow, const State &state) const;

    std::map<Flow, State> flows_;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> listening_; // (node, port) -> identity
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> first_life_; // the first identity of a place
    std::map<std::uint32_t, std::pair<std::uint32_t, std::uint32_t>> open_;
    std::map<std::uint32_t, std::uint32_t> node_of_; // of each identity, also past ones
    std::uint32_t next_identity_ = 1;
    std::uint64_t total_received_ = 0, total_sent_ = 0;
};
