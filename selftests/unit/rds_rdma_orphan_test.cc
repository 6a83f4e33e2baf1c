// SPDX-License-Identifier: GPL-2.0
// What programs have sent to a peer that posts no receives, when they have ended.
#include "rds_rdma_peer.h"

namespace {

class RdsRdmaOrphan : public RdsRdmaPeer {};

TEST_P(RdsRdmaOrphan, messages__do_not_keep_their_connection)
{
    rnr_timer = 31; // half a second: it is asked again and again
    run(a, [&] {
        for (unsigned i = 0; i < 40; i++)
            program.send(std::string(1000, 'x'));
    });
    accept(says("10.0.0.2", "10.0.0.1", 3, 1));
    ASSERT_TRUE(wait_for([&] { return peer.messages.size() == Peer::kSlots; }));
    close(program);
    world.run_for(1200 * sim::kSecond);
    EXPECT_TRUE(peer.end.has_value());
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaOrphan, ::testing::Range(1, 5));

} // namespace
