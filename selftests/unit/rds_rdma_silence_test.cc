// SPDX-License-Identifier: GPL-2.0
// How long a peer is waited for that stands still, or that has no receive posted.
#include <kapi/sim/rdma.h>

#include "rds_rdma_peer.h"

namespace {

constexpr std::uint64_t kMs = sim::kMillisecond;
const std::string kForeign = says("10.0.0.2", "10.0.0.1", 3, 1);

class RdsRdmaSilence : public RdsRdmaPeer {
protected:
    void connect_as(const std::string &data)
    {
        ask(data);
        ASSERT_TRUE(wait_for([&] { return peer.established; }));
        ASSERT_TRUE(wait_for([&] { return peer.messages.size() >= 2; })) << "the map";
    }
    void leave()
    {
        run(b, [&] { peer.drop(); });
        peer = Peer();
    }
    /** It acknowledges nothing. */
    void talk(std::uint64_t seconds)
    {
        for (std::uint64_t i = 0; i < seconds * 4 && !peer.end; i++) {
            acknowledge(0);
            world.run_for(230 * kMs);
        }
    }
};

// The kernel's own is to be sent a packet again once, which is for both sides of a connection that it asks for.
TEST_P(RdsRdmaSilence, two_seconds__however_often_the_peer_would_have_us_try)
{
    for (unsigned tries : {1u, 2u, 3u, 6u}) {
        SCOPED_TRACE(tries);
        retry = static_cast<kapi_u8>(tries);
        connect_as(kForeign);
        for (const auto &[number, qp] : sim::fabric().qps) {
            if (qp->node != &a)
                continue;
            EXPECT_EQ(qp->retry, tries);
            EXPECT_GE((tries + 1) * qp->ack_timeout_ns, 1800 * kMs);
            EXPECT_LT((tries + 1) * qp->ack_timeout_ns, 3500 * kMs);
        }
        leave();
    }
}

TEST_P(RdsRdmaSilence, peer_that_stands_still_for_a_second__keeps_the_connection_that_it_asked_for)
{
    retry = 1;
    connect_as(kForeign);
    world.run_for(100 * kMs); // the map is acknowledged
    cut(true);
    run(a, [&] { program.send("hello"); });
    world.run_for(1080 * kMs);
    cut(false);
    EXPECT_TRUE(wait_for([&] { return peer.messages.size() >= 3; }));
    EXPECT_FALSE(peer.end);
}

// On Soft-RoCE the time-out of a packet that is alone on its way runs on while the peer has no receive for it.
TEST_P(RdsRdmaSilence, peer_without_a_receive__keeps_its_connection_however_few_messages_wait)
{
    sim::count_not_ready(*dev_a);
    std::string hawser = kForeign;
    hawser.replace(13, 3, "hw\3");
    for (const std::string &data : {kForeign, hawser}) {
        SCOPED_TRACE(&data == &hawser);
        retry = 1;
        connect_as(data);
        const auto sent = Peer::kSlots + 1 - peer.messages.size();
        run(a, [&] {
            for (std::size_t i = 0; i < sent; i++)
                program.send("hello");
        });
        talk(20);
        EXPECT_EQ(peer.messages.size(), Peer::kSlots);
        EXPECT_FALSE(peer.end) << "the last message waits, alone at first";
        run(b, [&] { ASSERT_EQ(peer.post_recv(0), 0); });
        talk(20);
        EXPECT_EQ(peer.messages.size(), Peer::kSlots + 1);
        EXPECT_FALSE(peer.end) << "an acknowledgement waits, alone at first";
        leave();
        run(a, [&] { program.socket.close(), program.open(); });
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaSilence, ::testing::Range(1, 7));

} // namespace
