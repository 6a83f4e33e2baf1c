// SPDX-License-Identifier: GPL-2.0
// Paths of the RTRS client that are lost, come back, are refused: requests go to other paths, and what was reported is true.
#include "rtrs_clt_test.h"

namespace {

class RtrsClientFailover : public RtrsClientTest {
protected:
    static constexpr std::uint64_t kSecond = sim::kSecond;

    unsigned paths_at_server()
    {
        unsigned n = 0;
        while (server.service(n))
            n++;
        return n;
    }
    void end_first_path_at_server()
    {
        run(b, [&] {
            rtrs::Uuid path = server.service(0)->request.path;
            for (auto &connection : server.connections)
                if (connection->request.path == path)
                    kapi_cm_disconnect(connection->cm);
        });
    }
};

TEST_P(RtrsClientFailover, a_request_that_a_lost_path_has_goes_to_the_other_one)
{
    ready(2);
    unsigned taken = 0;
    server.on_request = [&](WireServer::Request &) { return taken++ == 0; }; // the first one is not answered
    std::string data = contents(5000, 1);
    auto ended = world.now_ns();
    bool done = false;
    world.after(kSecond, [&] {
        world.spawn(b, "end", [&] {
            WireServer::Connection &on = *server.requests.front().on;
            rtrs::Uuid path = on.request.path;
            for (auto &connection : server.connections)
                if (connection->request.path == path)
                    kapi_cm_disconnect(connection->cm);
            done = true;
        });
    });
    EXPECT_EQ(write("block", data), 0);
    EXPECT_TRUE(done);
    EXPECT_LT(world.now_ns() - ended, 3 * kSecond);
    EXPECT_EQ(server.disk["block"], data);
    EXPECT_EQ(taken, 2u);
    EXPECT_TRUE(links.empty()) << "a path was always up";
}

TEST_P(RtrsClientFailover, a_read_goes_to_the_other_path_and_is_whole)
{
    ready(2);
    server.disk["block"] = contents(9000, 3);
    unsigned taken = 0;
    server.on_request = [&](WireServer::Request &request) {
        if (taken++)
            return false;
        kapi_cm_disconnect(request.on->cm);
        return true;
    };
    std::string got = read("block", 9000);
    EXPECT_TRUE(got == contents(9000, 3)) << got.substr(0, 20);
    EXPECT_EQ(taken, 2u);
}

// The same chunk is used, which the server may still write to for what came over the path that is ended.
TEST_P(RtrsClientFailover, a_request_goes_to_the_other_path_when_the_server_has_ended_its_own)
{
    constexpr std::uint64_t patience_ns = 500 * sim::kMillisecond; // the connection manager of either side may be so slow
    ready(2);
    unsigned taken = 0, second = 0, at_once = 0;
    std::uint64_t ended = 0;
    server.on_request = [&](WireServer::Request &) { return taken++ == 0; }; // the first one is not answered
    for (unsigned round = 0; round < 12; round++) {
        taken = 0;
        server.poll_ns = 100 * sim::kMillisecond;
        world.after(kSecond, [&] {
            ASSERT_EQ(taken, 1u);
            world.spawn(a, "end", [&] {
                kapi_cm_info info;
                kapi_cm_describe(server.requests.back().on->cm, &info);
                second = info.local.ip[14]; // 10.0.1.2
                ended = world.now_ns();
                EXPECT_EQ(sim::sysfs_write(path(second) + "disconnect", "1"), 0);
            });
        });
        EXPECT_EQ(write("block", contents(5000, 1)), 0);
        ASSERT_EQ(taken, 2u);
        std::uint64_t came = server.requests.back().came_ns;
        if (came - ended < patience_ns) {
            EXPECT_GE(came, server.dropped_ns);
        }
        at_once += came - server.dropped_ns < 10 * sim::kMillisecond;
        server.poll_ns = sim::kMillisecond;
        EXPECT_EQ(put(path(second) + "reconnect", "1"), 0);
    }
    EXPECT_GT(at_once, 0u);
}

TEST_P(RtrsClientFailover, a_path_comes_back)
{
    ready();
    std::uint64_t lost = world.now_ns();
    end_first_path_at_server();
    ASSERT_TRUE(world.run_until([&] { return links == std::vector<int>({0, 1}); }, 20 * kSecond));
    EXPECT_LT(world.now_ns() - lost, 2 * kSecond);
    EXPECT_EQ(write("block", contents(4096, 1)), 0);
    EXPECT_EQ(read("block", 4096), contents(4096, 1));
    EXPECT_EQ(server.service()->request.reconnects, 2);
    EXPECT_TRUE(server.service()->request.first) << "the server may be another one";
}

/** The server ends the session with the last path, whether or not the end of another one takes long here. */
TEST_P(RtrsClientFailover, the_next_attempt_makes_a_session_although_a_lost_path_has_not_ended)
{
    ready(2);
    EXPECT_FALSE(server.connections.back()->request.first);
    rtrs::Uuid path_0 = server.service(0)->request.path;
    sim::make_stuck(*devices[1]);
    auto task = world.spawn(a, "disconnect", [&] { sim::sysfs_write(path(1) + "disconnect", "1"); });
    world.run_for(sim::kMillisecond);
    end_first_path_at_server();
    EXPECT_TRUE(world.run_until([&] { return get(path(0) + "stats/reconnects") == "2 0\n"; }, 5 * kSecond)) << "at once";
    EXPECT_FALSE(task->is_done());
    EXPECT_TRUE(server.service(0)->request.path == path_0);
    EXPECT_TRUE(server.service(0)->request.first);
    EXPECT_TRUE(world.run_until([&] { return task->is_done(); }, 30 * kSecond));
    EXPECT_EQ(std::ranges::count(a.log, "rtrs_client: session: the device does not end what it was given"), 1);
    close();
    unload();
    loaded = false;
    a.crash(); // what was posted is never freed
}

/** It has what the path asks its server for, and where the answer is to be, for ever. */
TEST_P(RtrsClientFailover, a_device_that_does_nothing_any_more_while_a_path_is_made)
{
    ready();
    std::size_t all = 2 * server.connections.size();
    server.silent_info = true;
    auto task = world.spawn(a, "add", [&] { EXPECT_LT(sim::sysfs_write(root + "add_path", path_name(1)), 0); });
    auto accepted = [&] { return server.connections.size() == all && server.connections.back()->accepted; };
    ASSERT_TRUE(world.run_until(accepted, kSecond));
    world.run_for(GetParam() % 2 * 100 * sim::kMillisecond); // the question has not gone, or has
    sim::make_stuck(*devices[1]);
    EXPECT_TRUE(world.run_until([&] { return task->is_done(); }, 60 * kSecond));
    EXPECT_EQ(std::ranges::count(a.log, "rtrs_client: session: the device does not end what it was given"), 1);
    EXPECT_EQ(write("block", contents(4096, 1)), 0);
    close();
    unload();
    loaded = false;
    a.crash(); // as above
}

/** Each asks for a session. The second one that is there begins once more, whatever number of attempts is allowed. */
TEST_P(RtrsClientFailover, two_paths_come_back_at_once)
{
    ready(2);
    EXPECT_EQ(put(root + "max_reconnect_attempts", "1"), 0);
    for (unsigned round = 0; round < 10; round++) {
        run(b, [&] { server.disconnect_all(); });
        world.run_for(5 * kSecond);
        for (unsigned nth : {0u, 1u})
            ASSERT_EQ(get(path(nth) + "state_detail"), "connected\n") << round;
    }
    EXPECT_NE(get(path(0) + "stats/reconnects") + get(path(1) + "stats/reconnects"), "11 0\n11 0\n");
    EXPECT_EQ(links.size(), 20u);
}

TEST_P(RtrsClientFailover, without_a_path_a_request_fails_at_once)
{
    ready();
    server.reject = KAPI_EBUSY;
    end_first_path_at_server();
    ASSERT_TRUE(world.run_until([&] { return links == std::vector<int>({0}); }, 20 * kSecond));
    EXPECT_EQ(write("block", contents(4096, 1)), -KAPI_ECONNABORTED);
    run(a, [&] {
        rtrs_clt_limits limits;
        EXPECT_EQ(rtrs_clt_core_query(session, &limits), 0);
    });
    server.reject = 0;
    std::uint64_t restored = world.now_ns();
    ASSERT_TRUE(world.run_until([&] { return links == std::vector<int>({0, 1}); }, 20 * kSecond));
    EXPECT_LT(world.now_ns() - restored, 5 * kSecond);
    EXPECT_EQ(write("block", contents(4096, 1)), 0);
}

TEST_P(RtrsClientFailover, a_server_that_says_nothing_is_dead_within_five_seconds)
{
    ready(2);
    world.run_for(kSecond);
    std::uint64_t begun = world.now_ns();
    server.on_request = [&](WireServer::Request &request) {
        if (server.muted)
            return false;
        server.muted = request.on->request.path;
        return true;
    };
    std::string data = contents(4096, 1);
    EXPECT_EQ(write("block", data, 30 * kSecond), 0);
    EXPECT_GT(world.now_ns() - begun, 3 * kSecond);
    EXPECT_LT(world.now_ns() - begun, 6 * kSecond);
    EXPECT_EQ(server.disk["block"], data);
}

/** As a virtual machine on a busy host does. */
TEST_P(RtrsClientFailover, a_server_that_stands_still_for_three_seconds_loses_no_path)
{
    ready(2);
    EXPECT_EQ(write("block", contents(4096, 1)), 0);
    b.pause(3 * kSecond, false);
    EXPECT_EQ(write("block", contents(4096, 2)), 0);
    EXPECT_EQ(read("block", 4096), contents(4096, 2));
    world.run_for(5 * kSecond);
    for (unsigned nth : {0, 1}) {
        EXPECT_EQ(get(path(nth) + "stats/reconnects"), "1 0\n");
        EXPECT_EQ(get(path(nth) + "last_error"), "0\n");
    }
}

TEST_P(RtrsClientFailover, an_idle_path_sends_heartbeats_and_answers_them)
{
    ready();
    world.run_for(10 * kSecond);
    EXPECT_GE(server.heartbeats, 10u);
    EXPECT_LE(server.heartbeats, 15u);
    run(b, [&] { server.immediate(*server.service(), rtrs::write_immediate(rtrs::ImmediateType::heartbeat)); });
    world.run_for(kSecond);
    EXPECT_EQ(server.heartbeat_answers, 1u);
    EXPECT_EQ(paths_at_server(), 1u);
    EXPECT_TRUE(links.empty());
}

TEST_P(RtrsClientFailover, all_frames_are_lost_for_a_while)
{
    ready();
    cut(true);
    std::uint64_t begun = world.now_ns();
    EXPECT_EQ(write("block", contents(4096, 1)), -KAPI_ECONNABORTED);
    EXPECT_LT(world.now_ns() - begun, 5 * kSecond);
    world.run_for(20 * kSecond);
    cut(false);
    std::uint64_t restored = world.now_ns();
    ASSERT_TRUE(world.run_until([&] { return !links.empty() && links.back() == 1; }, 100 * kSecond));
    EXPECT_LT(world.now_ns() - restored, 6 * kSecond);
    EXPECT_EQ(write("block", contents(4096, 1)), 0);
}

TEST_P(RtrsClientFailover, opening_fails_as_the_server_says)
{
    load();
    run(a, [&] { EXPECT_LT(try_open(), 0); }); // nobody listens
    serve();
    server.reject = KAPI_EEXIST;
    run(a, [&] { EXPECT_EQ(try_open(), -KAPI_EEXIST); });
    server.reject = 0;
    run(a, [&] { EXPECT_EQ(try_open(0), -KAPI_EINVAL); });
    run(a, [&] { EXPECT_EQ(try_open(1, "a/b"), -KAPI_EINVAL); });
    run(a, [&] { EXPECT_EQ(try_open(1, ""), -KAPI_EINVAL); });
    server.silent_info = true;
    run(a, [&] { EXPECT_EQ(try_open(), -KAPI_ETIMEDOUT); });
    server.silent_info = false;
    EXPECT_EQ(session, nullptr);
    open();
}

TEST_P(RtrsClientFailover, a_device_goes)
{
    ready(2);
    std::uint64_t begun = world.now_ns();
    run(a, [&] { sim::unplug_rdma(*devices[0]); }, 100 * kSecond);
    EXPECT_LT(world.now_ns() - begun, 3 * kSecond);
    EXPECT_EQ(write("block", contents(4096, 1)), 0);
    run(a, [&] { sim::unplug_rdma(*devices[1]); }, 100 * kSecond);
    EXPECT_EQ(write("block", contents(4096, 1)), -KAPI_ECONNABORTED);
}

TEST_P(RtrsClientFailover, a_request_that_one_device_cannot_carry_takes_the_other_path)
{
    run(a, [&] { sim::unplug_rdma(*devices[1]); });
    devices[1] = &sim::plug_rdma(a.initial_net(), "rxe_a1", 3, [](kapi_rdma_attrs &attrs) {
        attrs.max_wr = 64;
        attrs.max_sge = 2;
    });
    server.geometry = *rtrs::Geometry::create(2, 1 << 20);
    ready(2);
    EXPECT_EQ(put(root + "mp_policy", "rr"), 0);
    std::string bytes = contents(60, 1);
    for (int i = 0; i < 6; i++) {
        Ended ended;
        for (auto &byte : bytes)
            ended.list.push_back({reinterpret_cast<unsigned char *>(&byte), 0, 1});
        run(a, [&] {
            auto *permit = rtrs_clt_core_get_permit(session, 0, 1);
            rtrs_clt_request_args args{0, &ended, Ended::call, 0, bytes.size(), ended.list.data(), 60};
            int begun = rtrs_clt_core_request(session, permit, &args);
            EXPECT_EQ(begun, 0);
            while (!begun && !ended.done)
                world.sleep(sim::kMillisecond);
            EXPECT_EQ(ended.error, 0);
            rtrs_clt_core_put_permit(session, permit);
        });
    }
    EXPECT_EQ(get(path(1) + "stats/reconnects"), "1 0\n");
}

TEST_P(RtrsClientFailover, a_request_that_one_device_cannot_carry_is_tried_again_at_a_full_path)
{
    const std::pair<const char *, kapi_u32> pieces[] = {{"rxe_a0", 4}, {"rxe_a1", 2}};
    for (unsigned i = 0; i < 2; i++) {
        run(a, [&] { sim::unplug_rdma(*devices[i]); });
        devices[i] = &sim::plug_rdma(a.initial_net(), pieces[i].first, 2 + i, [&](kapi_rdma_attrs &attrs) {
            attrs.max_wr = 64;
            attrs.max_sge = pieces[i].second;
        });
    }
    server.geometry = *rtrs::Geometry::create(2, 1 << 20);
    ready(2);
    EXPECT_EQ(put(root + "mp_policy", "rr"), 0);
    std::string bytes = contents(60, 1);
    for (int i = 0; i < 6; i++) {
        Ended ended[2];
        rtrs_clt_chunk *permits[2];
        run(a, [&] {
            for (unsigned n = 0; n < 2; n++) {
                for (auto &byte : bytes)
                    ended[n].list.push_back({reinterpret_cast<unsigned char *>(&byte), 0, 1});
                permits[n] = rtrs_clt_core_get_permit(session, 0, 1);
                rtrs_clt_request_args args{0, &ended[n], Ended::call, 0, bytes.size(), ended[n].list.data(), 60};
                int begun = rtrs_clt_core_request(session, permits[n], &args);
                EXPECT_TRUE(begun == 0 || (begun == -KAPI_EAGAIN && n)) << begun; // then the program tries it again
                ended[n].done |= begun != 0;
            }
            while (!ended[0].done || !ended[1].done)
                world.sleep(sim::kMillisecond);
            for (unsigned n = 0; n < 2; n++) {
                EXPECT_EQ(ended[n].error, 0) << n;
                rtrs_clt_core_put_permit(session, permits[n]);
            }
        });
    }
}

TEST_P(RtrsClientFailover, closing_ends_requests)
{
    ready();
    server.mute = true;
    Ended ended;
    ended.data = contents(4096, 1);
    run(a, [&] {
        auto *permit = rtrs_clt_core_get_permit(session, 0, 1);
        EXPECT_EQ(begin(permit, ended, true, "block"), 0);
        world.spawn(a, "put", [&, permit, of = session] {
            while (!ended.done)
                world.sleep(sim::kMillisecond);
            rtrs_clt_core_put_permit(of, permit);
        });
    });
    close();
    EXPECT_EQ(ended.times, 1u);
    EXPECT_EQ(ended.error, -KAPI_ECONNABORTED);
}

/** It takes no other, although its path has not ended yet: those would wait for that. */
TEST_P(RtrsClientFailover, a_connection_whose_device_has_refused_a_request)
{
    ready(2);
    EXPECT_EQ(put(root + "mp_policy", "rr"), 0);
    sim::refuse_send(*devices[0], 0);
    std::vector<Ended> ended(4);
    std::vector<rtrs_clt_chunk *> taken(4);
    std::string at_first;
    run(a, [&] {
        for (unsigned i = 0; i < 4; i++) {
            ended[i].data = contents(4096, i);
            taken[i] = rtrs_clt_core_get_permit(session, 1, 1);
        }
        for (unsigned i = 0; i < 4; i++)
            EXPECT_EQ(begin(taken[i], ended[i], false, "block"), 0);
        EXPECT_GT(sim::sysfs_read(path(0) + "stats/rdma", at_first), 0);
    });
    EXPECT_EQ(at_first.substr(0, 11), "0 0 1 4101 ") << "reads and writes";
    EXPECT_TRUE(world.run_until([&] { return std::ranges::all_of(ended, [](const Ended &one) { return one.done; }); }, kSecond));
    run(a, [&] {
        for (unsigned i = 0; i < 4; i++) {
            EXPECT_EQ(ended[i].error, 0) << i;
            rtrs_clt_core_put_permit(session, taken[i]);
        }
    });
}

INSTANTIATE_TEST_SUITE_P(Seeds, RtrsClientFailover, ::testing::Range(1, 6));

} // namespace
