// SPDX-License-Identifier: GPL-2.0
// What programs have sent to a peer that posts no receives, when they have ended.
#include "rds_rdma_peer.h"

namespace {

class RdsRdmaOrphan : public RdsRdmaPeer {
protected:
    /** A write of the program's memory, wherever the peer has the key. */
    long write(const std::string &memory)
    {
        auto place = [](const void *at) { return reinterpret_cast<std::uintptr_t>(at); };
        rds_abi_iovec local{place(memory.data()), memory.size()};
        struct {
            rds_abi_cmsghdr header;
            rds_abi_rdma_args args;
        } control{{sizeof(control), RDS_ABI_SOL_RDS, RDS_ABI_CMSG_RDMA_ARGS},
                  {1, {0, memory.size()}, place(&local), 1, RDS_ABI_RDMA_READWRITE, 0}};
        SocketName name(sim::address(program.to, kPort));
        kapi_msg msg = sim::make_msg("done", 4, {});
        rds_send call{&msg, 4, name.bytes, name.size, &control, sizeof(control), 0};
        return static_cast<long>(rds_socket_sendmsg(program.socket.core(), &call));
    }
};

TEST_P(RdsRdmaOrphan, messages__do_not_keep_their_connection)
{
    rnr_timer = 31; // half a second: it is asked again and again
    run(a, [&] {
        for (unsigned i = 0; i < 40; i++)
            program.send(std::string(1000, 'x'));
    });
    accept(says("10.0.0.2", "10.0.0.1", 3, 1));
    ASSERT_TRUE(wait_for([&] { return peer.messages.size() == Peer::kSlots; }));
    const std::string memory(10'000, 'm');
    run(a, [&] { EXPECT_EQ(write(memory), 4); });
    EXPECT_NE(a.pinned_pages, 0u);
    close(program);
    world.run_for(1200 * sim::kSecond);
    EXPECT_TRUE(peer.end.has_value());
    EXPECT_EQ(a.pinned_pages, 0u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaOrphan, ::testing::Range(1, 5));

} // namespace
