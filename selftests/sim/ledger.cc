// SPDX-License-Identifier: GPL-2.0
#include "ledger.h"

#include <cstring>

#include <kapi/sim/sim.h>

namespace {

constexpr std::uint32_t kMagic = 0x52445321;

std::uint32_t check_of(const Label &label)
{
    std::uint64_t sum = label.magic;
    for (std::uint64_t value : {std::uint64_t{label.from}, std::uint64_t{label.to_node}, std::uint64_t{label.to_port},
                                label.number, std::uint64_t{label.size}})
        sum = (sum ^ value) * 0x9e3779b97f4a7c15ULL;
    return static_cast<std::uint32_t>(sum >> 32);
}

constexpr std::size_t kPatternStarts = 1 << 16, kPatternBytes = kPatternStarts + (1 << 20);

/** Content after a label: a part of the same noise, from an offset given by the label. */
const unsigned char *pattern(const Label &label)
{
    static const std::vector<unsigned char> noise = [] {
        std::vector<unsigned char> bytes(kPatternBytes);
        sim::Random random(1);
        for (auto &byte : bytes)
            byte = static_cast<unsigned char>(random.next());
        return bytes;
    }();
    return noise.data() + label.check % kPatternStarts;
}

/** The first difference of two different ranges. */
std::size_t first_difference(const unsigned char *a, const unsigned char *b)
{
    std::size_t i = 0;
    while (a[i] == b[i])
        i++;
    return i;
}

} // namespace

std::vector<unsigned char> Ledger::compose(std::uint32_t from, std::uint32_t to_node, std::uint32_t to_port,
                                           std::size_t size, std::uint64_t behind)
{
    Label label{kMagic, from, to_node, to_port, flows_[{from, to_node, to_port}].sent + behind,
                static_cast<std::uint32_t>(size), 0};
    label.check = check_of(label);
    std::vector<unsigned char> bytes(size);
    std::memcpy(bytes.data(), &label, sizeof(label));
    std::memcpy(bytes.data() + sizeof(label), pattern(label), size - sizeof(label));
    return bytes;
}

void Ledger::sent(std::uint32_t from, std::uint32_t to_node, std::uint32_t to_port)
{
    flows_[{from, to_node, to_port}].sent++;
    total_sent_++;
}

void Ledger::received(std::uint32_t by, std::uint32_t node, std::uint32_t port, std::uint32_t from_node,
                      const unsigned char *bytes, std::size_t size)
{
    Label label;
    if (size < sizeof(label))
        sim::broken("a message of %zu bytes arrived that was never sent", size);
    std::memcpy(&label, bytes, sizeof(label));
    if (label.magic != kMagic || label.check != check_of(label) || label.size != size)
        sim::broken("a message arrived damaged");
    if (std::memcmp(bytes + sizeof(label), pattern(label), size - sizeof(label)))
        sim::broken("message %llu of socket %u arrived with byte %zu of %zu changed",
                    static_cast<unsigned long long>(label.number), label.from,
                    sizeof(label) + first_difference(bytes + sizeof(label), pattern(label)), size);
    if (label.to_node != node || label.to_port != port)
        sim::broken("a message for node %u port %u arrived at node %u port %u", label.to_node, label.to_port, node,
                    port);
    if (node_of_[label.from] != from_node)
        sim::broken("a message of node %u arrived as one of node %u", node_of_[label.from], from_node);
    State &state = flows_[{label.from, node, port}];
    auto number = static_cast<unsigned long long>(label.number);
    if (state.seen.size() <= label.number)
        state.seen.resize(label.number + 1);
    if (state.seen[label.number])
        sim::broken("message %llu from socket %u to node %u port %u arrived twice", number, label.from, node, port);
    // A restarted machine may miss messages to its former life: the sender notices the restart late.
    bool gapless = state.last_by == by || first_life_[{node, port}] == by;
    if (gapless ? label.number != state.next : label.number < state.next)
        sim::broken("message %llu from socket %u to node %u port %u arrived when %llu was due", number, label.from,
                    node, port, static_cast<unsigned long long>(state.next));
    state.seen[label.number] = true;
    state.next = label.number + 1;
    state.last_by = by;
    total_received_++;
}

std::uint32_t Ledger::opened(std::uint32_t node, std::uint32_t port)
{
    std::uint32_t identity = next_identity_++;
    listening_[{node, port}] = identity;
    first_life_.try_emplace({node, port}, identity);
    open_[identity] = {node, port};
    node_of_[identity] = node;
    return identity;
}

void Ledger::closed(std::uint32_t identity)
{
    auto found = open_.find(identity);
    if (found == open_.end())
        return;
    if (listening_[found->second] == identity)
        listening_[found->second] = 0;
    open_.erase(found);
}

bool Ledger::delivered(const Flow &flow, const State &state) const
{
    auto [from, node, port] = flow;
    auto target = listening_.find({node, port});
    if (!is_open(from) || target == listening_.end() || !is_open(target->second))
        return true;
    return state.next >= state.sent;
}

bool Ledger::all_delivered() const
{
    for (const auto &[flow, state] : flows_)
        if (!delivered(flow, state))
            return false;
    return true;
}

std::string Ledger::missing() const
{
    std::string text;
    for (const auto &[flow, state] : flows_) {
        if (delivered(flow, state))
            continue;
        auto [from, node, port] = flow;
        text += " socket " + std::to_string(from) + " to node " + std::to_string(node) + " port " +
                std::to_string(port) + ": " + std::to_string(state.next) + " of " + std::to_string(state.sent) + ";";
    }
    return text;
}
