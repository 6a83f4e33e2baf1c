// SPDX-License-Identifier: GPL-2.0
// How often a peer that does not answer is probed, and when it is assumed not to implement the answer, or to send none.
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
    // The kernel's own answers at once, unless its net.rds.ping_enable is 0: then never.
    static constexpr unsigned silent_ticks = 5;
    enum class Step { wait, probe, assume_foreign };

    void stream_began() { ticks_ = silence_ = 0; }
    bool is_over() const { return ticks_ >= max_probes; }
    // It is assumed to answer no probe.
    bool is_silent() const { return silence_ >= silent_ticks || is_over(); }
    // Once a tick, without an answer. acknowledged: the peer's TCP has our handshake. Before that the peer
    // is cut off, slow or dead, and its silence proves nothing. For a foreign one nothing depends on that: the probing
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
    unsigned ticks_ = 0;   // on the present stream, without an answer
    unsigned silence_ = 0; // those in a row of a foreign peer that has our handshake
};

} // namespace rds
