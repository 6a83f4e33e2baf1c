// SPDX-License-Identifier: GPL-2.0
// How often a peer that does not answer is probed, and when it is assumed not to implement the answer.
#pragma once

#include <hawser/base.h>

namespace rds {

using namespace hw;

class ProbeTimer {
public:
    // A peer that sends no name for so many ticks, although its TCP acknowledged the probes, is not a hawser peer. Long,
    // because a hawser peer may stop for a while, and messages sent before it answered may be lost or duplicated
    // (receiver_memory.h).
    static constexpr unsigned max_probes = 60;
    enum class Step { wait, probe, assume_foreign };

    void stream_began() { probes_ = 0; }
    bool is_over() const { return probes_ >= max_probes; }
    // Once a tick, without an answer. acknowledged: the peer's TCP has the last probe. Before that the peer
    // is cut off, slow or dead, and its silence proves nothing.
    Step tick(bool acknowledged)
    {
        if (is_over() || (probes_ > 0 && !acknowledged))
            return Step::wait;
        return ++probes_ < max_probes ? Step::probe : Step::assume_foreign;
    }

private:
    unsigned probes_ = 0; // on the present stream, without an answer
};

} // namespace rds
