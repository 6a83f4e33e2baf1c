// SPDX-License-Identifier: GPL-2.0
// Ports of this host that sent to a peer before it was known how many paths it has. They stay on the first path: on another one
// later messages of a socket could overtake its earlier ones.
//
// Any user can have such ports while the peer is away, so each is noted for itself: none takes the paths from others.
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
    // In a program's call, which its cgroup pays for. Without memory its neighbours count as early, too.
    void add(u16 port)
    {
        u8*& chunk = chunk_[port / chunk_ports];
        if (!chunk)
            chunk = static_cast<u8*>(kapi_zalloc(chunk_ports / 8, KAPI_ATOMIC_CHARGED));
        if (chunk)
            chunk[port % chunk_ports / 8] |= static_cast<u8>(1u << port % 8);
        else
            all_ |= 1u << port / chunk_ports;
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
};

} // namespace rds
