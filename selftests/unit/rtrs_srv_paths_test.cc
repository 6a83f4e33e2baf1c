// SPDX-License-Identifier: GPL-2.0
// Sessions with several paths, and what happens when paths are lost.
#include "rtrs_srv_test.h"

namespace {

class SrvPaths : public SrvTest {};
INSTANTIATE_TEST_SUITE_P(Seeds, SrvPaths, ::testing::Range(1, 6));

TEST_P(SrvPaths, requests_go_over_both)
{
    load(true);
    establish_both();
    for (unsigned chunk = 0; chunk < kDepth; chunk++)
        write(chunk % 2 ? second : first, 1, chunk, contents(500, chunk), "w" + std::to_string(chunk));
    for (unsigned chunk = 0; chunk < kDepth; chunk++)
        EXPECT_EQ(answer(chunk % 2 ? second : first, chunk), 0);
    drop(first);
    read(second, 1, 4, 500, "r4");
    EXPECT_EQ(answer(second, 4), 0);
    EXPECT_TRUE(second.fetched(4, 500) == contents(500, 4));
    EXPECT_EQ(user.links.size(), 1u);
    drop(second);
    EXPECT_TRUE(wait([&] { return user.links.size() == 2; }));
}

TEST_P(SrvPaths, a_chunk_is_held_back_until_the_operation_of_a_lost_path_ends)
{
    for (bool always_invalidate : {true, false}) {
        load(always_invalidate);
        establish_both();
        user.keeps = true;
        user.disk["x"] = contents(500, 1);
        read(first, 1, 0, 500, "rx");
        ASSERT_TRUE(wait([&] { return user.calls.size() == 1; }));
        drop(first);
        read(second, 1, 0, 500, "rx"); // the same again, as after a failover
        world.run_for(5 * sim::kSecond);
        EXPECT_EQ(user.calls.size(), 1u);
        answer_call();
        ASSERT_TRUE(wait([&] { return user.calls.size() == 2; }));
        answer_call(1);
        EXPECT_EQ(answer(second, 0), 0);
        EXPECT_TRUE(second.fetched(0, 500) == contents(500, 1));
        drop(second);
        unload_with_user();
    }
}

TEST_P(SrvPaths, another_request_in_a_chunk_that_was_read_into_is_refused)
{
    load(true);
    establish_both();
    user.keeps = true;
    read(first, 1, 0, 500, "rx");
    ASSERT_TRUE(wait([&] { return user.calls.size() == 1; }));
    drop(first);
    write(second, 1, 0, contents(500, 2), "wy");
    world.run_for(sim::kSecond);
    answer_call(); // overwrites the data
    EXPECT_EQ(answer(second, 0), KAPI_EIO);
    EXPECT_EQ(std::ranges::count(b.log, "rtrs_server: over rxe_b2 a request fails: "
                                        "what was read over a lost path lies over it"), 1);
    EXPECT_EQ(user.calls.size(), 1u);
    write(second, 1, 0, contents(500, 2), "wy");
    ASSERT_TRUE(wait([&] { return user.calls.size() == 2; }));
    answer_call(1);
    EXPECT_EQ(answer(second, 0), 0) << "the chunk is as good as before";
    EXPECT_TRUE(user.disk["y"] == contents(500, 2));
}

TEST_P(SrvPaths, a_new_path_waits_for_the_operations_of_the_old_one)
{
    load(true);
    establish_both();
    keep_write(first);
    drop(first);
    world.run_for(sim::kSecond);
    EXPECT_EQ(rejected(ask(first, request(0, 3))), KAPI_ECONNRESET) << "the path still has a request";
    drop(first);
    answer_call();
    EXPECT_TRUE(wait([&] { return b.live_rdma["queue pair"] == 2; }));
    establish(first, 2, 1);
    EXPECT_EQ(user.links.size(), 1u);
}

TEST_P(SrvPaths, a_client_that_reconnects_before_the_loss_is_noticed)
{
    load(true);
    establish(first);
    keep_write(first);
    SrvPath again(a, "10.0.0.1", "10.0.0.2");
    auto &link = begin(again, request(0, 1, 1, 100, true, 1));
    EXPECT_TRUE(ends(first)) << "the client does not want it any more";
    world.run_for(2 * sim::kSecond);
    EXPECT_FALSE(link.established || link.end) << "it waits for the user's answer";
    EXPECT_EQ(rejected(ask(again, request(0, 1, 1, 100, true, 2))), KAPI_ECONNRESET) << "one waits already";
    answer_call();
    ASSERT_TRUE(wait([&] { return link.established; }));
    accepted(again, link);
    exchange(again);
    EXPECT_EQ(user.links.size(), 3u) << "lost, and connected again";
    auto &late = begin(again, request(0, 1, 1, 100, true, 3));
    EXPECT_TRUE(wait([&] { return late.established || late.end; }));
    drop(again);
}

TEST_P(SrvPaths, a_client_that_waits_while_the_path_of_another_one_ends)
{
    load(true);
    establish(first);
    keep_write(first);
    SrvPath again(a, "10.0.0.1", "10.0.0.2");
    auto &link = begin(again, request(0, 1, 1, 100, true, 1));
    EXPECT_TRUE(ends(first));
    connect(second, 1, 2, 101);
    drop(second);
    world.run_for(2 * sim::kSecond);
    EXPECT_FALSE(link.established || link.end);
    answer_call();
    EXPECT_TRUE(wait([&] { return link.established; }));
    drop(again);
}

TEST_P(SrvPaths, a_client_that_gives_up_reconnecting)
{
    load(true);
    establish(first);
    keep_write(first);
    SrvPath again(a, "10.0.0.1", "10.0.0.2");
    begin(again, request(0, 1, 1, 100, true, 1));
    EXPECT_TRUE(ends(first));
    run(b, [&] { sim::unplug_rdma(*dev_b); }, 100 * sim::kSecond); // what waits does not hold it up
    answer_call();
    EXPECT_TRUE(wait([&] { return user.links.size() == 2; }));
    drop(again);
}

/** The user has ended what the session had, and the client has not noticed. It has to, before the user begins anew. */
TEST_P(SrvPaths, a_path_that_belongs_to_what_has_ended_is_refused)
{
    for (bool makes_session : {false, true}) {
        SCOPED_TRACE(makes_session);
        load(true);
        establish(first);
        for (unsigned i = 0; i < 2; i++)
            ASSERT_TRUE(ask(second, request(i, 2, 2, 100, makes_session)).established);
        drop(first);
        ASSERT_TRUE(wait([&] { return user.links.size() == 2; }));
        ask_info(second);
        if (makes_session) {
            EXPECT_TRUE(wait([&] { return !second.info.empty(); }));
            EXPECT_EQ(user.links.size(), 3u);
        } else {
            EXPECT_TRUE(ends(second));
            EXPECT_TRUE(second.info.empty());
            EXPECT_EQ(user.links.size(), 2u);
        }
        drop(second);
        unload_with_user();
    }
}

TEST_P(SrvPaths, a_client_that_is_silent)
{
    load(true);
    establish(first);
    first.answers_heartbeats = false;
    EXPECT_TRUE(wait([&] { return first.links[0]->heartbeats == 1; }, 20 * sim::kSecond));
    EXPECT_TRUE(wait([&] { return user.links.size() == 2; }, 60 * sim::kSecond));
    drop(first);
    world.run_for(sim::kSecond);
    establish(first);
    first.answers_heartbeats = true;
    run(a, [&] { first.send_immediate(*first.links[0], rtrs::write_immediate(rtrs::ImmediateType::heartbeat)); });
    EXPECT_TRUE(wait([&] { return first.links[0]->acks == 1; }));
    world.run_for(120 * sim::kSecond);
    EXPECT_EQ(user.links.size(), 3u) << "it answers";
}

TEST_P(SrvPaths, one_that_never_asks_for_information_is_given_up)
{
    load(true);
    connect(first);
    EXPECT_FALSE(wait([&] { return first.links[0]->end.has_value(); }, 25 * sim::kSecond));
    EXPECT_TRUE(wait([&] { return first.links[0]->end.has_value(); }, 20 * sim::kSecond));
    EXPECT_TRUE(user.links.empty());
}

/** The client has given it up, and adds the path again, but what says so to this host was lost. */
TEST_P(SrvPaths, one_that_stays_half_open_gives_way_to_the_clients_next_one)
{
    load(true);
    ASSERT_EQ(rejected(ask(first, request(0, 3))), 0);
    EXPECT_EQ(rejected(ask(first, request(0, 3, 2))), KAPI_EEXIST) << "it may just be late";
    world.run_for(4 * sim::kSecond);
    std::uint64_t asked = world.now_ns();
    EXPECT_EQ(rejected(ask(first, request(0, 3, 2))), 0);
    EXPECT_LT(world.now_ns() - asked, sim::kSecond);
    EXPECT_TRUE(wait([&] { return first.links[0]->end.has_value(); }, sim::kSecond));
    EXPECT_FALSE(first.links[2]->end);
}

TEST_P(SrvPaths, one_that_is_up_gives_way_to_no_other)
{
    load(true);
    establish(first);
    world.run_for(10 * sim::kSecond);
    EXPECT_EQ(rejected(ask(first, request(0, 3, 2))), KAPI_EEXIST);
    exchange(first);
}

TEST_P(SrvPaths, one_that_has_ended_does_not_exist_although_its_end_takes_time)
{
    load(true);
    user.sleeps_in_link_ns = 2 * sim::kSecond;
    connect(first);
    ask_info(first);
    ASSERT_TRUE(wait([&] { return user.links.size() == 1; }));
    EXPECT_EQ(rejected(ask(first, request(0, 3, 2))), KAPI_EEXIST);
    drop(first);
    EXPECT_EQ(rejected(ask(first, request(0, 3, 2))), 0) << "when the old one is gone";
}

TEST_P(SrvPaths, the_device_goes)
{
    for (unsigned step = 0; step < 4; step++) {
        load(true);
        user.keeps = true;
        step == 0 ? static_cast<void>(ask(first, request(0, 3))) : connect(first);
        if (step >= 2)
            exchange(first);
        if (step >= 3) {
            write(first, 1, 0, "data", "wx");
            ASSERT_TRUE(wait([&] { return user.calls.size() == 1; }));
        }
        run(b, [&] { sim::unplug_rdma(*dev_b); }, 20 * sim::kSecond); // the user may keep what it has
        if (step >= 3)
            answer_call();
        EXPECT_TRUE(wait([&] { return user.links.size() == (step >= 2 ? 2u : 0u); }));
        drop(first);
        unload();
        dev_b = &sim::plug_rdma(b.initial_net(), "rxe_b");
        user = SrvUser{};
        user.world = &world;
    }
}

TEST_P(SrvPaths, the_end_of_a_path_changes_no_chunk)
{
    sim::make_bounce(*dev_b);
    sim::make_bounce(*dev_b2);
    load(true);
    establish_both();
    user.keeps = true;
    write(first, 1, 1, contents(500, 1), "wx");
    write(second, 1, 0, contents(500, 2), "wy");
    ASSERT_TRUE(wait([&] { return user.calls.size() == 2; }));
    drop(first);
    ASSERT_TRUE(wait([&] { return b.live_rdma["queue pair"] == 2; }));
    answer_call();
    answer_call(1);
    EXPECT_EQ(answer(second, 0), 0);
    EXPECT_TRUE(user.disk[user.calls[0].message.substr(1)] == user.calls[0].bytes);
    EXPECT_TRUE(user.disk[user.calls[1].message.substr(1)] == user.calls[1].bytes) << "the mapping of the other path has ended";
}

TEST_P(SrvPaths, what_waits_for_a_chunk_is_given_up_with_its_path)
{
    load(true);
    establish_both();
    user.keeps = true;
    for (unsigned chunk : {0u, 1u, kDepth - 1})
        write(second, 1, chunk, "data", "wx");
    ASSERT_TRUE(wait([&] { return user.calls.size() == 3; }));
    for (unsigned chunk : {0u, 1u, kDepth - 1})
        write(first, 1, chunk, "other", "wy");
    world.run_for(sim::kSecond);
    drop(first);
    ASSERT_TRUE(wait([&] { return b.live_rdma["queue pair"] == 2; }));
    for (unsigned call : {0u, 1u, 2u})
        answer_call(call);
    for (unsigned chunk : {0u, 1u, kDepth - 1}) {
        EXPECT_EQ(answer(second, chunk), 0);
        write(second, 1, chunk, "data", "wx");
    }
    EXPECT_TRUE(wait([&] { return user.calls.size() == 6; })) << "the chunks are free";
    EXPECT_EQ(user.disk.count("y"), 0u);
    for (unsigned call : {3u, 4u, 5u})
        answer_call(call);
}

TEST_P(SrvPaths, answers_while_the_path_ends)
{
    for (unsigned round = 0; round < 20; round++) {
        load(round % 2);
        establish(first);
        user.keeps = true;
        for (unsigned chunk = 0; chunk < kDepth; chunk++)
            write(first, 1 + chunk % 2, chunk, "data", "wx");
        ASSERT_TRUE(wait([&] { return user.calls.size() == kDepth; }));
        std::vector<sim::TaskRef> tasks;
        for (unsigned n = 0; n < kDepth; n++)
            tasks.push_back(world.spawn(b, "disk", [&, n] { user.answer(user.calls[n]); }));
        tasks.push_back(world.spawn(a, "client", [&] { first.drop(); }));
        EXPECT_TRUE(wait([&] { return std::all_of(tasks.begin(), tasks.end(), [](auto &task) { return task->is_done(); }); }));
        unload_with_user();
    }
}

TEST_P(SrvPaths, the_device_goes_when_a_path_is_refused)
{
    load(true);
    for (unsigned round = 0; round < 10; round++) {
        ask(first, request(0, 3));
        begin(first, request(0, 3, 2)); // between the same addresses
        world.run_for(world.random().below(200 * sim::kMicrosecond));
        run(b, [&] { sim::unplug_rdma(*dev_b); }, 20 * sim::kSecond);
        drop(first);
        dev_b = &sim::plug_rdma(b.initial_net(), "rxe_b");
        world.run_for(sim::kSecond);
    }
    establish(first);
}

TEST_P(SrvPaths, closed_under_traffic)
{
    load(true);
    establish_both();
    user.sleeps_ns = sim::kMillisecond;
    for (unsigned chunk = 0; chunk < kDepth; chunk++)
        write(chunk % 2 ? second : first, 1, chunk, contents(500, chunk), "w" + std::to_string(chunk));
    close();
    EXPECT_EQ(user.links.size(), 2u);
    EXPECT_TRUE(ends(first));
    EXPECT_EQ(ask(first, request(0, 1)).established, false) << "nobody listens";
}

TEST_P(SrvPaths, the_user_refuses)
{
    load(true);
    user.refuses_link = -KAPI_ENOMEM;
    connect(first);
    ask_info(first);
    EXPECT_TRUE(ends(first));
    EXPECT_TRUE(first.info.empty());
    drop(first);
    EXPECT_EQ(user.links.size(), 1u) << "it was asked, and knows nothing of the session";
    user.refuses_link = 0;
    world.run_for(sim::kSecond);
    establish(first);
    user.refuses = -KAPI_EACCES;
    read(first, 1, 0, 100, "rx");
    EXPECT_EQ(answer(first, 0), KAPI_EACCES);
    EXPECT_TRUE(first.answers[0].invalidated) << "of a failed read, too";
    user.refuses = 0;
    user.keeps = true;
    write(first, 1, 1, "data", "wx");
    ASSERT_TRUE(wait([&] { return user.calls.size() == 2; }));
    answer_call(1, -512);
    EXPECT_EQ(answer(first, 1), KAPI_EIO) << "nine bits do not hold it";
    user.keeps = false;
    user.refuses = KAPI_EACCES;
    read(first, 1, 0, 100, "rx");
    EXPECT_EQ(answer(first, 0), KAPI_EACCES) << "whatever its sign";
    user.refuses = 0;
    user.keeps = true;
    write(first, 1, 1, "data", "wx");
    ASSERT_TRUE(wait([&] { return user.calls.size() == 4; }));
    answer_call(3, KAPI_EACCES);
    EXPECT_EQ(answer(first, 1), KAPI_EACCES);
}

/** The user takes long to take leave of a session: a path that was removed and is added again waits for it. */
TEST_P(SrvPaths, a_new_path_waits_for_the_users_goodbye_to_the_old_one)
{
    load(true);
    establish(first);
    user.sleeps_in_link_ns = 8 * sim::kSecond;
    world.network().cut(a, b, true); // the client's end is not heard
    ASSERT_TRUE(wait([&] { return user.links.size() == 2; }, 30 * sim::kSecond)) << "noticed by heartbeats";
    world.network().cut(a, b, false);
    SrvPath again(a, "10.0.0.1", "10.0.0.2");
    auto &link = ask(again, request(0, 3, 2));
    EXPECT_EQ(rejected(link), 0);
    drop(again);
    drop(first);
}

} // namespace
