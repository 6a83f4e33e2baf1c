// SPDX-License-Identifier: GPL-2.0
// The names of sessions, of which each is one session's at a time.
#include "rtrs_srv_test.h"

namespace {

class SrvNames : public SrvTest {
protected:
    /** The first session loses its path while the user still has a request of it. */
    void end_slowly()
    {
        load(true);
        establish(first);
        user.keeps = true;
        write(first, 1, 0, "data", "wx");
        ASSERT_TRUE(wait([&] { return user.calls.size() == 1; }));
        drop(first);
        world.run_for(sim::kSecond);
    }
    void answer_call()
    {
        run(b, [&] { user.answer(user.calls[0], 0); });
    }
};
INSTANTIATE_TEST_SUITE_P(Seeds, SrvNames, ::testing::Range(1, 6));

// As a disk that is unmapped and mapped again: the server may have noticed the end of the old session, but not be done with it.
TEST_P(SrvNames, a_new_session_waits_for_the_name_of_one_that_ends)
{
    end_slowly();
    connect(second, 2, 2, 101);
    ask_info(second);
    world.run_for(2 * sim::kSecond);
    EXPECT_TRUE(second.info.empty() && !second.links[0]->end) << "neither answered nor refused";
    SrvPath third(a, "10.0.1.1", "10.0.0.2");
    connect(third, 1, 3, 102);
    ask_info(third);
    world.run_for(sim::kSecond);
    answer_call();
    // One of the two has the name, and the other is refused.
    auto has = [](SrvPath &path) { return !path.info.empty(); };
    auto lost = [](SrvPath &path) { return path.links[0]->end.has_value(); };
    auto decided = [&] { return (has(second) && lost(third)) || (has(third) && lost(second)); };
    EXPECT_TRUE(wait(decided, sim::kSecond / 10)) << "at once, not with the next look at paths that are half open";
    EXPECT_TRUE(wait([&] { return user.links.size() == 3; })) << "the old one begins and ends, the new one begins";
    drop(third);
}

TEST_P(SrvNames, a_name_that_does_not_become_free_is_not_waited_for_without_end)
{
    end_slowly();
    connect(second, 2, 2, 101);
    ask_info(second);
    EXPECT_TRUE(ends(second));
    answer_call();
}

} // namespace
