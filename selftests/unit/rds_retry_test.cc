// SPDX-License-Identifier: GPL-2.0
// How often destinations that refuse are tried: the works of all users wait in one queue.
#include "rds_test.h"

#include <vector>

#include "kapi/sim/network.h"
#include "net/rds/connection.h"
#include "net/rds/net.h"

namespace {

constexpr unsigned kUser = 1000, kOther = 2000;
constexpr kapi_u16 kPort = 7;

class Retry : public RdsTest {
protected:
    kapi_net &add_net(unsigned owner, const char *own)
    {
        kapi_net &net = a.add_net();
        net.owner = owner;
        net.add(sim::address(own));
        EXPECT_EQ(host_a.add_net(net), 0);
        set_delays(net, 20, 20);
        return net;
    }
    void set_delays(kapi_net &net, unsigned long shortest_ms, unsigned long longest_ms)
    {
        rds_net_sysctl(host_a.net(net).rds)->reconnect_min_delay_ms = shortest_ms;
        rds_net_sysctl(host_a.net(net).rds)->reconnect_max_delay_ms = longest_ms;
    }
    rds::Net &core(kapi_net &net) { return *reinterpret_cast<rds::Net *>(host_a.net(net).rds); }
    void open(RdsSocket &socket, kapi_net &net, const char *own, unsigned user)
    {
        ASSERT_EQ(socket.open(net), 0);
        socket.sk().user = user;
        socket.sk().sndbuf = 64 << 20;
        ASSERT_EQ(socket.bind(sim::address(own, kPort)), 0);
    }
    /** Messages to so many addresses of b, where nobody listens on them. */
    void post_to_refusing(RdsSocket &socket, unsigned count)
    {
        for (unsigned i = 0; i < count; i++) {
            std::string to = "10.9." + std::to_string(i / 250) + "." + std::to_string(i % 250 + 1);
            if (!refusing_->holds(sim::address(to.c_str())))
                refusing_->add(sim::address(to.c_str()));
            EXPECT_EQ(send(socket, "x", to.c_str(), kPort, RDS_ABI_MSG_DONTWAIT), 1);
        }
    }
    /** How many attempts fail in a second, once the back-off has grown. */
    kapi_u64 attempts_per_second(kapi_net &net, unsigned seconds)
    {
        world.sleep(seconds * sim::kSecond);
        kapi_u64 before = core(net).counted(rds::Stat::conn_reset);
        world.sleep(seconds * sim::kSecond);
        return (core(net).counted(rds::Stat::conn_reset) - before) / seconds;
    }
    /** As if there were so many connections, */
    void pretend_up(kapi_net &net, unsigned count, unsigned payer)
    {
        core(net).connections.limit = 1 << 20;
        for (unsigned i = 0; i < count; i++)
            EXPECT_TRUE(core(net).connections.shares.take(kapi_user_number(payer), ~0u));
    }
    void unpretend_up(kapi_net &net, unsigned count, unsigned payer)
    {
        for (unsigned i = 0; i < count; i++)
            core(net).connections.shares.give_back(kapi_user_number(payer));
    }
    /** to destinations that refuse. */
    void pretend(kapi_net &net, unsigned count, unsigned payer)
    {
        pretend_up(net, count, payer);
        for (unsigned i = 0; i < count; i++)
            core(net).connections.shares.begin_trying(kapi_user_number(payer));
    }
    void unpretend(kapi_net &net, unsigned count, unsigned payer)
    {
        unpretend_up(net, count, payer);
        for (unsigned i = 0; i < count; i++)
            core(net).connections.shares.end_trying(kapi_user_number(payer));
    }
    unsigned trying(kapi_net &net, unsigned payer) { return core(net).connections.shares.trying(kapi_user_number(payer)); }

