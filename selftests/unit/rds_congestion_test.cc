// SPDX-License-Identifier: GPL-2.0
// Which ports are full, where an address moves between hosts with congested ports on it, and where memory is short.
#include "rds_test.h"

#include <kapi/errno.h>

#include <memory>
#include <vector>

#include "net/rds/connection.h"
#include "net/rds/socket.h"
#include "selftests/sim/inspect.h"

namespace {

constexpr kapi_u16 kPort = 4000;
constexpr const char *kService = "10.0.0.100";
constexpr std::size_t kSize = 4000; // a message above the limit of the smallest queue

class Congestion : public RdsTest {
protected:
    /** A small socket on the service's address at the host that has it now. */
    void serve(RdsSocket &socket)
    {
        ASSERT_EQ(socket.open(), 0);
        ASSERT_EQ(socket.bind(sim::address(kService, kPort)), 0);
        socket.sk().rcvbuf = 4096;
    }
    void client(RdsSocket &socket, const char *own)
    {
        ASSERT_EQ(socket.open(), 0);
        ASSERT_EQ(socket.bind(sim::address(own, kPort)), 0);
    }
    long post(RdsSocket &socket, std::size_t size = kSize)
    {
        return send(socket, std::string(size, 'x'), kService, kPort, RDS_ABI_MSG_DONTWAIT);
    }
    /** Sends until the service's port is full. */
    void fill(RdsSocket &socket)
    {
        for (int i = 0; i < 100 && post(socket) > 0; i++)
            world.sleep(20 * sim::kMillisecond);
        EXPECT_EQ(post(socket), -KAPI_ENOBUFS);
    }
    /** Whether a message goes within a time in which a map surely crosses. */
    bool gets_through(RdsSocket &socket)
    {
        for (int i = 0; i < 50; i++) {
            if (post(socket, 1) == 1)
                return true;
            world.sleep(100 * sim::kMillisecond);
        }
        return false;
    }
    static int drain(RdsSocket &socket)
    {
        int count = 0;
        while (receive(socket, RDS_ABI_MSG_DONTWAIT).substr(0, 5) != "error")
            count++;
        return count;
    }
    void move(sim::Node &from, sim::Node &to)
    {
        from.initial_net().remove(sim::address(kService));
        to.initial_net().add(sim::address(kService));
    }
    /** The bit of the service's port in the host's own map, which its peers receive. */
    static bool tells_full(RdsHost &host)
    {
        sim::NodeScope scope(host.node());
        auto &net = *reinterpret_cast<rds::Net *>(host.net().rds);
        auto map = net.own_maps.find({rds::Ip::from(sim::address(kService).ip), 0, 0});
        return map && map->congested(kPort);
    }
};

TEST_F(Congestion, address__moves_here_with_a_full_port_on_it)
{
    a.initial_net().add(sim::address(kService));
    RdsSocket full(host_a), other(host_b), mine(host_b);
    run(a, [&] { serve(full); });
    run(b, [&] { client(other, "10.0.0.2"), fill(other); });
    move(a, b);
    run(b, [&] {
        serve(mine);
        EXPECT_FALSE(tells_full(host_b));
        EXPECT_EQ(post(other, 1), 1); // on this host now
        EXPECT_EQ(receive(mine), "x");
    });
    EXPECT_EQ(full_ports(host_b, sim::address(kService)), 0u);
    run(b, [&] { mine.close(), other.close(); });
    run(a, [&] { full.close(); });
}

TEST_F(Congestion, address__moves_here_away_and_back_with_full_ports_on_both_sides)
{
    a.initial_net().add(sim::address(kService));
    RdsSocket at_a(host_a), at_b(host_b), from_a(host_a), from_b(host_b);
    run(a, [&] { serve(at_a), client(from_a, "10.0.0.1"); });
    run(b, [&] { client(from_b, "10.0.0.2"), fill(from_b); });
    EXPECT_TRUE(tells_full(host_a));

    move(a, b);
    run(b, [&] { serve(at_b); });
    run(a, [&] { fill(from_a); });
    EXPECT_TRUE(tells_full(host_b));
    EXPECT_TRUE(tells_full(host_a)); // its socket is still full, wherever the address is

    move(b, a);
    run(b, [&] { EXPECT_EQ(post(from_b, 1), 1); }); // the first one is not known to be full any more
    run(a, [&] {
        world.sleep(2 * sim::kSecond);
        EXPECT_GT(drain(at_a), 0);
        EXPECT_FALSE(tells_full(host_a));
    });
    run(b, [&] { EXPECT_TRUE(gets_through(from_b)); }, 100 * sim::kSecond);
    run(a, [&] {
        world.sleep(sim::kSecond);
        EXPECT_GT(drain(at_a), 0);
    });

    move(a, b);
    run(a, [&] { EXPECT_FALSE(gets_through(from_a)); }); // b's socket is full as ever
    run(b, [&] { EXPECT_GT(drain(at_b), 0); });
    run(a, [&] { EXPECT_TRUE(gets_through(from_a)); }, 100 * sim::kSecond);
    run(b, [&] { at_b.close(), from_b.close(); });
    run(a, [&] { at_a.close(), from_a.close(); });
}

TEST_F(Congestion, address__moves_here__who_was_refused_is_notified)
{
    a.initial_net().add(sim::address(kService));
    RdsSocket full(host_a), other(host_b), mine(host_b);
    int on = 1;
    run(a, [&] { serve(full); });
    run(b, [&] {
        client(other, "10.0.0.2");
        EXPECT_EQ(other.set_option(RDS_ABI_CONG_MONITOR, &on, sizeof(on)), 0);
        fill(other);
        EXPECT_FALSE(other.poll() & KAPI_IN);
    });
    move(a, b);
    run(b, [&] {
        serve(mine);
        world.sleep(sim::kMillisecond); // a work notifies
        EXPECT_TRUE(other.poll() & KAPI_IN);
        mine.close(), other.close();
    });
    run(a, [&] { full.close(); });
}

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

TEST_F(Congestion, port__is_free_for_its_next_owner)
{
    a.initial_net().add(sim::address(kService));
    RdsSocket first(host_a), second(host_a), other(host_b);
    run(a, [&] { serve(first); });
    run(b, [&] { client(other, "10.0.0.2"), fill(other); });
    run(a, [&] {
        first.close();
        EXPECT_FALSE(tells_full(host_a));
        serve(second);
    });
    run(b, [&] { EXPECT_TRUE(gets_through(other)); }, 100 * sim::kSecond);
    run(b, [&] { other.close(); });
    run(a, [&] { second.close(); });
}

// A bit that could not be noted is noted with the next message.
TEST_F(Congestion, full_port__is_told_when_memory_is_back)
{
    a.initial_net().add(sim::address(kService));
    RdsSocket full(host_a), other(host_b);
    run(a, [&] { serve(full); });
    run(b, [&] { client(other, "10.0.0.2"); });
    for (std::uint64_t call = 1; call < 12; call++) {
        run(b, [&] {
            EXPECT_TRUE(gets_through(other)); // as soon as it has a map in which the port is free
            world.sleep(sim::kSecond);
        });
        a.faults().fail_at = a.faults().count + call;
        long last = 0;
        run(b, [&] {
            for (int i = 0; i < 200 && (last = post(other)) > 0; i++)
                world.sleep(20 * sim::kMillisecond);
        });
        // A message that its owner could not pay for keeps the path from being read, until it is received.
        EXPECT_TRUE(last == -KAPI_EAGAIN || (last == -KAPI_ENOBUFS && tells_full(host_a))) << call;
        bool passed = false;
        for (int i = 0; i < 50 && !passed; i++) {
            run(a, [&] { drain(full); });
            run(b, [&] { world.sleep(100 * sim::kMillisecond), passed = post(other, 1) == 1; });
        }
        EXPECT_TRUE(passed) << call;
        run(a, [&] { world.sleep(sim::kSecond), drain(full); });
    }
    run(b, [&] { other.close(); });
    run(a, [&] { full.close(); });
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

// A program calls poll() between a change and the work that notifies of it, finds no event, and waits. The work takes the
// socket off the list, so what it reports must be seen, or the next change is of no use to it.
TEST_F(Congestion, poll__before_the_work_that_notifies__does_not_hide_it)
{
    RdsSocket socket(host_a);
    run(a, [&] {
        auto &net = *reinterpret_cast<rds::Net *>(host_a.net().rds);
        auto map = net.peer_maps.get({rds::Ip::from(sim::address("10.0.0.2").ip), 0, 0}, rds::Alloc::sleep);
        ASSERT_TRUE(map);
        std::vector<std::byte> bits(rds::map_bytes);
        bits[kPort / 8] = std::byte{1 << kPort % 8};
        (*map)->replace(bits.data());
        client(socket, "10.0.0.1");
        EXPECT_EQ(send(socket, "x", "10.0.0.2", kPort, RDS_ABI_MSG_DONTWAIT), -KAPI_ENOBUFS);
        socket.poll();
        EXPECT_FALSE(socket.poll() & KAPI_IN);
        net.congestion_changed();
        EXPECT_TRUE(socket.poll() & KAPI_IN);
        EXPECT_FALSE(socket.poll() & KAPI_IN); // and it waits
        EXPECT_TRUE(socket.wait(KAPI_IN, 10 * sim::kMillisecond)) << "what the work reported";
        EXPECT_EQ(send(socket, "x", "10.0.0.2", kPort, RDS_ABI_MSG_DONTWAIT), -KAPI_ENOBUFS);
        socket.close();
    });
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
