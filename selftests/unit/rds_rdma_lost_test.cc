// SPDX-License-Identifier: GPL-2.0
// Connections to a foreign peer that are lost and of which it does not notice it: it waits, and sends nothing.
#include <kapi/sim/rdma.h>

#include "net/rds/connection.h"
#include "net/rds/net.h"
#include "rds_rdma_peer.h"

namespace {

constexpr std::uint64_t kMs = sim::kMillisecond;
constexpr std::size_t kSize = 4000;

class RdsRdmaLost : public RdsRdmaPeer {
protected:
    ~RdsRdmaLost() override { sim::edit_requests({}); }

    void connect_as_foreign()
    {
        peer.on_done = [this](const kapi_wc &wc) {
            if (!wc.status && wc.op == KAPI_WC_RECV)
                static_cast<void>(peer.post_recv(wc.cookie));
        };
        retry = 6;
        connect();
        ASSERT_TRUE(wait_for([&] { return peer.messages.size() >= 2; })) << "the map";
        world.run_for(1200 * kMs);
    }
    void send_all(unsigned count, bool again = false)
    {
        for (unsigned i = 0; i < count; i++) {
            Header header = data_header(kSize, i + 1);
            header.flags |= again ? rds::flag_retransmitted : 0;
            post(sealed(header, numbered(kSize, i)));
        }
    }
    /** Some of the messages wait for a program that begins to read now. What is sent then fails, and nothing of the peer's. */
    void lose(unsigned count)
    {
        program.socket.sk().rcvbuf = 64 << 10;
        connect_as_foreign();
        send_all(count);
        world.run_for(3 * sim::kSecond);
        ASSERT_EQ(peer.sent.size(), count) << "the device has taken them";
        cut(true);
        read = 0;
        reader = spawn(program, [this, count] {
            while (read < count && program.receive() == numbered(kSize, read))
                if (++read == 10)
                    world.sleep(6 * sim::kSecond);
        });
        world.run_for(100 * sim::kSecond);
        EXPECT_FALSE(peer.end) << "the peer has not noticed it";
    }
    void heal()
    {
        requests = 0;
        count_requests();
        cut(false);
    }
    void leave()
    {
        run(b, [&] { peer.drop(); });
        peer = Peer();
    }
    void count_requests()
    {
        sim::edit_requests([this](std::vector<unsigned char> &) { requests++; });
    }
    unsigned requests = 0, read = 0;
    sim::TaskRef reader;
};

// What the peer's programs wait for is a map, or also the acknowledgement of what was in the ring.
TEST_P(RdsRdmaLost, peer_that_waits__is_asked_when_the_link_has_healed)
{
    for (unsigned count : {20u, 400u}) {
        SCOPED_TRACE(count);
        lose(count);
        heal();
        ASSERT_TRUE(wait_for([&] { return requests != 0; }));
        world.run_for(60 * sim::kSecond);
        EXPECT_LE(requests, 2u) << "it has refused one, so it knows";
        leave();
        connect_as_foreign();
        send_all(count, true);
        EXPECT_TRUE(wait({reader}));
        EXPECT_EQ(read, count);
        leave();
        run(a, [&] { program.socket.close(), program.open(); });
        world.run_for(5 * sim::kSecond);
    }
}

// It connects of its own accord.
TEST_P(RdsRdmaLost, peer_that_has_ended_the_connection_itself__is_not_asked)
{
    connect_as_foreign();
    count_requests();
    leave();
    world.run_for(60 * sim::kSecond);
    EXPECT_EQ(requests, 0u);
}

TEST_P(RdsRdmaLost, peer_without_rds__is_asked_once)
{
    lose(20);
    leave();
    run(b, [&] { kapi_cm_listener_close(std::exchange(listener, nullptr)); });
    heal();
    ASSERT_TRUE(wait_for([&] { return requests != 0; }));
    world.run_for(600 * sim::kSecond);
    EXPECT_LE(requests, 2u);
}

// Each attempt counts as a connection that was reset.
TEST_P(RdsRdmaLost, host_that_is_gone__is_tried_for_half_an_hour)
{
    lose(20);
    kapi_u64 before = counter(program, "conn_reset");
    world.run_for(1600 * sim::kSecond);
    kapi_u64 attempts = counter(program, "conn_reset") - before;
    EXPECT_GT(attempts, 100u);
    EXPECT_LT(attempts, 1600u);
    world.run_for(150 * sim::kSecond);
    before = counter(program, "conn_reset");
    world.run_for(1900 * sim::kSecond);
    EXPECT_EQ(counter(program, "conn_reset"), before);
    cut(false);
}

TEST_P(RdsRdmaLost, host_that_is_gone__is_tried_for_a_minute_when_there_are_many_connections)
{
    auto &connections = reinterpret_cast<rds::Net *>(host_a.net().rds)->connections;
    lose(20);
    EXPECT_EQ(connections.size(), 1u);
    run(a, [&] { connections.limit = 1; });
    world.run_for(150 * sim::kSecond);
    EXPECT_EQ(connections.size(), 0u) << "it makes room";
    cut(false);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaLost, ::testing::Range(1, 5));

} // namespace
