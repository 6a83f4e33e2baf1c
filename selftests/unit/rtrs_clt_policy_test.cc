// SPDX-License-Identifier: GPL-2.0
// Which path a request of the RTRS client takes: in turn, or the one that answers sooner.
#include "rtrs_clt_test.h"

namespace {

class RtrsClientPolicy : public RtrsClientTest {
protected:
    RtrsClientPolicy() { server.geometry = *rtrs::Geometry::create(32, 8192); } // permits for all requests of a round
    static unsigned path_of(const WireServer::Connection &on)
    {
        kapi_cm_info info;
        kapi_cm_describe(on.cm, &info);
        return info.local.ip[14];
    }
    /** So many at a time, over connections of one number: the path of each. */
    std::string paths_of(unsigned count)
    {
        std::vector<Ended> ended(count);
        std::vector<rtrs_clt_chunk *> permits(count);
        std::map<kapi_u32, std::pair<unsigned, WireServer::Connection *>> came; // by chunks
        server.on_request = [&](WireServer::Request &request) {
            came[request.chunk] = {path_of(*request.on), request.on};
            return true;
        };
        run(a, [&] {
            for (unsigned i = 0; i < count; i++) {
                permits[i] = rtrs_clt_core_get_permit(session, 1, 1);
                ended[i].data = contents(100, i);
                EXPECT_EQ(begin(permits[i], ended[i], false, std::to_string(i)), 0);
            }
        });
        EXPECT_TRUE(world.run_until([&] { return came.size() == count; }, sim::kSecond));
        std::string paths(count, '?');
        for (std::size_t i = server.requests.size() - count; i < server.requests.size(); i++)
            paths[std::stoul(server.requests[i].message)] = static_cast<char>('0' + came[server.requests[i].chunk].first);
        run(b, [&] {
            for (auto &[chunk, of] : came)
                server.answer(*of.second, chunk, 0);
        });
        EXPECT_TRUE(world.run_until([&] { return std::ranges::all_of(ended, &Ended::done); }, sim::kSecond));
        run(a, [&] {
            for (auto *permit : permits)
                rtrs_clt_core_put_permit(session, permit);
        });
        return paths;
    }
    /** The next heartbeats over that path are answered late. */
    void slow_down(unsigned nth, std::uint64_t late_ns)
    {
        WireServer::Connection *slow = server.service(path_of(*server.service(0)) == nth ? 0 : 1);
        server.muted = slow->request.path;
        for (unsigned i = 0; i < 3; i++) {
            unsigned before = server.heartbeats;
            EXPECT_TRUE(world.run_until([&] { return server.heartbeats >= before + 2; }, 2 * sim::kSecond)); // one of each
            world.run_for(late_ns);
            run(b, [&] { server.immediate(*slow, rtrs::write_immediate(rtrs::ImmediateType::heartbeat_ack)); });
            world.run_for(10 * sim::kMillisecond);
        }
    }
    std::uint64_t latency(unsigned nth) { return std::stoull(get(path(nth) + "cur_latency")); }
};

TEST_P(RtrsClientPolicy, in_turn)
{
    ready(2);
    EXPECT_EQ(put(root + "mp_policy", "round-robin"), 0);
    std::string paths = paths_of(7);
    EXPECT_TRUE(paths == "0101010" || paths == "1010101") << paths;
    EXPECT_EQ(put(path(0) + "disconnect", "1"), 0);
    EXPECT_EQ(paths_of(3), "111");
    EXPECT_EQ(put(path(0) + "reconnect", "1"), 0);
    EXPECT_EQ(put(path(1) + "disconnect", "1"), 0);
    EXPECT_EQ(paths_of(3), "000");
}

TEST_P(RtrsClientPolicy, the_one_that_has_less_to_do_and_in_turn_if_it_is_the_same)
{
    ready(2);
    std::string paths = paths_of(8);
    EXPECT_EQ(std::count(paths.begin(), paths.end(), '0'), 4);
    std::set<char> first;
    for (int i = 0; i < 4; i++)
        first.insert(paths_of(1)[0]);
    EXPECT_EQ(first.size(), 2u) << "not all over one";
}

/** Both what waits there already and how soon it answers count. */
TEST_P(RtrsClientPolicy, the_one_that_answers_sooner)
{
    ready(2);
    EXPECT_EQ(put(root + "mp_policy", "min-latency"), 0);
    for (unsigned slow : {0u, 1u}) {
        slow_down(slow, 20 * sim::kMillisecond);
        EXPECT_GT(latency(slow), 9 * latency(1 - slow));
        EXPECT_EQ(paths_of(8), std::string(8, slow ? '0' : '1'));
        server.muted.reset();
        world.run_for(2 * sim::kSecond);
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RtrsClientPolicy, ::testing::Range(1, 3));

} // namespace
