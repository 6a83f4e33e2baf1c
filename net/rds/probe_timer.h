// SPDX-License-Identifier: GPL-2.0
// How often a peer that does not answer is probed, and when its silence shows that it does not know the answer.
#pragma once

#include <hawser/base.h>

namespace rds {

using namespace hw;

class ProbeTimer {
public:
    // A peer that says nothing of itself for so many ticks, though its TCP took the probes, is not a hawser. Long,
    // because a hawser may stand still for a while, and what is sent to it before it answered may be lost or doubled
    // (receiver_memory.h).
    static constexpr unsigned max_probes = 60;
    enum class Step { wait, probe, assume_foreign };

    void stream_began() { probes_ = 0; }
    bool is_over() const { return probes_ >= max_probes; }
    // Once a tick, without an answer. acknowledged: the peer's TCP has the last probe. While it has not, the peer
    // is cut off, slow or dead, and its silence says nothing.
    Step tick(bool acknowledged)
    {
        if (is_over() || (probes_ > 0 && !acknowledged))
            return Step::wait;
        return ++probes_ < max_probes ? Step::probe : Step::assume_foreign;
    }

private:
    unsigned probes_ = 0; // over the present stream, for want of an answer
};

} // namespace rds
