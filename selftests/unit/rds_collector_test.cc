// SPDX-License-Identifier: GPL-2.0
// Unused connections end, with their memory, maps and streams; those in use stay.
#include "rds_collector_test.h"

#include <kapi/errno.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "selftests/sim/wire_peer.h"

namespace {

TEST_F(Collector, everything_idle_for_an_hour__is_gone)
{
    RdsSocket at_a(host_a), at_b(host_b);
    run(a, [&] { open(at_a, "10.0.0.1"); });
    run(b, [&] { open(at_b, "10.0.0.2"); });
    talk(at_a, at_b, "hello");
    run(a, [&] {
        for (int i = 0; i < 30; i++)
            post_to_nobody(at_a, i);
        EXPECT_EQ(send(at_a, "self", "10.0.0.1", kPort), 4);
        EXPECT_EQ(receive(at_a), "self");
    });
    EXPECT_GE(connections(host_a), 32u);
    run(a, [&] { at_a.close(); });
    run(b, [&] { at_b.close(); });
    world.run_for(60 * kMinute);
    EXPECT_EQ(connections(host_a), 0u);
    EXPECT_EQ(connections(host_b), 0u);
    EXPECT_EQ(a.live_streams + b.live_streams, 0u);
    EXPECT_LT(a.memory().bytes(), before_a + 4096); // arrays of buckets stay as large as they grew
    EXPECT_LT(b.memory().bytes(), before_b + 4096);
}

TEST_F(Collector, dead_destination__is_not_tried_again_for_nobody)
{
    RdsSocket socket(host_a);
    run(a, [&] {
        open(socket, "10.0.0.1");
        for (int i = 0; i < 50; i++)
            post_to_nobody(socket, i);
    });
    EXPECT_GT(count_in(host_a, rds::PathState::connecting), 30u);
    run(a, [&] { socket.close(); });
    world.run_for(20 * sim::kSecond);
    EXPECT_EQ(count_in(host_a, rds::PathState::connecting), 0u);
}

TEST_F(Collector, used_connection__stays)
{
    set_idle(1000);
    RdsSocket at_a(host_a), at_b(host_b);
    run(a, [&] { open(at_a, "10.0.0.1"); });
    run(b, [&] { open(at_b, "10.0.0.2"); });
    talk(at_a, at_b, "one");
    world.run_for(30 * kMinute);
    EXPECT_EQ(connections(host_a), 1u);
    EXPECT_EQ(count_in(host_a, rds::PathState::up), 8u);
    talk(at_a, at_b, "two");
    run(a, [&] { at_a.close(); });
    run(b, [&] { at_b.close(); });
}

// It counts to the share of the peers as long as it exists; but it is used.
TEST_F(Collector, peers_connection_that_a_program_uses__stays_although_peers_have_many)
{
    set_idle(0);
    RdsSocket at_a(host_a), at_b(host_b);
    run(a, [&] { open(at_a, "10.0.0.1"); });
    run(b, [&] { open(at_b, "10.0.0.2"); });
    talk(at_a, at_b, "one");
    run(b, [&] {
        EXPECT_EQ(send(at_b, "two", "10.0.0.1", kPort), 3);
        net_of(host_b).connections.limit = 2;
    });
    run(a, [&] {
        EXPECT_EQ(receive(at_a), "two");
        at_a.close();
    });
    world.run_for(30 * kMinute);
    EXPECT_EQ(connections(host_b), 1u);
    EXPECT_EQ(count_in(host_b, rds::PathState::up), 8u);
    run(b, [&] { at_b.close(); });
    world.run_for(30 * kMinute);
    EXPECT_EQ(connections(host_b), 0u);
}

TEST_F(Collector, zero__keeps_all)
{
    set_idle(0);
    RdsSocket socket(host_a);
    run(a, [&] {
        open(socket, "10.0.0.1");
        post_to_nobody(socket, 1);
        socket.close();
    });
    world.run_for(60 * kMinute);
    EXPECT_EQ(connections(host_a), 1u);
}

// The streams go, the numbers stay for a while, then they go too; each time messages arrive once and in order.
TEST_F(Collector, messages__arrive_once_whatever_was_forgotten)
{
    set_idle(1000);
    const std::uint64_t pauses[] = {sim::kSecond, 3 * sim::kSecond, 5 * sim::kSecond, 90 * sim::kSecond, 10 * kMinute};
    int number = 0;
    for (std::uint64_t pause : pauses) {
        for (int turn = 0; turn < 2; turn++) {
            RdsSocket at_a(host_a), at_b(host_b);
            run(a, [&] { open(at_a, "10.0.0.1"); });
            run(b, [&] { open(at_b, "10.0.0.2"); });
            for (int i = 0; i < 3; i++)
                talk(at_a, at_b, std::to_string(number++).c_str());
            run(a, [&] {
                world.sleep(sim::kSecond);
                EXPECT_EQ(receive(at_a, RDS_ABI_MSG_DONTWAIT), "error -11");
                at_a.close();
            });
            run(b, [&] {
                EXPECT_EQ(receive(at_b, RDS_ABI_MSG_DONTWAIT), "error -11");
                at_b.close();
            });
            world.run_for(pause);
        }
    }
    EXPECT_EQ(connections(host_a) + connections(host_b), 0u);
}

// Between the collector's look and the removal a stream may come up, or a message be queued.
TEST_F(Collector, connection_that_became_used_since_the_look__stays)
{
    constexpr unsigned kAnyReferences = 1000;
    RdsSocket at_a(host_a), at_b(host_b);
    run(a, [&] { open(at_a, "10.0.0.1"); });
    run(b, [&] { open(at_b, "10.0.0.2"); });
    talk(at_a, at_b, "hello");
    run(a, [&] {
        post_to_nobody(at_a, 1);
        auto &table = net_of(host_a).connections;
        unsigned with_streams = 0, with_messages = 0;
        table.for_each([&](rds::Connection &c) {
            with_streams += c.is_empty();
            with_messages += !c.is_empty();
            EXPECT_FALSE(table.remove_unused(c, kAnyReferences));
            EXPECT_FALSE(table.remove_unused(c, 1)); // there is another reference
        });
        EXPECT_EQ(with_streams, 1u);
        EXPECT_EQ(with_messages, 1u);
        EXPECT_EQ(table.size(), 2u);
        at_a.close();
    });
    run(b, [&] { at_b.close(); });
}

// Its congestion map was requested again and again, which counted as use.
TEST_F(Collector, dead_peer_that_was_congested__is_forgotten)
{
    RdsSocket at_a(host_a), at_b(host_b);
    run(a, [&] { open(at_a, "10.0.0.1"); });
    run(b, [&] { open(at_b, "10.0.0.2"), at_b.sk().rcvbuf = 4096; });
    run(a, [&] {
        for (int i = 0; i < 100 && send(at_a, std::string(1000, 'x'), "10.0.0.2", kPort, RDS_ABI_MSG_DONTWAIT) > 0; i++)
            world.sleep(20 * sim::kMillisecond);
        EXPECT_EQ(send(at_a, "x", "10.0.0.2", kPort, RDS_ABI_MSG_DONTWAIT), -KAPI_ENOBUFS);
    });
    world.network().cut(a, b, true);
    run(a, [&] { at_a.close(); });
    world.run_for(120 * kMinute);
    EXPECT_EQ(connections(host_a), 0u);
    run(b, [&] { at_b.close(); });
}

// Cut off, with a message under way: it arrives after half an hour as if nothing had been.
TEST_F(Collector, outage__loses_nothing)
{
    set_idle(1000);
    RdsSocket at_a(host_a), at_b(host_b);
    run(a, [&] { open(at_a, "10.0.0.1"); });
    run(b, [&] { open(at_b, "10.0.0.2"); });
    talk(at_a, at_b, "before");
    run(b, [&] { at_b.close(), open(at_b, "10.0.0.2"); }); // so that b's side is unused
    world.network().cut(a, b, true);
    run(a, [&] { EXPECT_EQ(send(at_a, "cut off", "10.0.0.2", kPort), 7); });
    world.run_for(20 * kMinute);
    world.network().cut(a, b, false);
    run(b, [&] { EXPECT_EQ(receive(at_b), "cut off"); });
    run(a, [&] { at_a.close(); });
    run(b, [&] { at_b.close(); });
}

TEST_F(Collector, full_table__makes_nothing_and_lets_the_used_ones_in)
{
    auto is_limit = [](const std::string &line) { return line.find(" cannot be sent to") != std::string::npos; };
    RdsSocket socket(host_a);
    run(a, [&] {
        open(socket, "10.0.0.1");
        net_of(host_a).connections.limit = 40;
        for (int i = 0; i < 20; i++) // one half for one user
            EXPECT_NE(post_to_nobody(socket, i), -KAPI_ENOBUFS);
        std::size_t full = a.memory().bytes();
        for (int i = 20; i < 200; i++)
            EXPECT_EQ(post_to_nobody(socket, i), -KAPI_ENOBUFS);
        EXPECT_EQ(a.memory().bytes(), full);
        EXPECT_EQ(std::count_if(a.log.begin(), a.log.end(), is_limit), 1) << "a user does not fill the log";
        EXPECT_EQ(std::count(a.log.begin(), a.log.end(),
                             "rds: " + nobody(20) + " cannot be sent to: its user has as many connections as one may have"), 1);
        world.sleep(kMinute);
        EXPECT_EQ(post_to_nobody(socket, 300), -KAPI_ENOBUFS);
        EXPECT_EQ(std::count_if(a.log.begin(), a.log.end(), is_limit), 2);
        socket.close();
        open(socket, "10.0.0.1");
        world.sleep(20 * sim::kSecond); // ten minutes are not waited for when it is so full
        EXPECT_NE(post_to_nobody(socket, 200), -KAPI_ENOBUFS);
        socket.close();
    }, 2 * kMinute);
}

// Two that are made at the same moment pass by any number, as here a limit that is lowered.
TEST_F(Collector, full_table__is_looked_at_soon_whatever_number_was_passed)
{
    RdsSocket socket(host_a);
    run(a, [&] {
        open(socket, "10.0.0.1");
        for (int i = 0; i < 17; i++)
            post_to_nobody(socket, i);
        net_of(host_a).connections.limit = 40;
        for (int i = 17; i < 20; i++)
            EXPECT_NE(post_to_nobody(socket, i), -KAPI_ENOBUFS);
        EXPECT_EQ(post_to_nobody(socket, 40), -KAPI_ENOBUFS);
        socket.close();
        open(socket, "10.0.0.1");
        world.sleep(20 * sim::kSecond);
        EXPECT_NE(post_to_nobody(socket, 41), -KAPI_ENOBUFS);
        socket.close();
    });
}

TEST_F(Collector, full_table__is_looked_at_although_more_and_more_come)
{
    RdsSocket socket(host_a);
    run(a, [&] {
        net_of(host_a).connections.limit = 400;
        for (int i = 0; i < 400; i++) {
            open(socket, "10.0.0.1");
            EXPECT_NE(post_to_nobody(socket, i), -KAPI_ENOBUFS) << i;
            socket.close();
            if (i >= 150)
                world.sleep(200 * sim::kMillisecond);
        }
    }, 100 * sim::kSecond);
}

// Any user can name any number of addresses.
TEST_F(Collector, full_table__leaves_others_their_share)
{
    RdsSocket greedy(host_a), other(host_a), at_a(host_a), at_b(host_b);
    auto fill = [&](RdsSocket &socket, int from) {
        int made = 0;
        while (made < 100 && post_to_nobody(socket, from + made) != -KAPI_ENOBUFS)
            made++;
        return made;
    };
    run(b, [&] { open(at_b, "10.0.0.2"); });
    run(a, [&] {
        net_of(host_a).connections.limit = 80;
        ASSERT_EQ(greedy.open(), 0);
        ASSERT_EQ(greedy.bind(sim::address("10.0.0.1", 100)), 0);
        ASSERT_EQ(other.open(), 0);
        ASSERT_EQ(other.bind(sim::address("10.0.0.1", 101)), 0);
        greedy.sk().user = 1000, other.sk().user = 1001;
        EXPECT_EQ(fill(greedy, 0), 40);
        EXPECT_EQ(fill(other, 100), 20);
        ASSERT_EQ(at_a.open(), 0);
        ASSERT_EQ(at_a.bind(sim::address("10.0.0.1", kPort)), 0);
    });
    run(b, [&] { EXPECT_EQ(send(at_b, "x", "10.0.0.1", kPort), 1); }); // peers have one too
    run(a, [&] {
        at_a.sk().rcvtimeo_ns = sim::kSecond;
        EXPECT_EQ(receive(at_a), "x");
        greedy.close(), other.close(), at_a.close();
    });
    run(b, [&] { at_b.close(); });
}

// Its sender is gone, and the peer does not read: it would stay for ever, with what TCP has not taken of it.
TEST_F(Collector, part_of_a_message__is_no_use)
{
    static const std::string large(1 << 20, 'x'); // more than a stream takes at once
    set_idle(1000);
    RdsSocket sender(host_a), receiver(host_b);
    run(a, [&] { open(sender, "10.0.0.1"); });
    run(b, [&] { open(receiver, "10.0.0.2"); });
    talk(sender, receiver, "hello");
    run(a, [&] {
        sender.sk().sndbuf = 4 << 20;
        world.network().cut(a, b);
        EXPECT_EQ(send(sender, large, "10.0.0.2", kPort, RDS_ABI_MSG_DONTWAIT), 1 << 20);
        sender.close();
    });
    EXPECT_GT(count_in(host_a, rds::PathState::up), 0u);
    world.run_for(8 * sim::kSecond);
    EXPECT_EQ(count_in(host_a, rds::PathState::up), 0u);
    world.network().cut(a, b, false);
    run(b, [&] { receiver.close(); });
}

// One of another kind sees its stream end as any stream ends, and may open the next.
TEST_F(Collector, other_peer__sees_a_closed_stream)
{
    set_idle(1000);
    run(a, [&] { EXPECT_TRUE(host_a.unload_soon()); });
    RdsSocket to(host_b);
    run(b, [&] { open(to, "10.0.0.2"); });
    for (int life = 0; life < 3; life++) {
        WireStream stream(a);
        run(a, [&] {
            ASSERT_TRUE(stream.connect(sim::address("10.0.0.1", 0), sim::address("10.0.0.2", 16385)));
            ASSERT_TRUE(stream.message(static_cast<std::uint64_t>(life + 1), 9, kPort, "x"));
        });
        run(b, [&] { EXPECT_EQ(receive(to), "x"); });
        run(a, [&] {
            EXPECT_TRUE(stream.wait([&] { return stream.is_gone(); }, 150 * sim::kSecond)); // it is probed for a minute
            stream.close(false);
        }, 200 * sim::kSecond);
        world.run_for(100 * sim::kSecond);
        EXPECT_EQ(connections(host_b), 0u);
    }
    run(b, [&] { to.close(); });
}

} // namespace
