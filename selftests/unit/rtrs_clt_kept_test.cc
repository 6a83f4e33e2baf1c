// SPDX-License-Identifier: GPL-2.0
// When the chunk of a request that was not answered is used again.
#include "rtrs_clt_unanswered_test.h"

#include "drivers/infiniband/ulp/rtrs/client/module.h"

#include <kapi/sim/threads.h>

namespace {

class RtrsClientKept : public RtrsClientUnanswered {};

TEST_P(RtrsClientKept, its_chunk_is_used_again_when_its_path_is_up_again)
{
    ready(2);
    EXPECT_EQ(put(root + "io_timeout_ms", "1000"), 0);
    Ended ended;
    unsigned bad = begin_late(ended);
    server.reject = KAPI_EBUSY;
    ASSERT_TRUE(until(ended, 2 * kSecond));
    run(a, [&] { EXPECT_EQ(begin(permits[0], ended, false, "again"), -KAPI_EBUSY) << "its permit is of no use until then"; });
    give_all();
    for (unsigned i = 0; i < 3 * depth(); i++) {
        EXPECT_EQ(write("other", contents(100, i)), 0);
        EXPECT_NE(server.requests.back().chunk, swallowed[0].chunk) << "the server may still write from it to a disk";
    }
    EXPECT_EQ(free_permits(), depth() - 1);
    world.run_for(100 * kSecond);
    EXPECT_EQ(free_permits(), depth() - 1);
    server.reject = 0;
    EXPECT_EQ(put(path(bad) + "reconnect", "1"), 0);
    EXPECT_EQ(free_permits(), depth());
}

/** The server does not notice at once that a path has ended, and a path that was down before may be up sooner. */
TEST_P(RtrsClientKept, a_chunk_of_a_request_that_found_no_path_waits_as_well)
{
    ready(2);
    for (int way = 0; way < 3; way++) {
        SCOPED_TRACE(way);
        EXPECT_EQ(put(path(1) + "disconnect", "1"), 0);
        swallow("lost");
        Ended ended;
        begin_one(ended, "lost");
        world.run_for(sim::kMillisecond);
        EXPECT_EQ(put(path(0) + "disconnect", "1"), 0);
        ASSERT_TRUE(until(ended, kSecond));
        EXPECT_EQ(ended.error, -KAPI_ECONNABORTED);
        if (way == 1) {
            EXPECT_EQ(put(path(0) + "remove_path", "1"), 0);
        }
        EXPECT_EQ(put(path(1) + "reconnect", "1"), 0);
        give_all();
        EXPECT_EQ(free_permits(), depth() - 1);
        if (way == 1) {
            EXPECT_EQ(put(root + "add_path", path_name(0)), 0);
            EXPECT_EQ(free_permits(), depth() - 1) << "another path, in the same place";
            world.run_for(42 * kSecond);
            EXPECT_EQ(free_permits(), depth());
            continue;
        }
        if (way == 2) { // the path does not come back
            world.run_for(30 * kSecond);
            EXPECT_EQ(free_permits(), depth() - 1);
            world.run_for(12 * kSecond);
            EXPECT_EQ(free_permits(), depth());
        }
        EXPECT_EQ(put(path(0) + "reconnect", "1"), 0);
        EXPECT_EQ(free_permits(), depth());
    }
}

/** It went over a path that is removed while another one has it, which is the one that comes back. */
TEST_P(RtrsClientKept, a_path_that_was_removed_before_its_end_keeps_no_chunk)
{
    ready(2);
    for (bool added : {false, true}) {
        SCOPED_TRACE(added);
        EXPECT_EQ(put(root + "io_timeout_ms", "0"), 0);
        Ended ended;
        begin_over_first(ended);
        EXPECT_EQ(put(path(0) + "remove_path", "1"), 0);
        ASSERT_TRUE(world.run_until([&] { return swallowed.size() == 2; }, kSecond)) << "over the other path";
        if (added) {
            EXPECT_EQ(put(root + "add_path", path_name(0)), 0);
        }
        end_late(ended);
        EXPECT_EQ(put(path(1) + "reconnect", "1"), 0);
        EXPECT_EQ(free_permits(), depth() - 1) << "the server may not have noticed the removal";
        world.run_for(45 * kSecond);
        EXPECT_EQ(free_permits(), depth());
        if (!added) {
            EXPECT_EQ(put(root + "add_path", path_name(0)), 0);
        }
    }
}

/** Over one path first, which was lost and came back while another one had it: nothing of it is left at the server. */
TEST_P(RtrsClientKept, a_path_that_came_back_before_its_end_keeps_no_chunk)
{
    ready(2);
    Ended ended;
    begin_over_first(ended);
    EXPECT_EQ(put(path(0) + "disconnect", "1"), 0);
    ASSERT_TRUE(world.run_until([&] { return swallowed.size() == 2; }, kSecond)) << "over the other path";
    EXPECT_EQ(put(path(0) + "reconnect", "1"), 0);
    end_late(ended);
    EXPECT_EQ(put(path(1) + "reconnect", "1"), 0);
    EXPECT_EQ(free_permits(), depth());
}

/** Paths of a session have numbers, of which there are 128. */
TEST_P(RtrsClientKept, a_path_with_the_number_of_one_that_was_removed_is_not_waited_for)
{
    ready(2);
    Ended ended;
    begin_over_first(ended);
    for (int i = 0; i < 127; i++) {
        EXPECT_EQ(put(path(0) + "remove_path", "1"), 0);
        EXPECT_EQ(put(root + "add_path", path_name(0)), 0);
    }
    end_late(ended);
    EXPECT_EQ(put(path(1) + "reconnect", "1"), 0);
    world.run_for(45 * kSecond);
    EXPECT_EQ(free_permits(), depth());
}

TEST_P(RtrsClientKept, permits_come_back_although_no_path_does)
{
    ready();
    swallow("lost");
    std::vector<Ended> ended(depth());
    for (auto &one : ended)
        begin_one(one, "lost");
    server.reject = KAPI_EBUSY;
    run(b, [&] { server.disconnect_all(); });
    for (auto &one : ended) {
        ASSERT_TRUE(until(one, 10 * kSecond));
        EXPECT_EQ(one.error, -KAPI_ECONNABORTED);
    }
    give_all();
    world.run_for(30 * kSecond);
    EXPECT_EQ(free_permits(), 0u);
    world.run_for(15 * kSecond);
    EXPECT_EQ(free_permits(), depth()) << "who waits for one cannot be interrupted";
}

TEST_P(RtrsClientKept, permits_come_back_although_no_path_is_tried)
{
    ready();
    swallow("lost");
    Ended ended;
    begin_one(ended, "lost");
    world.run_for(sim::kMillisecond);
    EXPECT_EQ(put(path() + "disconnect", "1"), 0);
    ASSERT_TRUE(until(ended, kSecond));
    give_all();
    world.run_for(30 * kSecond);
    EXPECT_EQ(free_permits(), depth() - 1);
    world.run_for(15 * kSecond);
    EXPECT_EQ(free_permits(), depth());
}

/** A server that refuses the path may still work on what came over it; one that is not reached has noticed the loss by then. */
TEST_P(RtrsClientKept, a_chunk_comes_back_when_the_server_is_not_reached)
{
    ready(2);
    EXPECT_EQ(put(root + "io_timeout_ms", "1000"), 0);
    for (const char *attempts : {"-1", "2", "0"}) { // then it is not tried any more
        SCOPED_TRACE(attempts);
        EXPECT_EQ(put(root + "max_reconnect_attempts", attempts), 0);
        swallow("late");
        Ended ended;
        begin_one(ended, "late");
        world.run_for(sim::kMillisecond);
        cut(true);
        ASSERT_TRUE(until(ended, 3 * kSecond));
        EXPECT_EQ(ended.error, -KAPI_ETIMEDOUT);
        give_all();
        world.run_for(30 * kSecond);
        EXPECT_EQ(free_permits(), depth() - 1);
        world.run_for(25 * kSecond);
        EXPECT_EQ(free_permits(), depth());
        cut(false);
        for (unsigned nth : {0u, 1u})
            EXPECT_EQ(put(path(nth) + "reconnect", "1"), 0);
    }
}

/** InfiniBand has many errors of a route that is not found, such as that of a port that is down. */
TEST_P(RtrsClientKept, a_server_that_no_route_leads_to_is_not_reached)
{
    ready(2);
    EXPECT_EQ(put(root + "io_timeout_ms", "1000"), 0);
    for (int error : {KAPI_EINVAL, KAPI_EAGAIN}) {
        SCOPED_TRACE(error);
        swallow("late");
        Ended ended;
        begin_one(ended, "late");
        world.run_for(sim::kMillisecond);
        cut(true);
        for (auto *device : devices)
            sim::fail_routes(*device, error);
        ASSERT_TRUE(until(ended, 3 * kSecond));
        give_all();
        world.run_for(30 * kSecond);
        EXPECT_EQ(free_permits(), depth() - 1);
        world.run_for(25 * kSecond);
        EXPECT_EQ(free_permits(), depth());
        cut(false);
        for (auto *device : devices)
            sim::fail_routes(*device, 0);
        for (unsigned nth : {0u, 1u})
            EXPECT_EQ(put(path(nth) + "reconnect", "1"), 0);
    }
}

/** Whatever it rejects a path with. */
TEST_P(RtrsClientKept, a_server_that_rejects_is_reached)
{
    ready(2);
    EXPECT_EQ(put(root + "io_timeout_ms", "1000"), 0);
    Ended ended;
    unsigned bad = begin_late(ended);
    server.reject = KAPI_ENODEV;
    ASSERT_TRUE(until(ended, 2 * kSecond));
    give_all();
    world.run_for(60 * kSecond);
    EXPECT_EQ(free_permits(), depth() - 1);
    server.reject = 0;
    EXPECT_EQ(put(path(bad) + "reconnect", "1"), 0);
    EXPECT_EQ(free_permits(), depth());
}

/** Its host says so, but that is not the server. */
TEST_P(RtrsClientKept, a_server_that_does_not_run_is_not_reached)
{
    ready(2);
    EXPECT_EQ(put(root + "io_timeout_ms", "1000"), 0);
    swallow("late");
    Ended ended;
    begin_one(ended, "late");
    ASSERT_TRUE(world.run_until([&] { return !swallowed.empty(); }, kSecond));
    server.reject = KAPI_EBUSY;
    ASSERT_TRUE(until(ended, 2 * kSecond));
    EXPECT_EQ(ended.error, -KAPI_ETIMEDOUT);
    give_all();
    world.run_for(kSecond);
    server.stop();
    serving = false;
    world.run_for(30 * kSecond);
    EXPECT_EQ(free_permits(), depth() - 1);
    world.run_for(15 * kSecond);
    EXPECT_EQ(free_permits(), depth());
    server.reject = 0;
    serve();
    for (unsigned nth : {0u, 1u})
        EXPECT_EQ(put(path(nth) + "reconnect", "1"), 0);
}

/** So it is not known whether the server is there. */
TEST_P(RtrsClientKept, a_chunk_comes_back_when_its_path_was_stopped)
{
    ready(2);
    EXPECT_EQ(put(root + "io_timeout_ms", "1000"), 0);
    for (bool refuses : {false, true}) {
        SCOPED_TRACE(refuses);
        EXPECT_EQ(put(root + "max_reconnect_attempts", refuses ? "3" : "-1"), 0);
        Ended ended;
        unsigned bad = begin_late(ended);
        server.reject = refuses ? KAPI_EBUSY : 0;
        cut(!refuses);
        ASSERT_TRUE(until(ended, 3 * kSecond));
        give_all();
        if (!refuses) {
            EXPECT_EQ(put(path(bad) + "disconnect", "1"), 0);
        }
        ASSERT_TRUE(world.run_until([&] { return get(path(bad) + "state_detail") == "stopped\n"; }, 15 * kSecond));
        world.run_for(39 * kSecond);
        EXPECT_EQ(free_permits(), depth() - 1);
        world.run_for(4 * kSecond);
        EXPECT_EQ(free_permits(), depth());
        cut(false);
        server.reject = 0;
        for (unsigned nth : {0u, 1u})
            EXPECT_EQ(put(path(nth) + "reconnect", "1"), 0);
    }
}

TEST_P(RtrsClientKept, a_chunk_waits_for_a_server_that_is_reached_again_and_refuses)
{
    ready(2);
    EXPECT_EQ(put(root + "io_timeout_ms", "1000"), 0);
    swallow("late");
    Ended ended;
    begin_one(ended, "late");
    world.run_for(sim::kMillisecond);
    server.reject = KAPI_EBUSY;
    cut(true);
    ASSERT_TRUE(until(ended, 3 * kSecond));
    give_all();
    world.run_for(30 * kSecond);
    cut(false);
    world.run_for(15 * kSecond);
    cut(true);
    world.run_for(20 * kSecond);
    EXPECT_EQ(free_permits(), depth() - 1) << "it was there less than 40 seconds ago";
    world.run_for(30 * kSecond);
    EXPECT_EQ(free_permits(), depth());
}

/** The host has no memory for more threads than one for each queue. What frees the permit does not wait for that callback. */
TEST_P(RtrsClientKept, permits_come_back_although_the_user_waits_for_one_when_told)
{
    ready(2);
    run(a, [] {
        sim::leave_one_thread(*rtrs_clt::Module::get().queue);
        sim::leave_one_thread(*rtrs_clt::Module::get().reports);
    });
    unsigned got = 0;
    when_told = [&](int up) {
        if (!up)
            return;
        rtrs_clt_core_put_permit(session, rtrs_clt_core_get_permit(session, 1, 1));
        got++;
    };
    keep_all();
    EXPECT_EQ(put(path(0) + "reconnect", "1"), 0);
    world.run_for(45 * kSecond);
    EXPECT_EQ(got, 1u);
    EXPECT_EQ(free_permits(), depth());
}

INSTANTIATE_TEST_SUITE_P(Seeds, RtrsClientKept, ::testing::Range(1, 5));

} // namespace
