// SPDX-License-Identifier: GPL-2.0
// How a path ends, and what waits for it: the server's side, commands, and heartbeats that need a place in a full queue.
#include "rtrs_pair_test.h"

#include <kapi/sim/slow.h>

#include "kapi/sim/rdma_cm.h"

namespace {

class RtrsClientEnds : public RtrsClientTest {
protected:
    static constexpr std::uint64_t kSecond = sim::kSecond, kMs = sim::kMillisecond;
    rtrs_clt_chunk *permit(bool admin = false)
    {
        rtrs_clt_chunk *taken = nullptr;
        run(a, [&] { taken = rtrs_clt_core_get_permit(session, admin, 1); });
        permits.push_back(taken);
        return taken;
    }
    void begin_one(Ended &ended, const std::string &message, bool read = false, bool admin = false)
    {
        ended.data = contents(2048, 1);
        auto *taken = permit(admin);
        run(a, [&] { EXPECT_EQ(begin(taken, ended, read, message), 0); });
    }
    void give_all()
    {
        run(a, [&] {
            for (auto *taken : std::exchange(permits, {}))
                rtrs_clt_core_put_permit(session, taken);
        });
    }
    unsigned path_of(const WireServer::Request &request)
    {
        kapi_cm_info info;
        kapi_cm_describe(request.on->cm, &info);
        return info.local.ip[14];
    }
    std::vector<rtrs_clt_chunk *> permits;
};

/** A late request ends its path: the younger ones go to the other one when the server has ended its side, too. */
TEST_P(RtrsClientEnds, younger_ones_wait_for_the_servers_end_when_a_request_is_late)
{
    ready(2);
    server.poll_ns = 100 * kMs;
    server.on_request = [&](WireServer::Request &request) { return path_of(request) == 0; }; // not answered
    EXPECT_EQ(put(path(1) + "disconnect", "1"), 0);
    Ended late, young;
    begin_one(late, "late");
    world.run_for(3 * kSecond);
    begin_one(young, "young");
    EXPECT_EQ(put(path(1) + "reconnect", "1"), 0);
    ASSERT_TRUE(world.run_until([&] { return server.requests.size() == 2; }, kSecond));
    server.dropped_ns = 0;
    std::uint64_t begun = world.now_ns();
    EXPECT_EQ(put(root + "io_timeout_ms", "2000"), 0); // late is, young is not
    ASSERT_TRUE(world.run_until([&] { return late.done && young.done; }, 5 * kSecond));
    EXPECT_EQ(late.error, -KAPI_ETIMEDOUT);
    EXPECT_EQ(young.error, 0);
    ASSERT_EQ(server.requests.size(), 3u);
    EXPECT_EQ(path_of(server.requests.back()), 1u);
    if (server.requests.back().came_ns - begun < 500 * kMs) { // else its connection manager was slow to report it
        EXPECT_GE(server.requests.back().came_ns, server.dropped_ns) << "the server still had the first path";
    }
    give_all();
}

/** reconnect is waiting when disconnect comes: it fails at once. */
TEST_P(RtrsClientEnds, a_reconnect_that_is_overruled_returns)
{
    ready();
    EXPECT_EQ(put(path() + "disconnect", "1"), 0); // the next attempt is allowed 0.3 s later
    std::uint64_t begun = world.now_ns(), ended = 0;
    int error = 1;
    auto task = world.spawn(a, "reconnect", [&] {
        error = sim::sysfs_write(path() + "reconnect", "1");
        ended = world.now_ns();
    });
    world.run_for(100 * kMs);
    EXPECT_EQ(put(path() + "disconnect", "1"), 0);
    EXPECT_TRUE(world.run_until([&] { return task->is_done(); }, 100 * kSecond));
    EXPECT_EQ(error, -KAPI_ECANCELED);
    EXPECT_LT(ended - begun, kSecond) << "a lost wake-up";
}

/** Both are written at the same time: what reconnect returns is true of the path then. */
TEST_P(RtrsClientEnds, a_reconnect_that_is_overruled_while_its_path_is_up_fails)
{
    ready();
    for (int round = 0; round < 10; round++) {
        int error = 1;
        auto reconnect = world.spawn(a, "reconnect", [&] { error = sim::sysfs_write(path() + "reconnect", "1"); });
        auto disconnect = world.spawn(a, "disconnect", [&] { sim::sysfs_write(path() + "disconnect", "1"); });
        ASSERT_TRUE(world.run_until([&] { return reconnect->is_done() && disconnect->is_done(); }, 100 * kSecond));
        EXPECT_EQ(error, get(path() + "state") == "connected\n" ? 0 : -KAPI_ECANCELED);
        EXPECT_EQ(put(path() + "reconnect", "1"), 0);
    }
}

TEST_P(RtrsClientEnds, a_request_that_is_made_while_the_session_is_closed_is_refused)
{
    ready();
    auto *one = permit();
    auto closes = world.spawn(a, "close", [&] { rtrs_clt_core_close(session); });
    world.run_for(kSecond);
    ASSERT_FALSE(closes->is_done()) << "it waits for the permit";
    Ended ended;
    ended.data = contents(100, 1);
    run(a, [&] { EXPECT_EQ(begin(one, ended, false, "block"), -KAPI_ECONNABORTED); });
    give_all();
    EXPECT_TRUE(world.run_until([&] { return closes->is_done(); }, kSecond));
    EXPECT_EQ(ended.times, 0u);
    session = nullptr;
}

/** Whose server may take a minute for it. */
TEST_P(RtrsClientEnds, closing_does_not_wait_until_a_path_has_been_added)
{
    ready();
    server.change_acceptance = [&](rtrs::wire::ConnectResponse &) { world.sleep(3 * kSecond); };
    int error = 1;
    auto adds = world.spawn(a, "add_path", [&] { error = sim::sysfs_write(root + "add_path", "ip:10.0.1.1@ip:10.0.1.2"); });
    world.run_for(4 * kSecond);
    std::uint64_t begun = world.now_ns();
    close();
    EXPECT_LT(world.now_ns() - begun, kSecond);
    EXPECT_TRUE(adds->is_done());
    EXPECT_EQ(error, -KAPI_ECANCELED);
}

/** A server that has not noticed the end of a removed path is asked for it again, half a second later. */
TEST_P(RtrsClientEnds, nor_until_it_is_tried_again)
{
    ready();
    EXPECT_EQ(put(path() + "remove_path", "1"), 0);
    server.reject = KAPI_EEXIST;
    const unsigned before = server.asked;
    auto adds = world.spawn(a, "add_path", [&] { sim::sysfs_write(root + "add_path", path_name(0)); });
    ASSERT_TRUE(world.run_until([&] { return server.asked != before; }, kSecond));
    world.run_for(200 * kMs);
    ASSERT_FALSE(adds->is_done());
    std::uint64_t begun = world.now_ns();
    close();
    EXPECT_LT(world.now_ns() - begun, 200 * kMs);
    EXPECT_TRUE(adds->is_done());
    EXPECT_EQ(server.asked, before + 1);
}

/** It has come up, and the call that adds it has not returned: the path is left to the end of the session. */
TEST_P(RtrsClientEnds, closing_while_a_path_comes_up)
{
    load();
    serve();
    for (unsigned round = 0; round < 10; round++) {
        open();
        auto came_up = [&] { return std::ranges::count(a.log, "rtrs_client: session: a path is connected, after connecting"); };
        a.log.clear();
        auto adds = world.spawn(a, "add_path", [&] { sim::sysfs_write(root + "add_path", "ip:10.0.1.1@ip:10.0.1.2"); });
        ASSERT_TRUE(world.run_until([&] { return came_up() > 0; }, 10 * kSecond));
        sim::stand_still_after("rtrs_clt path", kSecond); // who adds it does so between two steps
        world.run_for(world.random().below(4 * kSecond));
        sim::stand_still_after(nullptr, 0);
        std::uint64_t begun = world.now_ns();
        close();
        EXPECT_LT(world.now_ns() - begun, 3 * kSecond);
        ASSERT_TRUE(adds->is_done());
    }
}

/** It stores the session when it was opened, which may be late on a busy host, and needs it when a path is up again. */
TEST_P(RtrsClientEnds, a_user_is_called_when_it_has_its_session)
{
    load();
    serve();
    rtrs_clt_route one = route(0);
    rtrs_clt_open_args args{&a.initial_net(), "session", this, on_link, &one, 1, WireServer::kPort, 2000, -1};
    for (bool queries : {true, false}) {
        run(a, [&] { ASSERT_EQ(rtrs_clt_core_open(&args, &session), 0); });
        std::uint64_t opened_ns = world.now_ns();
        run(b, [&] { server.disconnect_all(); });
        world.run_for(3 * kSecond);
        EXPECT_EQ(get(path() + "state"), "connected\n");
        EXPECT_NE(get(path() + "stats/reconnects"), "1 0\n") << "it was lost, and came back";
        EXPECT_TRUE(links.empty());
        if (queries)
            run(a, [&] { query(); });
        EXPECT_TRUE(world.run_until([&] { return links == std::vector<int>({0, 1}); }, 3 * kSecond)) << "nothing is left out";
        EXPECT_EQ(world.now_ns() - opened_ns < 4 * kSecond, queries) << "who asks for no limits is called a little later";
        run(b, [&] { server.disconnect_all(); });
        EXPECT_TRUE(world.run_until([&] { return links.size() == 3; }, kSecond)) << "at once";
        close();
        links.clear();
    }
}

/** A neighbour's address has changed, or a bond's port: the connection manager reports it, and the server lives. */
TEST_P(RtrsClientEnds, a_request_waits_for_the_servers_end_when_an_address_changes)
{
    const struct {
        kapi_cm_why why;
        int error;
    } ends[] = {{KAPI_CM_UNREACHABLE, -KAPI_ETIMEDOUT}, {KAPI_CM_ADDR_CHANGED, -KAPI_ENETUNREACH}};
    ready(2);
    server.poll_ns = 100 * kMs;
    server.on_request = [&](WireServer::Request &request) { return path_of(request) == 0; }; // not answered
    for (auto [why, error] : ends) {
        server.requests.clear();
        EXPECT_EQ(put(path(1) + "disconnect", "1"), 0);
        Ended one;
        begin_one(one, "one");
        EXPECT_EQ(put(path(1) + "reconnect", "1"), 0);
        ASSERT_TRUE(world.run_until([&] { return server.requests.size() == 1; }, kSecond));
        world.run_for(kSecond);
        server.dropped_ns = 0;
        run(a, [&, why = why, error = error] {
            for (auto &[id, cm] : sim::fabric().cms)
                if (cm->dev == devices[0] && cm->state == sim::CmState::established) {
                    const kapi_cm_end end{.why = why, .error = error, .reason = 0, .data = nullptr, .size = 0};
                    auto ended = std::exchange(cm->ops.ended, [](void *, const kapi_cm_end *) {}); // once
                    ended(cm->context, &end);
                }
        });
        ASSERT_TRUE(world.run_until([&] { return one.done; }, 5 * kSecond));
        EXPECT_EQ(one.error, 0);
        ASSERT_EQ(server.requests.size(), 2u);
        EXPECT_EQ(path_of(server.requests.back()), 1u);
        world.run_for(kSecond);
        EXPECT_GE(server.requests.back().came_ns, server.dropped_ns) << "the server still had the first path: " << why;
        give_all();
        ASSERT_TRUE(world.run_until([&] { return get(path(0) + "state") == "connected\n"; }, 10 * kSecond));
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RtrsClientEnds, ::testing::Range(1, 4));

/** Requests of the service connection that a slow server has leave no room for heartbeats and their answers. */
class RtrsClientFull : public RtrsClientBase, public ::testing::WithParamInterface<int> {
protected:
    RtrsClientFull() : RtrsClientBase(static_cast<std::uint64_t>(GetParam()), 64) {}
};

TEST_P(RtrsClientFull, a_slow_server_of_many_admin_requests_is_not_dead)
{
    server.geometry = *rtrs::Geometry::create(64, 8192);
    ready();
    server.on_request = [&](WireServer::Request &) { return true; }; // a slow disk
    std::vector<Ended> ended(64);
    std::vector<rtrs_clt_chunk *> permits;
    unsigned count = 0;
    for (unsigned round = 0; round < 4; round++, world.run_for(20 * sim::kMillisecond)) // a heartbeat may have a place
        run(a, [&] {
            for (int error = 0; !error && count < ended.size();) {
                rtrs_clt_chunk *one = rtrs_clt_core_get_permit(session, 1, 1);
                ended[count].data = contents(512, count);
                error = begin(one, ended[count], count < 20, "slow"); // reads have three places in the queue, writes one
                if (error) {
                    EXPECT_EQ(error, -KAPI_EAGAIN);
                    rtrs_clt_core_put_permit(session, one);
                } else {
                    permits.push_back(one);
                    count++;
                }
            }
        });
    EXPECT_GE(count, 16u);
    EXPECT_TRUE(world.run_until([&] { return server.requests.size() == count; }, sim::kSecond));
    world.run_for(15 * sim::kSecond);
    EXPECT_EQ(get(path() + "stats/reconnects"), "1 0\n");
    EXPECT_EQ(get(path() + "last_error"), "0\n");
    EXPECT_TRUE(links.empty());
    EXPECT_EQ(put(path() + "disconnect", "1"), 0); // all end, if they have not
    run(a, [&] {
        for (auto *one : permits)
            rtrs_clt_core_put_permit(session, one);
    });
}
INSTANTIATE_TEST_SUITE_P(Seeds, RtrsClientFull, ::testing::Range(1, 4));

} // namespace
