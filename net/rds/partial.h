// SPDX-License-Identifier: GPL-2.0
// The incomplete message of a path: the memory that it uses, whether it progresses, and whether it waits for memory.
#pragma once

#include "peers_memory.h"

namespace rds {

class Partial : Pinned {
public:
    // The stream's receiver's: one at a time, any context.
    // A message with size bytes of payload has begun. False: it has to wait, for the time that take_retry_delay() returns.
    [[nodiscard]] bool take(PeersMemory& memory, u32 size);
    void got(u32 bytes) { got_.fetch_add(bytes); }
    void give(PeersMemory& memory, u32 size);
    // One that waits does so no longer.
    void stream_ended(PeersMemory& memory) { note_waiting(memory, 0); }
    void proceeds(PeersMemory& memory) { note_waiting(memory, 0); } // it needs no room, for it has arrived whole
    // A message waits for memory of another kind, for the same time.
    void wait_for_turn(PeersMemory& memory) { retry_delay_ns_.store_relaxed(memory.retry_delay_ns()); }
    u64 take_retry_delay() { return retry_delay_ns_.exchange(0); } // after it was refused, else 0

    // Any context.
    bool exists() const { return began_ns_.load_relaxed() != 0; }
    // For PeersMemory, which looks at all of them now and then: one at a time.
    struct Look {
        u64 began_ns; // 0: there is none
        u32 size;
        bool progresses;
        bool is_slow; // it got less than it has to since an earlier look
    };
    Look look(u64 now);

private:
    void note_waiting(PeersMemory& memory, u32 size);

    Atomic<u64> began_ns_{0};
    Atomic<u32> size_{0};
    Atomic<u32> got_{0};     // bytes since it began, or since looked_ns_
    Atomic<u32> waiting_{0}; // bytes
    Atomic<u64> retry_delay_ns_{0};
    u64 looked_ns_ = 0; // at that message: began_ns_ or later
    bool is_slow_ = false;
};

} // namespace rds
