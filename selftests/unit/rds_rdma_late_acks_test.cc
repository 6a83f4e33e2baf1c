// SPDX-License-Identifier: GPL-2.0
// A peer that acknowledges everything that it was sent at once, and late.
#include "rds_rdma_peer.h"

namespace {

class RdsRdmaLateAcks : public RdsRdmaPeer {
protected:
    /** Until it has received so many, its map among them. */
    void receive(std::size_t count)
    {
        for (std::size_t posted = Peer::kSlots; peer.received.size() < count;) {
            ASSERT_TRUE(wait_for([&] { return peer.received.size() > posted - Peer::kSlots; }));
            run(b, [&] {
                for (; posted < peer.received.size() + Peer::kSlots; posted++)
                    ASSERT_EQ(peer.post_recv(peer.received[posted - Peer::kSlots].cookie), 0);
            });
        }
    }
    std::size_t unacknowledged()
    {
        int length = 0;
        run(a, [&] { program.socket.get_option(RDS_ABI_INFO_RETRANS_MESSAGES, nullptr, &length); });
        return static_cast<std::size_t>(length) / sizeof(rds_abi_info_message);
    }
};

TEST_P(RdsRdmaLateAcks, end_all_messages)
{
    constexpr unsigned kMany = 6000, kMap = 2;
    program.socket.sk().sndbuf = 8 << 20;
    run(a, [&] {
        for (unsigned i = 0; i < kMany; i++)
            program.send("hello");
    });
    accept(says("10.0.0.2", "10.0.0.1", 3, 1));
    receive(kMap + kMany);
    EXPECT_EQ(unacknowledged(), kMany);
    Header all{};
    all.ack = kMany;
    post(sealed(all));
    EXPECT_EQ(unacknowledged(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaLateAcks, ::testing::Range(1, 5));

} // namespace
