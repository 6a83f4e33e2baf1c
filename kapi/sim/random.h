// SPDX-License-Identifier: GPL-2.0
// The only source of chance in a simulated world: small, seeded, the same on every machine.
#pragma once

#include <cstdint>

namespace sim {

class Random {
public:
    explicit Random(std::uint64_t seed) : state_(seed) {}

    std::uint64_t next()
    {
        std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
        return z ^ (z >> 31);
    }

    /** A number in [0, bound); 0 when bound is 0. */
    std::uint64_t below(std::uint64_t bound) { return bound ? next() % bound : 0; }
    /** A number in [low, high]. */
    std::uint64_t between(std::uint64_t low, std::uint64_t high) { return low + below(high - low + 1); }
    /** True once in `of` on average; never when `of` is 0. */
    bool one_in(std::uint64_t of) { return of && below(of) == 0; }

private:
    std::uint64_t state_;
};

} // namespace sim
