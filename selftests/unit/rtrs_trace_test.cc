// SPDX-License-Identifier: GPL-2.0
// What tracepoints show of requests and paths, on both sides (Documentation/tracepoints.rst).
#include "rtrs_pair_test.h"

namespace {

using Lines = std::vector<std::string>;

class RtrsTrace : public RtrsPairTest {
protected:
    ~RtrsTrace() override { end(); }
    void both(unsigned paths)
    {
        load();
        user.world = &world;
        start_server({65536, 16, true}, SrvUser::ops, &user);
        open(paths);
    }
    static Lines take(Lines &all, const std::string &event)
    {
        Lines found;
        for (auto &line : all)
            if (line.rfind(event + " ", 0) == 0)
                found.push_back(line.substr(event.size() + 1));
        return found;
    }

    SrvUser user;
    Lines &client = a.traced.emplace(), &server = b.traced.emplace();
};

TEST_P(RtrsTrace, request__is_followed_to_the_server_and_back)
{
    both(1);
    EXPECT_EQ(write("wblock", contents(4096, 1)), 0);
    const std::string asked = "local=10.0.0.1 remote=10.0.0.2 chunk=0 write length=4102 error=0 latency_ns=";
    EXPECT_EQ(take(client, "rtrs_client_request"), Lines{asked + "0"});
    Lines done = take(client, "rtrs_client_done");
    ASSERT_EQ(done.size(), 1u);
    EXPECT_EQ(done[0].rfind(asked, 0), 0u) << done[0];
    EXPECT_GT(std::stoull(done[0].substr(asked.size())), 10'000u) << "the way there and back";
    const std::string served = "local=10.0.0.2 remote=10.0.0.1 chunk=0 write length=4102 error=0 latency_ns=0";
    EXPECT_EQ(take(server, "rtrs_server_request"), Lines{served});
    EXPECT_EQ(take(server, "rtrs_server_answer"), Lines{served});
}

TEST_P(RtrsTrace, request_that_fails__has_the_servers_error)
{
    both(1);
    user.refuses = -KAPI_EIO;
    EXPECT_EQ(read("rblock", 4096), "error " + std::to_string(-KAPI_EIO));
    EXPECT_EQ(take(server, "rtrs_server_request"),
              Lines{"local=10.0.0.2 remote=10.0.0.1 chunk=0 read length=4102 error=0 latency_ns=0"});
    EXPECT_EQ(take(server, "rtrs_server_answer"),
              Lines{"local=10.0.0.2 remote=10.0.0.1 chunk=0 read length=4102 error=5 latency_ns=0"});
    Lines done = take(client, "rtrs_client_done");
    ASSERT_EQ(done.size(), 1u);
    EXPECT_NE(done[0].find(" chunk=0 read length=4102 error=5 "), std::string::npos) << done[0];
}

TEST_P(RtrsTrace, path__of_both_sides)
{
    both(1);
    const std::string at_client = "local=10.0.0.1 remote=10.0.0.2 ", at_server = "local=10.0.0.2 remote=10.0.0.1 ";
    EXPECT_EQ(take(client, "rtrs_client_path"), (Lines{at_client + "from=stopped to=connecting error=0",
                                                       at_client + "from=connecting to=connected error=0"}));
    client.clear();
    EXPECT_EQ(put(path(0) + "disconnect", "1"), 0);
    world.run_for(2 * kSecond);
    EXPECT_EQ(take(client, "rtrs_client_path"), (Lines{at_client + "from=connected to=ending error=125",
                                                       at_client + "from=ending to=stopped error=125"})) << "ECANCELED";
    EXPECT_EQ(take(server, "rtrs_server_path"), (Lines{at_server + "from=connecting to=connected error=0",
                                                       at_server + "from=connected to=closing error=0",
                                                       at_server + "from=closing to=ended error=0"}));
    auto noted = [](const sim::Node &node, const std::string &line) {
        return std::count(node.log.begin(), node.log.end(), line);
    };
    const std::string of_client = "rtrs_client: session: a path is ", of_server = "rtrs_server: over rxe_b0 a client's path is ";
    EXPECT_EQ(noted(a, of_client + "connected, after connecting"), 1);
    EXPECT_EQ(noted(a, of_client + "ending, after connected"), 1) << "for debugging";
    EXPECT_EQ(noted(b, of_server + "connected, after connecting"), 1);
    EXPECT_EQ(noted(b, of_server + "closing, after connected"), 1);
}

TEST_P(RtrsTrace, request__whose_path_ends_is_sent_over_the_other_one)
{
    both(2);
    user.sleeps_ns = kSecond;
    auto program = world.spawn(a, "program", [&] {
        std::string data = contents(4096, 1);
        EXPECT_EQ(call(false, "wblock", data), 0);
    });
    world.run_for(kSecond / 2);
    ASSERT_EQ(take(client, "rtrs_client_request").size(), 1u);
    bool second = client.back().find("remote=10.0.0.2 ") == std::string::npos;
    EXPECT_EQ(put(path(second) + "disconnect", "1"), 0);
    EXPECT_TRUE(world.run_until([&] { return program->is_done(); }, 30 * kSecond));
    Lines done = take(client, "rtrs_client_done"), asked = take(client, "rtrs_client_request");
    ASSERT_EQ(done.size(), 2u);
    ASSERT_EQ(asked.size(), 2u);
    EXPECT_NE(done[0].find(" error=103 "), std::string::npos) << done[0];
    EXPECT_NE(done[1].find(" error=0 "), std::string::npos) << done[1];
    EXPECT_NE(asked[0].substr(0, asked[0].find(" chunk=")), asked[1].substr(0, asked[1].find(" chunk=")));
}

INSTANTIATE_TEST_SUITE_P(Seeds, RtrsTrace, ::testing::Range(1, 3));

} // namespace
