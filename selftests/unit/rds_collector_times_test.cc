// SPDX-License-Identifier: GPL-2.0
// How long an unused connection is kept, which Documentation/architecture.md promises.
#include "rds_collector_test.h"

#include <kapi/errno.h>

#include <vector>

namespace {

class CollectorTimes : public Collector {
protected:
    /** Both machines know each other's numbers, and no socket refers to the connection. */
    void meet()
    {
        RdsSocket at_a(host_a), at_b(host_b);
        run(a, [&] { open(at_a, "10.0.0.1"); });
        run(b, [&] { open(at_b, "10.0.0.2"); });
        talk(at_a, at_b, "hello");
        run(a, [&] { at_a.close(); });
        run(b, [&] { at_b.close(); });
    }
    void lose()
    {
        world.network().cut(a, b, true);
        world.network().reset(a, b, sim::Sees::both);
    }
    void make_crowded()
    {
        for (RdsHost *host : {&host_a, &host_b})
            net_of(*host).connections.limit = 1;
    }
    unsigned up() { return count_in(host_a, rds::PathState::up) + count_in(host_b, rds::PathState::up); }
    static unsigned drops(RdsHost &host)
    {
        sim::NodeScope scope(host.node());
        unsigned count = 0;
        net_of(host).connections.for_each([&](rds::Connection &c) {
            for (unsigned i = 0; i < c.path_count(); i++)
                count += c.path(i).snapshot().drops;
        });
        return count;
    }
    /** The machines have their connections until, after a moment, they have none. */
    void expect_end(std::uint64_t from_ns, std::uint64_t until_ns)
    {
        world.run_for(from_ns);
        EXPECT_EQ(connections(host_a), 1u);
        EXPECT_EQ(connections(host_b), 1u);
        world.run_for(until_ns - from_ns);
        EXPECT_EQ(connections(host_a), 0u);
        EXPECT_EQ(connections(host_b), 0u);
    }
};

TEST_F(CollectorTimes, after_complete_streams__a_minute)
{
    set_idle(1000);
    meet();
    expect_end(58 * sim::kSecond, 66 * sim::kSecond);
}

// For a minute it is tried to connect again, which is use.
TEST_F(CollectorTimes, after_a_loss__half_an_hour)
{
    set_idle(1000);
    meet();
    lose();
    expect_end(30 * kMinute, 32 * kMinute);
}

TEST_F(CollectorTimes, after_a_loss_where_there_are_many__a_minute)
{
    set_idle(1000);
    meet();
    lose();
    make_crowded();
    expect_end(110 * sim::kSecond, 126 * sim::kSecond);
}

TEST_F(CollectorTimes, where_there_are_many__streams_end_after_a_second)
{
    set_idle(0);
    meet();
    make_crowded();
    world.run_for(60'700 * sim::kMillisecond); // found a minute after it was made
    EXPECT_EQ(up(), 16u);
    world.run_for(sim::kSecond);
    EXPECT_EQ(up(), 0u);
}

TEST_F(CollectorTimes, setting_that_changes__takes_effect_within_a_minute)
{
    set_idle(0);
    meet();
    world.run_for(130 * sim::kSecond);
    set_idle(1000);
    world.run_for(53 * sim::kSecond);
    EXPECT_EQ(up(), 0u);
}

TEST_F(CollectorTimes, looks__come_four_times_in_the_idle_time_and_once_a_minute_at_least)
{
    RdsSocket at_a(host_a), at_b(host_b);
    run(a, [&] { open(at_a, "10.0.0.1"); });
    run(b, [&] { open(at_b, "10.0.0.2"); });
    talk(at_a, at_b, "hello");
    auto looks_in = [&](std::uint64_t time_ns) {
        std::uint64_t before = a.works_run; // of a connection that is not used there are no others
        world.run_for(time_ns);
        return a.works_run - before;
    };
    world.run_for(10 * kMinute);
    EXPECT_EQ(looks_in(20 * kMinute), 20u);
    set_idle(200'000);
    world.run_for(2 * kMinute);
    EXPECT_EQ(looks_in(1000 * sim::kSecond), 20u);
    set_idle(4);
    world.run_for(2 * kMinute);
    std::uint64_t looks = looks_in(100 * sim::kSecond);
    EXPECT_TRUE(looks > 390 && looks <= 400) << looks << ", and not each millisecond: a user may have many namespaces";
    run(a, [&] { at_a.close(); });
    run(b, [&] { at_b.close(); });
    world.run_for(20 * kMinute);
    EXPECT_EQ(connections(host_a), 0u);
    EXPECT_EQ(looks_in(20 * kMinute), 0u);
}

// No socket refers to the connection of who only receives.
TEST_F(CollectorTimes, messages_that_come__are_use)
{
    set_idle(1000);
    RdsSocket at_a(host_a), at_b(host_b);
    run(a, [&] { open(at_a, "10.0.0.1"); });
    run(b, [&] { open(at_b, "10.0.0.2"); });
    for (int i = 0; i < 20; i++) {
        run(a, [&] { EXPECT_EQ(send(at_a, "x", "10.0.0.2", kPort), 1); });
        run(b, [&] { EXPECT_EQ(receive(at_b), "x"); });
        world.run_for(500 * sim::kMillisecond);
    }
    EXPECT_EQ(drops(host_a) + drops(host_b), 0u);
    run(a, [&] { at_a.close(); });
    run(b, [&] { at_b.close(); });
}

// As many go as come.
TEST_F(CollectorTimes, pings_that_are_answered__are_use)
{
    set_idle(1000);
    RdsSocket at_a(host_a);
    run(a, [&] { open(at_a, "10.0.0.1"); });
    for (int i = 0; i < 20; i++) {
        run(a, [&] {
            EXPECT_EQ(send(at_a, "", "10.0.0.2", 0), 0);
            EXPECT_EQ(receive(at_a), "");
        });
        world.run_for(500 * sim::kMillisecond);
    }
    EXPECT_EQ(drops(host_a) + drops(host_b), 0u);
    run(a, [&] { at_a.close(); });
}

TEST_F(CollectorTimes, socket_whose_last_message_went_over_it__is_use)
{
    set_idle(1000);
    RdsSocket at_a(host_a), at_b(host_b);
    run(a, [&] { open(at_a, "10.0.0.1"); });
    run(b, [&] { open(at_b, "10.0.0.2"); });
    talk(at_a, at_b, "hello");
    world.run_for(kMinute);
    EXPECT_EQ(drops(host_a) + drops(host_b), 0u);
    run(a, [&] { at_a.close(); });
    run(b, [&] { at_b.close(); });
}

// Such as a program's that waits for a stream: it changes nothing else.
TEST_F(CollectorTimes, reference_without_a_message__is_use)
{
    set_idle(20'000);
    rds_net_sysctl(host_b.net().rds)->idle_connection_ms = 0;
    meet();
    world.run_for(12 * sim::kSecond);
    std::vector<rds::Ref<rds::Connection>> held;
    run(a, [&] {
        net_of(host_a).connections.for_each([&](rds::Connection &c) { held.push_back(rds::Ref<rds::Connection>::share(c)); });
    });
    unsigned before = up();
    EXPECT_GE(before, 2u);
    world.run_for(kMinute);
    run(a, [&] { held.clear(); });
    world.run_for(14 * sim::kSecond);
    EXPECT_EQ(up(), before);
    world.run_for(12 * sim::kSecond);
    EXPECT_EQ(up(), 0u);
}

TEST_F(CollectorTimes, socket_whose_last_message_went_to_its_own_host__is_use)
{
    set_idle(1000);
    RdsSocket socket(host_a);
    run(a, [&] {
        open(socket, "10.0.0.1");
        EXPECT_EQ(send(socket, "x", "10.0.0.1", kPort), 1);
        EXPECT_EQ(receive(socket), "x");
    });
    world.run_for(kMinute);
    EXPECT_EQ(connections(host_a), 1u);
    run(a, [&] { socket.close(); });
    world.run_for(kMinute);
    EXPECT_EQ(connections(host_a), 0u);
}

// What comes behind a look has the next one made sooner, once again.
TEST_F(CollectorTimes, full_table__is_looked_at_soon_after_any_look)
{
    RdsSocket socket(host_a);
    run(a, [&] {
        net_of(host_a).connections.limit = 40;
        open(socket, "10.0.0.1");
        EXPECT_EQ(post_to_nobody(socket, 0), 1);
        world.sleep(70 * sim::kSecond);
        for (int i = 1; i < 20; i++)
            EXPECT_EQ(post_to_nobody(socket, i), 1);
        EXPECT_EQ(post_to_nobody(socket, 20), -KAPI_ENOBUFS);
        socket.close();
        open(socket, "10.0.0.1");
        world.sleep(20 * sim::kSecond);
        EXPECT_EQ(post_to_nobody(socket, 20), 1);
        socket.close();
    }, 100 * sim::kSecond);
}

} // namespace
