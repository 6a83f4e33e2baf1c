// SPDX-License-Identifier: GPL-2.0
// Operations beside messages whose memory is held because nothing has reported their completion.
#include "kapi/sim/rdma.h"
#include "rds_rdma_memory_test.h"

namespace {

using RdsRdmaHeld = RdmaMemoryTest;

// As RdsRdmaFailures.a_bounce_buffer_full_of_what_is_held__is_emptied_by_an_acknowledgement has it for a message.
TEST_P(RdsRdmaHeld, messages__give_an_operation_their_room_in_a_bounce_buffer)
{
    constexpr std::size_t kSize = 1000;
    Bytes remote(kSize), local = pattern(kSize, 1);
    sim::make_bounce(*dev_a);
    open_both();
    kapi_u64 cookie = region_on_b(remote.data(), kSize, 0);
    for (unsigned i = 0; i < 2; i++) {
        run(a, [&] { pa.send(contents(kSize, i)); });
        expect_message(pb, contents(kSize, i));
    }
    world.run_for(20 * sim::kMillisecond);
    dev_a->bounce_room = kSize - 1;
    auto began = world.now_ns();
    run(a, [&] { EXPECT_EQ(operate(pa, {cookie, 0, {{place_of(local.data()), kSize}}}), 4); });
    expect_message(pb, "done");
    EXPECT_LT(world.now_ns() - began, 200 * sim::kMillisecond);
    EXPECT_GT(counter(pa, "ib_tx_sg_mapping_failure"), 0u);
    EXPECT_TRUE(remote == local);
    expect_success(pa);
    close_both();
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaHeld, ::testing::Range(1, 4));

} // namespace
