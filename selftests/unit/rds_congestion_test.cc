// SPDX-License-Identifier: GPL-2.0
// Which ports are full, where an address moves between hosts with congested ports on it, and where memory is short.
#include "rds_congestion_test.h"

namespace {

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

} // namespace
