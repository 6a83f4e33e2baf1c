// SPDX-License-Identifier: GPL-2.0
// Congestion maps: when this host sends its own, what it does with those of others, and for how long it has them.
#include "rds_congestion_test.h"

namespace {

// The stream ended for want of use before the service had read, so nobody reported that its port is free.
TEST_F(Congestion, stream_that_ended__its_map_is_asked_for_by_the_next_sender)
{
    b.initial_net().add(sim::address(kService));
    RdsSocket at_b(host_b), last(host_a), next(host_a);
    rds_net_sysctl(host_a.net().rds)->idle_connection_ms = 100;
    run(b, [&] { serve(at_b); });
    run(a, [&] {
        client(last, "10.0.0.1");
        while (!full_ports(host_a, sim::address(kService))) { // a sender that met it would ask
            EXPECT_GT(post(last), 0);
            world.sleep(20 * sim::kMillisecond);
        }
        last.close();
    });
    auto has_ended = [&] { return full_ports(host_a, sim::address(kService), Streams::needed) == 0; };
    EXPECT_TRUE(world.run_until(has_ended, 10 * sim::kSecond)) << "there is a stream";
    EXPECT_EQ(full_ports(host_a, sim::address(kService)), 1u);
    run(b, [&] { EXPECT_GT(drain(at_b), 0); });
    run(a, [&] {
        client(next, "10.0.0.1");
        std::uint64_t start = world.now_ns();
        EXPECT_EQ(send(next, "x", kService, kPort), 1);
        EXPECT_LT(world.now_ns() - start, 20 * sim::kMillisecond);
        next.close();
    });
    run(b, [&] { at_b.close(); });
}

// A map arrives in a bottom half, and any number of sockets may have met a bit of the former one.
TEST_F(Congestion, map__many_who_were_refused_are_notified_in_short_steps)
{
    constexpr unsigned kSockets = 300;
    std::vector<std::unique_ptr<RdsSocket>> sockets;
    run(a, [&] {
        auto &net = *reinterpret_cast<rds::Net *>(host_a.net().rds);
        auto map = net.peer_maps.get({rds::Ip::from(sim::address("10.0.0.2").ip), 0, 0}, rds::Alloc::sleep);
        ASSERT_TRUE(map);
        std::vector<std::byte> bits(rds::map_bytes);
        bits[kPort / 8] = std::byte{1 << kPort % 8};
        (*map)->replace(bits.data());
        for (unsigned i = 0; i < kSockets; i++) {
            RdsSocket &socket = *sockets.emplace_back(std::make_unique<RdsSocket>(host_a));
            ASSERT_EQ(socket.open(), 0);
            ASSERT_EQ(socket.bind(sim::address("10.0.0.1", 0)), 0);
            int on = i % 2;
            EXPECT_EQ(socket.set_option(RDS_ABI_CONG_MONITOR, &on, sizeof(on)), 0);
            EXPECT_EQ(send(socket, "x", "10.0.0.2", kPort, RDS_ABI_MSG_DONTWAIT), -KAPI_ENOBUFS);
            socket.poll();
            EXPECT_FALSE(socket.poll() & KAPI_IN);
        }
        sim::forget_steps();
        bits[kPort / 8] = std::byte{};
        (*map)->replace(bits.data());
        net.congestion_changed();
        EXPECT_LE(sim::most_steps_under("rds monitors"), 4u);
        world.sleep(10 * sim::kMillisecond);
        EXPECT_LE(sim::most_steps_under("rds monitors"), 4u);
        for (auto &socket : sockets)
            EXPECT_TRUE(socket->poll() & KAPI_IN);
        sockets.clear();
    });
}

// A port becomes full and free in a bottom half, at the rate that its program chooses, and any number of peers receive the map.
TEST_F(Congestion, own_map__is_sent_now_and_then_and_in_short_steps)
{
    RdsSocket at_a(host_a), at_b(host_b);
    const rds::Endpoint own{rds::Ip::from(sim::address("10.0.0.1").ip), 0, 0};
    auto &net = *reinterpret_cast<rds::Net *>(host_a.net().rds);
    rds::Ref<rds::CongestionMap> map;
    run(b, [&] { client(at_b, "10.0.0.2"); });
    run(a, [&] {
        client(at_a, "10.0.0.1");
        EXPECT_EQ(send(at_a, "x", "10.0.0.2", kPort), 1);
        world.sleep(sim::kSecond); // the path is up
        const rds_transport *tcp = rds::Module::get().transport(RDS_TRANSPORT_TCP);
        for (unsigned i = 1; i <= 200; i++) {
            std::string peer = "10.0.7." + std::to_string(i);
            rds::Endpoint remote{rds::Ip::from(sim::address(peer.c_str()).ip), 0, 0};
            EXPECT_TRUE(net.connections.get(net, *tcp, own, remote, 0, 0, rds::Alloc::sleep));
        }
        rds::Module::drop_transport(tcp);
        map = net.own_maps.find(own);
        auto before = net.counted(rds::Stat::cong_update_queued);
        sim::forget_steps();
        for (unsigned i = 0; i <= 100; i++) {
            EXPECT_TRUE(map->set(kPort, i % 2 == 0));
            world.sleep(100 * sim::kMillisecond / 1000);
        }
        world.sleep(50 * sim::kMillisecond);
        EXPECT_LE(sim::most_steps_under("rds map"), 4u);
        EXPECT_LE(net.counted(rds::Stat::cong_update_queued) - before, 5u);
    });
    run(b, [&] { EXPECT_EQ(send(at_b, "x", "10.0.0.1", kPort, RDS_ABI_MSG_DONTWAIT), -KAPI_ENOBUFS); });
    run(a, [&] {
        EXPECT_TRUE(map->set(kPort, false));
        world.sleep(50 * sim::kMillisecond);
        map = nullptr;
    });
    run(b, [&] {
        EXPECT_EQ(send(at_b, "x", "10.0.0.1", kPort, RDS_ABI_MSG_DONTWAIT), 1);
        at_b.close();
    });
    run(a, [&] { at_a.close(); });
}

// The work once took maps off the list as long as a program put them there: a worker for it alone, and no pause.
TEST_F(Congestion, own_map__that_changes_while_it_is_sent__is_sent_the_next_time)
{
    constexpr unsigned kPeers = 100, kChanges = 5000;
    RdsSocket at_a(host_a), at_b(host_b);
    const rds::Endpoint own{rds::Ip::from(sim::address("10.0.0.1").ip), 0, 0};
    auto &net = *reinterpret_cast<rds::Net *>(host_a.net().rds);
    run(b, [&] { client(at_b, "10.0.0.2"); });
    run(a, [&] {
        client(at_a, "10.0.0.1");
        EXPECT_EQ(send(at_a, "x", "10.0.0.2", kPort), 1);
        world.sleep(sim::kSecond); // the path is up
        const rds_transport *tcp = rds::Module::get().transport(RDS_TRANSPORT_TCP);
        for (unsigned i = 1; i <= kPeers; i++) {
            std::string peer = "10.0.7." + std::to_string(i);
            rds::Endpoint remote{rds::Ip::from(sim::address(peer.c_str()).ip), 0, 0};
            EXPECT_TRUE(net.connections.get(net, *tcp, own, remote, 0, 0, rds::Alloc::sleep));
        }
        rds::Module::drop_transport(tcp);
        auto map = net.own_maps.find(own);
        auto before = net.counted(rds::Stat::cong_update_queued);
        std::uint64_t began_ns = world.now_ns();
        for (unsigned i = 0; i <= kChanges; i++)
            EXPECT_TRUE(map->set(kPort, i % 2 == 0));
        EXPECT_LT(world.now_ns() - began_ns, sim::kMillisecond); // a pause is longer
        EXPECT_LE(net.counted(rds::Stat::cong_update_queued) - before, 1u);
        world.sleep(50 * sim::kMillisecond);
        EXPECT_GE(net.counted(rds::Stat::cong_update_queued) - before, 1u);
        EXPECT_LE(net.counted(rds::Stat::cong_update_queued) - before, 3u);
    });
    run(b, [&] { EXPECT_EQ(send(at_b, "x", "10.0.0.1", kPort, RDS_ABI_MSG_DONTWAIT), -KAPI_ENOBUFS); });
    run(b, [&] { at_b.close(); });
    run(a, [&] { at_a.close(); });
}

TEST_F(Congestion, maps__go_with_the_last_who_needs_them)
{
    run(a, [&] {
        auto &net = *reinterpret_cast<rds::Net *>(host_a.net().rds);
        std::size_t before = a.memory().bytes();
        {
            auto own = net.own_maps.get({rds::Ip::from(sim::address("10.0.0.1").ip), 0, 0}, hw::Alloc::sleep);
            ASSERT_TRUE(own);
            EXPECT_TRUE((*own)->set(7, true));
            EXPECT_EQ(net.own_maps.find((*own)->key()).get(), own->get());
            EXPECT_FALSE(net.peer_maps.find((*own)->key()));
            EXPECT_LT(a.memory().bytes() - before, 2048u); // for one bit, not for all
        }
        EXPECT_FALSE(net.own_maps.find({rds::Ip::from(sim::address("10.0.0.1").ip), 0, 0}));
        EXPECT_LT(a.memory().bytes() - before, 64u); // an array of buckets may have grown
    });
}

// Whom they were to be sent to is gone.
TEST_F(Congestion, own_maps__that_changed_last_go_with_the_namespace)
{
    run(a, [&] {
        RdsSocket first(host_a), second(host_a);
        auto fill_own = [&](RdsSocket &socket, const char *own) {
            while (send(socket, std::string(kSize, 'x'), own, kPort, RDS_ABI_MSG_DONTWAIT) > 0)
                ;
        };
        client(first, "10.0.0.1"), client(second, "2001:db8::1");
        EXPECT_EQ(post(first, 1), 1);
        EXPECT_EQ(send(second, "x", "2001:db8::2", kPort, RDS_ABI_MSG_DONTWAIT), 1);
        first.sk().rcvbuf = second.sk().rcvbuf = 4096;
        fill_own(first, "10.0.0.1");
        world.sleep(sim::kMillisecond); // it is sent, and the next ones have to wait for some
        fill_own(second, "2001:db8::1");
        first.close(), second.close();
        EXPECT_TRUE(host_a.unload_soon());
    });
}

} // namespace
