// SPDX-License-Identifier: GPL-2.0
// A client that has lost a path sends its requests again over another one, in the same chunks. What it sent before may be late.
#include "rtrs_srv_test.h"

namespace {

class SrvLate : public SrvTest {
protected:
    void establish_both(bool always_invalidate = true)
    {
        load(always_invalidate);
        establish(first, 3, 1);
        establish(second, 2, 2);
        user.disk["x"] = contents(500, 1);
    }
    /** A call of the user is under way, behind which requests over link 1 of the first path wait. */
    void keep_busy()
    {
        user.sleeps_ns = sim::kSecond;
        write(first, 1, 1, "data", "wbusy");
        ASSERT_TRUE(wait([&] { return user.calls.size() == 1; }));
        user.sleeps_ns = 0;
    }
    void answer_call(std::size_t index)
    {
        run(b, [&] { user.answer(user.calls[index]); });
    }
    /** A read over the first path is answered; it has been sent over the second one before, and arrives there late. */
    void answer_before_late_copy()
    {
        establish_both();
        user.keeps = true;
        read(first, 1, 0, 500, "rx");
        ASSERT_TRUE(wait([&] { return user.calls.size() == 1; }));
        read(second, 1, 0, 500, "rx");
        world.run_for(100 * sim::kMillisecond);
        answer_call(0);
        EXPECT_EQ(answer(first, 0), 0);
    }
    bool is_alive(const SrvPath &path) const
    {
        return std::none_of(path.links.begin(), path.links.end(), [](const auto &link) { return link->end.has_value(); });
    }
    void end()
    {
        drop(first);
        drop(second);
        unload();
        user = SrvUser{};
        user.world = &world;
    }
};
INSTANTIATE_TEST_SUITE_P(Seeds, SrvLate, ::testing::Range(1, 6));

/** Both have the same message, but each a key of its own path. The other one would end the path that the client still has. */
TEST_P(SrvLate, a_read_that_was_sent_again_keeps_its_key)
{
    for (bool always_invalidate : {true, false}) {
        establish_both(always_invalidate);
        keep_busy();
        read(first, 1, 0, 500, "rx");
        world.run_for(100 * sim::kMillisecond);
        read(second, 1, 0, 500, "rx");
        EXPECT_EQ(answer(first, 0), 0);
        EXPECT_TRUE(first.fetched(0, 500) == contents(500, 1));
        EXPECT_TRUE(is_alive(first));
        end();
    }
}

/** The rest of it never comes: the client's queue pair has ended in between. */
TEST_P(SrvLate, nor_does_half_a_request_change_it)
{
    establish_both();
    keep_busy();
    read(first, 1, 0, 500, "rx");
    world.run_for(100 * sim::kMillisecond);
    rtrs::Request other;
    other.is_read = other.has_target = other.invalidate = true;
    other.user_bytes = 2;
    other.target = {4096, 0x1234, 500};
    run(a, [&] { second.put(*second.links[1], 0, 500, "rx" + SrvPath::header(other), std::nullopt); });
    EXPECT_EQ(answer(first, 0), 0);
    EXPECT_TRUE(first.fetched(0, 500) == contents(500, 1));
    EXPECT_TRUE(is_alive(first));
    end();
}

/** It would read into the chunk while the client writes its next request there. */
TEST_P(SrvLate, one_that_arrives_behind_its_repetition_does_not_begin)
{
    answer_before_late_copy();
    world.run_for(100 * sim::kMillisecond);
    EXPECT_EQ(user.calls.size(), 1u);
    for (unsigned round = 0; round < 2; round++) {
        write(first, 1, 0, contents(500, 2 + round), "wy");
        ASSERT_TRUE(wait([&] { return user.calls.size() == 2 + round; }));
        EXPECT_EQ(user.calls.back().message, "wy");
        answer_call(1 + round);
        EXPECT_EQ(answer(first, 0), 0);
        EXPECT_TRUE(user.disk["y"] == contents(500, 2 + round));
    }
    drop(second);
    world.run_for(sim::kSecond);
    EXPECT_EQ(user.calls.size(), 3u);
    EXPECT_TRUE(is_alive(first));
    end();
}

/** The same while the client does not use the chunk again. */
TEST_P(SrvLate, nor_when_its_path_ends)
{
    answer_before_late_copy();
    drop(second);
    world.run_for(sim::kSecond);
    EXPECT_EQ(user.calls.size(), 1u);
    write(first, 1, 0, contents(500, 2), "wy");
    ASSERT_TRUE(wait([&] { return user.calls.size() == 2; }));
    answer_call(1);
    EXPECT_EQ(answer(first, 0), 0);
    end();
}

TEST_P(SrvLate, a_repetition_that_arrives_second_begins_when_the_lost_path_has_ended)
{
    establish_both();
    user.keeps = true;
    read(second, 1, 0, 500, "rx");
    ASSERT_TRUE(wait([&] { return user.calls.size() == 1; }));
    read(first, 1, 0, 500, "rx");
    world.run_for(100 * sim::kMillisecond);
    answer_call(0);
    world.run_for(100 * sim::kMillisecond);
    EXPECT_EQ(user.calls.size(), 1u) << "it is not known yet which path is lost";
    drop(second);
    ASSERT_TRUE(wait([&] { return user.calls.size() == 2; }));
    answer_call(1);
    EXPECT_EQ(answer(first, 0), 0);
    EXPECT_TRUE(first.fetched(0, 500) == contents(500, 1));
    EXPECT_TRUE(is_alive(first));
    end();
}

/** Its client does not say that it has lost the path, and answers no heartbeat over it. */
TEST_P(SrvLate, or_when_that_is_noticed_by_heartbeats)
{
    establish_both();
    user.keeps = true;
    write(second, 1, 0, contents(500, 2), "wy");
    ASSERT_TRUE(wait([&] { return user.calls.size() == 1; }));
    second.answers_heartbeats = false;
    write(first, 1, 0, contents(500, 2), "wy");
    world.run_for(100 * sim::kMillisecond);
    answer_call(0);
    ASSERT_TRUE(wait([&] { return user.calls.size() == 2; }, 6 * sim::kSecond));
    answer_call(1);
    EXPECT_EQ(answer(first, 0), 0);
    end();
}

} // namespace
