// SPDX-License-Identifier: GPL-2.0
// Requests for a peer's congestion map, as long as senders meet a congested port and the peer is silent.
//
// A peer that runs the kernel's own RDS sends its maps over any path, so that an older one can overtake a newer one. Then the
// port stays congested here until the peer sends another map. Between hawser hosts this cannot happen: there a request only
// costs a probe and a map. Over RDMA it cannot either, and a peer that is no hawser is not asked there: it is sent our map, so
// that its end is noticed.
#pragma once

#include <hawser/atomic.h>
#include <hawser/work.h>

namespace rds {

using namespace hw;

class Connection;

class MapRefresh : Pinned {
public:
    explicit MapRefresh(Connection& connection) : connection_(connection) {}
    // Any context. A sender met the set bit of a port of the peer.
    void met(u16 port);
    // A port that senders met may still be full; it is found within 30 seconds that none is.
    bool is_running() const { return running_.load_relaxed() != 0; }
    // One is, as far as is known. Any context.
    bool is_awaited() const;
    // Sleeps. No request follows. The connection is dying.
    void stop();

private:
    void look();
    bool request();
    bool ends();

    Connection& connection_;
    Atomic<u32> running_{0};        // work_ is queued or runs, and holds a reference
    Atomic<u64> met_{0};            // the ports that senders met and that may be full, by their number modulo 64
    Atomic<u64> met_ns_{0};         // when the last one did
    // The work's:
    u64 delay_ns_ = 0;       // until its next look
    u64 heard_ns_ = 0;       // when the peer's last map had come, at its last look
    u32 unanswered_ = 0;     // requests, if the peer answers each with a map
    Work<MapRefresh, &MapRefresh::look> work_{*this};
};

} // namespace rds
