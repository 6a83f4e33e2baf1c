// SPDX-License-Identifier: GPL-2.0
// A client loses a path, and what it has sent over that is still on its way: it changes nothing that was written since.
#include "rtrs_pair_test.h"

#include <kapi/sim/reclaim.h>

namespace {

class RtrsLostPath : public RtrsPairTest {
protected:
    static constexpr std::uint64_t kMs = sim::kMillisecond;
    static constexpr unsigned kBlocks = 6; // of both paths, each with some

    ~RtrsLostPath() override { end(); }
    void both(bool always_invalidate)
    {
        user.world = &world;
        load();
        start_server({65536, 16, always_invalidate}, SrvUser::ops, &user);
        open(2);
        EXPECT_EQ(put(root + "mp_policy", "rr"), 0);
        EXPECT_EQ(put(root + "heartbeat_interval_ms", "100"), 0); // the server notices a loss much later
    }
    static std::string data_of(unsigned block, unsigned nth) { return contents(3000, 100 * block + nth); }
    static bool are_done(const std::vector<sim::TaskRef> &tasks)
    {
        return std::ranges::all_of(tasks, [](const auto &task) { return task->is_done(); });
    }
    /** A write to each block at the same time; from outside. */
    void write_all(unsigned nth, std::uint64_t limit_ns)
    {
        std::vector<sim::TaskRef> tasks;
        for (unsigned block = 0; block < kBlocks; block++)
            tasks.push_back(world.spawn(a, "program", [this, block, nth] {
                std::string data = data_of(block, nth);
                EXPECT_EQ(call(false, "w" + std::to_string(block), data), 0);
            }));
        EXPECT_TRUE(world.run_until([&] { return are_done(tasks); }, limit_ns));
    }
    void expect_all(unsigned nth)
    {
        for (unsigned block = 0; block < kBlocks; block++)
            EXPECT_TRUE(read("r" + std::to_string(block), 3000) == data_of(block, nth)) << "block " << block;
    }

