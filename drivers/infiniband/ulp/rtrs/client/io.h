// SPDX-License-Identifier: GPL-2.0
// A permit and the one request that can be made with it: the chunk of the server that the request uses.
#pragma once

#include <hawser/atomic.h>
#include <hawser/verbs.h>

#include "../common/wire.h"

namespace rtrs_clt {

using namespace hw;

class Connection;

// What a user asks for.
struct Order {
    bool is_read;
    void* priv;
    void (*done)(void* priv, int error); // 0 or a negative errno; any context, no lock held
    kapi_sglist* list;                   // the user's until done
    u32 pieces;
    u32 data_bytes;
    u32 user_bytes;                      // of the message, which lies in the permit's slot
};

// Some paths of a session, by their indexes in it. Any context.
class PathSet : Pinned {
public:
    void set(u32 index) { words_[index / bits].fetch_or(u64{1} << index % bits); }
    void clear(u32 index) { words_[index / bits].fetch_and(~(u64{1} << index % bits)); }
    void clear_all()
    {
        for (auto& word : words_)
            word.store_relaxed(0);
    }
    bool has(u32 index) const { return words_[index / bits].load_acquire() >> index % bits & 1; }
    bool is_empty() const
    {
        for (auto& word : words_)
            if (word.load_acquire())
                return false;
        return true;
    }

private:
    static constexpr u32 bits = 64;
    Atomic<u64> words_[rtrs::max_paths / bits]{};
};

struct Io : Pinned {
    u32 chunk = 0;
    Atomic<u32> lane{0}; // the number of the connections that its requests use. Who waits for a permit looks at it, too

    Order order{};
    // The serial number of the connection that has it, or 0. While a connection has it, everything below is that connection's
    // done()'s, or after the drain its link's.
    Atomic<u64> owner{0};
    Mapping data;
    Atomic<u64> began_ns{0};   // when it was sent; the path's worker looks at it, too
    u64 asked_ns = 0;          // when its user asked for it
    u64 unmapped_since_ns = 0; // while it waits for room in which a device can map its data: since when; else 0
    u32 generation = 0;        // of its session at the server, which its user meant: see Lanes
    // The paths that it was sent over, where the server may still work on it. Those that are up again are out, and those that
    // were removed, whose end the server may not have noticed until that time. Both are changed in any context.
    PathSet tried;
    Atomic<u64> unnoticed_until_ns{0};
    u32 key = 0;         // of the region of a read
    bool invalidated_by_server = false; // it is asked to invalidate that key
    u32 requests = 0;    // that it took in the send queue
    int error = 0;       // of the answer, positive
    bool registered = false;   // the server may write to the data by key
    bool invalidating = false;
    bool sent = false;         // its own requests have completed
    bool answered = false;
    Io* next = nullptr;        // of a list that its holder makes
    // It has ended without an answer, and its chunk is not to be used: see Kept, under whose lock the others are.
    Atomic<bool> kept{false};
    bool given = false;        // its user has given the permit back meanwhile
    u64 kept_until_ns = 0;
};

} // namespace rtrs_clt
