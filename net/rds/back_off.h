// SPDX-License-Identifier: GPL-2.0
// How long a path waits between two attempts to connect.
#pragma once

#include <hawser/base.h>

namespace rds {

using namespace hw;

class BackOff {
public:
    // The delay before the next attempt: none before the first, later a random time below a bound that doubles from
    // shortest to longest, which may be others at each call. random is uniform over 32 bits.
    u64 next(u64 shortest_ns, u64 longest_ns, u32 random)
    {
        longest_ns = max(longest_ns, shortest_ns);
        if (bound_ns_ == 0) {
            bound_ns_ = shortest_ns;
            return 0;
        }
        u64 bound_ns = min(max(bound_ns_, shortest_ns), longest_ns);
        bound_ns_ = min(bound_ns * 2, longest_ns);
        return share_of(bound_ns, random);
    }
    void reset() { bound_ns_ = 0; }

private:
    // bound times random / 2^32-1, where the product does not fit into 64 bits.
    static u64 share_of(u64 bound, u32 random)
    {
        constexpr u64 whole = 0xffffffffu;
        return bound / whole * random + bound % whole * random / whole;
    }

    u64 bound_ns_ = 0; // 0: the next attempt is the first
};

} // namespace rds
