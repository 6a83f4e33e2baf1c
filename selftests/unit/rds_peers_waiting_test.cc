// SPDX-License-Identifier: GPL-2.0
// net/rds/partial: a message that was refused, because too many had begun, waits no longer when it is offered whole later, or has
// to wait for something else.
#include "rds_peer_test.h"

#include <kapi/errno.h>

#include <cstring>

#include "net/rds/connection.h"
#include "net/rds/transport.h"

namespace {

class PeersWaiting : public PeerTest {
protected:
    static constexpr kapi_u32 kPiece = 1000;

    rds::Net &net() { return *reinterpret_cast<rds::Net *>(host.net().rds); }
    rds_conn *connection_from(const kapi_addr &address)
    {
        rds_conn *conn = nullptr;
        net().connections.for_each([&](rds::Connection &c) {
            if (!std::memcmp(c.remote.ip.bytes(), address.ip, sizeof(address.ip)))
                conn = reinterpret_cast<rds_conn *>(&c);
        });
        EXPECT_NE(conn, nullptr);
        return conn;
    }
    std::uint64_t waiting() { return net().module.peers_share.account(rds::PeersShare::partials, true, 0).waiting(); }
};

// TCP joins small buffers, so that what came in parts may be offered at once. Else slow messages of others would be ended for it
// again and again.
TEST_F(PeersWaiting, ends__when_a_message_is_offered_whole)
{
    WireStream stream(a);
    run(a, [&] {
        EXPECT_TRUE(stream.connect(sim::address("10.0.0.1", 30000), sim::address("10.0.0.2", 16385)));
        world.sleep(100 * sim::kMillisecond);
    });
    rds::Header header{};
    header.sequence = 1;
    header.length = 20'000;
    header.sport = header.dport = kPeersPort;
    run(b, [&] {
        rds_conn *conn = nullptr;
        net().connections.for_each([&](rds::Connection &c) { conn = reinterpret_cast<rds_conn *>(&c); });
        ASSERT_NE(conn, nullptr);
        unsigned begun = 0;
        while (net().peers_memory.take_partial(kPiece))
            begun++;
        rds_inc *inc = nullptr;
        EXPECT_EQ(rds_inc_create(conn, 0, &header, 1000, &inc), -KAPI_ENOMEM);
        EXPECT_GE(waiting(), 20'000u);
        ASSERT_EQ(rds_inc_create(conn, 0, &header, 20'000, &inc), 0);
        EXPECT_EQ(waiting(), 0u);
        rds_inc_free(inc);
        for (; begun; begun--)
            net().peers_memory.give_partial(kPiece);
    });
    run(a, [&] { stream.close(true); });
}

// For nothing that others give up.
TEST_F(PeersWaiting, ends__when_a_message_waits_for_a_full_socket)
{
    constexpr kapi_u16 kPort = 1000;
    const kapi_addr other = sim::address("9.0.0.1", 30000);
    open_socket(kPort);
    WireStream waits(a), fills(a);
    run(a, [&] {
        a.initial_net().add(other);
        EXPECT_TRUE(waits.connect(other, sim::address("10.0.0.2", 16385)));
        world.sleep(100 * sim::kMillisecond);
    });
    rds::Header header{};
    header.sequence = 1;
    header.length = 20'000;
    header.sport = kPeersPort;
    header.dport = kPort;
    rds_inc *inc = nullptr;
    run(b, [&] {
        unsigned begun = 0;
        while (net().peers_memory.take_partial(kPiece))
            begun++;
        EXPECT_EQ(rds_inc_create(connection_from(other), 0, &header, 1000, &inc), -KAPI_ENOMEM);
        EXPECT_GE(waiting(), 20'000u);
        for (; begun; begun--)
            net().peers_memory.give_partial(kPiece);
    });
    run(a, [&] {
        shake_hands(fills, 0);
        fill(fills, kPort);
    });
    run(b, [&] {
        EXPECT_GE(waiting(), 20'000u);
        EXPECT_EQ(rds_inc_create(connection_from(other), 0, &header, 1000, &inc), -KAPI_EAGAIN);
        EXPECT_EQ(waiting(), 0u);
    });
    run(a, [&] { waits.close(true), fills.close(true); });
}

} // namespace
