// SPDX-License-Identifier: GPL-2.0
// Connections that wait for memory in the middle of a message.
//
// Each holds what has come of its message. When the share of memory of their user is full of such parts, none of them can ever
// go on: each waits for what the others hold. Then one of them has to end. Nothing is wrong, however, when it is unread messages
// that take the memory: their readers give it back.
#pragma once

#include "../lock_order.h"

#include <hawser/list.h>
#include <hawser/lock.h>

namespace kcm {

using namespace hw;

class Psock;

struct Starved; // list tag: connections that wait for memory

// What such a connection has of its message, what is missing, and since when neither memory nor readers could help; when it
// looked at the others last.
struct Parts {
    u64 held = 0, missing = 0, since_ns = 0, looked_ns = 0;
};

class Shortage : Pinned {
public:
    // How long nothing may change before one ends: memory may also be short for a moment.
    static constexpr u64 patience_ns = 1'000'000'000;

    // psock has no memory for the next piece of a message whose length is known; again, each time it has tried. Returns the
    // connection that is to end: of those that wait for the same user, up to 64 of them, the one that holds most. Any context.
    Ref<Psock> wait(Psock& psock, u64 held, u64 missing);
    // It has got some, or has ended.
    void stop(Psock& psock);

    // Messages that nobody has read yet.
    void count_unread(u64 bytes) { unread_.fetch_add(bytes); }
    void forget_unread(u64 bytes) { unread_.fetch_sub(bytes); }
    // Could a connection go on if they were read?
    bool may_end_by_reading(u64 missing) const { return unread_.load_relaxed() >= missing; }

private:
    Psock* choose(Psock& psock) HW_REQUIRES(lock_);

    Spin<ShortageLock> lock_;
    RefList<Psock, Starved> waiting_ HW_GUARDED_BY(lock_);
    u64 changed_ns_ HW_GUARDED_BY(lock_) = 0; // when one of them got memory, or ended
    Atomic<u64> unread_{0};
};

} // namespace kcm
