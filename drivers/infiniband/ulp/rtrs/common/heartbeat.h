// SPDX-License-Identifier: GPL-2.0
// When to send a heartbeat, and when the peer is taken for dead. Both sides send them over the service connection, as writes of
// immediate data without data, and answer those of the other at once. All that is received from the peer is a sign of life.
#pragma once

#include <hawser/atomic.h>

namespace rtrs {

using namespace hw;

// A peer that says nothing is dead after 5 to 6 intervals, 4 to 4.8 s. Both sides have to notice it: what is sent again over
// another path waits at the server until the lost path has ended there.
inline constexpr u32 default_heartbeat_ms = 800;
inline constexpr u32 default_heartbeats_missed = 4;

class Heartbeat : Pinned {
public:
    enum class Action { send, wait, dead };

    // Any context. Something was received from the peer.
    void received() { missed_.store_relaxed(0); }
    // Any context; to be called at each interval, by one caller at a time. send: a heartbeat is due; wait: one is unanswered and
    // nothing else was received; dead: more than most intervals have passed like that.
    Action tick(u32 most)
    {
        u32 missed = missed_.fetch_add(1);
        if (missed > most)
            return Action::dead;
        return missed ? Action::wait : Action::send;
    }

private:
    Atomic<u32> missed_{0};
};

} // namespace rtrs
