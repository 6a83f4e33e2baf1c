// SPDX-License-Identifier: GPL-2.0
// include/hawser/state_machine.h: only the transitions of the table.
#include <gtest/gtest.h>

#include <hawser/state_machine.h>

#include <set>
#include <utility>

namespace {

enum class Door { closed, open, locked };
enum class Act { push, pull, turn_key };

struct DoorRules {
    static constexpr const char *name = "door";
    static constexpr std::array<hw::Transition<Door, Act>, 4> table{{
        {Door::closed, Act::push, Door::open},
        {Door::open, Act::pull, Door::closed},
        {Door::closed, Act::turn_key, Door::locked},
        {Door::locked, Act::turn_key, Door::closed},
    }};
    static void taken(Door from, Act event) { seen.insert({from, event}); }
    static inline std::set<std::pair<Door, Act>> seen;
};

using Machine = hw::StateMachine<Door, Act, DoorRules>;

TEST(StateMachine, table__decides)
{
    Machine door(Door::closed);
    EXPECT_TRUE(door.advance(Act::turn_key));
    EXPECT_TRUE(door.is(Door::locked));
    EXPECT_FALSE(door.advance(Act::push));
    EXPECT_TRUE(door.is(Door::locked));
    EXPECT_EQ(door.refused(), 1u);
    door.must(Act::turn_key);
    door.must(Act::push);
    EXPECT_EQ(door.state(), Door::open);
    EXPECT_TRUE(DoorRules::seen.contains({Door::closed, Act::push}));
    EXPECT_FALSE(DoorRules::seen.contains({Door::open, Act::pull}));
}

TEST(StateMachine, must__takes_an_illegal_transition_for_a_defect)
{
    Machine door(Door::locked);
    EXPECT_DEATH(door.must(Act::push), "illegal state transition");
}

} // namespace
