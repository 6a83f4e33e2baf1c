// SPDX-License-Identifier: GPL-2.0
// rds_tcp is loaded, and fails to load at each of its steps, and unloaded, while programs use whatever they can reach. The
// kernel frees the text of a module that fails to load without regard to its references, so there must be none then.
#include "kapi_sim_test.h"

#include <kapi/errno.h>
#include <kapi/stream.h>

#include <functional>
#include <string>
#include <vector>

#include "net/rds/transport.h"
#include "net/rds/uapi.h"
#include "selftests/sim/rds_host.h"

namespace {

constexpr unsigned kPrograms = 4;
constexpr unsigned kRounds = 10;

class Loading : public SimTest, public ::testing::WithParamInterface<int> {
protected:
    Loading() : SimTest(static_cast<std::uint64_t>(GetParam())), host(a), peer(b)
    {
        a.add_net().add(sim::address("10.0.0.3"));
        a.add_net().add(sim::address("10.0.0.4"));
        run(a, [&] { ASSERT_EQ(host.load_rds(), 0); });
        run(b, [&] { ASSERT_EQ(peer.load(), 0); });
    }

    ~Loading() override
    {
        run(a, [&] { EXPECT_TRUE(host.unload_soon()); });
        run(b, [&] { EXPECT_TRUE(peer.unload_soon()); });
    }

    /** What an unprivileged program does in a loop, in a namespace of its choice. */
    void use(unsigned number)
    {
        kapi_net &net = *a.nets()[number % a.nets().size()];
        kapi_addr own = net.addresses.back().addr;
        while (!stopping) {
            RdsSocket socket(host);
            if (socket.open(net) != 0)
                continue; // the failure that was meant for the loader
            socket.sk().sndtimeo_ns = sim::kMillisecond;
            int tcp = RDS_TRANSPORT_TCP;
            bool chosen = number % 2 && socket.set_option(RDS_ABI_SO_TRANSPORT, &tcp, sizeof(tcp)) == 0;
            int bound = socket.bind(own);
            if (bound == 0)
                sent += socket.send("x", 1, sim::address("10.0.0.2", 9), RDS_ABI_MSG_DONTWAIT) == 1;
            refused += bound != 0 && !chosen;
            socket.close();
            world.sleep(world.random().below(20 * sim::kMicrosecond));
        }
    }

    /** Runs body while programs spin. */
    void in_a_storm(const std::function<void()> &body)
    {
        std::vector<sim::TaskRef> programs;
        for (unsigned i = 0; i < kPrograms; i++)
            programs.push_back(world.spawn(a, "program", [this, i] { use(i); }));
        run(a, body, 600 * sim::kSecond);
        stopping = true;
        for (const auto &program : programs)
            EXPECT_TRUE(world.run_until([&] { return program->is_done(); }, 60 * sim::kSecond));
    }

