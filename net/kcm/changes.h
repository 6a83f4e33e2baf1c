// SPDX-License-Identifier: GPL-2.0
// What programs that listen are told of a connection: that it is attached, has ended, is detached.
#pragma once

#include <hawser/atomic.h>

namespace kcm {

using namespace hw;

// A connection may end, and another thread may detach it, before the one that attaches it comes to tell that. So what is due is
// told by one context at a time, whoever else has noticed it, each once and in this order; the end of one that is told to be
// detached is no longer.
class Changes {
public:
    enum Change : u32 { attached = 1, ended = 2, detached = 4 };

    // Any context. Calls tell(Change) for these and for all that became due meanwhile, unless another context does so at the
    // moment: then it tells these, too.
    template <class Tell> void add(u32 changes, Tell&& tell)
    {
        if (state_.fetch_or(changes | busy) & busy)
            return;
        u32 due = state_.load();
        do
            tell_due(due, tell);
        while (!state_.compare_exchange(due, due & ~busy));
    }

private:
    static constexpr u32 busy = 8;

    template <class Tell> void tell_due(u32 due, Tell& tell)
    {
        if (!(due & attached))
            return;
        for (u32 change = attached; change <= detached; change <<= 1) {
            if (!(due & change) || told_ >= change)
                continue;
            told_ = change;
            tell(static_cast<Change>(change));
        }
    }

    Atomic<u32> state_{0}; // changes that have happened, and busy
    u32 told_ = 0;         // the last one; of whoever is busy
};

} // namespace kcm
