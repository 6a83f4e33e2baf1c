// SPDX-License-Identifier: GPL-2.0
// A network namespace that ends while its peers send, and comes again.
#include "rds_test.h"

#include <kapi/errno.h>

#include "net/rds/net.h"
#include "net/rds/tcp/net.h"

namespace {

constexpr const char *kAddress = "10.0.0.9";
constexpr kapi_u16 kPort = 4000;

class Namespace : public RdsTest {
protected:
    void SetUp() override
    {
        run(b, [&] {
            ASSERT_EQ(sender.open(), 0);
            ASSERT_EQ(sender.bind(sim::address("10.0.0.2", kPort)), 0);
            sender.sk().sndtimeo_ns = 10 * sim::kSecond;
        });
    }
    void TearDown() override
    {
        run(b, [&] { sender.close(); });
    }
    kapi_net &make_net()
    {
        kapi_net &net = a.add_net();
        net.add(sim::address(kAddress));
        EXPECT_EQ(host_a.add_net(net), 0);
        return net;
    }
    void open(RdsSocket &socket, kapi_net &net)
    {
        ASSERT_EQ(socket.open(net), 0);
        ASSERT_EQ(socket.bind(sim::address(kAddress, kPort)), 0);
        socket.sk().rcvtimeo_ns = 10 * sim::kSecond;
    }

    RdsSocket sender{host_b};
};

TEST_F(Namespace, deletion__frees_what_it_held_and_disturbs_nobody)
{
    std::size_t before = a.memory().bytes();
    run(a, [&] {
        kapi_net &net = make_net();
        RdsSocket socket(host_a);
        open(socket, net);
        world.spawn(b, "sender", [&] {
            for (int i = 0; i < 5; i++) // the last of them have no receiver
                EXPECT_EQ(send(sender, "hello", kAddress, kPort), 5);
        });
        EXPECT_EQ(receive(socket), "hello");
        EXPECT_EQ(send(socket, "back", "10.0.0.2", kPort), 4); // not acknowledged yet
        socket.close();
        ASSERT_TRUE(host_a.delete_nets({&net}));
        a.rcu_barrier();
    });
    EXPECT_EQ(a.memory().bytes(), before);
    run(a, [&] {
        RdsSocket other(host_a);
        ASSERT_EQ(other.open(), 0);
        ASSERT_EQ(other.bind(sim::address("10.0.0.1", kPort)), 0);
        EXPECT_EQ(send(other, "still here", "10.0.0.2", kPort), 10);
    });
}

TEST_F(Namespace, deletion__of_several_at_once)
{
    run(a, [&] {
        kapi_net &first = make_net(), &second = a.add_net();
        ASSERT_EQ(host_a.add_net(second), 0);
        EXPECT_TRUE(host_a.delete_nets({&first, &second}));
    });
    EXPECT_EQ(a.nets().size(), 1u);
}

TEST_F(Namespace, socket__keeps_it)
{
    run(a, [&] {
        kapi_net &net = make_net();
        RdsSocket socket(host_a);
        open(socket, net);
        EXPECT_FALSE(host_a.delete_nets({&net}));
        socket.close();
        EXPECT_TRUE(host_a.delete_nets({&net}));
    });
}

TEST_F(Namespace, address__comes_again)
{
    for (int life = 0; life < 3; life++) {
        std::string text = "life " + std::to_string(life);
        run(a, [&] {
            kapi_net &net = make_net();
            RdsSocket socket(host_a);
            open(socket, net);
            auto task = world.spawn(b, "sender", [&] { EXPECT_GT(send(sender, text, kAddress, kPort), 0); });
            EXPECT_EQ(receive(socket), text);
            socket.close();
            ASSERT_TRUE(host_a.delete_nets({&net}));
        });
        world.run_for(sim::kSecond); // what the peer sends before it detects the end is given up
    }
}

// Any user can make tens of thousands, and peers cause look-ups, which are under a lock.
TEST_F(Namespace, many__each_is_found_in_few_steps)
{
    run(a, [&] {
        std::vector<kapi_net *> nets;
        for (unsigned i = 0; i < 100; i++) {
            nets.push_back(&a.add_net());
            ASSERT_EQ(host_a.add_net(*nets.back()), 0);
        }
        sim::forget_steps();
        for (kapi_net *net : nets) {
            EXPECT_EQ(static_cast<void *>(rds::Module::get().find_net(net)), host_a.net(*net).rds);
            EXPECT_EQ(static_cast<void *>(rds_tcp::Module::get().find(net)), host_a.net(*net).tcp);
        }
        EXPECT_LE(sim::most_steps_under("rds module"), 8u);
        EXPECT_LE(sim::most_steps_under("rds_tcp module"), 8u);
        ASSERT_TRUE(host_a.delete_nets(nets));
        EXPECT_EQ(rds::Module::get().find_net(nets.front()), nullptr);
    }, 300 * sim::kSecond);
}

// Its administrator may be any user, and TCP's buffers are not charged.
TEST_F(Namespace, buffers__are_not_larger_than_programs_may_have_them)
{
    run(a, [&] {
        kapi_net &net = make_net();
        for (kapi_net *in : {&a.initial_net(), &net}) {
            *rds_tcp_net_sysctl(host_a.net(*in).tcp) = {
                .rds_tcp_sndbuf = 100'000'000, .rds_tcp_rcvbuf = 200'000'000, .rds_tcp_dead_peer_ms = 10'000};
            rds_tcp_net_sysctl_changed(host_a.net(*in).tcp);
        }
        auto options = [&](kapi_net &in) { return rds_tcp::Module::get().find(&in)->stream_options(); };
        a.wmem_max = 300'000;
        a.rmem_max = 400'000;
        EXPECT_EQ(options(net).sndbuf, 300'000u);
        EXPECT_EQ(options(net).rcvbuf, 400'000u);
        EXPECT_EQ(options(a.initial_net()).sndbuf, 100'000'000u);
        EXPECT_EQ(options(a.initial_net()).rcvbuf, 200'000'000u);
        rds_tcp_net_sysctl(host_a.net(net).tcp)->rds_tcp_sndbuf = 5000;
        rds_tcp_net_sysctl(host_a.net(net).tcp)->rds_tcp_rcvbuf = 0;
        EXPECT_EQ(options(net).sndbuf, 5000u);
        EXPECT_EQ(options(net).rcvbuf, 0u) << "TCP tunes itself";
        ASSERT_TRUE(host_a.delete_nets({&net}));
    });
}

} // namespace
