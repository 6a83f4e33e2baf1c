// SPDX-License-Identifier: GPL-2.0
#include "peers_share.h"

namespace rds {

namespace {

struct Part {
    u64 divisor; // of the machine's memory
    u64 least;   // bytes: a small machine, too, needs room for some large messages
};
// Of each pool one user has at most a half. A partial message counts with its payload, and may take four times that. What is
// overdrawn may be as much for one user as all receive rings have together (rdma/ring_shares.cc).
constexpr Part parts[PeersShare::kinds] = {{16, 0}, {256, 16 << 20}, {512, 1 << 20}, {128, 32 << 20}, {16, 256 << 20}};

} // namespace

PeersShare::PeersShare()
{
    for (unsigned kind = 0; kind < kinds; kind++) {
        for (auto& pool : pools_)
            pool[kind].limit = max(kapi_memory_total() / parts[kind].divisor, parts[kind].least);
        initial_[kind].pool_ = &pools_[0][kind];
        for (auto& account : of_user_[kind])
            account.pool_ = &pools_[1][kind];
    }
}

} // namespace rds
