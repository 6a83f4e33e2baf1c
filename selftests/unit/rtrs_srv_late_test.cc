// SPDX-License-Identifier: GPL-2.0
// A client that has lost a path sends its requests again over another one, in the same chunks. What it sent before may be late.
#include "rtrs_srv_test.h"

namespace {

class SrvLate : public SrvTest {
protected:
    SrvLate() { a.initial_net().add(sim::address("10.0.0.3"), 2); }
    ~SrvLate() override
    {
        if (third.pd)
            drop(third);
    }
    void serve_both(bool always_invalidate = true)
    {
        load(always_invalidate);
        establish_both();
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
    /** A read over the first path is answered; it has been sent over the second one before, and arrives there late. */
    void answer_before_late_copy()
    {
        serve_both();
        user.keeps = true;
        read(first, 1, 0, 500, "rx");
        ASSERT_TRUE(wait([&] { return user.calls.size() == 1; }));
        lose(second);
        read(second, 1, 0, 500, "rx");
        world.run_for(100 * sim::kMillisecond);
        answer_call();
        EXPECT_EQ(answer(first, 0), 0);
    }
    /** The client uses it no more; its requests may still be on their way. */
    static void lose(SrvPath &path) { path.answers_heartbeats = false; }
    SrvPath third{a, "10.0.0.3", "10.0.0.2"};
    bool is_alive(const SrvPath &path) const
    {
        return std::none_of(path.links.begin(), path.links.end(), [](const auto &link) { return link->end.has_value(); });
    }
    void end()
    {
        drop(first);
        drop(second);
        unload_with_user();
    }
};
INSTANTIATE_TEST_SUITE_P(Seeds, SrvLate, ::testing::Range(1, 6));

/** Both have the same message, but each a key of its own path. The other one would end the path that the client still has. */
TEST_P(SrvLate, a_read_that_was_sent_again_keeps_its_key)
{
    for (bool always_invalidate : {true, false}) {
        serve_both(always_invalidate);
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
    serve_both();
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
    serve_both();
    user.keeps = true;
    lose(second);
    read(second, 1, 0, 500, "rx");
    ASSERT_TRUE(wait([&] { return user.calls.size() == 1; }));
    first.answers_heartbeats = false;
    read(first, 1, 0, 500, "rx");
    world.run_for(100 * sim::kMillisecond);
    answer_call();
    world.run_for(100 * sim::kMillisecond);
    EXPECT_EQ(user.calls.size(), 1u) << "it is not known yet which path is lost";
    first.answers_heartbeats = true;
    drop(second);
    ASSERT_TRUE(wait([&] { return user.calls.size() == 2; }));
    answer_call(1);
    EXPECT_EQ(answer(first, 0), 0);
    EXPECT_TRUE(first.fetched(0, 500) == contents(500, 1));
    EXPECT_TRUE(is_alive(first));
    end();
}

/** Its client does not say that it has lost the path. */
TEST_P(SrvLate, or_when_the_client_answers_a_heartbeat_over_its_own_path)
{
    serve_both();
    user.keeps = true;
    lose(second);
    write(second, 1, 0, contents(500, 2), "wy");
    ASSERT_TRUE(wait([&] { return user.calls.size() == 1; }));
    write(first, 1, 0, contents(500, 2), "wy");
    world.run_for(100 * sim::kMillisecond);
    EXPECT_EQ(user.calls.size(), 1u) << "the chunk is in use";
    answer_call();
    ASSERT_TRUE(wait([&] { return user.calls.size() == 2; }, 100 * sim::kMillisecond));
    answer_call(1);
    EXPECT_EQ(answer(first, 0), 0);
    end();
}
/** A heartbeat for each would fill the client's queue, and answers that have no room are lost. */
TEST_P(SrvLate, many_that_wait__have_one_heartbeat_sent_at_a_time)
{
    constexpr unsigned kMany = 8;
    serve_both();
    user.keeps = true;
    lose(second);
    for (unsigned chunk = 0; chunk < kMany; chunk++)
        read(second, 1, chunk, 500, "rx");
    ASSERT_TRUE(wait([&] { return user.calls.size() == kMany; }));
    unsigned before = first.links[0]->heartbeats;
    for (unsigned chunk = 0; chunk < kMany; chunk++)
        read(first, 1, chunk, 500, "rx");
    world.run_for(100 * sim::kMillisecond);
    EXPECT_GE(first.links[0]->heartbeats - before, 1u);
    EXPECT_LE(first.links[0]->heartbeats - before, 3u);
    for (unsigned i = 0; i < kMany; i++)
        answer_call(i);
    ASSERT_TRUE(wait([&] { return user.calls.size() == 2 * kMany; })) << "all are known to be over a path that lives";
    for (unsigned i = kMany; i < 2 * kMany; i++)
        answer_call(i);
    end();
}


/** The chunk's last request came over the first path, a late one over the second, and the next one comes over the third. */
TEST_P(SrvLate, a_request_over_a_third_path_does_not_wait_for_the_others)
{
    answer_before_late_copy();
    establish(third, 2, 3);
    write(third, 1, 0, contents(500, 2), "wy");
    ASSERT_TRUE(wait([&] { return user.calls.size() == 2; }, 100 * sim::kMillisecond));
    EXPECT_EQ(user.calls[1].message, "wy");
    answer_call(1);
    EXPECT_EQ(answer(third, 0), 0);
    EXPECT_TRUE(user.disk["y"] == contents(500, 2));
    world.run_for(sim::kSecond);
    EXPECT_EQ(user.calls.size(), 2u) << "the late one does not begin";
    drop(third);
    end();
}

/** A late one begins in a chunk that is free, and the client's next request arrives meanwhile. */
TEST_P(SrvLate, what_a_late_one_reads_damages_no_message_behind_it)
{
    serve_both();
    user.keeps = true;
    lose(second);
    read(second, 1, 0, 400, "rx");
    ASSERT_TRUE(wait([&] { return user.calls.size() == 1; }));
    read(first, 1, 0, 500, "rx");
    world.run_for(100 * sim::kMillisecond);
    answer_call();
    ASSERT_TRUE(wait([&] { return user.calls.size() == 2; }, 100 * sim::kMillisecond));
    answer_call(1);
    EXPECT_EQ(answer(first, 0), 0);
    EXPECT_TRUE(first.fetched(0, 500) == contents(500, 1));
    end();
}

/** An answer to what was sent before it says nothing. */
TEST_P(SrvLate, an_earlier_heartbeat_does_not_show_that_a_path_lives)
{
    serve_both();
    user.keeps = true;
    world.run_for(2 * sim::kSecond);
    write(first, 1, 0, contents(500, 2), "wy");
    ASSERT_TRUE(wait([&] { return user.calls.size() == 1; }));
    lose(second);
    unsigned before = second.links[0]->heartbeats;
    ASSERT_TRUE(wait([&] { return second.links[0]->heartbeats > before; }, 2 * sim::kSecond)); // its answer is late
    read(second, 1, 0, 500, "rx");
    world.run_for(100 * sim::kMillisecond);
    answer_call();
    run(a, [&] { second.send_immediate(*second.links[0], rtrs::write_immediate(rtrs::ImmediateType::heartbeat_ack)); });
    world.run_for(100 * sim::kMillisecond);
    EXPECT_EQ(user.calls.size(), 1u);
    run(a, [&] { second.send_immediate(*second.links[0], rtrs::write_immediate(rtrs::ImmediateType::heartbeat_ack)); });
    ASSERT_TRUE(wait([&] { return user.calls.size() == 2; }, 100 * sim::kMillisecond));
    answer_call(1);
    end();
}

/** Its requests are at the disk, which may take longer than the client waits. Nothing else of it can begin any more. */
TEST_P(SrvLate, a_client_that_asks_over_another_path_is_told_when_the_lost_one_has_ended)
{
    serve_both();
    user.keeps = true;
    lose(first);
    write(first, 1, 0, contents(500, 2), "wy");
    ASSERT_TRUE(wait([&] { return user.calls.size() == 1; }));
    SrvPath query{a, "10.0.1.1", "10.0.1.2"};
    EXPECT_EQ(rejected(ask(query, request(0, 3, 1, 100, false, 0))), KAPI_ECONNRESET) << "it is no new attempt";
    EXPECT_TRUE(is_alive(first));
    std::uint64_t begun = world.now_ns();
    EXPECT_EQ(rejected(ask(query, request(0, 3, 1, 100, false, 1))), KAPI_EEXIST);
    EXPECT_LT(world.now_ns() - begun, sim::kSecond);
    EXPECT_FALSE(is_alive(first));
    EXPECT_EQ(user.calls.size(), 1u);
    EXPECT_EQ(rejected(ask(query, request(0, 3, 1, 100, false, 1))), KAPI_EEXIST) << "at once";
    answer_call();
    drop(first);
    world.run_for(sim::kSecond);
    EXPECT_EQ(rejected(ask(query, request(0, 3, 1, 100, false, 1))), KAPI_EEXIST) << "the other one is there";
    EXPECT_TRUE(is_alive(second));
    EXPECT_EQ(user.links.size(), 1u) << "the same session";
    drop(query);
    end();
}

/** Requests of attempts before the present one, which a network has held up: numbers of attempts begin anew after 65535. */
TEST_P(SrvLate, a_request_of_an_earlier_attempt_ends_no_path)
{
    for (unsigned reconnects : {2u, 0u}) {
        load(true);
        for (unsigned i = 0; i < 3; i++)
            ASSERT_TRUE(ask(first, request(i, 3, 1, 100, true, reconnects)).established);
        exchange(first);
        establish(second, 2, 2);
        SrvPath beside{a, "10.0.1.1", "10.0.1.2"}, same{a, "10.0.0.1", "10.0.0.2"};
        const std::string earlier = request(0, 3, 1, 100, false, (reconnects - 1) & 0xffff);
        EXPECT_EQ(rejected(ask(beside, earlier)), KAPI_ECONNRESET) << "by one who asks for its end";
        EXPECT_EQ(rejected(ask(same, earlier)), KAPI_ECONNRESET);
        world.run_for(sim::kSecond);
        EXPECT_TRUE(is_alive(first));
        EXPECT_EQ(rejected(ask(beside, request(0, 3, 1, 100, false, reconnects + 1))), KAPI_EEXIST);
        EXPECT_FALSE(is_alive(first));
        for (SrvPath *path : {&beside, &same, &first, &second})
            drop(*path);
        unload_with_user();
    }
}

/** Nobody is at its other end: it would take the place of the connection that the client asks for now, and end the attempt. */
TEST_P(SrvLate, nor_does_it_join_the_present_one)
{
    load(true);
    ASSERT_TRUE(ask(first, request(0, 3, 1, 100, true, 2)).established);
    SrvPath late{a, "10.0.0.1", "10.0.0.2"};
    EXPECT_EQ(rejected(ask(late, request(1, 3, 1, 100, true, 1))), KAPI_ECONNRESET);
    for (unsigned i = 1; i < 3; i++)
        EXPECT_TRUE(ask(first, request(i, 3, 1, 100, true, 2)).established);
    exchange(first);
    EXPECT_TRUE(is_alive(first));
    drop(late);
    drop(first);
    unload_with_user();
}

/** Nobody answers heartbeats over either. */
TEST_P(SrvLate, or_when_that_is_noticed_by_heartbeats)
{
    serve_both();
    user.keeps = true;
    lose(second);
    write(second, 1, 0, contents(500, 2), "wy");
    ASSERT_TRUE(wait([&] { return user.calls.size() == 1; }));
    world.run_for(3 * sim::kSecond);
    lose(first);
    write(first, 1, 0, contents(500, 2), "wy");
    world.run_for(100 * sim::kMillisecond);
    answer_call();
    ASSERT_TRUE(wait([&] { return user.calls.size() == 2; }, 3 * sim::kSecond));
    first.answers_heartbeats = true;
    answer_call(1);
    EXPECT_EQ(answer(first, 0), 0);
    end();
}

} // namespace
