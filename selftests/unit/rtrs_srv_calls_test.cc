// SPDX-License-Identifier: GPL-2.0
// Calls of the RTRS server's user that last, as disks may make them do: what waits behind them, and what does not.
#include "drivers/infiniband/ulp/rtrs/server/context.h"
#include "kapi/sim/threads.h"
#include "rtrs_srv_test.h"

namespace {

class SrvCalls : public SrvTest {};
INSTANTIATE_TEST_SUITE_P(Seeds, SrvCalls, ::testing::Range(1, 6));

TEST_P(SrvCalls, the_user_takes_longer_than_a_device_may)
{
    for (bool always_invalidate : {true, false}) {
        load(always_invalidate);
        establish(first);
        user.sleeps_ns = 15 * sim::kSecond;
        for (unsigned chunk = 0; chunk < kDepth; chunk++)
            write(first, 1 + chunk % 2, chunk, "data", "wx");
        ASSERT_TRUE(wait([&] { return user.calls.size() == 2; }));
        drop(first);
        EXPECT_TRUE(wait([&] { return user.links.size() == 2; }, 20 * sim::kSecond)) << "it is called no more";
        EXPECT_EQ(user.calls.size(), 2u);
        unload_with_user(); // nothing was left behind
    }
}

/** The client has lost a path that the server takes for alive, where a disk does not let go of a call. */
TEST_P(SrvCalls, a_request_behind_a_call_that_lasts_has_its_chunk)
{
    for (bool always_invalidate : {true, false}) {
        load(always_invalidate);
        establish_both();
        user.sleeps_ns = 3 * sim::kSecond;
        write(first, 1, 0, "data", "wx");
        ASSERT_TRUE(wait([&] { return user.calls.size() == 1; }));
        write(first, 1, 1, contents(500, 1), "wy");
        world.run_for(100 * sim::kMillisecond);
        user.sleeps_ns = 0;
        write(second, 1, 1, contents(500, 1), "wy"); // the same again
        world.run_for(sim::kSecond);
        EXPECT_EQ(user.calls.size(), 1u) << "the one that came first waits, so the client must not get the chunk back";
        EXPECT_EQ(answer(first, 1), 0);
        EXPECT_EQ(answer(second, 1), 0);
        EXPECT_EQ(user.calls.size(), 3u);
        drop(first);
        drop(second);
        unload_with_user();
    }
}

TEST_P(SrvCalls, a_request_behind_a_call_that_lasts_ends_with_its_path)
{
    for (bool always_invalidate : {true, false}) {
        load(always_invalidate);
        establish_both();
        user.sleeps_ns = 30 * sim::kSecond;
        write(first, 1, 0, "data", "wx");
        ASSERT_TRUE(wait([&] { return user.calls.size() == 1; }));
        write(first, 1, 1, contents(500, 1), "wy");
        world.run_for(100 * sim::kMillisecond);
        user.sleeps_ns = 0;
        drop(first);
        write(second, 1, 1, contents(500, 1), "wy");
        EXPECT_EQ(answer(second, 1), 0);
        EXPECT_EQ(user.calls.size(), 2u) << "once";
        drop(second);
        unload_with_user();
    }
}

TEST_P(SrvCalls, the_device_goes_while_a_call_lasts)
{
    for (bool always_invalidate : {true, false}) {
        load(always_invalidate);
        establish(first);
        user.sleeps_ns = 40 * sim::kSecond;
        write(first, 1, 0, "data", "wx");
        write(first, 1, 1, "data", "wy");
        ASSERT_TRUE(wait([&] { return user.calls.size() == 1; }));
        run(b, [&] { sim::unplug_rdma(*dev_b); }, 20 * sim::kSecond);
        EXPECT_EQ(user.links.size(), 1u);
        EXPECT_TRUE(wait([&] { return user.links.size() == 2; }, 40 * sim::kSecond));
        EXPECT_EQ(user.calls.size(), 1u);
        drop(first);
        unload();
        dev_b = &sim::plug_rdma(b.initial_net(), "rxe_b");
        user = SrvUser{};
        user.world = &world;
    }
}

/** It answers heartbeats, and notices that there are none. */
TEST_P(SrvCalls, a_path_lives_and_dies_while_calls_last)
{
    load(false);
    establish(first, 1);
    user.sleeps_ns = 20 * sim::kSecond;
    write(first, 0, 0, "data", "wx");
    world.run_for(15 * sim::kSecond);
    EXPECT_FALSE(first.links[0]->end) << "it answers on the connection whose call lasts";
    EXPECT_GE(first.links[0]->heartbeats, 10u);
    first.answers_heartbeats = false;
    EXPECT_TRUE(wait([&] { return first.links[0]->end.has_value(); }));
}

/** Else the client would take the server for one that is not reached. */
TEST_P(SrvCalls, a_client_that_reconnects_is_rejected_if_the_old_path_takes_long)
{
    load(true);
    establish(first);
    keep_write(first);
    SrvPath again(a, "10.0.0.1", "10.0.0.2");
    auto &link = begin(again, request(0, 1, 1, 100, true, 1));
    EXPECT_TRUE(ends(first));
    EXPECT_TRUE(wait([&] { return link.end.has_value(); }, 4500 * sim::kMillisecond)) << "hawser's client waits for 5 s";
    EXPECT_EQ(rejected(link), KAPI_ECONNRESET);
    drop(again);
    auto &next = begin(again, request(0, 1, 1, 100, true, 2));
    world.run_for(2 * sim::kSecond);
    EXPECT_FALSE(next.established || next.end) << "it waits as well";
    answer_call();
    EXPECT_TRUE(wait([&] { return next.established; }));
    drop(again);
}

/** It would take one of the places of all who wait, for as long as a disk likes, whether the client is still there or not. */
TEST_P(SrvCalls, nor_does_a_client_wait_for_ever_that_adds_a_path_where_one_ends)
{
    load(true);
    establish(first);
    keep_write(first);
    drop(first);
    SrvPath again(a, "10.0.0.1", "10.0.0.2");
    auto &link = begin(again, request(0, 1, 3));
    world.run_for(25 * sim::kSecond);
    EXPECT_FALSE(link.established || link.end);
    EXPECT_TRUE(wait([&] { return link.end.has_value(); }, 10 * sim::kSecond));
    EXPECT_EQ(rejected(link), KAPI_ECONNRESET);
    drop(again);
    answer_call();
}

/** Another path of the client was about to come up: with it the user is asked once more. */
TEST_P(SrvCalls, a_user_that_has_refused_a_session_is_asked_again)
{
    load(true);
    user.refuses_link = -KAPI_ENOMEM;
    connect(first);
    connect(second, 2, 2);
    ask_info(first);
    EXPECT_TRUE(ends(first));
    EXPECT_EQ(user.links.size(), 1u);
    user.refuses_link = 0;
    exchange(second);
    EXPECT_EQ(user.links, (std::vector<int>{RTRS_SRV_CORE_CONNECTED, RTRS_SRV_CORE_CONNECTED}));
}

class SrvStalled : public SrvTest {};
INSTANTIATE_TEST_SUITE_P(Seeds, SrvStalled, ::testing::Range(1, 13)); // some hosts have four threads for works of a queue

/** As many calls as a client has connections last as long as a disk likes. */
TEST_P(SrvStalled, a_disk_that_stands_still_holds_up_no_other_client)
{
    load(true);
    establish(first, 1 + kDepth);
    user.sleeps_ns = 5 * sim::kSecond;
    for (unsigned chunk = 0; chunk < kDepth; chunk++)
        write(first, 1 + chunk, chunk, "data", "wx");
    ASSERT_TRUE(wait([&] { return user.calls.size() >= 4; }));
    world.run_for(100 * sim::kMillisecond);
    user.sleeps_ns = 0;
    connect(second, 2, 2, 101);
    exchange(second, "other");
    write(second, 1, 0, "data", "wy");
    EXPECT_TRUE(wait([&] { return second.answers.count(0) != 0; }, sim::kSecond));
}

class SrvSlowLink : public SrvTest {
protected:
    void load_with_one_thread()
    {
        load(true);
        run(b, [] { sim::leave_one_thread(*rtrs_srv::Module::get().workqueue); });
    }
    /** The user takes long over the end of the first path's session, as the closing of disks may. */
    void begin_to_end()
    {
        load_with_one_thread();
        establish(first);
        user.sleeps_in_link_ns = 20 * sim::kSecond;
        drop(first);
        ASSERT_TRUE(wait([&] { return user.links.size() == 2; }));
        user.sleeps_in_link_ns = 0;
    }
    bool serves_another(SrvPath &path)
    {
        std::uint64_t begun_ns = world.now_ns();
        connect(path, 2, 3, 101);
        exchange(path, "other");
        write(path, 1, 0, "data", "wy");
        return answer(path, 0) == 0 && world.now_ns() - begun_ns < 3 * sim::kSecond;
    }
};
INSTANTIATE_TEST_SUITE_P(Seeds, SrvSlowLink, ::testing::Range(1, 4));

TEST_P(SrvSlowLink, a_session_that_takes_long_to_begin_holds_up_no_other_client)
{
    load_with_one_thread();
    connect(first);
    user.sleeps_in_link_ns = 5 * sim::kSecond;
    ask_info(first);
    ASSERT_TRUE(wait([&] { return user.links.size() == 1; }));
    user.sleeps_in_link_ns = 0;
    EXPECT_TRUE(serves_another(second));
    EXPECT_TRUE(first.info.empty());
    EXPECT_TRUE(wait([&] { return !first.info.empty(); }));
}

TEST_P(SrvSlowLink, a_path_that_is_lost_while_its_session_begins)
{
    load_with_one_thread();
    connect(first);
    user.sleeps_in_link_ns = 5 * sim::kSecond;
    ask_info(first);
    ASSERT_TRUE(wait([&] { return user.links.size() == 1; }));
    run(b, [&] { sim::unplug_rdma(*dev_b); }, sim::kSecond); // which does not wait for the user
    user.sleeps_in_link_ns = 0;
    EXPECT_TRUE(ends(first));
    EXPECT_EQ(user.links.size(), 1u);
    EXPECT_TRUE(wait([&] { return user.links.size() == 2; })) << "it is called for the end, after the beginning";
    dev_b = &sim::plug_rdma(b.initial_net(), "rxe_b");
}

TEST_P(SrvSlowLink, a_session_that_takes_long_to_end_holds_up_no_other_client)
{
    begin_to_end();
    EXPECT_TRUE(serves_another(second));
}

TEST_P(SrvSlowLink, nor_does_its_own_client_that_comes_back_meanwhile)
{
    begin_to_end();
    connect(second, 1, 2);
    ask_info(second);
    SrvPath third(a, "10.0.0.1", "10.0.0.2");
    EXPECT_TRUE(serves_another(third));
    EXPECT_TRUE(second.info.empty()) << "it waits for the end";
    EXPECT_TRUE(wait([&] { return !second.info.empty(); }, 25 * sim::kSecond));
    EXPECT_EQ(user.links.size(), 4u) << "and its session begins anew";
    drop(third);
}

class SrvUnopened : public SrvSlowLink {};
INSTANTIATE_TEST_SUITE_P(Seeds, SrvUnopened, ::testing::Range(1, 9)); // in some, both requests come before the path has begun

/** A further path of the session is asked for, and another in its place at once. */
TEST_P(SrvUnopened, a_path_that_ends_before_it_has_begun_holds_up_no_other_client)
{
    begin_to_end();
    for (unsigned i : {0u, 1u}) {
        auto &link = *second.links.emplace_back(std::make_unique<SrvPath::Link>());
        link.path = &second;
        link.number = i;
        run(a, [&] { second.resolve(link, kPort); });
    }
    ASSERT_TRUE(wait([&] { return second.links[0]->resolved && second.links[1]->resolved; }));
    run(a, [&] {
        for (unsigned i : {0u, 1u}) {
            std::string data = request(0, 2, 2, 100, true, 1 + i);
            second.ask(*second.links[i], data.data(), data.size());
        }
    });
    world.run_for(200 * sim::kMillisecond);
    SrvPath third(a, "10.0.0.1", "10.0.0.2");
    EXPECT_TRUE(serves_another(third));
    drop(third);
}

} // namespace
