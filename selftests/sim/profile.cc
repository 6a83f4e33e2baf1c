// SPDX-License-Identifier: GPL-2.0
#include "profile.h"

#include <algorithm>

using namespace sim;

namespace {
constexpr unsigned kFewNodes = 8; // each program can talk to all
}

Profile::Profile(Random &random)
{
    static constexpr std::size_t kLargest[] = {200, 5000, 70'000, 300'000, 1 << 20};
    choose_size(random);
    largest = kLargest[random.below(5)];
    messages = static_cast<unsigned>(largest > 100'000 ? random.between(3, 12) : random.between(10, 80));
    sndbuf = static_cast<kapi_u32>(std::max<std::size_t>(largest * 2, 8192) * random.between(1, 6));
    rcvbuf = static_cast<kapi_u32>(random.one_in(2) ? 4096 + random.below(2 * largest) : 1u << 22);
    slow_receivers = random.one_in(3);
    nonblocking = random.one_in(3);
    zerocopy = largest <= 70'000 && random.one_in(3);
    bad_memory = random.one_in(4);
    choose_faults(random);
    choose_extremes(random);
    lengths = Random(random).one_in(3); // a copy: the course of a seed without it stays as it was
}

/** Most runs are of two or three machines: they find most, and quickly. */
void Profile::choose_size(Random &random)
{
    nodes = random.one_in(3) ? 3 : 2;
    sockets = static_cast<unsigned>(random.between(1, 3));
    namespaces = random.one_in(8) ? static_cast<unsigned>(random.between(2, 3)) : 1;
    port_step = random.one_in(2) ? 3 : 0; // different ports put each direction between two sockets on its own path
    if (random.one_in(20))
        nodes = static_cast<unsigned>(random.between(4, kFewNodes));
    else if (random.one_in(150))
        nodes = static_cast<unsigned>(random.between(kFewNodes + 1, 50));
    cluster = nodes > kFewNodes;
    if (nodes > 3)
        sockets = namespaces = 1;
}

void Profile::choose_faults(Random &random)
{
    fault_time_ns = random.between(1, 12) * kSecond;
    faults = static_cast<unsigned>(random.one_in(5) ? 0 : random.between(1, 12));
    crashes = random.one_in(3);
    reloads = random.one_in(4);
    buffers = random.one_in(4);
    cuts = random.one_in(2);
    net_deletions = namespaces > 1;
    resets = random.one_in(2) || !(crashes || reloads || buffers || cuts || net_deletions);
    pauses = random.one_in(5);
    clock_jumps = random.one_in(8);
    reset_after = random.one_in(4) ? random.between(1000, 20 * largest + 20'000) : 0;
    lose_one_in = random.one_in(5) ? static_cast<unsigned>(random.between(20, 200)) : 0;
    fail_one_in = random.one_in(5) ? random.between(50, 2000) : 0;
    reopens = random.one_in(4);
    famines = random.one_in(4);
}

/** Special kinds of runs, which replace other parameters. */
void Profile::choose_extremes(Random &random)
{
    if (reopens) { // much in flight whenever a socket closes
        largest = std::min<std::size_t>(largest, 5000);
        sockets = 1;
        messages = 500;
        fault_time_ns = std::min<std::uint64_t>(fault_time_ns, 2 * kSecond);
    }
    if (famines && !reopens && nodes <= 3) { // many paths, any of which may fail to connect
        sockets = 3;
        port_step = 3;
        messages = std::min(messages, 20u);
    }
    idle_ms = random.one_in(4) ? static_cast<unsigned>(random.between(20, 3000)) : 0;
    uneven = random.one_in(8);
    adversary = !cluster && random.one_in(10);
    if (adversary) { // so that limits of memory are tight, and its messages find sockets
        port_step = 0;
        sockets = 1;
        rcvbuf = static_cast<kapi_u32>(4096 + random.below(100'000));
    }
    hot = !cluster && !adversary && !uneven && random.one_in(8);
    if (cluster) {
        largest = std::min<std::size_t>(largest, 5000);
        messages = static_cast<unsigned>(random.between(50, 200));
        faults *= 3;
        reopens = false;
        reset_after = 0;
    }
    if (hot) { // messages in flight when the congestion map arrives must exceed the socket's limit
        largest = 1 << 20;
        messages = static_cast<unsigned>(random.between(10, 20));
        sndbuf = 16u << 20;
        slow_receivers = true;
        zerocopy = false;
    }
}

/** As made by Program::message_size(). */
std::uint64_t Profile::average() const
{
    return std::min<std::size_t>(largest, 2000) / 2 + largest / 6;
}

std::uint64_t Profile::bytes_of_a_node() const
{
    return std::uint64_t{namespaces} * sockets * messages * average();
}

std::uint64_t Profile::bytes_of_a_round() const
{
    std::uint64_t programs = std::uint64_t{namespaces} * sockets;
    return programs * programs * nodes * average();
}

std::string Profile::describe() const
{
    std::string text = std::to_string(nodes) + " nodes, " + std::to_string(namespaces) + " namespaces each, " +
                       std::to_string(sockets) + " sockets each, " + std::to_string(messages) + " messages to " +
                       std::to_string(largest) + " bytes, sndbuf " + std::to_string(sndbuf) + ", rcvbuf " +
                       std::to_string(rcvbuf) + ", " + std::to_string(faults) + " faults:";
    const struct {
        bool on;
        const char *name;
    } flags[] = {{resets, "resets"}, {cuts, "cuts"}, {crashes, "crashes"}, {reloads, "reloads"},
                 {buffers, "buffer changes"}, {net_deletions, "namespace deletions"},
                 {slow_receivers, "slow receivers"}, {nonblocking, "non-blocking"}, {lengths, "lengths"}, {zerocopy, "zerocopy"},
                 {bad_memory, "bad memory"}, {reopens, "reopens"}, {uneven, "uneven links"},
                 {pauses, "pauses"}, {clock_jumps, "clock jumps"},
                 {famines, "famines"}, {hot, "one hot socket"}, {adversary, "an adversary"}};
    for (const auto &flag : flags)
        if (flag.on)
            text += std::string(" ") + flag.name;
    return text + ", reset after " + std::to_string(reset_after) + ", loss 1/" + std::to_string(lose_one_in) +
           ", no memory 1/" + std::to_string(fail_one_in) + ", idle after " + std::to_string(idle_ms) + " ms";
}
