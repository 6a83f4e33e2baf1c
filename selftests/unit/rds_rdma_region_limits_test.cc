// SPDX-License-Identifier: GPL-2.0
// How many regions of memory there are: for a socket, a user, a device.
#include "rds_rdma_memory_test.h"

namespace {

class RdsRdmaRegionLimits : public RdmaMemoryTest {};

// Room for copies comes back when what others have mapped ends.
TEST_P(RdsRdmaRegionLimits, an_operation_waits__for_a_full_bounce_buffer)
{
    constexpr std::size_t kRing = 128 * (4 * 4096 + 48) + 513 * 48, kSize = 40'000;
    sim::make_bounce(*dev_a, kRing + kSize + 4096);
    open_both();
    Bytes remote(kSize, 0), local = pattern(kSize, 1);
    kapi_u64 cookie = region_on_b(remote.data(), kSize);
    run(a, [&] {
        for (unsigned i = 0; i < 4; i++)
            EXPECT_EQ(operate(pa, {cookie, 0, {{place_of(local.data()), kSize}}}), 4);
    });
    for (unsigned i = 0; i < 4; i++)
        expect_message(pb, "done");
    unsigned seen = 0;
    run(a, [&] {
        while (seen < 4) {
            Received received = receive(pa);
            ASSERT_EQ(received.result, 0);
            for (const auto &notice : received.notices)
                EXPECT_EQ(notice.status, RDS_ABI_RDMA_SUCCESS);
            seen += static_cast<unsigned>(received.notices.size());
        }
    });
    EXPECT_TRUE(remote == local);
    close_both();
}

TEST_P(RdsRdmaRegionLimits, an_operation_fails__that_the_bounce_buffer_has_no_room_for)
{
    sim::make_bounce(*dev_a, 128 * (4 * 4096 + 48) + 513 * 48 + 65536);
    open_both();
    Bytes remote(1 << 20, 0xee), local = pattern(1 << 20, 1);
    kapi_u64 cookie = region_on_b(remote.data(), remote.size());
    run(a, [&] {
        EXPECT_EQ(operate(pa, {cookie, 0, {{place_of(local.data()), local.size()}}}), 4);
        pa.send("next");
    });
    std::uint64_t began = world.now_ns();
    EXPECT_EQ(next_notice(pa).status, RDS_ABI_RDMA_OTHER_ERROR);
    EXPECT_LT(world.now_ns() - began, 6 * sim::kSecond);
    expect_message(pb, "next");
    EXPECT_TRUE(remote == Bytes(1 << 20, 0xee));
    close_both();
}

TEST_P(RdsRdmaRegionLimits, are_limited__of_a_socket_and_of_a_user)
{
    open_both();
    Bytes memory(8192);
    std::vector<kapi_u64> cookies(1025);
    run(b, [&] {
        for (std::size_t i = 0; i < 1024; i++)
            ASSERT_EQ(get_mr(pb, memory.data(), 1, cookies[i]), 0) << i;
        EXPECT_EQ(get_mr(pb, memory.data(), 1, cookies[1024]), -KAPI_ENOMEM);
        EXPECT_EQ(free_mr(pb, cookies[7]), 0);
        EXPECT_EQ(get_mr(pb, memory.data(), 1, cookies[7]), 0);
    });
    close(pb);
    unplug(dev_b);
    dev_b = &sim::plug_rdma(b.initial_net(), "small", 2, [](kapi_rdma_attrs &attrs) { attrs.max_mr = 64; });
    world.run_for(sim::kMillisecond);
    open(pb);
    run(a, [&] { pa.send("again"); });
    expect_message(pb, "again");
    run(b, [&] { pb.send("again"); });
    expect_message(pa, "again");
    run(b, [&] {
        unsigned got = 0;
        while (get_mr(pb, memory.data(), 1, cookies[got]) == 0)
            got++;
        EXPECT_EQ(got, 16u) << "half of what is for regions";
        EXPECT_EQ(get_mr(pb, memory.data(), 1, cookies[16]), -KAPI_ENOMEM);
    });
    close_both();
}

TEST_P(RdsRdmaRegionLimits, have_as_many_pages_as_the_device_takes)
{
    constexpr std::size_t kPage = 4096;
    unplug(dev_b);
    dev_b = &sim::plug_rdma(b.initial_net(), "few", 2, [](kapi_rdma_attrs &attrs) { attrs.max_mr_pages = 4; });
    world.run_for(sim::kMillisecond);
    open_both();
    Bytes memory(6 * kPage);
    run(b, [&] {
        auto *page = reinterpret_cast<unsigned char *>((place_of(memory.data()) + kPage - 1) & ~kapi_u64{kPage - 1});
        kapi_u64 cookie = 0;
        EXPECT_EQ(get_mr(pb, page, 4 * kPage + 1, cookie), -KAPI_EMSGSIZE);
        EXPECT_EQ(get_mr(pb, page, 4 * kPage, cookie), 0);
    });
    close_both();
}

TEST_P(RdsRdmaRegionLimits, notices_are_limited)
{
    open_both();
    Bytes remote(100, 0xee), local = pattern(100, 1);
    kapi_u64 cookie = region_on_b(remote.data(), 100);
    Operation operation{cookie, 0, {{place_of(local.data()), 100}}};
    cut(true);
    run(a, [&] {
        for (unsigned i = 0; i < 4096; i++)
            ASSERT_EQ(operate(pa, operation, ""), 0) << i;
        EXPECT_EQ(operate(pa, operation, ""), -KAPI_ENOMEM);
        SocketName name(sim::address(pa.to, kPort));
        EXPECT_EQ(pa.socket.set_option(RDS_ABI_CANCEL_SENT_TO, name.bytes, 16), 0);
        EXPECT_EQ(operate(pa, operation, ""), -KAPI_ENOMEM) << "not before they are received";
        EXPECT_FALSE(receive(pa).notices.empty());
        EXPECT_EQ(operate(pa, operation, ""), 0);
    }, 60 * sim::kSecond);
    cut(false);
    world.run_for(20 * sim::kSecond); // those that were posted end with the connection
    close_both();
}

// Of a device that has any number. The first user has half of all, the next one half of the rest.
class RdsRdmaManyRegions : public RdmaMemoryTest {
protected:
    static constexpr kapi_u16 kFirstPort = 6000;
    /** Sockets of user get regions until one is refused for another reason than that the socket has enough. How many. */
    unsigned get_all(unsigned user, char &byte)
    {
        unsigned got = 0;
        kapi_u64 cookie = 0;
        for (unsigned of_socket = 1024; of_socket == 1024; got += of_socket) {
            RdsSocket &socket = *sockets.emplace_back(std::make_unique<RdsSocket>(host_b));
            EXPECT_EQ(socket.open(), 0);
            socket.sk().user = user;
            EXPECT_EQ(socket.bind(sim::address("10.0.0.2", static_cast<kapi_u16>(kFirstPort + sockets.size()))), 0);
            EXPECT_EQ(socket.connect(sim::address("10.0.0.1", kPort)), 0);
            rds_abi_get_mr_args args{{place_of(&byte), 1}, place_of(&cookie), 0};
            int error = 0;
            for (of_socket = 0; !(error = socket.set_option(RDS_ABI_GET_MR, &args, sizeof(args)));)
                of_socket++;
            EXPECT_EQ(error, -KAPI_ENOMEM);
        }
        return got;
    }
    std::vector<std::unique_ptr<RdsSocket>> sockets;
};

TEST_P(RdsRdmaManyRegions, are_limited__of_a_device)
{
    unplug(dev_b);
    dev_b = &sim::plug_rdma(b.initial_net(), "large", 2, [](kapi_rdma_attrs &attrs) { attrs.max_mr = 1 << 20; });
    world.run_for(sim::kMillisecond);
    open_both();
    char byte = 0;
    run(b, [&] {
        EXPECT_EQ(get_all(1001, byte), 16384u);
        EXPECT_EQ(get_all(1002, byte), 8192u);
        EXPECT_EQ(get_all(1001, byte), 0u);
        for (auto &socket : sockets)
            socket->close();
        EXPECT_EQ(b.pinned_pages, 0u);
        sockets.clear();
        EXPECT_EQ(get_all(1002, byte), 16384u) << "they are there again";
        for (auto &socket : sockets)
            socket->close();
        sockets.clear();
    }, 600 * sim::kSecond);
    close_both();
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaManyRegions, ::testing::Values(1));
INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaRegionLimits, ::testing::Range(1, 9));

} // namespace
