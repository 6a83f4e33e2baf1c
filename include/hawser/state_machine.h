// SPDX-License-Identifier: GPL-2.0
// State machines as tables. A transition that is not in the table is refused, counted and shown.
#pragma once

#include <hawser/base.h>

#include <array>

namespace hw {

template <class State, class Event> struct Transition {
    State from;
    Event event;
    State to;
};

// Rules: struct with `static constexpr std::array<Transition<State, Event>, N> table` and `static constexpr const char*
// name`. Not atomic: the owner's lock protects it.
template <class State, class Event, class Rules> class StateMachine {
public:
    constexpr explicit StateMachine(State initial) : state_(initial) {}
    State state() const { return state_; }
    bool is(State state) const { return state_ == state; }

    // Takes the transition; false and no change when event is not legal now.
    [[nodiscard]] bool advance(Event event)
    {
        for (const auto& rule : Rules::table) {
            if (rule.from == state_ && rule.event == event) {
#ifndef __KERNEL__
                Rules::taken(rule.from, rule.event);
#endif
                state_ = rule.to;
                return true;
            }
        }
        refused_++;
        return false;
    }
    // advance() where event is legal by the caller's logic: anything else is a defect.
    void must(Event event)
    {
        [[maybe_unused]] State from = state_;
        if (!advance(event)) {
            kapi_log(KAPI_LOG_ERR, "%s: event %d is illegal in state %d", Rules::name, static_cast<int>(event),
                     static_cast<int>(from));
            HW_ASSERT(!"illegal state transition");
        }
    }
    u32 refused() const { return refused_; }

private:
    State state_;
    u32 refused_ = 0;
};

} // namespace hw