    kapi_net *refusing_ = &b.add_net();
};

TEST_F(Retry, attempts_of_a_user_do_not_grow_with_his_destinations)
{
    RdsSocket socket(host_a);
    run(a, [&] {
        set_delays(a.initial_net(), 20, 20);
        pretend(a.initial_net(), 950, kUser);
        open(socket, a.initial_net(), "10.0.0.1", kUser);
        post_to_refusing(socket, 50);
        kapi_u64 attempts = attempts_per_second(a.initial_net(), 2);
        EXPECT_LT(attempts, 600u) << "10,000 of 1000";
        EXPECT_GT(attempts, 300u) << "nor are they forgotten";
        unpretend(a.initial_net(), 950, kUser);
        socket.close();
    });
}

TEST_F(Retry, settings_of_a_users_namespace_are_not_the_hosts)
{
    RdsSocket socket(host_a);
    run(a, [&] {
        kapi_net &net = add_net(kUser, "10.0.1.1");
        open(socket, net, "10.0.1.1", kUser);
        post_to_refusing(socket, 50);
        EXPECT_LT(attempts_per_second(net, 5), 120u);
        socket.close();
    });
}

TEST_F(Retry, namespaces_of_a_user_have_one_bound)
{
    RdsSocket socket(host_a), other(host_a);
    run(a, [&] {
        kapi_net &net = add_net(kUser, "10.0.1.1"), &second = add_net(kUser, "10.0.1.2"), &others = add_net(kOther, "10.0.1.3");
        pretend(second, 50'000, kUser);
        open(socket, net, "10.0.1.1", kUser);
        open(other, others, "10.0.1.3", kOther);
        post_to_refusing(socket, 50);
        post_to_refusing(other, 50);
        world.sleep(60 * sim::kSecond);
        EXPECT_LT(attempts_per_second(net, 20), 15u) << "10 s is the bound";
        EXPECT_GT(attempts_per_second(others, 10), 80u) << "that is another user's affair";
        unpretend(second, 50'000, kUser);
        EXPECT_GT(attempts_per_second(net, 20), 80u);
        socket.close();
        other.close();
    }, 300 * sim::kSecond);
}

// It was up for longer than others are, but not for as long as an attempt has to wait.
TEST_F(Retry, destinations_that_give_up_what_they_accepted_are_as_those_that_refuse)
{
    RdsSocket at_a(host_a);
    unsigned lost = 0;
    run(a, [&] {
        open(at_a, a.initial_net(), "10.0.0.1", kUser);
        pretend(a.initial_net(), 50'000, kUser);
        EXPECT_EQ(send(at_a, "x", "10.0.0.2", kPort), 1);
        std::uint64_t end = world.now_ns() + 200 * sim::kSecond;
        while (world.now_ns() < end) {
            world.sleep(1500 * sim::kMillisecond);
            lost += world.network().reset(a, b, sim::Sees::both) != 0;
        }
        unpretend(a.initial_net(), 50'000, kUser);
        at_a.close();
    }, 300 * sim::kSecond);
    EXPECT_LT(lost, 80u);
    EXPECT_GT(lost, 20u);
}

// The connection is one that the peer began, and all peers count together.
TEST_F(Retry, connections_that_are_up_delay_no_other)
{
    constexpr unsigned kCount = 30'000, kPeers = rds::ConnectionShares::peers;
    RdsSocket at_a(host_a), at_b(host_b);
    run(a, [&] { open(at_a, a.initial_net(), "10.0.0.1", kUser); });
    run(b, [&] {
        ASSERT_EQ(at_b.open(), 0);
        ASSERT_EQ(at_b.bind(sim::address("10.0.0.2", kPort)), 0);
    });
    auto arrives_in = [&](const std::string &text) {
        std::uint64_t began = world.now_ns();
        run(b, [&] { EXPECT_EQ(send(at_b, text, "10.0.0.1", kPort), static_cast<long>(text.size())); });
        run(a, [&] { EXPECT_EQ(receive(at_a), text); });
        return world.now_ns() - began;
    };
    arrives_in("first");
    pretend_up(a.initial_net(), kCount, kPeers);
    for (int i = 0; i < 4; i++) {
        EXPECT_NE(world.network().reset(a, b, sim::Sees::both), 0u);
        EXPECT_LT(arrives_in(std::to_string(i)), 100 * sim::kMillisecond) << i;
        world.run_for(1400 * sim::kMillisecond);
    }
    unpretend_up(a.initial_net(), kCount, kPeers);
    run(a, [&] { at_a.close(); });
    run(b, [&] { at_b.close(); });
}

TEST_F(Retry, those_that_try_are_counted_until_they_are_up_or_end)
{
    RdsSocket socket(host_a);
    run(a, [&] {
        open(socket, a.initial_net(), "10.0.0.1", kUser);
        post_to_refusing(socket, 50);
        EXPECT_EQ(send(socket, "x", "10.0.0.2", kPort), 1);
        world.sleep(sim::kSecond);
        EXPECT_EQ(trying(a.initial_net(), kUser), 50u);
        socket.close();
        world.sleep(10 * sim::kSecond);
        EXPECT_EQ(trying(a.initial_net(), kUser), 0u) << "nobody needs them";
    });
}

// However many others of his do not answer: the first two attempts do not wait.
TEST_F(Retry, destination_that_is_there_is_reached_at_once)
{
    RdsSocket at_a(host_a), at_b(host_b);
    run(b, [&] {
        ASSERT_EQ(at_b.open(), 0);
        ASSERT_EQ(at_b.bind(sim::address("10.0.0.2", kPort)), 0);
        at_b.sk().rcvtimeo_ns = 10 * sim::kSecond;
    });
    auto reach = [&](const char *text) {
        run(a, [&] { EXPECT_EQ(send(at_a, text, "10.0.0.2", kPort), 1); });
        std::uint64_t began = world.now_ns();
        run(b, [&] { EXPECT_EQ(receive(at_b), text); });
        return world.now_ns() - began;
    };
    run(a, [&] {
        open(at_a, a.initial_net(), "10.0.0.1", kUser);
        pretend(a.initial_net(), 50'000, kUser);
    });
    EXPECT_LT(reach("1"), 10 * sim::kMillisecond);
    world.run_for(20 * sim::kSecond);
    EXPECT_NE(world.network().reset(a, b, sim::Sees::both), 0u);
    EXPECT_LT(reach("2"), 10 * sim::kMillisecond);
    run(a, [&] {
        unpretend(a.initial_net(), 50'000, kUser);
        at_a.close();
    });
    run(b, [&] { at_b.close(); });
}

} // namespace
