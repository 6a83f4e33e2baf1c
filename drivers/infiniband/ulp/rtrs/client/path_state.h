// SPDX-License-Identifier: GPL-2.0
// The states of a path. Its worker makes all transitions.
#pragma once

#include <hawser/state_machine.h>

namespace rtrs_clt {

using namespace hw;

enum class PathState : u8 {
    stopped,    // by the administrator, or after too many attempts
    connecting, // there is a link, which is not up
    up,
    ending,     // the link is lost or unwanted
    waiting,    // for the time of the next attempt
    removed,
};

enum class PathEvent : u8 { begin, established, end, retry, stop, remove };

struct PathRules {
    static constexpr const char* name = "rtrs_clt path";
    using T = Transition<PathState, PathEvent>;
    static constexpr std::array<T, 11> table{{
        {PathState::stopped, PathEvent::begin, PathState::connecting},
        {PathState::stopped, PathEvent::remove, PathState::removed},
        {PathState::waiting, PathEvent::begin, PathState::connecting},
        {PathState::waiting, PathEvent::stop, PathState::stopped},
        {PathState::waiting, PathEvent::remove, PathState::removed},
        {PathState::connecting, PathEvent::established, PathState::up},
        {PathState::connecting, PathEvent::end, PathState::ending},
        {PathState::up, PathEvent::end, PathState::ending},
        {PathState::ending, PathEvent::retry, PathState::waiting},
        {PathState::ending, PathEvent::stop, PathState::stopped},
        {PathState::ending, PathEvent::remove, PathState::removed},
    }};
#ifndef __KERNEL__
    static void taken(PathState, PathEvent) {}
#endif
};

const char* name_of(PathState state);

} // namespace rtrs_clt
