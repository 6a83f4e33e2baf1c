// SPDX-License-Identifier: GPL-2.0
// Streams that the peer opened and no path has adopted yet.
#pragma once

#include <hawser/base.h>
#include <kapi/stream.h>

namespace rds_tcp {

using namespace hw;

// Oldest first. They have no callbacks yet; their data is not lost. Pure container: the owner has the lock, and closes
// those that it takes.
class Waiting {
public:
    static constexpr unsigned max = 4; // more is an attack
    // False when it is full: stream stays the caller's. Otherwise replaced becomes the caller's, to be closed without a lock
    // held: a stream that its peer has left, or null.
    bool put(kapi_stream* stream, u16 peer_port, kapi_stream*& replaced);
    kapi_stream* take(unsigned position);
    u16 peer_port(unsigned position) const { return port_[position]; }
    unsigned count() const { return count_; }

private:
    kapi_stream* take_abandoned();

    kapi_stream* stream_[max] = {};
    u16 port_[max] = {};
    unsigned count_ = 0;
};

} // namespace rds_tcp
