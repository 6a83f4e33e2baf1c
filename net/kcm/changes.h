// SPDX-License-Identifier: GPL-2.0
// What programs that listen are notified of: a connection is attached, has ended, is detached.
#pragma once

#include <hawser/atomic.h>

namespace kcm {

using namespace hw;

// A connection may end, and another thread may detach it, before the one that attaches it has published that. So one context at a
// time publishes what is due, also what others have noticed: each change once, in this order, and no end after the detachment.
class Changes {
public:
    enum Change : u32 { attached = 1, ended = 2, detached = 4 };

    // Any context. Calls publish(Change) for these and for all that became due meanwhile, unless another context does so at the
    // moment: then that one publishes these, too.
    template <class Publish> void add(u32 changes, Publish&& publish)
    {
        if (state_.fetch_or(changes | busy) & busy)
            return;
        u32 due = state_.load();
        do
            publish_due(due, publish);
        while (!state_.compare_exchange(due, due & ~busy));
    }

private:
    static constexpr u32 busy = 8;

    template <class Publish> void publish_due(u32 due, Publish& publish)
    {
        if (!(due & attached))
            return;
        for (u32 change = attached; change <= detached; change <<= 1) {
            if (!(due & change) || published_ >= change)
                continue;
            published_ = change;
            publish(static_cast<Change>(change));
        }
    }

    Atomic<u32> state_{0}; // changes that have happened, and busy
    u32 published_ = 0;    // the last one; of the context that is busy
};

} // namespace kcm
