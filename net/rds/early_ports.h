// SPDX-License-Identifier: GPL-2.0
// Ports of this host that sent to a peer before it was known how many paths it has. They stay on the first path: on another one
// later messages of a socket could overtake its earlier ones.
//
// Any user can have such ports while the peer is away, so each is noted for itself: none takes the paths from others. A port is
// forgotten when another socket has it: one that was bound later than all that were early.
#pragma once

#include <hawser/base.h>
#include <kapi/memory.h>

namespace rds {

using namespace hw;

// Under the owner's lock.
class EarlyPorts : Pinned {
public:
    EarlyPorts() = default;
    ~EarlyPorts()
    {
        for (u8* chunk : chunk_)
            kapi_free(chunk);
    }
    // In a program's call, which its cgroup pays for. Without memory its neighbours count as early, too. order: the socket's.
    void add(u16 port, u64 order)
    {
        last_ = max(last_, order);
        u8*& chunk = chunk_[port / chunk_ports];
        if (!chunk)
            chunk = static_cast<u8*>(kapi_zalloc(chunk_ports / 8, KAPI_ATOMIC_CHARGED));
        if (chunk)
            chunk[port % chunk_ports / 8] |= static_cast<u8>(1u << port % 8);
        else
            all_ |= 1u << port / chunk_ports;
    }
    // Whether a socket that was bound then has port from one that has closed, if port is early.
    bool came_later(u64 order) const { return order > last_; }
    // False: it counts as early with its neighbours.
    bool forget(u16 port)
    {
        u8* chunk = chunk_[port / chunk_ports];
        if (chunk)
            chunk[port % chunk_ports / 8] &= static_cast<u8>(~(1u << port % 8));
        return !has(port);
    }
    bool has(u16 port) const
    {
        const u8* chunk = chunk_[port / chunk_ports];
        return (all_ >> port / chunk_ports & 1) || (chunk && (chunk[port % chunk_ports / 8] >> port % 8 & 1));
    }

private:
    static constexpr u32 chunk_ports = 4096;
    static constexpr u32 chunks = 65536 / chunk_ports;

    u8* chunk_[chunks] = {}; // a bit for each port; null: none of them is
    u32 all_ = 0;            // chunks of which all are
    u64 last_ = 0;           // of the sockets that were early, when the last one was bound
};

} // namespace rds
