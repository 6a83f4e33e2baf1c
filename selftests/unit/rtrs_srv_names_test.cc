// SPDX-License-Identifier: GPL-2.0
// The names of sessions, of which each is one session's at a time.
#include "rtrs_srv_test.h"

namespace {

class SrvNames : public SrvTest {
protected:
    /** The first session loses its path while the user still has a request of it. */
    void end_slowly(bool has_another_path = false)
    {
        load(true);
        establish(first);
        if (has_another_path)
            establish(second, 2, 2);
        keep_write(first);
        drop(first);
        world.run_for(sim::kSecond);
    }
    /** The client of the first session reconnects, and waits for the end of its path. */
    SrvPath::Link &come_back()
    {
        auto &link = begin(again, request(0, 1, 1, 100, true, 1));
        world.run_for(sim::kSecond / 10);
        return link;
    }
    /** It is connected when that has ended. */
    void resume(SrvPath::Link &link)
    {
        EXPECT_FALSE(link.established || link.end);
        answer_call();
        ASSERT_TRUE(wait([&] { return link.established; }));
        accepted(again, link);
        exchange(again);
    }
    /** Both paths of a session are lost with requests that the user has, and its client is back for both. */
    std::pair<SrvPath::Link *, SrvPath::Link *> come_back_twice()
    {
        load(true);
        establish_both();
        keep_write(first);
        write(second, 1, 1, "data", "wy");
        EXPECT_TRUE(wait([&] { return user.calls.size() == 2; }));
        drop(first);
        drop(second);
        world.run_for(sim::kSecond);
        auto &other = begin(again2, request(0, 1, 2, 100, true, 1));
        return {&come_back(), &other};
    }
    /** Another client is refused at once, and the session is connected when its requests have ended at the same moment. */
    void keeps_its_name(SrvPath::Link &waiting)
    {
        SrvPath third(a, "10.0.0.1", "10.0.1.2");
        connect(third, 2, 3, 102);
        ask_info(third);
        EXPECT_TRUE(wait([&] { return third.links[0]->end.has_value(); }, sim::kSecond));
        EXPECT_FALSE(waiting.established || waiting.end);
        run(b, [&] {
            for (const auto &call : user.calls)
                user.answer(call);
        });
        ASSERT_TRUE(wait([&] { return waiting.established; }));
        accepted(again, waiting);
        exchange(again);
        drop(third);
        drop(again);
    }
    /** Another client has the name as soon as no request is left. */
    void takes_over(std::size_t last_call)
    {
        SrvPath third(a, "10.0.1.1", "10.0.1.2");
        connect(third, 2, 3, 102);
        ask_info(third);
        world.run_for(2 * sim::kSecond);
        EXPECT_TRUE(third.info.empty() && !third.links[0]->end) << "it waits";
        answer_call(last_call);
        EXPECT_TRUE(wait([&] { return !third.info.empty(); }, sim::kSecond / 10));
        drop(third);
    }
    /** Its client was turned down with one of two paths, which has ended since. The other one has not. */
    void end_the_path_that_was_asked_for()
    {
        auto [attempt, other] = come_back_twice();
        drop(again2);
        ASSERT_TRUE(wait([&] { return attempt->end.has_value(); }, 5 * sim::kSecond));
        drop(again);
        answer_call(0);
        world.run_for(sim::kSecond / 5);
    }
    SrvPath::Link &come_back_for_what_has_ended()
    {
        auto &link = begin(again, request(0, 1, 1, 100, true, 2));
        EXPECT_TRUE(wait([&] { return link.established; }, sim::kSecond));
        accepted(again, link);
        return link;
    }
    SrvPath again{a, "10.0.0.1", "10.0.0.2"}, again2{a, "10.0.1.1", "10.0.1.2"};
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

/** As after a link was lost. */
TEST_P(SrvNames, a_session_whose_client_comes_back_keeps_its_name)
{
    end_slowly();
    auto &link = come_back();
    connect(second, 2, 2, 101);
    ask_info(second);
    EXPECT_TRUE(wait([&] { return second.links[0]->end.has_value(); }, sim::kSecond)) << "it is refused";
    resume(link);
    drop(again);
}

TEST_P(SrvNames, a_session_that_waits_for_a_name_is_refused_when_its_client_comes_back)
{
    end_slowly();
    connect(second, 2, 2, 101);
    ask_info(second);
    world.run_for(2 * sim::kSecond);
    EXPECT_FALSE(second.links[0]->end);
    auto &link = come_back();
    EXPECT_TRUE(second.links[0]->end) << "at once";
    resume(link);
    drop(again);
}

/** It is rejected after three seconds, and is to try again. */
TEST_P(SrvNames, a_session_keeps_its_name_between_two_attempts_of_its_client)
{
    end_slowly();
    auto &first_attempt = come_back();
    EXPECT_TRUE(wait([&] { return first_attempt.end.has_value(); }, 5 * sim::kSecond));
    drop(again);
    connect(second, 2, 2, 101);
    ask_info(second);
    EXPECT_TRUE(wait([&] { return second.links[0]->end.has_value(); }, sim::kSecond));
    resume(come_back());
    drop(again);
}

/** An administrator removes it. */
TEST_P(SrvNames, one_of_two_paths_that_wait_gives_up)
{
    auto [waits, gives_up] = come_back_twice();
    drop(again2);
    world.run_for(sim::kSecond / 10);
    keeps_its_name(*waits);
}

TEST_P(SrvNames, a_path_gives_up_while_another_one_is_between_two_attempts)
{
    auto [turned_down, other] = come_back_twice();
    ASSERT_TRUE(wait([&] { return turned_down->end && other->end; }, 5 * sim::kSecond));
    drop(again);
    drop(again2);
    begin(again2, request(0, 1, 2, 100, true, 1));
    world.run_for(sim::kSecond / 10);
    drop(again2);
    world.run_for(sim::kSecond / 10);
    SrvPath third(a, "10.0.0.1", "10.0.1.2");
    connect(third, 2, 3, 102);
    ask_info(third);
    EXPECT_TRUE(wait([&] { return third.links[0]->end.has_value(); }, sim::kSecond)) << "it is refused";
    drop(third);
    keeps_its_name(come_back());
}

TEST_P(SrvNames, a_path_has_ended_while_its_client_is_between_two_attempts)
{
    end_the_path_that_was_asked_for();
    SrvPath third(a, "10.0.0.1", "10.0.1.2");
    connect(third, 2, 3, 102);
    ask_info(third);
    EXPECT_TRUE(wait([&] { return third.links[0]->end.has_value(); }, sim::kSecond)) << "it is refused";
    come_back_for_what_has_ended();
    answer_call(1);
    exchange(again);
    drop(third);
    drop(again);
}

TEST_P(SrvNames, a_client_that_came_back_when_its_path_had_ended_and_ends_leaves_its_name)
{
    end_the_path_that_was_asked_for();
    come_back_for_what_has_ended();
    drop(again);
    world.run_for(sim::kSecond);
    takes_over(1);
}

/** One waits for path 1 to come in its place, and another one for its addresses. */
TEST_P(SrvNames, one_that_waits_for_the_addresses_of_a_path_is_not_the_one_that_comes_in_its_place)
{
    end_slowly();
    auto &link = come_back();
    SrvPath added(a, "10.0.0.1", "10.0.0.2"), later(a, "10.0.0.1", "10.0.0.2");
    begin(added, request(0, 1, 9, 100, true, 1));
    world.run_for(sim::kSecond / 10);
    drop(added);
    world.run_for(sim::kSecond / 10);
    auto &attempt = begin(later, request(0, 1, 1, 100, true, 2));
    EXPECT_TRUE(wait([&] { return attempt.end.has_value(); }, sim::kSecond / 10)) << "another one waits already";
    drop(later);
    resume(link);
    drop(again);
}

/** As one that has lost both, of which one is gone at the server. */
TEST_P(SrvNames, a_session_that_waits_for_a_name_is_refused_when_its_client_comes_back_over_another_path)
{
    end_slowly();
    SrvPath third(a, "10.0.0.1", "10.0.1.2");
    connect(third, 2, 3, 102);
    ask_info(third);
    world.run_for(sim::kSecond);
    EXPECT_FALSE(third.links[0]->end) << "it waits";
    connect(second, 2, 2);
    EXPECT_TRUE(wait([&] { return third.links[0]->end.has_value(); }, sim::kSecond / 10)) << "at once";
    answer_call();
    exchange(second);
    drop(third);
}

TEST_P(SrvNames, a_client_that_gives_up_coming_back_leaves_its_name)
{
    end_slowly();
    come_back();
    drop(again);
    world.run_for(sim::kSecond);
    takes_over(0);
}

/** Another one of that name, its host's after a crash, waits again for the end of the session. */
TEST_P(SrvNames, a_client_that_was_turned_down_and_does_not_return_leaves_its_name)
{
    end_slowly();
    auto &attempt = come_back();
    ASSERT_TRUE(wait([&] { return attempt.end.has_value(); }, 5 * sim::kSecond));
    drop(again);
    world.run_for(65 * sim::kSecond);
    takes_over(0);
}

TEST_P(SrvNames, a_client_that_came_back_and_ends_leaves_its_name)
{
    end_slowly(true); // the other one keeps the session
    resume(come_back());
    write(again, 0, 1, "data", "wx");
    ASSERT_TRUE(wait([&] { return user.calls.size() == 2; }));
    drop(again);
    drop(second);
    world.run_for(sim::kSecond);
    takes_over(1);
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
