// SPDX-License-Identifier: GPL-2.0
// Ends unused connections.
//
// A connection is used as long as something refers to it: a socket whose last message it carried, a message, a work. After
// net.rds.idle_connection_ms without use and without a received message its streams are closed as any stream is closed: each
// side reads the other's to its end. When all its paths are down it is forgotten, with its maps, and a later message makes
// another one. No message is lost or delivered twice because of this (receiver_memory.h explains the terms):
// - Forgetting has the effect of a restart, which the names handle: the new connection has another generation and other
//   receiver ids, so messages that a peer had sent and that were not acknowledged are given up, never delivered twice.
// - Normally there are no such messages. Streams are closed by the side that has nothing queued or unacknowledged, and a stream
//   counts as complete only when the peer's messages were read to its end. A peer with something to send again connects at
//   once, so a connection is kept for a while after a complete end, and is used again when the peer connects.
// - After a loss the peer may have any number of such messages and no way to send them. Then the connection is kept for the
//   longest likely outage. A path that never had a stream has nothing to remember.
#pragma once

#include <hawser/atomic.h>
#include <hawser/hash_table.h>
#include <hawser/work.h>

namespace rds {

using namespace hw;

class Connection;
class Net;

class Collector : Pinned {
public:
    explicit Collector(Net& net) : net_(net) {}
    // How long a connection that is not used is kept, and a peer is asked that may not have noticed the loss. Any context.
    static constexpr u64 kept_after_loss_ns = 1'800'000'000'000;
    u64 kept_after_loss(const Connection& connection) const;
    // Any context. A connection was made.
    void connection_made(const Connection& connection);
    // Sleeps. No more connections are made.
    void stop() { work_.cancel_sync(); }

private:
    bool is_crowded(const Connection& connection) const;
    u64 idle_ns(bool crowded) const;
    static u64 kept_ns(Connection& connection, bool crowded);
    static u64 kept_after_loss(bool crowded);
    void arm(bool crowded);
    void look();
    void look_at(Connection& connection, bool crowded, u64 now);

    Net& net_;
    Atomic<u32> hurried_{0}; // since the last look ended
    HashCursor place_; // of the look, which goes in pieces
    bool any_crowded_ = false; // seen by this look so far
    u32 looked_at_ = 0;        // by this look so far
    Atomic<u64> earliest_ns_{0}; // when the next look may begin
    Work<Collector, &Collector::look> work_{*this};
};

} // namespace rds
