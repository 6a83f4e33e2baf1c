// SPDX-License-Identifier: GPL-2.0
// What tracepoints show of messages, paths and full sockets (Documentation/networking/rds.rst, "Tracepoints").
#include "rds_peer_test.h"
#include "rds_test.h"

#include <algorithm>
#include <string>
#include <vector>

namespace {

using Lines = std::vector<std::string>;
const kapi_u16 kPort = port_of_path(0);
const std::string kEnd = "10.0.0.1:" + std::to_string(kPort);
constexpr const char *kAddresses = " local=10.0.0.1 remote=10.0.0.2";

class RdsTrace : public RdsTest {
protected:
    RdsTrace() : from(host_a), to(host_b)
    {
        run(a, [&] {
            ASSERT_EQ(from.open(), 0);
            ASSERT_EQ(from.bind(sim::address("10.0.0.1", kPort)), 0);
        });
        run(b, [&] {
            ASSERT_EQ(to.open(), 0);
            ASSERT_EQ(to.bind(sim::address("10.0.0.2", 2000)), 0);
        });
    }
    ~RdsTrace() override
    {
        run(a, [&] { from.close(); });
        run(b, [&] { to.close(); });
    }
    /** Those that begin like this, and have the text. */
    static Lines lines(const Lines &all, const std::string &event, const std::string &text = "")
    {
        Lines found;
        std::copy_if(all.begin(), all.end(), std::back_inserter(found), [&](const std::string &line) {
            return line.rfind(event + " ", 0) == 0 && line.find(text) != std::string::npos;
        });
        return found;
    }
    void connect()
    {
        run(a, [&] { EXPECT_EQ(send(from, "first", "10.0.0.2", 2000), 5); });
        run(b, [&] { EXPECT_EQ(receive(to), "first"); });
        world.run_for(sim::kSecond);
    }
    /** What is said of path 0, from then on. */
    static Lines changes(const Lines &all)
    {
        Lines found = lines(all, "rds_path", std::string(kAddresses) + " path=0 ");
        for (auto &line : found)
            line.erase(0, line.find("from="));
        return found;
    }

