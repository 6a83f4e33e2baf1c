// SPDX-License-Identifier: GPL-2.0
// Sessions of the RTRS client: what they are opened with, what they show, and which path their requests take.
#include "rtrs_clt_test.h"

#include <set>

namespace {

class RtrsClientSession : public RtrsClientTest {
protected:
    static constexpr std::uint64_t kSecond = sim::kSecond;

    rtrs_clt_limits limits()
    {
        rtrs_clt_limits found{};
        run(a, [&] { EXPECT_EQ(rtrs_clt_core_query(session, &found), 1); });
        return found;
    }
    /** So many requests at a time, of which none is answered before all have come: how many came over each path. */
    std::map<std::array<kapi_u8, 16>, unsigned> spread(unsigned count)
    {
        std::vector<Ended> ended(count);
        std::vector<rtrs_clt_chunk *> permits(count);
        std::size_t before = server.requests.size();
        server.on_request = [](WireServer::Request &) { return true; };
        run(a, [&] {
            for (unsigned i = 0; i < count; i++) {
                permits[i] = rtrs_clt_core_get_permit(session, 0, 1);
                ended[i].data = contents(100, i);
                EXPECT_EQ(begin(permits[i], ended[i], false, "block"), 0);
            }
        });
        EXPECT_TRUE(world.run_until([&] { return server.requests.size() == before + count; }, kSecond));
        server.on_request = nullptr;
        std::map<std::array<kapi_u8, 16>, unsigned> of;
        run(b, [&] {
            for (std::size_t i = before; i < server.requests.size(); i++) {
                of[std::to_array(server.requests[i].on->request.path.bytes)]++;
                server.answer(*server.requests[i].on, server.requests[i].chunk, 0);
            }
        });
        EXPECT_TRUE(world.run_until([&] { return std::ranges::all_of(ended, &Ended::done); }, kSecond));
        run(a, [&] {
            for (auto *permit : permits)
                rtrs_clt_core_put_permit(session, permit);
        });
        return of;
    }
};

TEST_P(RtrsClientSession, its_limits)
{
    ready();
    rtrs_clt_limits found = limits();
    EXPECT_EQ(found.queue_depth, 8u);
    EXPECT_EQ(found.max_io_bytes, 61440u);
    EXPECT_EQ(found.max_segments, 16u);
    std::string all = contents(61440, 1), one_more = contents(61441, 1);
    EXPECT_EQ(request(false, "block", all), 0);
    EXPECT_EQ(request(false, "block", one_more), -KAPI_EMSGSIZE);
    EXPECT_TRUE(read("block", 61440) == all);
    EXPECT_EQ(request(true, "block", one_more), -KAPI_EMSGSIZE);
}

TEST_P(RtrsClientSession, its_limits_of_pieces)
{
    ready();
    std::string bytes = contents(17, 1);
    for (bool read : {false, true}) {
        Ended ended;
        for (auto &byte : bytes)
            ended.list.push_back({reinterpret_cast<unsigned char *>(&byte), 0, 1});
        run(a, [&] {
            auto *permit = rtrs_clt_core_get_permit(session, 0, 1);
            rtrs_clt_request_args args{read, &ended, Ended::call, 0, bytes.size(), ended.list.data(), 17};
            EXPECT_EQ(rtrs_clt_core_request(session, permit, &args), -KAPI_EMSGSIZE);
            rtrs_clt_core_put_permit(session, permit);
        });
    }
}

/** As the kernel's own says it, whatever the connection manager says. */
TEST_P(RtrsClientSession, without_a_server)
{
    load();
    run(a, [&] { EXPECT_EQ(try_open(), -KAPI_ECONNRESET); });
}

TEST_P(RtrsClientSession, each_policy_uses_both_paths)
{
    ready(2);
    for (const char *policy : {"round-robin", "min-inflight"}) {
        EXPECT_EQ(put(root + "mp_policy", policy), 0);
        auto of = spread(8);
        EXPECT_EQ(of.size(), 2u) << policy;
        for (auto &[path, count] : of)
            EXPECT_GE(count, (8 - sim::kCpus) / 2) << policy; // each processor has its own turn
    }
}

TEST_P(RtrsClientSession, min_inflight_prefers_the_path_that_has_less_to_do)
{
    ready(2);
    EXPECT_EQ(put(root + "mp_policy", "min-inflight"), 0);
    std::vector<Ended> ended(8);
    std::vector<rtrs_clt_chunk *> permits;
    std::set<std::size_t> answered;
    server.on_request = [](WireServer::Request &) { return true; };
    auto path_of = [&](std::size_t i) { return std::to_array(server.requests[i].on->request.path.bytes); };
    auto ask = [&](unsigned count) {
        run(a, [&] {
            for (; count; count--) {
                Ended &one = ended[permits.size()];
                permits.push_back(rtrs_clt_core_get_permit(session, 0, 1));
                one.data = contents(100, 1);
                EXPECT_EQ(begin(permits.back(), one, false, "block"), 0);
            }
        });
        ASSERT_TRUE(world.run_until([&] { return server.requests.size() == permits.size(); }, kSecond));
    };
    auto answer_if = [&](auto condition) {
        run(b, [&] {
            for (std::size_t i = 0; i < server.requests.size(); i++)
                if (condition(i) && answered.insert(i).second)
                    server.answer(*server.requests[i].on, server.requests[i].chunk, 0);
        });
        world.run_for(10 * sim::kMillisecond);
    };
    ask(4);
    for (auto idle : {path_of(0), path_of(1)}) { // in turn
        answer_if([&](std::size_t i) { return path_of(i) == idle; });
        ask(2);
        for (std::size_t i = server.requests.size() - 2; i < server.requests.size(); i++)
            EXPECT_EQ(path_of(i), idle) << i;
    }
    answer_if([](std::size_t) { return true; });
    run(a, [&] {
        for (auto *permit : permits)
            rtrs_clt_core_put_permit(session, permit);
    });
}

/** A new path is as fast as the fastest until its latency is known: it gets its share, and not everything. */
TEST_P(RtrsClientSession, min_latency_does_not_pile_up_requests_on_a_new_path)
{
    ready(2);
    EXPECT_EQ(put(root + "mp_policy", "min-latency"), 0);
    world.run_for(kSecond);
    server.muted = server.service(1)->request.path; // its heartbeats are not answered
    kapi_cm_info info;
    kapi_cm_describe(server.service(1)->cm, &info);
    unsigned nth = info.local.ip[14];
    EXPECT_EQ(put(path(nth) + "reconnect", "1"), 0);
    EXPECT_EQ(get(path(nth) + "cur_latency"), "0 ns\n");
    EXPECT_NE(get(path(1 - nth) + "cur_latency"), "0 ns\n");
    auto of = spread(8);
    EXPECT_EQ(of.size(), 2u);
    for (auto &[path, count] : of)
        EXPECT_EQ(count, 4u);
}

TEST_P(RtrsClientSession, every_state_is_shown)
{
    ready();
    std::set<std::string> seen;
    bool watches = true;
    auto watcher = world.spawn(a, "watch", [&] {
        while (watches) {
            std::string text;
            EXPECT_GT(sim::sysfs_read(path() + "state_detail", text), 0);
            seen.insert(text);
            std::string brief;
            EXPECT_GT(sim::sysfs_read(path() + "state", brief), 0);
            EXPECT_TRUE(brief == "connected\n" || brief == "disconnected\n") << brief;
            world.sleep(20 * sim::kMicrosecond);
        }
    });
    for (int i = 0; i < 10; i++)
        EXPECT_EQ(put(path() + "reconnect", "1"), 0);
    server.reject = KAPI_EBUSY;
    run(b, [&] { server.disconnect_all(); });
    world.run_for(kSecond);
    EXPECT_EQ(get(path() + "last_error"), std::to_string(-KAPI_EBUSY) + "\n") << "of the last attempt";
    EXPECT_EQ(put(path() + "disconnect", "1"), 0);
    world.run_for(sim::kMillisecond);
    watches = false;
    ASSERT_TRUE(world.run_until([&] { return watcher->is_done(); }, kSecond));
    EXPECT_EQ(seen, (std::set<std::string>{"connected\n", "connecting\n", "ending\n", "stopped\n", "waiting\n"}));
}

/** The server may not have noticed that the path was removed. */
TEST_P(RtrsClientSession, a_path_that_was_removed_is_added_at_once)
{
    ready(2);
    EXPECT_EQ(put(path(1) + "remove_path", "1"), 0);
    server.reject = KAPI_EEXIST;
    unsigned before = server.asked, rejected = 0;
    world.after(3 * kSecond, [&] {
        server.reject = 0;
        rejected = server.asked - before;
    });
    EXPECT_EQ(put(root + "add_path", path_name(1)), 0);
    EXPECT_GE(rejected, 4u); // each takes the time of the connection manager, too
    EXPECT_LE(rejected, 7u) << "half a second between two attempts";
    EXPECT_EQ(put(path(1) + "remove_path", "1"), 0);
    world.run_for(10 * kSecond);
    server.reject = KAPI_EEXIST;
    std::uint64_t begun = world.now_ns();
    EXPECT_EQ(put(root + "add_path", path_name(1)), -KAPI_EEXIST);
    EXPECT_LT(world.now_ns() - begun, kSecond) << "the server has had the time to notice";
}

/** The server has another path between these addresses, which does not go because an attempt was made. */
TEST_P(RtrsClientSession, a_path_that_was_refused_is_refused_at_once_the_next_time)
{
    ready(2);
    EXPECT_EQ(put(path(1) + "remove_path", "1"), 0);
    world.run_for(10 * kSecond);
    server.reject = KAPI_EEXIST;
    for (unsigned attempt = 0; attempt < 3; attempt++) {
        std::uint64_t begun = world.now_ns();
        EXPECT_EQ(put(root + "add_path", path_name(1)), -KAPI_EEXIST);
        EXPECT_LT(world.now_ns() - begun, kSecond) << attempt;
    }
}

TEST_P(RtrsClientSession, settings_change_while_paths_come_and_go)
{
    ready(2);
    bool writes = true;
    auto writer = world.spawn(a, "write", [&] {
        while (writes) {
            EXPECT_EQ(sim::sysfs_write(root + "io_timeout_ms", "1000"), 0);
            world.sleep(world.random().below(200 * sim::kMicrosecond));
        }
    });
    for (int i = 0; i < 4; i++) {
        EXPECT_EQ(put(path(1) + "remove_path", "1"), 0);
        EXPECT_EQ(put(root + "add_path", path_name(1)), 0);
    }
    writes = false;
    ASSERT_TRUE(world.run_until([&] { return writer->is_done(); }, kSecond));
    EXPECT_EQ(write("block", contents(4096, 1)), 0);
}

TEST_P(RtrsClientSession, a_module_parameter_is_what_new_sessions_have)
{
    params = {100, 7, 300, 1000, 5000};
    ready();
    EXPECT_EQ(get(root + "heartbeat_interval_ms"), "100\n");
    EXPECT_EQ(get(root + "heartbeat_missed"), "7\n");
    EXPECT_EQ(get(root + "reconnect_delay_ms"), "300\n");
    EXPECT_EQ(get(root + "no_path_timeout_ms"), "1000\n");
    EXPECT_EQ(get(root + "io_timeout_ms"), "5000\n");
}

TEST_P(RtrsClientSession, a_module_parameter_is_checked_as_its_file)
{
    module = &a.load_module("rtrs_client");
    const rtrs_clt_core_params bad[] = {{99, 4, 2000, 0, 0},      {60001, 4, 2000, 0, 0},   {800, 0, 2000, 0, 0},
                                        {800, 101, 2000, 0, 0},   {800, 4, 99, 0, 0},       {800, 4, 600001, 0, 0},
                                        {800, 4, 2000, 3600001, 0}, {800, 4, 2000, 0, 3600001}};
    run(a, [&] {
        for (const auto &each : bad)
            EXPECT_EQ(rtrs_clt_core_init(module, &each), -KAPI_EINVAL);
        EXPECT_EQ(a.log.size(), std::size(bad));
        EXPECT_EQ(std::ranges::count(a.log, "rtrs_client: heartbeat_interval_ms 99 is not between 100 and 60000"), 1);
        const rtrs_clt_core_params good[] = {{100, 1, 100, 0, 0}, {60000, 100, 600000, 3600000, 3600000}};
        for (const auto &each : good) {
            EXPECT_EQ(rtrs_clt_core_init(module, &each), 0);
            rtrs_clt_core_exit();
        }
        EXPECT_TRUE(a.start_unload(*module));
        a.unload_done(*module);
    });
}

TEST_P(RtrsClientSession, one_of_another_namespace)
{
    kapi_net &other = a.add_net();
    other.add(sim::address("10.0.2.1"));
    other.add(sim::address("10.0.3.1"), 3);
    sim::plug_rdma(other, "rxe_n0", 2);
    sim::plug_rdma(other, "rxe_n1", 3);
    load();
    serve();
    rtrs_clt_route from{KAPI_CM_IP, sim::address("10.0.2.1"), sim::address("10.0.0.2")};
    run(a, [&] { EXPECT_EQ(try_open(&a.initial_net(), &from, 1), -KAPI_EADDRNOTAVAIL) << "an address of that one"; });
    run(a, [&] { ASSERT_EQ(try_open(&other, &from, 1), 0); });
    EXPECT_EQ(write("block", contents(4096, 1)), 0);
    EXPECT_EQ(put(root + "add_path", "ip:10.0.0.1@ip:10.0.1.2"), -KAPI_EADDRNOTAVAIL) << "an address of the first one";
    EXPECT_EQ(put(root + "add_path", "ip:10.0.3.1@ip:10.0.1.2"), 0) << "the namespace of the writer does not matter";
    EXPECT_EQ(read("block", 4096), contents(4096, 1));
    EXPECT_EQ(get(root + "paths/ip:10.0.3.1@ip:10.0.1.2/hca_name"), "rxe_n1\n");
    EXPECT_EQ(put(root + "paths/ip:10.0.2.1@ip:10.0.0.2/remove_path", "1"), 0);
    EXPECT_EQ(read("block", 4096), contents(4096, 1));
}

TEST_P(RtrsClientSession, paths_between_gids)
{
    load();
    server.by_gid = true;
    serve();
    rtrs_clt_route between{KAPI_CM_GID, sim::address("10.0.0.1"), sim::address("10.0.0.2")};
    run(a, [&] { ASSERT_EQ(try_open(&a.initial_net(), &between, 1), 0); });
    const std::string gid = "gid:0000:0000:0000:0000:0000:ffff:0a00:";
    const std::string first = root + "paths/" + gid + "0001@" + gid + "0002/";
    EXPECT_EQ(get(first + "src_addr"), gid + "0001\n");
    EXPECT_EQ(get(first + "dst_addr"), gid + "0002\n");
    EXPECT_EQ(write("block", contents(4096, 1)), 0);
    EXPECT_EQ(put(root + "add_path", gid + "0101," + gid + "0102"), 0);
    EXPECT_EQ(get(root + "paths/" + gid + "0101@" + gid + "0102/state"), "connected\n");
    EXPECT_EQ(put(first + "remove_path", "1"), 0);
    EXPECT_EQ(read("block", 4096), contents(4096, 1));
}

/** The server decides how long the queues of each processor's connection are, and how many pages a region has. */
TEST_P(RtrsClientSession, its_queues_and_regions_are_a_small_part_of_the_memory)
{
    load();
    serve();
    server.change_acceptance = [](rtrs::wire::ConnectResponse &response) {
        response.queue_depth = 128;
        response.max_io_bytes = (2 << 20) - 4096;
    };
    a.total_memory = 128ull * 4096 * 64; // the messages alone have room
    run(a, [&] { EXPECT_EQ(try_open(), -KAPI_ENOMEM); });
    a.total_memory *= 4;
    run(a, [&] { EXPECT_EQ(try_open(), -KAPI_EPROTO) << "its information is of fewer chunks"; });
}

/** Each path has queues of its own, which a better device allows to be longer. */
TEST_P(RtrsClientSession, the_queues_of_a_further_path_are_a_small_part_of_the_memory)
{
    run(a, [&] { sim::unplug_rdma(*devices[0]); });
    devices[0] = &sim::plug_rdma(a.initial_net(), "rxe_a0", 2, [](kapi_rdma_attrs &attrs) { attrs.max_wr = 64; });
    server.geometry = *rtrs::Geometry::create(64, 8192);
    ready();
    // For each chunk its message, a region and the list of its pages; and of each connection 64 entries in each direction, of
    // which those to be sent have sixteen pieces, in rings of powers of two: hawser/queue_memory.h.
    const std::uint64_t sends = 256 * 512 + 64 * (88 + 16 * 16), receives = 128 * 64 + 64 * 8, completions = 512 * 128;
    const std::uint64_t takes = 64 * (4096 + 512 + 2 * 16) + (sim::kCpus + 1) * (sends + receives + completions);
    a.total_memory = 16 * (takes + 20'000);
    EXPECT_EQ(put(path(0) + "reconnect", "1"), 0);
    EXPECT_EQ(put(root + "add_path", path_name(1)), -KAPI_ENOMEM) << "its queues are longer";
    a.total_memory = 16 * takes - 1;
    EXPECT_EQ(put(path(0) + "reconnect", "1"), -KAPI_ENOMEM);
    a.total_memory = 16 * takes;
    EXPECT_EQ(put(path(0) + "reconnect", "1"), 0);
    a.total_memory *= 4;
    EXPECT_EQ(put(root + "add_path", path_name(1)), 0);
}

/** A request that will never find room does not wait for it. */
TEST(RtrsClientShortQueue, a_write_of_more_pieces_than_it_takes)
{
    class Narrow : public RtrsClientBase {
    public:
        Narrow() : RtrsClientBase(1, 64, 2)
        {
            server.geometry = *rtrs::Geometry::create(2, 1 << 20);
        }
        void TestBody() override
        {
            ready();
            std::string bytes = contents(128, 1);
            // Of two pieces each, one of them the message, the queue takes 22.
            for (unsigned count : {43u, 44u}) {
                Ended ended;
                for (unsigned i = 0; i < count; i++)
                    ended.list.push_back({reinterpret_cast<unsigned char *>(&bytes[i]), 0, 1});
                run(a, [&] {
                    auto *permit = rtrs_clt_core_get_permit(session, 0, 1);
                    rtrs_clt_request_args args{0, &ended, Ended::call, 0, count, ended.list.data(), count};
                    EXPECT_EQ(rtrs_clt_core_request(session, permit, &args), count == 44 ? -KAPI_EMSGSIZE : 0);
                    for (int i = 0; i < 1000 && count == 43 && !ended.done; i++)
                        world.sleep(sim::kMillisecond);
                    EXPECT_EQ(ended.times, count == 43 ? 1u : 0u);
                    rtrs_clt_core_put_permit(session, permit);
                });
            }
        }
    };
    Narrow().TestBody();
}

INSTANTIATE_TEST_SUITE_P(Seeds, RtrsClientSession, ::testing::Range(1, 4));

} // namespace
