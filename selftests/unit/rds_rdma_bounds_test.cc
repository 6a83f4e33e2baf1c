// SPDX-License-Identifier: GPL-2.0
// Regions, operations and notices at their bounds: sizes and room.
#include "rds_rdma_memory_test.h"

#include "kapi/sim/rdma.h"

namespace {

class RdsRdmaBounds : public RdmaMemoryTest {
protected:
    /** So many operations without a message, which succeed. */
    void operate_silently(unsigned count)
    {
        kapi_u64 flags = RDS_ABI_RDMA_READWRITE | RDS_ABI_RDMA_NOTIFY_ME | RDS_ABI_RDMA_SILENT;
        cookie = region_on_b(remote.data(), remote.size());
        run(a, [&] {
            for (unsigned i = 0; i < count; i++)
                EXPECT_EQ(operate(pa, {cookie, 0, {{place_of(local.data()), 50}}, flags, 100 + i}, ""), 0);
        });
        world.run_for(100 * sim::kMillisecond);
    }
    Bytes remote = Bytes(200, 0xee), local = pattern(100, 1);
    kapi_u64 cookie = 0;
};

TEST_P(RdsRdmaBounds, a_region_has_a_mebibyte_and_a_page_at_most)
{
    open_both();
    Bytes memory((1 << 20) + 3 * 4096);
    auto *page = reinterpret_cast<unsigned char *>((place_of(memory.data()) + 4095) & ~4095ULL);
    run(b, [&] {
        EXPECT_EQ(get_mr(pb, page, (1 << 20) + 4096, cookie), 0);
        EXPECT_EQ(b.pinned_pages, 257u);
        EXPECT_EQ(free_mr(pb, cookie), 0);
        EXPECT_EQ(get_mr(pb, page + 4095, (1 << 20) + 1, cookie), 0);
        EXPECT_EQ(cookie >> 32, 4095u);
        EXPECT_EQ(free_mr(pb, cookie), 0);
        EXPECT_EQ(get_mr(pb, page + 4095, (1 << 20) + 2, cookie), -KAPI_EMSGSIZE);
        EXPECT_EQ(get_mr(pb, page, 0xffffffffu, cookie), -KAPI_EMSGSIZE) << "a size that a region could name";
        EXPECT_EQ(get_mr(pb, page, 0x100000000u, cookie), -KAPI_EINVAL);
        EXPECT_EQ(b.pinned_pages, 0u);
    });
    close_both();
}

// A program may leave it to the end of its socket.
TEST_P(RdsRdmaBounds, a_region_needs_no_place_for_its_cookie)
{
    open_both();
    run(b, [&] {
        rds_abi_get_mr_args args{{place_of(remote.data()), 100}, 0, 0};
        EXPECT_EQ(pb.socket.set_option(RDS_ABI_GET_MR, &args, sizeof(args)), 0);
        EXPECT_NE(b.pinned_pages, 0u);
    });
    close_both();
}

// Its last request may be the last of a chain, and another processor end it before the call that posts it returns.
TEST_P(RdsRdmaBounds, an_operation_of_any_number_of_requests__ends_when_it_likes)
{
    constexpr unsigned kPieces = 8, kChain = 16; // of a request; in requests
    open_both();
    cookie = region_on_b(remote.data(), remote.size());
    local = pattern(200, 2);
    dev_a->returns_late = true;
    for (unsigned pieces = (kChain - 1) * kPieces - 1; pieces <= (kChain + 1) * kPieces + 1; pieces++) {
        SCOPED_TRACE(pieces);
        std::vector<rds_abi_iovec> vectors;
        for (unsigned i = 0; i < pieces; i++)
            vectors.push_back({place_of(local.data()) + i, 1});
        run(a, [&] { EXPECT_EQ(operate(pa, {cookie, 0, vectors}), 4); });
        expect_success(pa);
        EXPECT_TRUE(std::equal(remote.begin(), remote.begin() + static_cast<long>(vectors.size()), local.begin()));
        expect_message(pb, "done");
    }
    close_both();
}

// What does not fit into a call's room comes with the next one, in order, and the socket stays readable meanwhile.
TEST_P(RdsRdmaBounds, notices_wait_for_room)
{
    constexpr std::size_t kEach = 32; // a header and twelve bytes, aligned
    open_both();
    operate_silently(5);
    run(a, [&] {
        kapi_u64 token = 100;
        for (std::size_t count : {1u, 2u, 2u}) {
            EXPECT_TRUE(pa.socket.poll() & KAPI_IN);
            Received some = receive(pa, RDS_ABI_MSG_DONTWAIT, count * kEach);
            EXPECT_EQ(some.result, 0);
            ASSERT_EQ(some.notices.size(), count);
            for (const auto &notice : some.notices)
                EXPECT_EQ(notice.user_token, token++);
        }
        EXPECT_FALSE(pa.socket.poll() & KAPI_IN);
        EXPECT_EQ(receive(pa, RDS_ABI_MSG_DONTWAIT).result, -KAPI_EAGAIN);
    });
    close_both();
}

// A poller that sleeps is woken by a notice, and by the next one after a call that had no room for all.
TEST_P(RdsRdmaBounds, notices_wake_a_program)
{
    open_both();
    std::size_t got = 0;
    auto waits = spawn(pa, [&] {
        while (got < 3 && pa.socket.wait(KAPI_IN, 10 * sim::kSecond)) // the first time because of the peer's map
            got += receive(pa, RDS_ABI_MSG_DONTWAIT, 32).notices.size();
    });
    operate_silently(3);
    EXPECT_TRUE(wait({waits}, sim::kSecond));
    EXPECT_EQ(got, 3u);
    close_both();
}

// A region of a single use ends with the use by the peer that it is for, and not by what others say.
TEST_P(RdsRdmaBounds, a_region_of_a_single_use__is_not_ended_by_another_peer)
{
    open_both();
    a.initial_net().add(sim::address("10.0.0.7"));
    auto other = on_a("10.0.0.7", "10.0.0.2");
    open(other, kPort + 1);
    kapi_u64 once = region_on_b(remote.data(), 100, RDS_ABI_RDMA_USE_ONCE);
    run(a, [&] { EXPECT_EQ(operate(other, {once, 0, {{place_of(local.data()), 100}}}), 4); });
    expect_message(pb, "done");
    expect_success(other);
    run(b, [&] { EXPECT_EQ(free_mr(pb, once), 0) << "the region is for the peer of the last message"; });
    close(other);
    close_both();
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaBounds, ::testing::Range(1, 4));

} // namespace
