// SPDX-License-Identifier: GPL-2.0
// The turns of callbacks on a processor (kapi_turn_is_over()).
#pragma once

#include <cstdint>

namespace sim {

/**
 * The calling task is in a callback, whose turn takes the time of the world that passes, and some for each of its calls of kapi
 * and its atomic operations. In a softirq others count, too, as if the machine had one processor.
 */
class TurnScope {
public:
    TurnScope();
    ~TurnScope();
    TurnScope(const TurnScope &) = delete;
    TurnScope &operator=(const TurnScope &) = delete;

    bool is_over() const { return taken_ns() >= most_ns_; }

private:
    std::uint64_t taken_ns() const;

    const TurnScope *const before_;
    const std::uint64_t began_ns_, points_;
    std::uint64_t most_ns_;
};

/** The calling task computes for so long, which counts for its turn only. */
void spend(std::uint64_t time_ns);

} // namespace sim