    Lines &at_a = a.traced.emplace(), &at_b = b.traced.emplace();
    RdsSocket from, to;
};

TEST_F(RdsTrace, message__is_followed_from_program_to_program)
{
    connect();
    at_a.clear(), at_b.clear();
    run(a, [&] { EXPECT_EQ(send(from, "hello", "10.0.0.2", 2000), 5); });
    world.run_for(sim::kSecond);
    run(b, [&] { EXPECT_EQ(receive(to), "hello"); });
    const Lines sent = lines(at_a, "rds_send");
    ASSERT_EQ(sent.size(), 1u);
    const std::string name = "local=" + kEnd + " remote=10.0.0.2:2000";
    EXPECT_EQ(sent[0].rfind("rds_send " + name, 0), 0u) << sent[0];
    EXPECT_NE(sent[0].find(" sequence=2 length=5"), std::string::npos) << sent[0];
    Lines taken = lines(at_a, "rds_transmit", name);
    ASSERT_EQ(taken.size(), 1u);
    EXPECT_EQ(taken[0].substr(12), sent[0].substr(8)) << "the same in all fields";
    const Lines acknowledged = lines(at_a, "rds_acknowledge", kAddresses); // its parts, each once
    ASSERT_FALSE(acknowledged.empty());
    EXPECT_EQ(std::adjacent_find(acknowledged.begin(), acknowledged.end()), acknowledged.end());
    const std::string mirrored = "local=10.0.0.2:2000 remote=" + kEnd;
    Lines received = lines(at_b, "rds_receive", mirrored), delivered = lines(at_b, "rds_deliver", mirrored);
    ASSERT_EQ(received.size(), 1u);
    EXPECT_EQ(received[0].substr(received[0].find(" path=")), sent[0].substr(sent[0].find(" path=")));
    ASSERT_EQ(delivered.size(), 1u);
    EXPECT_NE(delivered[0].find(" path=-1 sequence=2 length=5"), std::string::npos) << delivered[0];
}

TEST_F(RdsTrace, message_that_is_peeked_at__is_not_delivered)
{
    connect();
    run(a, [&] { EXPECT_EQ(send(from, "hello", "10.0.0.2", 2000), 5); });
    at_b.clear();
    run(b, [&] { EXPECT_EQ(receive(to, RDS_ABI_MSG_PEEK), "hello"); });
    EXPECT_EQ(lines(at_b, "rds_deliver").size(), 0u);
    run(b, [&] { EXPECT_EQ(receive(to), "hello"); });
    EXPECT_EQ(lines(at_b, "rds_deliver").size(), 1u);
}

TEST_F(RdsTrace, message_over_loopback__has_the_receivers_view_when_it_arrives)
{
    RdsSocket other(host_a);
    run(a, [&] {
        ASSERT_EQ(other.open(), 0);
        ASSERT_EQ(other.bind(sim::address("127.0.0.1", 3000)), 0);
        EXPECT_EQ(send(from, "near", "127.0.0.1", 3000), 4);
        EXPECT_EQ(receive(other), "near");
        other.close();
    });
    const std::string out = "local=" + kEnd + " remote=127.0.0.1:3000", in = "local=127.0.0.1:3000 remote=" + kEnd;
    EXPECT_EQ(lines(at_a, "rds_send", out + " path=0 sequence=1 length=4").size(), 1u);
    EXPECT_EQ(lines(at_a, "rds_transmit", out + " path=0 ").size(), 1u);
    EXPECT_EQ(lines(at_a, "rds_receive", in + " path=0 ").size(), 1u);
    EXPECT_EQ(lines(at_a, "rds_deliver", in + " path=-1 ").size(), 1u);
}

TEST_F(RdsTrace, large_message__is_transmitted_when_its_last_byte_is)
{
    connect();
    at_a.clear();
    from.sk().sndbuf = 4 << 20;
    run(a, [&] { EXPECT_EQ(send(from, std::string(1 << 20, 'x'), "10.0.0.2", 2000), 1 << 20); });
    EXPECT_EQ(lines(at_a, "rds_send", "length=1048576").size(), 1u);
    EXPECT_EQ(lines(at_a, "rds_transmit", "length=1048576").size(), 0u) << "no send buffer holds so much";
    world.run_for(5 * sim::kSecond);
    EXPECT_EQ(lines(at_a, "rds_transmit", "length=1048576").size(), 1u);
}

TEST_F(RdsTrace, messages_of_which_the_stream_takes_a_part__are_transmitted_once)
{
    connect();
    at_a.clear();
    from.sk().sndbuf = 8 << 20;
    run(b, [&] { to.sk().rcvbuf = 8 << 20; });
    world.network().cut(a, b);
    run(a, [&] {
        for (unsigned i = 0; i < 20; i++)
            EXPECT_EQ(send(from, std::string(100'000, 'x'), "10.0.0.2", 2000), 100'000);
    });
    EXPECT_LT(lines(at_a, "rds_transmit", "length=100000").size(), 20u) << "they are more than the stream's buffer holds";
    world.network().cut(a, b, false);
    world.run_for(10 * sim::kSecond);
    for (unsigned i = 0; i < 20; i++)
        EXPECT_EQ(lines(at_a, "rds_transmit", "sequence=" + std::to_string(2 + i) + " length=100000 ").size(), 1u) << i;
    EXPECT_EQ(lines(at_b, "rds_receive", "length=100000").size(), 20u);
}

TEST_F(RdsTrace, path__comes_up_for_a_message)
{
    connect();
    EXPECT_EQ(changes(at_a), (Lines{"from=down to=connecting reason=wanted", "from=connecting to=up reason=established"}));
    EXPECT_EQ(lines(at_b, "rds_path", "local=10.0.0.2 remote=10.0.0.1 path=0 from=down to=up reason=accepted").size(), 1u);
    EXPECT_EQ(lines(at_b, "rds_path", "remote=10.0.0.1 path=0 ").size(), 1u);
}

TEST_F(RdsTrace, path__is_reset_and_comes_back)
{
    connect();
    at_a.clear();
    world.network().reset(a, b, sim::Sees::both);
    world.run_for(sim::kSecond);
    EXPECT_EQ(changes(at_a),
              (Lines{"from=up to=closing reason=lost", "from=closing to=down reason=closed",
                     "from=down to=connecting reason=wanted", "from=connecting to=up reason=established"}));
}

TEST_F(RdsTrace, path__of_a_dead_peer)
{
    connect();
    at_a.clear();
    world.network().cut(a, b);
    run(a, [&] { EXPECT_EQ(send(from, "lost", "10.0.0.2", 2000), 4); });
    world.run_for(15 * sim::kSecond);
    Lines seen = changes(at_a);
    ASSERT_GE(seen.size(), 3u);
    EXPECT_EQ(seen[0], "from=up to=closing reason=dead");
    EXPECT_EQ(seen[2], "from=down to=connecting reason=wanted");
    world.network().cut(a, b, false);
    run(b, [&] { EXPECT_EQ(receive(to), "lost"); });
    // What the peer may have had is sent again under its number.
    EXPECT_EQ(lines(at_a, "rds_transmit", "sequence=2 length=4").size(), 2u);
    EXPECT_EQ(lines(at_a, "rds_transmit", "sequence=2 length=4 flags=0x4").size(), 1u);
}

TEST_F(RdsTrace, path__to_nobody_is_refused)
{
    b.initial_net().add(sim::address("10.0.0.3"));
    run(b, [&] {
        to.close();
        EXPECT_TRUE(host_b.unload_soon());
    });
    run(a, [&] { EXPECT_EQ(send(from, "x", "10.0.0.3", 2000, RDS_ABI_MSG_DONTWAIT), 1); });
    world.run_for(sim::kSecond);
    EXPECT_GE(lines(at_a, "rds_path", "remote=10.0.0.3 path=0 from=connecting to=closing reason=refused").size(), 1u);
}

// Both hosts notice that it is idle, and the one that is the first to closes it.
TEST_F(RdsTrace, path__that_nobody_uses)
{
    connect();
    run(b, [&] { to.close(); });
    at_a.clear(), at_b.clear();
    run(a, [&] {
        from.close();
        world.sleep(3600 * sim::kSecond);
    }, 4000 * sim::kSecond);
    EXPECT_GE(lines(at_a, "rds_path", "path=0 from=up to=closing reason=unused").size() +
                  lines(at_b, "rds_path", "path=0 from=up to=closing reason=unused").size(), 1u);
    EXPECT_EQ(changes(at_a).back(), "from=closing to=down reason=closed");
}

TEST_F(RdsTrace, path__of_a_module_that_is_unloaded)
{
    connect();
    at_a.clear();
    run(a, [&] {
        from.close();
        EXPECT_TRUE(host_a.unload_soon());
    });
    EXPECT_EQ(changes(at_a), Lines{"from=up to=closing reason=removed"});
}

TEST_F(RdsTrace, full_socket__and_the_map_that_reports_it)
{
    connect();
    run(b, [&] { to.sk().rcvbuf = 10'000; });
    at_a.clear();
    run(a, [&] {
        for (int i = 0; i < 40; i++)
            send(from, std::string(1000, 'x'), "10.0.0.2", 2000, RDS_ABI_MSG_DONTWAIT);
    });
    world.run_for(sim::kSecond);
    EXPECT_EQ(lines(at_b, "rds_congestion", "local=10.0.0.2:2000 congested=1").size(), 1u);
    EXPECT_EQ(lines(at_a, "rds_map", "remote=10.0.0.2 changes=1").size(), 1u);
    at_a.clear(), at_b.clear();
    run(b, [&] {
        while (receive(to, RDS_ABI_MSG_DONTWAIT) == std::string(1000, 'x'))
            ;
        world.sleep(sim::kSecond);
    });
    EXPECT_EQ(lines(at_b, "rds_congestion", "local=10.0.0.2:2000 congested=0").size(), 1u);
    EXPECT_EQ(lines(at_a, "rds_map", "remote=10.0.0.2 changes=1").size(), 1u);
}

} // namespace
