// SPDX-License-Identifier: GPL-2.0
// An address moves to this host while a program waits to send to it.
#include "rds_test.h"

#include <kapi/errno.h>

namespace {

constexpr kapi_u16 kPort = 4000;
constexpr const char *kService = "10.0.0.100";

class Moved : public RdsTest, public ::testing::WithParamInterface<bool> {
protected:
    /** The port is full at its first host, as a sender of the other one has been notified. */
    void SetUp() override
    {
        a.initial_net().add(sim::address(kService));
        run(a, [&] { open(full, kService); });
        run(b, [&] {
            open(sender, "10.0.0.2");
            std::string text(4000, 'x');
            for (int i = 0; i < 100 && send(sender, text, kService, kPort, RDS_ABI_MSG_DONTWAIT) > 0; i++)
                world.sleep(20 * sim::kMillisecond);
            EXPECT_EQ(send(sender, text, kService, kPort, RDS_ABI_MSG_DONTWAIT), -KAPI_ENOBUFS);
        });
    }
    void TearDown() override
    {
        run(b, [&] { sender.close(); });
        run(a, [&] { full.close(); });
    }
    static void open(RdsSocket &socket, const char *address)
    {
        ASSERT_EQ(socket.open(), 0);
        ASSERT_EQ(socket.bind(sim::address(address, kPort)), 0);
        socket.sk().rcvbuf = 4096;
        socket.sk().rcvtimeo_ns = 2 * sim::kSecond;
    }

    RdsSocket full{host_a}, sender{host_b};
};

// Whether a socket has the port here or none: then it is dropped, as any message that comes too late.
TEST_P(Moved, sender_that_waits__sends_to_this_host)
{
    const bool served = GetParam();
    RdsSocket mine(host_b);
    auto waits = world.spawn(b, "waits", [&] { EXPECT_EQ(send(sender, "late", kService, kPort), 4); });
    world.run_for(200 * sim::kMillisecond);
    EXPECT_FALSE(waits->is_done());
    a.initial_net().remove(sim::address(kService));
    b.initial_net().add(sim::address(kService));
    if (served)
        run(b, [&] {
            open(mine, kService);
            EXPECT_EQ(receive(mine), "late");
            mine.close();
        });
    EXPECT_TRUE(world.run_until([&] { return waits->is_done(); }, 3 * sim::kSecond));
}

INSTANTIATE_TEST_SUITE_P(Served, Moved, ::testing::Bool());

// Of many messages in a call those that are copied later go where the address is then.
TEST_F(RdsTest, address_moves_while_a_call_copies__the_rest_is_sent_here)
{
    RdsSocket sender(host_b), mine(host_b);
    a.initial_net().add(sim::address(kService));
    run(b, [&] {
        ASSERT_EQ(sender.open(), 0);
        ASSERT_EQ(sender.bind(sim::address("10.0.0.2", kPort)), 0);
        EXPECT_EQ(send(sender, "zero", kService, kPort), 4); // there is a connection
    });
    sender.trouble.stall_at = 4; // in "two"
    sender.trouble.stall_ns = sim::kSecond;
    auto sends = world.spawn(b, "sends", [&] {
        EXPECT_EQ(sender.send_each("onetwo", 6, sim::address(kService, kPort), {3, 3}), 6);
    });
    world.run_for(100 * sim::kMillisecond);
    a.initial_net().remove(sim::address(kService));
    b.initial_net().add(sim::address(kService));
    run(b, [&] {
        ASSERT_EQ(mine.open(), 0);
        ASSERT_EQ(mine.bind(sim::address(kService, kPort)), 0);
        mine.sk().rcvtimeo_ns = 2 * sim::kSecond;
        EXPECT_EQ(receive(mine), "two");
    });
    EXPECT_TRUE(world.run_until([&] { return sends->is_done(); }, sim::kMillisecond));
    run(b, [&] { sender.close(), mine.close(); });
}

// A socket's first message to a host waits for its handshake, and no other one because addresses changed.
TEST_F(RdsTest, addresses_change__a_silent_peer_is_not_waited_for_again)
{
    RdsSocket sender(host_a);
    run(a, [&] {
        ASSERT_EQ(sender.open(), 0);
        ASSERT_EQ(sender.bind(sim::address("10.0.0.1", kPort)), 0);
        EXPECT_EQ(send(sender, "x", "10.0.0.77", kPort), 1);
        a.initial_net().add(sim::address("10.0.0.78"));
        std::uint64_t before = world.now_ns();
        EXPECT_EQ(send(sender, "x", "10.0.0.77", kPort), 1);
        EXPECT_LT(world.now_ns() - before, sim::kSecond);
        sender.close();
    });
}

} // namespace