    void unload_tcp_soon()
    {
        bool gone = false;
        for (int i = 0; i < 100'000 && !(gone = host.unload_tcp()); i++)
            world.sleep(world.random().below(50 * sim::kMicrosecond));
        ASSERT_TRUE(gone);
    }

    RdsHost host, peer;
    bool stopping = false;
    unsigned sent = 0, refused = 0;
};

TEST_P(Loading, fails__where_somebody_listens_on_the_port)
{
    in_a_storm([&] {
        for (unsigned round = 0; round < kRounds; round++) {
            kapi_addr any{};
            any.port = 16385;
            kapi_listener *taken = nullptr;
            ASSERT_EQ(kapi_listen(&a.initial_net(), &any, 1, [](void *) {}, nullptr, &taken), 0);
            ASSERT_EQ(host.load_tcp(), -KAPI_EADDRINUSE);
            kapi_listener_stop(taken);
            kapi_listener_close(taken);
            world.sleep(sim::kMillisecond);
        }
    });
    EXPECT_EQ(sent, 0u);
    EXPECT_GT(refused, kRounds);
}

using Lines = std::vector<std::string>;

// Any user can do this, in a namespace of its own. It has RDS all the same, and peers can connect when the port is free.
TEST_P(Loading, succeeds__where_somebody_listens_on_the_port_in_another_namespace)
{
    run(a, [&] {
        kapi_net &net = *a.nets()[1];
        kapi_addr any{};
        any.port = 16385;
        for (bool freed : {true, false, true}) {
            kapi_listener *taken = nullptr;
            ASSERT_EQ(kapi_listen(&net, &any, 1, [](void *) {}, nullptr, &taken), 0);
            a.log.clear();
            ASSERT_EQ(host.load_tcp(), 0);
            world.sleep(25 * sim::kSecond);
            EXPECT_EQ(a.log, Lines{"rds_tcp: port 16385 is in use in a namespace, which peers cannot connect to"});
            if (!freed)
                unload_tcp_soon();
            kapi_listener_stop(taken);
            kapi_listener_close(taken);
            if (!freed)
                continue;
            world.sleep(11 * sim::kSecond);
            EXPECT_EQ(kapi_listen(&net, &any, 1, [](void *) {}, nullptr, &taken), -KAPI_EADDRINUSE) << "by RDS itself";
            EXPECT_EQ(a.log.back(), "rds_tcp: port 16385 of a namespace is open now, peers can connect");
            unload_tcp_soon();
        }
    }, 200 * sim::kSecond);
}

// With a connection in its queue, or not, and once when the port is taken at once.
TEST_P(Loading, listens_again__where_an_administrator_has_closed_the_port)
{
    run(a, [&] {
        kapi_net &net = *a.nets()[1];
        kapi_addr any{};
        any.port = 16385;
        kapi_listener *taken = nullptr;
        ASSERT_EQ(host.load_tcp(), 0);
        for (bool free : {true, true, false}) {
            sim::destroy_listeners(net);
            if (free)
                world.sleep(sim::kSecond);
            EXPECT_EQ(kapi_listen(&net, &any, 1, [](void *) {}, nullptr, &taken), free ? -KAPI_EADDRINUSE : 0);
        }
        world.sleep(sim::kSecond);
        kapi_listener_stop(taken);
        kapi_listener_close(taken);
        world.sleep(11 * sim::kSecond);
        EXPECT_EQ(kapi_listen(&net, &any, 1, [](void *) {}, nullptr, &taken), -KAPI_EADDRINUSE);
        unload_tcp_soon();
    }, 60 * sim::kSecond);
}

// The end of the namespace, or of the module, meets the work that listens again at any moment.
TEST_P(Loading, ends__while_an_administrator_closes_the_port)
{
    run(a, [&] {
        for (unsigned round = 0; round < 20; round++) {
            ASSERT_EQ(host.load_tcp(), 0);
            sim::destroy_listeners(*a.nets()[round % 2]);
            world.sleep(world.random().below(40) * sim::kMicrosecond);
            unload_tcp_soon();
        }
    }, 60 * sim::kSecond);
}

TEST_P(Loading, fails__without_memory_at_each_step)
{
    in_a_storm([&] {
        unsigned failed = 0;
        for (unsigned step = 1; step < 30; step++) {
            a.faults().fail_at = a.faults().count + step;
            if (host.load_tcp() == 0)
                unload_tcp_soon();
            else
                failed++;
        }
        a.faults().fail_at = 0;
        EXPECT_GT(failed, 3u);
    });
}

TEST_P(Loading, fails__when_the_transport_is_taken)
{
    static constexpr rds_transport other = {.name = "other", .type = RDS_TRANSPORT_TCP, .owner = nullptr,
        .max_paths = 1, .zerocopy = 0, .names_peer = 0,
        .check_local = [](kapi_net *, const kapi_addr *) { return -KAPI_EADDRNOTAVAIL; },
        .socket_bound = nullptr, .socket_closed = nullptr,
        .map_tos = nullptr, .create = nullptr, .destroy = nullptr, .connect = nullptr, .established = nullptr,
        .adopt = nullptr, .has_accepted = nullptr, .close = nullptr, .send = nullptr, .post = nullptr,
        .pin = nullptr, .unpin = nullptr, .pin_pages = nullptr, .check_atomic = nullptr, .hold = nullptr, .let_go = nullptr,
        .get_mr = nullptr, .get_local = nullptr, .put_local = nullptr,
        .end_mr = nullptr, .free_mr = nullptr, .sync_mr = nullptr, .resume = nullptr,
        .tick = nullptr, .counters = 0, .counter_names = nullptr, .counter = nullptr, .socket_row = nullptr,
        .rdma_row = nullptr};
    in_a_storm([&] {
        ASSERT_EQ(rds_transport_register(&other), 0);
        for (unsigned round = 0; round < kRounds; round++)
            ASSERT_EQ(host.load_tcp(), -KAPI_EEXIST);
        rds_transport_unregister(&other);
    });
    EXPECT_EQ(sent, 0u);
}

TEST_P(Loading, succeeds__again_and_again)
{
    in_a_storm([&] {
        for (unsigned round = 0; round < kRounds; round++) {
            ASSERT_EQ(host.load_tcp(), 0);
            world.sleep(sim::kMillisecond);
            unload_tcp_soon();
        }
    });
    EXPECT_GT(sent, kRounds);
}

// Namespaces end in a work of the kernel's, beside which rmmod takes the transport away.
TEST_P(Loading, withdrawal__beside_the_end_of_namespaces)
{
    run(a, [&] {
        ASSERT_EQ(host.load_tcp(), 0);
        std::vector<kapi_net *> ending{a.nets()[1].get(), a.nets()[2].get()};
        auto end = world.spawn(a, "cleanup", [&] { EXPECT_TRUE(host.delete_nets(ending)); });
        while (!end->is_done()) {
            rds_tcp_core_withdraw();
            ASSERT_EQ(rds_tcp_core_publish(), 0);
            world.sleep(world.random().below(2 * sim::kMicrosecond));
        }
    });
}

// The hosts were started without IPv6: loading takes the listener that there can be.
TEST(LoadingWithoutIpv6, load__works_over_ipv4)
{
    sim::World world(1);
    sim::Node &a = world.add_node("a"), &b = world.add_node("b");
    RdsHost host_a(a), host_b(b);
    auto life = [&](RdsHost &host, const char *own, const char *peer) {
        host.node().initial_net().ipv6 = false;
        host.node().initial_net().add(sim::address(own));
        ASSERT_EQ(host.load(), 0);
        RdsSocket socket(host);
        ASSERT_EQ(socket.open(), 0);
        ASSERT_EQ(socket.bind(sim::address(own, 7)), 0);
        char text[8];
        EXPECT_EQ(socket.send("x", 1, sim::address(peer, 7)), 1);
        EXPECT_EQ(socket.receive(text, sizeof(text), nullptr), 1);
        world.sleep(sim::kSecond); // for the acknowledgement
        socket.close();
        EXPECT_TRUE(host.unload_soon());
    };
    auto first = world.spawn(a, "a", [&] { life(host_a, "10.0.0.1", "10.0.0.2"); });
    auto second = world.spawn(b, "b", [&] { life(host_b, "10.0.0.2", "10.0.0.1"); });
    EXPECT_TRUE(world.run_until([&] { return first->is_done() && second->is_done(); }, 60 * sim::kSecond));
}

INSTANTIATE_TEST_SUITE_P(Seeds, Loading, ::testing::Range(1, 6));

} // namespace
