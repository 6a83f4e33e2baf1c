// SPDX-License-Identifier: GPL-2.0
// Regions whose pages the simulated device fetches when it uses them.
#include <cstring>

#include "kapi_verbs_test.h"

namespace {

constexpr unsigned kAll =
    KAPI_ACCESS_LOCAL_WRITE | KAPI_ACCESS_REMOTE_WRITE | KAPI_ACCESS_REMOTE_READ | KAPI_ACCESS_REMOTE_ATOMIC;

class VerbsOnDemand : public VerbsTest {
protected:
    void connect_on_demand(kapi_u32 flags_a, kapi_u32 flags_b)
    {
        dev_b = &sim::plug_rdma(b.initial_net(), "mlx_b", 2, [=](kapi_rdma_attrs &attrs) { attrs.flags |= flags_b; });
        dev_a = &sim::plug_rdma(a.initial_net(), "mlx_a", 2, [=](kapi_rdma_attrs &attrs) { attrs.flags |= flags_a; });
        listen();
        resolve();
        ask();
        accept();
        ASSERT_TRUE(wait([&] { return client.established; }, 100 * sim::kSecond));
    }
    kapi_u64 address() const { return reinterpret_cast<std::uintptr_t>(file); }
    int make(kapi_u64 from, kapi_size length, kapi_u64 iova, kapi_u32 access = kAll)
    {
        int error = 0;
        run(b, [&] { error = kapi_mr_on_demand(server.pd, from, length, iova, access, &mr); });
        return error;
    }
    /** The connection is over on both sides. */
    void expect_refused(kapi_wc_status status)
    {
        EXPECT_EQ(status, KAPI_WC_REMOTE_ACCESS);
        EXPECT_TRUE(wait([&] { return server.end.has_value(); }));
        EXPECT_EQ(server.end->why, KAPI_CM_QUEUE_ERROR);
    }
    void end()
    {
        run(b, [&] { kapi_mr_free(mr); });
        close_all();
    }

    alignas(4096) unsigned char file[2 * 4096]{};
    kapi_mr *mr = nullptr;
};

TEST_P(VerbsOnDemand, region__is_made_where_the_device_has_it)
{
    connect_on_demand(0, KAPI_RDMA_ON_DEMAND);
    std::memset(file, 0x11, sizeof(file));
    EXPECT_EQ(make(0, 3000, 0), -KAPI_EFAULT);
    EXPECT_EQ(make(address(), 0, 0), -KAPI_EINVAL);
    EXPECT_EQ(make(address(), ~0ULL, 0), -KAPI_EINVAL);
    EXPECT_EQ(make(address(), 3000, 1), -KAPI_EINVAL) << "another place of its page";
    EXPECT_EQ(make(address(), 3000, ~0ULL << 12), 0) << "up to the last address";
    run(b, [&] { kapi_mr_free(mr); });
    EXPECT_EQ(make(address(), 8000, ~0ULL << 12), -KAPI_EINVAL);
    EXPECT_EQ(make(address(), 3000, 0, KAPI_ACCESS_REMOTE_WRITE), -KAPI_EINVAL);
    run(a, [&] {
        kapi_mr *none = nullptr;
        EXPECT_EQ(kapi_mr_on_demand(client.pd, address(), 3000, address(), kAll, &none), -KAPI_EOPNOTSUPP);
    });
    ASSERT_EQ(make(address(), 3000, 4096), 0);
    ASSERT_EQ(operate(KAPI_WR_READ, kapi_mr_key(mr), 4096 + 2999, 1), KAPI_WC_OK);
    EXPECT_EQ(client.out.bytes[0], 0x11);
    expect_refused(operate(KAPI_WR_READ, kapi_mr_key(mr), 4096 + 3000, 1));
    end();
}

// What cannot be pinned can be used, as long as it is mapped.
TEST_P(VerbsOnDemand, what_is_unmapped__is_not_reached)
{
    connect_on_demand(0, KAPI_RDMA_ON_DEMAND);
    sim::map_dax(b, file, sizeof(file));
    run(b, [&] {
        kapi_pin *pin = nullptr;
        EXPECT_EQ(kapi_pin_user(address() + 4095, 2, 1, &pin), -KAPI_EOPNOTSUPP);
    });
    ASSERT_EQ(make(address(), sizeof(file), 0), 0);
    ASSERT_EQ(operate(KAPI_WR_WRITE, kapi_mr_key(mr), 100, 50), KAPI_WC_OK);
    EXPECT_TRUE(std::equal(file + 100, file + 150, client.out.bytes));
    sim::unmap_dax(b, file);
    expect_refused(operate(KAPI_WR_WRITE, kapi_mr_key(mr), 100, 50));
    run(b, [&] {
        kapi_mr *none = nullptr;
        kapi_pin *pin = nullptr;
        EXPECT_EQ(kapi_mr_on_demand(server.pd, address(), 1, 0, 0, &none), -KAPI_EFAULT);
        EXPECT_EQ(kapi_pin_user(address(), 1, 0, &pin), -KAPI_EFAULT);
    });
    end();
}

TEST_P(VerbsOnDemand, what_may_not_be_written__is_read)
{
    connect_on_demand(0, KAPI_RDMA_ON_DEMAND);
    sim::map_dax(b, file, sizeof(file), false);
    EXPECT_EQ(make(address(), 100, 0), -KAPI_EFAULT);
    ASSERT_EQ(make(address(), 100, 0, KAPI_ACCESS_REMOTE_READ), 0);
    EXPECT_EQ(operate(KAPI_WR_READ, kapi_mr_key(mr), 0, 100), KAPI_WC_OK);
    expect_refused(operate(KAPI_WR_WRITE, kapi_mr_key(mr), 0, 1));
    end();
}

INSTANTIATE_TEST_SUITE_P(Seeds, VerbsOnDemand, ::testing::Range(1, 6));

} // namespace
