// SPDX-License-Identifier: GPL-2.0
// Whether the traffic of a connection goes one way: then a message is not what the other side waits for to send its next one.
#pragma once

#include <hawser/atomic.h>

namespace rds {

using namespace hw;

class OneWay : Pinned {
public:
    // Any context. So many messages are offered to a stream. Changes that others make at the same time may get lost.
    void sent(u32 messages)
    {
        if (received_.load_relaxed())
            received_.store_relaxed(0);
        if (!sends())
            sent_.store_relaxed(sent_.load_relaxed() + messages);
    }
    // Any context. A message came; the same.
    void received()
    {
        if (sent_.load_relaxed())
            sent_.store_relaxed(0);
        if (!receives())
            received_.store_relaxed(received_.load_relaxed() + 1);
    }
    // Any context.
    bool sends() const { return sent_.load_relaxed() >= enough; }
    bool receives() const { return received_.load_relaxed() >= enough; }

private:
    // More than the requests that a program has under way which waits for each answer.
    static constexpr u32 enough = 8;
    Atomic<u32> sent_{0}, received_{0}; // since a message went the other way
};

} // namespace rds