    SrvUser user;
};

/** The client sends the writes again over the other path, and has their answers before they arrive over the first one. */
TEST_P(RtrsLostPath, a_late_write_does_not_replace_a_newer_one)
{
    for (bool always_invalidate : {true, false}) {
        both(always_invalidate);
        sim::hold_packets(*devices[0], 2 * kSecond);
        std::uint64_t held = world.now_ns();
        write_all(1, 2 * kSecond);
        write_all(2, kSecond);
        EXPECT_LT(world.now_ns() - held, 2 * kSecond) << "the other path has done it all";
        expect_all(2);
        world.run_for(4 * kSecond);
        expect_all(2);
        EXPECT_TRUE(links.empty());
        close();
        unload();
        loaded = false;
        stop_server();
        user = SrvUser{};
    }
}

/** The server's disk has the writes, and takes its time: what is sent again waits there for it. */
TEST_P(RtrsLostPath, nor_one_that_the_servers_disk_has)
{
    both(true);
    user.keeps = true;
    std::vector<sim::TaskRef> tasks;
    for (unsigned block = 0; block < kBlocks; block++)
        tasks.push_back(world.spawn(a, "program", [this, block] {
            std::string data = data_of(block, 1);
            EXPECT_EQ(call(false, "w" + std::to_string(block), data), 0);
        }));
    ASSERT_TRUE(world.run_until([&] { return user.calls.size() == kBlocks; }, kSecond));
    sim::hold_packets(*devices[0], 2 * kSecond);
    world.run_for(1500 * kMs);
    EXPECT_EQ(user.calls.size(), kBlocks) << "what is sent again begins when the disk has done the first one";
    user.keeps = false;
    run(b, [&] {
        for (const auto &call : std::vector(user.calls.begin(), user.calls.begin() + kBlocks))
            user.answer(call);
    });
    EXPECT_TRUE(world.run_until([&] { return are_done(tasks); }, kSecond));
    write_all(2, 5 * kSecond);
    world.run_for(4 * kSecond);
    expect_all(2);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RtrsLostPath, ::testing::Range(1, 11));

/** A server that does not end a path because the client asks, as the kernel's own. */
class RtrsLostPathQuery : public RtrsClientTest {
protected:
    /** The first request is not answered, nor anything else over its path; the client has found that out. */
    void lose_a_path(Ended &ended, int refusal = KAPI_ECONNRESET)
    {
        ready(2);
        server.keeps_paths = refusal;
        server.on_request = [&](WireServer::Request &request) {
            if (server.muted)
                return false;
            server.muted = request.on->request.path;
            return true;
        };
        ended.data = contents(4096, 1);
        run(a, [&] {
            permit = rtrs_clt_core_get_permit(session, 0, 1);
            EXPECT_EQ(begin(permit, ended, false, "block"), 0);
        });
        ASSERT_TRUE(world.run_until([&] { return server.queries == 1; }, 6 * sim::kSecond));
        EXPECT_EQ(server.requests.size(), 1u);
    }
    void finish()
    {
        run(a, [&] { rtrs_clt_core_put_permit(session, permit); });
        EXPECT_EQ(server.disk["block"], contents(4096, 1));
    }
    rtrs_clt_chunk *permit = nullptr;
};

TEST_P(RtrsLostPathQuery, a_request_moves_when_the_server_has_ended_the_path)
{
    Ended ended;
    lose_a_path(ended);
    world.run_for(200 * sim::kMillisecond);
    EXPECT_EQ(server.requests.size(), 1u);
    server.keeps_paths = 0;
    ASSERT_TRUE(world.run_until([&] { return ended.done; }, 150 * sim::kMillisecond));
    EXPECT_EQ(ended.error, 0);
    EXPECT_EQ(server.requests.size(), 2u);
    finish();
}

/** Memory for the question, and for the next link, may be made free by writing to this disk: by the requests that wait for it. */
TEST_P(RtrsLostPathQuery, what_is_allocated_meanwhile_does_not_wait_for_io)
{
    const std::string worker = "work of rtrs_client";
    std::uint64_t before = sim::calls_that_may_wait_for_io(worker);
    Ended ended;
    lose_a_path(ended);
    server.keeps_paths = 0;
    ASSERT_TRUE(world.run_until([&] { return ended.done; }, sim::kSecond));
    world.run_for(5 * sim::kSecond);
    EXPECT_EQ(sim::calls_that_may_wait_for_io(worker), before);
    finish();
}

TEST_P(RtrsLostPathQuery, or_after_half_a_second)
{
    Ended ended;
    lose_a_path(ended);
    world.run_for(300 * sim::kMillisecond);
    EXPECT_EQ(server.requests.size(), 1u);
    ASSERT_TRUE(world.run_until([&] { return ended.done; }, 500 * sim::kMillisecond));
    EXPECT_EQ(ended.error, 0);
    EXPECT_GT(server.queries, 3u);
    EXPECT_LE(server.queries, 11u) << "a twentieth of a second between two questions";
    finish();
}

/** The other path is about to be lost, too, but that is not known yet. */
TEST_P(RtrsLostPathQuery, or_after_five_seconds_when_nobody_answers)
{
    Ended ended;
    lose_a_path(ended);
    std::uint64_t begun = world.now_ns();
    cut(true);
    EXPECT_TRUE(world.run_until([&] { return ended.done; }, 10 * sim::kSecond));
    EXPECT_LT(world.now_ns() - begun, 6 * sim::kSecond);
    EXPECT_EQ(ended.error, -KAPI_ECONNABORTED);
    cut(false);
    run(a, [&] { rtrs_clt_core_put_permit(session, permit); });
}

/** The servers of many clients that reconnect at the same time refuse some for want of room: that is no answer. */
TEST_P(RtrsLostPathQuery, a_request_does_not_move_because_the_server_has_no_room_for_the_question)
{
    Ended ended;
    lose_a_path(ended, KAPI_ENOMEM);
    world.run_for(3 * sim::kSecond);
    EXPECT_EQ(server.requests.size(), 1u);
    server.keeps_paths = 0;
    ASSERT_TRUE(world.run_until([&] { return ended.done; }, sim::kSecond));
    EXPECT_EQ(ended.error, 0);
    finish();
}

/** For want of memory or of a route, which says nothing about the server. */
TEST_P(RtrsLostPathQuery, a_request_does_not_move_because_this_host_cannot_ask)
{
    ready(2);
    server.on_request = [&](WireServer::Request &request) {
        if (server.muted)
            return false;
        server.muted = request.on->request.path;
        return true;
    };
    Ended ended;
    ended.data = contents(4096, 1);
    run(a, [&] {
        permit = rtrs_clt_core_get_permit(session, 0, 1);
        EXPECT_EQ(begin(permit, ended, false, "block"), 0);
    });
    for (auto *device : devices)
        sim::fail_routes(*device, KAPI_ENOMEM);
    world.run_for(7 * sim::kSecond);
    EXPECT_EQ(server.requests.size(), 1u) << "it has been lost for two seconds";
    for (auto *device : devices)
        sim::fail_routes(*device, 0);
    ASSERT_TRUE(world.run_until([&] { return ended.done; }, 200 * sim::kMillisecond));
    EXPECT_EQ(server.queries, 1u);
    EXPECT_EQ(ended.error, 0);
    finish();
}

/** Both paths were lost, and one is up again while the server is being asked: what there was ends, and does not wait for it. */
TEST_P(RtrsLostPathQuery, the_server_is_not_asked_for_requests_of_a_session_that_is_over)
{
    Ended ended;
    lose_a_path(ended, KAPI_ENOMEM);
    unsigned other = get(path(0) + "state") == "connected\n" ? 0 : 1;
    world.network().link(a, b).delay_ns = 950 * sim::kMillisecond;
    world.run_for(100 * sim::kMillisecond); // it has asked again
    world.network().link(a, b).delay_ns = 50 * sim::kMicrosecond;
    EXPECT_EQ(put(path(other) + "reconnect", "1"), 0);
    EXPECT_FALSE(ended.done);
    EXPECT_EQ(server.queries, 1u) << "the path is up before the server is asked";
    ASSERT_TRUE(world.run_until([&] { return server.queries == 2; }, sim::kSecond));
    EXPECT_TRUE(world.run_until([&] { return ended.done; }, 100 * sim::kMillisecond));
    EXPECT_EQ(ended.error, -KAPI_ECONNABORTED);
    run(a, [&] { rtrs_clt_core_put_permit(session, permit); });
}

/** Nothing of it moves to the other path. Its own part has not completed: a switch has what the client sent. */
TEST_P(RtrsLostPathQuery, the_server_is_not_asked_because_of_a_request_that_was_answered)
{
    ready(2);
    server.keeps_paths = KAPI_ECONNRESET;
    EXPECT_EQ(put(path(1) + "disconnect", "1"), 0);
    sim::hold_packets(*devices[0], 2 * sim::kSecond);
    Ended ended;
    ended.data = contents(4096, 1);
    run(a, [&] {
        permit = rtrs_clt_core_get_permit(session, 1, 1);
        EXPECT_EQ(begin(permit, ended, false, "block"), 0);
    });
    run(b, [&] { server.answer(*server.service(), 0, 0); });
    EXPECT_EQ(put(path(1) + "reconnect", "1"), 0);
    EXPECT_FALSE(ended.done);
    EXPECT_EQ(put(path(0) + "disconnect", "1"), 0);
    EXPECT_TRUE(ended.done);
    EXPECT_EQ(ended.error, 0);
    EXPECT_EQ(server.queries, 0u);
    server.keeps_paths = 0;
    run(a, [&] { rtrs_clt_core_put_permit(session, permit); });
}

INSTANTIATE_TEST_SUITE_P(Seeds, RtrsLostPathQuery, ::testing::Range(1, 6));

} // namespace
