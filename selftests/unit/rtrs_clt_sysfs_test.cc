// SPDX-License-Identifier: GPL-2.0
// What the RTRS client shows in /sys, and what can be set and commanded there.
#include "rtrs_clt_test.h"

#include <algorithm>
#include <cstdio>
#include <sstream>

namespace {

class RtrsClientSysfs : public RtrsClientTest {
protected:
    std::vector<std::string> names()
    {
        std::vector<std::string> found;
        run(a, [&] { found = sim::sysfs_list(root + "paths"); });
        return found;
    }
};

TEST_P(RtrsClientSysfs, a_new_session_shows_this)
{
    ready(2);
    EXPECT_EQ(names(), (std::vector<std::string>{path_name(0), path_name(1)}));
    const std::pair<std::string, std::string> files[] = {
        {root + "max_reconnect_attempts", "-1\n"},
        {root + "mp_policy", "min-inflight (MI: 1)\n"},
        {root + "mpath_policy", "min-inflight (MI: 1)\n"},
        {root + "heartbeat_interval_ms", "800\n"},
        {root + "heartbeat_missed", "4\n"},
        {root + "reconnect_delay_ms", "2000\n"},
        {root + "no_path_timeout_ms", "0\n"},
        {root + "io_timeout_ms", "0\n"},
        {path(0) + "hca_name", "rxe_a0\n"},
        {path(1) + "hca_name", "rxe_a1\n"},
        {path(0) + "hca_port", "1\n"},
        {path(0) + "src_addr", "ip:10.0.0.1\n"},
        {path(0) + "dst_addr", "ip:10.0.0.2\n"},
        {path(0) + "state", "connected\n"},
        {path(0) + "state_detail", "connected\n"},
        {path(0) + "last_error", "0\n"},
        {path(0) + "reconnect", "Usage: echo 1 > reconnect\n"},
        {path(0) + "disconnect", "Usage: echo 1 > disconnect\n"},
        {path(0) + "remove_path", "Usage: echo 1 > remove_path\n"},
        {path(0) + "stats/rdma", "0 0 0 0 0 0\n"},
        {path(0) + "stats/reconnects", "1 0\n"},
    };
    for (const auto &[file, text] : files)
        EXPECT_EQ(get(file), text) << file;
    world.run_for(sim::kSecond);
    EXPECT_NE(get(path(0) + "cur_latency"), "0 ns\n");
}

TEST_P(RtrsClientSysfs, requests_are_counted)
{
    ready();
    EXPECT_EQ(write("block", contents(5000, 1)), 0);
    EXPECT_EQ(read("block", 5000), contents(5000, 1));
    EXPECT_EQ(read("block", 4096).size(), 4096u);
    EXPECT_EQ(get(path() + "stats/rdma"), "2 9106 1 5005 0 0\n");
    std::string lists = get(path() + "stats/sg_entries");
    EXPECT_EQ(lists.substr(0, lists.find('\n')), "cpu: 0 1 2 3-4 5-8 9-16 17-32 >32");
    EXPECT_EQ(std::count(lists.begin(), lists.end(), '\n'), 1 + static_cast<long>(sim::kCpus));
    std::string latencies = get(path() + "stats/rdma_lat");
    EXPECT_EQ(std::count(latencies.begin(), latencies.end(), '\n'), 19);
    EXPECT_EQ(latencies.substr(0, 6), "1 ms: ");
    EXPECT_NE(latencies.find("\n>= 65536 ms: 0 0\nmaximum ms: "), std::string::npos);
    unsigned reads = 0, writes = 0;
    for (std::size_t at = 0; (at = latencies.find(" ms: ", at)) < latencies.find("maximum"); at++) {
        unsigned of_read = 0, of_write = 0;
        ASSERT_EQ(std::sscanf(latencies.c_str() + at, " ms: %u %u", &of_read, &of_write), 2);
        reads += of_read, writes += of_write;
    }
    EXPECT_EQ(reads, 2u);
    EXPECT_EQ(writes, 1u);
    EXPECT_NE(get(path() + "stats/wc_completion").substr(0, 2), "0 ");
    EXPECT_EQ(put(path() + "stats/rdma", "1\n"), 0);
    EXPECT_EQ(get(path() + "stats/rdma"), "0 0 0 0 0 0\n");
    EXPECT_EQ(write("block", contents(10, 1)), 0);
    EXPECT_EQ(get(path() + "stats/rdma"), "0 0 1 15 0 0\n");
    for (const char *file : {"stats/rdma", "stats/reconnects", "stats/cpu_migration_from", "stats/cpu_migration_to"}) {
        for (const char *text : {"0", "2", "x", "\n"})
            EXPECT_EQ(put(path() + file, text), -KAPI_EINVAL) << file << text;
        EXPECT_EQ(put(path() + file, "1"), 0);
    }
    for (const char *text : {"2", "x", "\n", "11"})
        EXPECT_EQ(put(path() + "stats/reset_all", text), -KAPI_EINVAL);
    EXPECT_EQ(put(path() + "stats/reset_all", "0"), 0);
    EXPECT_EQ(put(path() + "stats/reset_all", "1\n"), 0);
    EXPECT_EQ(get(path() + "stats/reconnects"), "0 0\n");
}

TEST_P(RtrsClientSysfs, each_column_has_its_own)
{
    ready();
    EXPECT_EQ(write("block", contents(5000, 1)), 0); // a list of two
    EXPECT_EQ(read("block", 5000).size(), 5000u);
    EXPECT_EQ(read("block", 4096).size(), 4096u);
    EXPECT_EQ(write("flush", ""), 0);
    std::istringstream lists(get(path() + "stats/sg_entries"));
    std::string line;
    std::getline(lists, line);
    std::vector<unsigned> sums(8);
    for (unsigned cpu = 0; std::getline(lists, line); cpu++) {
        std::istringstream numbers(line);
        std::string name;
        numbers >> name;
        EXPECT_EQ(name, std::to_string(cpu) + ":");
        for (unsigned &sum : sums) {
            unsigned one = ~0u;
            numbers >> one;
            sum += one;
        }
        EXPECT_TRUE(numbers.eof()) << line;
    }
    EXPECT_EQ(sums, (std::vector<unsigned>{1, 1, 2, 0, 0, 0, 0, 0}));
    std::istringstream latencies(get(path() + "stats/rdma_lat"));
    for (unsigned i = 0; i < 18; i++) {
        std::getline(latencies, line);
        std::string label = i < 17 ? std::to_string(1u << i) + " ms: " : ">= 65536 ms: ";
        EXPECT_EQ(line.substr(0, label.size()), label);
    }
    const std::string none = "0 0 0 0 \n"; // nothing was handled on another processor than it was expected
    EXPECT_EQ(get(path() + "stats/cpu_migration_from").size(), none.size());
    EXPECT_EQ(get(path() + "stats/cpu_migration"),
              "from: " + get(path() + "stats/cpu_migration_from") + "to: " + get(path() + "stats/cpu_migration_to"));
    EXPECT_EQ(put(path() + "stats/reset_all", "1"), 0);
    EXPECT_EQ(get(path() + "stats/wc_completion"), "0 0\n");
    EXPECT_EQ(get(path() + "stats/cpu_migration"), "from: " + none + "to: " + none);
    EXPECT_EQ(get(path() + "stats/reset_all"), "echo 1 to reset all statistics\n");
    server.poll_ns = 3 * sim::kSecond;
    world.run_for(sim::kMillisecond);
    EXPECT_EQ(write("block", contents(100, 1)), 0);
    server.poll_ns = sim::kMillisecond;
    std::string text = get(path() + "stats/rdma_lat");
    unsigned longest = 0;
    EXPECT_EQ(std::sscanf(text.c_str() + text.rfind('\n', text.size() - 2), "\nmaximum ms: %u", &longest), 1);
    EXPECT_GE(longest, 2000u);
    EXPECT_LT(longest, 4000u);
    EXPECT_NE(text.find("\n4096 ms: 0 1\n"), std::string::npos);
}

TEST_P(RtrsClientSysfs, a_loss_is_logged)
{
    ready();
    EXPECT_EQ(put(path() + "reconnect", "1"), 0);
    EXPECT_EQ(put(path() + "disconnect", "1"), 0);
    EXPECT_EQ(put(path() + "reconnect", "1"), 0);
    auto losses = [&] {
        return std::count(a.log.begin(), a.log.end(), "rtrs_client: session: a path over rxe_a0 is lost: error 104");
    };
    EXPECT_EQ(losses(), 0) << "these are none";
    run(b, [&] { server.disconnect_all(); });
    EXPECT_TRUE(world.run_until([&] { return losses() == 1; }, sim::kSecond));
}

TEST_P(RtrsClientSysfs, a_reset_leaves_what_is_in_flight)
{
    ready();
    bool held = false;
    server.on_request = [&](WireServer::Request &) { return !std::exchange(held, true); };
    Ended ended;
    ended.data = contents(100, 1);
    rtrs_clt_chunk *permit = nullptr;
    run(a, [&] {
        permit = rtrs_clt_core_get_permit(session, 0, 1);
        EXPECT_EQ(begin(permit, ended, false, "block"), 0);
    });
    ASSERT_TRUE(world.run_until([&] { return held; }, sim::kSecond));
    EXPECT_EQ(put(path() + "stats/reset_all", "1"), 0);
    EXPECT_EQ(get(path() + "stats/rdma"), "0 0 0 0 1 0\n");
    run(b, [&] { server.answer(*server.requests[0].on, server.requests[0].chunk, 0); });
    ASSERT_TRUE(world.run_until([&] { return ended.done; }, sim::kSecond));
    EXPECT_EQ(get(path() + "stats/rdma"), "0 0 0 0 0 0\n");
    run(a, [&] { rtrs_clt_core_put_permit(session, permit); });
}

TEST_P(RtrsClientSysfs, settings_have_limits)
{
    ready();
    struct {
        const char *file, *text, *shown;
    } good[] = {
        {"mp_policy", "0", "round-robin (RR: 0)\n"},      {"mp_policy", "ML\n", "min-latency (ML: 2)\n"},
        {"mpath_policy", "Min-Inflight", "min-inflight (MI: 1)\n"}, {"mpath_policy", "round-robinX", "round-robin (RR: 0)\n"},
        {"max_reconnect_attempts", "9999", "9999\n"},     {"max_reconnect_attempts", "-1\n", "-1\n"},
        {"heartbeat_interval_ms", "100", "100\n"},        {"no_path_timeout_ms", "5000", "5000\n"},
        {"mp_policy", "MIN-LATENCY", "min-latency (ML: 2)\n"}, {"mp_policy", "Rr", "round-robin (RR: 0)\n"},
        {"mp_policy", "1\n", "min-inflight (MI: 1)\n"},
    };
    for (const auto &row : good) {
        EXPECT_EQ(put(root + row.file, row.text), 0) << row.file << " " << row.text;
        EXPECT_EQ(get(root + row.file), row.shown);
    }
    struct {
        const char *file, *text;
    } bad[] = {{"mp_policy", "3"}, {"mp_policy", "bogus"}, {"mp_policy", "\n"}, {"mp_policy", "r"}, {"mp_policy", "rrr"},
               {"mp_policy", "round-robi"}, {"mp_policy", "m"}, {"mp_policy", "Mr"}, {"mp_policy", "[r"}, {"mp_policy", "-1"},
               {"max_reconnect_attempts", "-2"}, {"max_reconnect_attempts", "10000"}, {"max_reconnect_attempts", "x"},
               {"max_reconnect_attempts", "\n"}, {"heartbeat_interval_ms", "99"}, {"heartbeat_missed", "0"},
               {"reconnect_delay_ms", "-1"}, {"no_path_timeout_ms", "3600001"},
               {"io_timeout_ms", "3600001"}, {"io_timeout_ms", "-1"}, {"add_path", "\n"}, {"add_path", "foo"},
               {"add_path", "10.0.0.2"}, {"add_path", "ip:10.0.0.300"}, {"add_path", "ip:10.0.0.1@gid:fe80::1"}};
    for (const auto &row : bad)
        EXPECT_EQ(put(root + row.file, row.text), -KAPI_EINVAL) << row.file << " " << row.text;
}

TEST_P(RtrsClientSysfs, a_path_is_added_disconnected_reconnected_and_removed)
{
    ready();
    EXPECT_EQ(put(root + "add_path", "ip:10.0.1.1,ip:10.0.1.2\n"), 0);
    EXPECT_EQ(names().size(), 2u);
    EXPECT_FALSE(server.service(1)->request.first) << "the session is there";
    EXPECT_EQ(put(root + "add_path", "ip:10.0.1.1@ip:10.0.1.2"), -KAPI_EEXIST);
    EXPECT_EQ(put(root + "add_path", "ip:10.0.9.1@ip:10.0.1.2"), -KAPI_EADDRNOTAVAIL);
    EXPECT_EQ(put(path(0) + "disconnect", "2"), -KAPI_EINVAL);
    EXPECT_EQ(put(path(0) + "disconnect", "1"), 0);
    EXPECT_EQ(get(path(0) + "state"), "disconnected\n");
    EXPECT_EQ(get(path(0) + "state_detail"), "stopped\n");
    EXPECT_EQ(put(path(0) + "disconnect", "1\n"), 0);
    world.run_for(20 * sim::kSecond);
    EXPECT_EQ(get(path(0) + "state"), "disconnected\n") << "it stays so";
    EXPECT_EQ(write("block", contents(4096, 1)), 0);
    EXPECT_EQ(put(path(0) + "reconnect", "2"), -KAPI_EINVAL);
    EXPECT_EQ(get(path(0) + "state"), "disconnected\n");
    EXPECT_EQ(put(path(0) + "reconnect", "1"), 0);
    EXPECT_EQ(get(path(0) + "state"), "connected\n");
    EXPECT_EQ(put(path(0) + "reconnect", "1"), 0) << "of one that is connected";
    EXPECT_EQ(get(path(0) + "stats/reconnects"), "3 0\n");
    EXPECT_EQ(put(path(0) + "remove_path", "0"), -KAPI_EINVAL);
    EXPECT_EQ(put(path(0) + "remove_path", "1"), 0);
    EXPECT_EQ(names(), std::vector<std::string>{path_name(1)});
    EXPECT_EQ(write("block", contents(4096, 2)), 0);
    EXPECT_TRUE(links.empty());
    EXPECT_EQ(put(path(1) + "remove_path", "1"), 0);
    EXPECT_EQ(write("block", contents(4096, 2)), -KAPI_ECONNABORTED);
    ASSERT_TRUE(world.run_until([&] { return links == std::vector<int>{0}; }, sim::kSecond));
    world.run_for(sim::kMillisecond); // until that call has returned
    EXPECT_EQ(put(root + "add_path", "ip:10.0.1.2"), 0);
    ASSERT_TRUE(world.run_until([&] { return links == std::vector<int>({0, 1}); }, sim::kSecond));
    EXPECT_EQ(read("block", 4096).size(), 4096u);
}

TEST_P(RtrsClientSysfs, a_path_that_is_being_removed_takes_no_command)
{
    ready(2);
    for (unsigned round = 0; round < 20; round++) {
        auto remover = world.spawn(a, "remover", [&] { EXPECT_EQ(sim::sysfs_write(path(1) + "remove_path", "1"), 0); });
        auto other = world.spawn(a, "other", [&] {
            world.sleep(world.random().below(200 * sim::kMicrosecond));
            EXPECT_NE(sim::sysfs_write(path(1) + (round % 2 ? "reconnect" : "disconnect"), "1"), -KAPI_ETIMEDOUT);
        });
        ASSERT_TRUE(world.run_until([&] { return remover->is_done() && other->is_done(); }, 5 * sim::kSecond));
        EXPECT_EQ(names(), std::vector<std::string>{path_name(0)});
        ASSERT_EQ(put(root + "add_path", path_name(1)), 0);
    }
}

TEST_P(RtrsClientSysfs, a_name_is_used_once)
{
    ready();
    rtrs_clt_session *first = std::exchange(session, nullptr);
    run(a, [&] { EXPECT_EQ(try_open(), -KAPI_EEXIST); });
    session = first;
}

TEST_P(RtrsClientSysfs, requests_wait_for_a_path_if_they_may)
{
    ready();
    EXPECT_EQ(put(root + "no_path_timeout_ms", "3000"), 0);
    EXPECT_EQ(put(path() + "disconnect", "1"), 0);
    ASSERT_TRUE(world.run_until([&] { return links == std::vector<int>{0}; }, sim::kSecond));
    world.run_for(sim::kMillisecond); // until that call has returned
    std::uint64_t begun = world.now_ns();
    EXPECT_EQ(write("block", contents(4096, 1)), -KAPI_ECONNABORTED);
    EXPECT_GE(world.now_ns() - begun, 3 * sim::kSecond);
    EXPECT_LT(world.now_ns() - begun, 4 * sim::kSecond);
    Ended ended;
    ended.data = contents(4096, 7);
    rtrs_clt_chunk *permit = nullptr;
    run(a, [&] {
        permit = rtrs_clt_core_get_permit(session, 0, 1);
        EXPECT_EQ(begin(permit, ended, false, "late"), 0);
    });
    world.run_for(sim::kSecond);
    EXPECT_FALSE(ended.done);
    EXPECT_EQ(put(path() + "reconnect", "1"), 0);
    ASSERT_TRUE(world.run_until([&] { return ended.done; }, sim::kSecond));
    EXPECT_EQ(ended.error, 0);
    EXPECT_EQ(server.disk["late"], ended.data);
    run(a, [&] { rtrs_clt_core_put_permit(session, permit); });
}

TEST_P(RtrsClientSysfs, attempts_end_with_their_number)
{
    ready();
    EXPECT_EQ(put(root + "max_reconnect_attempts", "3"), 0);
    server.reject = KAPI_EBUSY;
    unsigned asked = server.asked;
    run(b, [&] { server.disconnect_all(); });
    world.run_for(60 * sim::kSecond);
    EXPECT_EQ(server.asked - asked, 3u);
    EXPECT_EQ(get(path() + "state_detail"), "stopped\n");
    EXPECT_EQ(get(path() + "last_error"), std::to_string(-KAPI_EBUSY) + "\n");
    EXPECT_EQ(get(path() + "stats/reconnects"), "1 3\n");
    EXPECT_EQ(put(path() + "reconnect", "1"), -KAPI_EBUSY);
    world.run_for(60 * sim::kSecond);
    EXPECT_EQ(server.asked - asked, 7u) << "the one that was asked for, and three more";
    server.reject = 0;
    EXPECT_EQ(put(path() + "reconnect", "1"), 0);
}

TEST_P(RtrsClientSysfs, a_lost_path_stays_so_if_no_attempt_is_wanted)
{
    ready();
    EXPECT_EQ(put(root + "max_reconnect_attempts", "0"), 0);
    unsigned asked = server.asked;
    run(b, [&] { server.disconnect_all(); });
    world.run_for(60 * sim::kSecond);
    EXPECT_EQ(server.asked, asked);
    EXPECT_EQ(get(path() + "state_detail"), "stopped\n");
    EXPECT_EQ(put(path() + "reconnect", "1"), 0);
}

TEST_P(RtrsClientSysfs, a_reconnect_does_not_wait_for_the_next_attempt)
{
    ready();
    EXPECT_EQ(put(root + "reconnect_delay_ms", "600000"), 0);
    server.reject = KAPI_EBUSY;
    run(b, [&] { server.disconnect_all(); });
    world.run_for(100 * sim::kSecond);
    EXPECT_EQ(get(path() + "state_detail"), "waiting\n");
    server.reject = 0;
    std::uint64_t begun = world.now_ns();
    EXPECT_EQ(put(path() + "reconnect", "1"), 0);
    EXPECT_LT(world.now_ns() - begun, 2 * sim::kSecond);
}

TEST_P(RtrsClientSysfs, a_shorter_time_holds_at_once)
{
    ready();
    EXPECT_EQ(put(root + "heartbeat_interval_ms", "60000"), 0);
    world.run_for(2 * sim::kSecond);
    unsigned before = server.heartbeats;
    EXPECT_EQ(put(root + "heartbeat_interval_ms", "100"), 0);
    world.run_for(sim::kSecond);
    EXPECT_GE(server.heartbeats - before, 8u);
    EXPECT_EQ(put(root + "reconnect_delay_ms", "600000"), 0);
    server.reject = KAPI_EBUSY;
    run(b, [&] { server.disconnect_all(); });
    world.run_for(200 * sim::kSecond);
    before = server.asked;
    EXPECT_EQ(put(root + "reconnect_delay_ms", "100"), 0);
    world.run_for(sim::kSecond);
    EXPECT_GE(server.asked - before, 3u);
}

/** A path that is being added is not a path of the session's yet. */
TEST_P(RtrsClientSysfs, a_time_that_is_set_while_a_path_comes_up_holds_at_once)
{
    using Self = std::remove_pointer_t<decltype(this)>;
    load();
    serve();
    auto on_link = [](void *priv, int up) {
        auto &self = *static_cast<Self *>(priv);
        if (up)
            self.world.spawn(self.a, "administrator", [&self] {
                EXPECT_EQ(sim::sysfs_write(self.root + "heartbeat_interval_ms", "100"), 0);
            });
    };
    rtrs_clt_route one = route(0);
    rtrs_clt_open_args args{&a.initial_net(), "session", this, on_link, &one, 1, WireServer::kPort, 2000, -1};
    run(a, [&] { ASSERT_EQ(rtrs_clt_core_open(&args, &session), 0); });
    run(a, [&] { query(); });
    for (int i = 0; i < 10; i++) {
        EXPECT_EQ(put(root + "heartbeat_interval_ms", "60000"), 0);
        EXPECT_EQ(put(path() + "remove_path", "1"), 0);
        EXPECT_EQ(put(root + "add_path", path_name(0)), 0);
        unsigned before = server.heartbeats;
        world.run_for(sim::kSecond);
        EXPECT_GE(server.heartbeats - before, 8u);
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RtrsClientSysfs, ::testing::Range(1, 4));

} // namespace
