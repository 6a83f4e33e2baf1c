// SPDX-License-Identifier: GPL-2.0
// How often a peer that does not answer is probed, and when its silence shows that it does not know the answer, or that it
// answers nobody.
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
    // The kernel's own answers at once, unless its net.rds.ping_enable is 0: then never.
    static constexpr unsigned silent_ticks = 5;
    enum class Step { wait, probe, assume_foreign };

    void stream_began() { ticks_ = silence_ = 0; }
    bool is_over() const { return ticks_ >= max_probes; }
    // It answers nobody, as far as can be known.
    bool is_silent() const { return silence_ >= silent_ticks || is_over(); }
    // Once a tick, without an answer. acknowledged: the peer's TCP has what we said of ourselves. While it has not, the
    // peer is cut off, slow or dead, and its silence says nothing. Of a foreign one nothing depends on that: the probing
    // ends even if it never reads.
    Step tick(bool acknowledged, bool foreign = false)
    {
        bool waits = ticks_ > 0 && !acknowledged;
        if (is_over() || (waits && !foreign))
            return Step::wait;
        silence_ = foreign && acknowledged ? silence_ + 1 : 0;
        if (++ticks_ == max_probes)
            return Step::assume_foreign;
        return waits ? Step::wait : Step::probe;
    }

private:
    unsigned ticks_ = 0;   // over the present stream, for want of an answer
    unsigned silence_ = 0; // those of a foreign peer that had all it needs to answer, in a row
};

} // namespace rds
