// SPDX-License-Identifier: GPL-2.0
// Connections over RDMA that nobody uses.
#include "rds_rdma_memory_test.h"

namespace {

class RdsRdmaIdle : public RdmaTest {};
TEST_P(RdsRdmaIdle, a_connection_that_nobody_uses__ends)
{
    load();
    Program from = on_a(), to = on_b();
    open(from);
    open(to);
    run(a, [&] { from.send("hello"); });
    run(b, [&] { EXPECT_EQ(to.receive(), "hello"); });
    close(from);
    close(to);
    world.run_for(7200 * sim::kSecond);
    Program looks = on_a();
    open(looks, 9000);
    EXPECT_LE(counter(looks, "conn_reset"), 1u) << "made again, and again";
    EXPECT_EQ(rows<rds_abi_info_rdma_connection>(looks, RDS_ABI_INFO_IB_CONNECTIONS).size(), 0u);
    close(looks);
}
INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaIdle, ::testing::Range(1, 7));

} // namespace
