// SPDX-License-Identifier: GPL-2.0
// A namespace may have 65536 connections: what looks at all of them does so in short steps, and meets every one.
#include "rds_test.h"

#include <kapi/errno.h>

#include <memory>
#include <string>
#include <vector>

#include "net/rds/connection.h"
#include "net/rds/tcp/connection.h"

namespace {

constexpr unsigned kMany = 500, kAtOnce = 64; // as many as one step may be of, or fewer

class Walks : public RdsTest {
protected:
    rds::Net &net() { return *reinterpret_cast<rds::Net *>(host_a.net().rds); }
    /** Connections without a message. From a program of a. */
    void make_connections()
    {
        const rds_transport *tcp = rds::Module::get().transport(RDS_TRANSPORT_TCP);
        const rds::Endpoint own{rds::Ip::from(sim::address("10.0.0.1").ip), 0, 0};
        for (unsigned i = 0; i < kMany; i++) {
            std::string peer = "10.7." + std::to_string(i / 250) + "." + std::to_string(i % 250 + 1);
            rds::Endpoint remote{rds::Ip::from(sim::address(peer.c_str()).ip), 0, 0};
            EXPECT_TRUE(net().connections.get(net(), *tcp, own, remote, 0, 0, rds::Alloc::sleep));
        }
        rds::Module::drop_transport(tcp);
    }
    void change_buffers(int size)
    {
        rds_tcp_net_sysctl(host_a.net().tcp)->rds_tcp_sndbuf = size;
        rds_tcp_net_sysctl_changed(host_a.net().tcp);
    }
    /** Works that ran in this time on an otherwise idle host. */
    std::uint64_t works_in(std::uint64_t time_ns)
    {
        std::uint64_t before = a.works_run;
        world.sleep(time_ns);
        return a.works_run - before;
    }
};

TEST_F(Walks, collector)
{
    run(a, [&] {
        rds_net_sysctl(host_a.net().rds)->idle_connection_ms = 4000; // a look each second
        make_connections();
        world.sleep(100 * sim::kMillisecond);
        EXPECT_GE(works_in(1000 * sim::kMillisecond), kMany / kAtOnce);
        world.sleep(20 * sim::kSecond);
        EXPECT_EQ(net().connections.size(), 0u) << "it met them all";
    });
}

// Messages without payload fill a socket by the thousand.
TEST_F(Walks, socket_that_is_closed)
{
    RdsSocket from(host_a), to(host_a);
    run(a, [&] {
        for (RdsSocket *socket : {&from, &to})
            ASSERT_EQ(socket->open(), 0);
        ASSERT_EQ(from.bind(sim::address("10.0.0.1", 2)), 0);
        ASSERT_EQ(to.bind(sim::address("10.0.0.1", 3)), 0);
        for (unsigned i = 0; i < kMany; i++)
            EXPECT_EQ(send(from, "", "10.0.0.1", 3), 0);
        sim::forget_steps();
        to.close();
        EXPECT_LE(sim::most_steps_under("rds socket"), kAtOnce);
        from.close();
    });
}

TEST_F(Walks, messages_that_do_not_go_on)
{
    run(a, [&] {
        make_connections();
        world.sleep(100 * sim::kMillisecond);
        auto &memory = net().peers_memory;
        EXPECT_TRUE(memory.take_partial(1000));
        memory.note_waiting(0, 1000);
        EXPECT_GE(works_in(rds::PeersMemory::look_ns + sim::kSecond), kMany / kAtOnce);
        memory.note_waiting(1000, 0);
        memory.give_partial(1000);
    });
}

TEST_F(Walks, own_map)
{
    run(a, [&] {
        make_connections();
        world.sleep(100 * sim::kMillisecond);
        auto map = net().own_maps.find({rds::Ip::from(sim::address("10.0.0.1").ip), 0, 0});
        ASSERT_TRUE(map);
        EXPECT_TRUE(map->set(7, true));
        EXPECT_GE(works_in(100 * sim::kMillisecond), kMany / kAtOnce);
        EXPECT_EQ(works_in(100 * sim::kMillisecond), 0u);
    });
}

// While it is sent in pieces it changes again, at any moment.
TEST_F(Walks, own_map__last_change_is_sent)
{
    RdsSocket to(host_a), from(host_b);
    run(b, [&] {
        ASSERT_EQ(from.open(), 0);
        ASSERT_EQ(from.bind(sim::address("10.0.0.2", 70)), 0);
    });
    run(a, [&] {
        ASSERT_EQ(to.open(), 0);
        ASSERT_EQ(to.bind(sim::address("10.0.0.1", 70)), 0);
        EXPECT_EQ(send(to, "x", "10.0.0.2", 70), 1);
        world.sleep(sim::kSecond);
        make_connections();
    });
    for (unsigned i = 0; i < 60; i++) {
        run(a, [&] {
            auto map = net().own_maps.find({rds::Ip::from(sim::address("10.0.0.1").ip), 0, 0});
            ASSERT_TRUE(map);
            EXPECT_TRUE(map->set(70, i % 2 != 0));
            world.sleep(i * 3 * sim::kMicrosecond);
            EXPECT_TRUE(map->set(70, i % 2 == 0));
            world.sleep(20 * sim::kMillisecond);
        });
        run(b, [&] {
            EXPECT_EQ(send(from, "x", "10.0.0.1", 70, RDS_ABI_MSG_DONTWAIT), i % 2 == 0 ? -KAPI_ENOBUFS : 1) << i;
        });
    }
    run(a, [&] { to.close(); });
    run(b, [&] { from.close(); });
}

TEST_F(Walks, buffer_sizes)
{
    run(a, [&] {
        make_connections();
        world.sleep(100 * sim::kMillisecond);
        sim::forget_steps();
        change_buffers(5000);
        change_buffers(6000);
        EXPECT_GE(works_in(100 * sim::kMillisecond), kMany / kAtOnce);
        EXPECT_LE(sim::most_steps_under("rds_tcp net"), kAtOnce);
        EXPECT_EQ(works_in(100 * sim::kMillisecond), 0u);
    });
}

// Of many connections those with streams notice, in whatever order they were made, and while others end.
TEST_F(Walks, buffer_sizes__reach_every_stream)
{
    constexpr unsigned kPeers = 60;
    RdsSocket from(host_a), to(host_b);
    run(b, [&] {
        ASSERT_EQ(to.open(), 0);
        ASSERT_EQ(to.bind(sim::address("10.0.0.2", 70)), 0);
    });
    std::vector<std::unique_ptr<RdsSocket>> sockets;
    for (unsigned i = 0; i < kPeers; i++)
        a.initial_net().add(sim::address(("9.0.0." + std::to_string(i + 1)).c_str()));
    run(a, [&] {
        for (unsigned i = 0; i < kPeers; i++) {
            RdsSocket &socket = *sockets.emplace_back(std::make_unique<RdsSocket>(host_a));
            ASSERT_EQ(socket.open(), 0);
            ASSERT_EQ(socket.bind(sim::address(("9.0.0." + std::to_string(i + 1)).c_str(), 70)), 0);
            EXPECT_EQ(send(socket, "x", "10.0.0.2", 70), 1);
        }
        world.sleep(2 * sim::kSecond);
        for (int times : {1, 2}) {
            std::uint64_t before = a.works_run;
            change_buffers(5000 * times);
            world.sleep(100 * sim::kMillisecond);
            EXPECT_GE(a.works_run - before, kPeers * rds::max_paths) << times;
        }
        sockets.clear();
    });
    run(b, [&] { to.close(); });
}

// Messages that were not sent: a program queues them by the thousand.
TEST_F(Walks, unsent_messages__are_cancelled_in_short_steps)
{
    RdsSocket socket(host_a);
    world.network().cut(a, b);
    run(a, [&] {
        ASSERT_EQ(socket.open(), 0);
        ASSERT_EQ(socket.bind(sim::address("10.0.0.1", 5)), 0);
        socket.sk().sndbuf = 8 << 20;
        unsigned sent = 0;
        while (send(socket, "", "10.0.0.2", 70, RDS_ABI_MSG_DONTWAIT) == 0)
            sent++;
        EXPECT_GT(sent, 100 * kAtOnce);
        sim::forget_steps();
        socket.close();
        EXPECT_LE(sim::most_steps_under("rds socket"), 3 * kAtOnce) << "of a message: found and taken";
        EXPECT_LE(sim::most_steps_without_pause(), 10'000u);
    }, 100 * sim::kSecond);
    world.network().cut(a, b, false);
}

TEST_F(Walks, unsent_messages__of_one_destination_are_cancelled_among_many_others)
{
    constexpr unsigned kEach = 3 * kAtOnce;
    RdsSocket socket(host_a), one(host_b), other(host_b);
    run(b, [&] {
        ASSERT_EQ(one.open(), 0);
        ASSERT_EQ(one.bind(sim::address("10.0.0.2", 70)), 0);
        ASSERT_EQ(other.open(), 0);
        ASSERT_EQ(other.bind(sim::address("10.0.0.2", 71)), 0);
        other.sk().rcvtimeo_ns = 10 * sim::kSecond;
    });
    world.network().cut(a, b);
    run(a, [&] {
        ASSERT_EQ(socket.open(), 0);
        ASSERT_EQ(socket.bind(sim::address("10.0.0.1", 5)), 0);
        socket.sk().sndbuf = 8 << 20;
        for (unsigned i = 0; i < kEach; i++) {
            EXPECT_EQ(send(socket, "x", "10.0.0.2", 70, RDS_ABI_MSG_DONTWAIT), 1);
            EXPECT_EQ(send(socket, std::to_string(i), "10.0.0.2", 71, RDS_ABI_MSG_DONTWAIT), std::ssize(std::to_string(i)));
        }
        unsigned char name[16] = {2, 0, 0, 70, 10, 0, 0, 2};
        EXPECT_EQ(socket.set_option(RDS_ABI_CANCEL_SENT_TO, name, sizeof(name)), 0);
    });
    world.network().cut(a, b, false);
    run(b, [&] {
        for (unsigned i = 0; i < kEach; i++)
            EXPECT_EQ(receive(other), std::to_string(i));
        EXPECT_EQ(receive(one, RDS_ABI_MSG_DONTWAIT), "error " + std::to_string(-KAPI_EAGAIN));
        one.close(), other.close();
    }, 100 * sim::kSecond);
    run(a, [&] { socket.close(); });
    world.run_for(sim::kSecond);
}

TEST_F(Walks, info__pauses)
{
    RdsSocket socket(host_a);
    world.network().cut(a, b);
    run(a, [&] {
        ASSERT_EQ(socket.open(), 0);
        ASSERT_EQ(socket.bind(sim::address("10.0.0.1", 5)), 0);
        socket.sk().sndbuf = 8 << 20;
        while (send(socket, "", "10.0.0.2", 70, RDS_ABI_MSG_DONTWAIT) == 0)
            ;
        sim::forget_steps();
        char row;
        int length = 0;
        socket.get_option(RDS_ABI_INFO_SEND_MESSAGES, &row, &length);
        EXPECT_LE(sim::most_steps_without_pause(), 10'000u);
        socket.close();
    }, 100 * sim::kSecond);
    world.network().cut(a, b, false);
}

} // namespace
