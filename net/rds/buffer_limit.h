// SPDX-License-Identifier: GPL-2.0
// What a socket may hold whose program set no buffer. The default, half of net.core.wmem_default or rmem_default, has room for
// two messages of 64 KiB: a stream of them stops and goes. So each limit is doubled when it was why a stream ran dry.
#pragma once

#include <hawser/base.h>

namespace rds {

// Payload that a socket has sent and that is not acknowledged. It grows when it is full and the transport has taken all of it, so
// to less than twice what the peer's window lets through. What is under way when a port becomes congested comes in beyond the
// receiver's limit, and at its hard limit other sockets wait for it: so congestion sets the default again, and the usual
// maximum is such that two senders do not reach it with messages that take up to 1.7 times their payload in memory, or 2.6 times
// when the receiver's limit has grown, too; and that a socket has no more memory than the default allows.
class SendLimit {
public:
    // In bytes. initial: that of the default buffer.
    u64 payload(u64 initial) const { return max(initial, grown_); }
    // The same in memory; tiny messages cost much more than their payload.
    u64 memory(u64 initial) const { return max(initial * small_messages, grown_ + grown_ / 4); }
    // It is full, and sent is the payload that was sent: tiny messages fill the memory first. True: there is more room.
    bool grow(u64 initial, u64 sent, u64 most)
    {
        u64 present = payload(initial);
        if (present >= most || sent < present)
            return false;
        grown_ = min(2 * present, most);
        return true;
    }
    void reset() { grown_ = 0; }

private:
    static constexpr u64 small_messages = 8;

    u64 grown_ = 0;
};

// Payload that waits for the program, above which peers are notified. It grows when the program has read everything since they
// were, before they sent more: the program is faster than that takes.
class ReceiveLimit {
public:
    u64 payload(u64 initial) const { return max(initial, grown_); }
    void congested() { stopped_ = true; }
    bool was_congested() const { return stopped_; } // since the queue was empty
    bool has_grown() const { return grown_ != 0; }
    void reset() { grown_ = 0; }
    // It was congested, and nothing waits any more. most: of memory, at which peers are notified in any case.
    void emptied(u64 initial, u64 most)
    {
        stopped_ = false;
        if (u64 present = payload(initial); present < most)
            grown_ = min(2 * present, most);
    }

private:
    u64 grown_ = 0;
    bool stopped_ = false;
};

} // namespace rds
