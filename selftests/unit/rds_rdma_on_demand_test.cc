// SPDX-License-Identifier: GPL-2.0
// Regions and operations of memory that cannot be pinned: files on persistent memory. The device fetches pages when it uses them.
#include "rds_rdma_memory_test.h"

namespace {

constexpr kapi_u32 kFetches = KAPI_RDMA_ON_DEMAND | KAPI_RDMA_ON_DEMAND_ATOMICS, kAtomics = KAPI_RDMA_ATOMICS;
constexpr std::size_t kSize = 3 * 4096;

class RdsRdmaOnDemand : public RdmaMemoryTest {
protected:
    /** Devices with these flags, and a file that a program of each machine has mapped. */
    void open_with(kapi_u32 flags_a, kapi_u32 flags_b)
    {
        replug(dev_a, a, flags_a);
        replug(dev_b, b, flags_b);
        open_both();
        map_files();
    }
    void map_files()
    {
        sim::map_dax(a, local, kSize);
        sim::map_dax(b, remote, kSize);
        Bytes bytes = pattern(kSize, 1);
        std::copy(bytes.begin(), bytes.end(), local);
        std::fill_n(remote, kSize, 0xee);
    }
    void replug(kapi_rdma_dev *&dev, sim::Node &node, kapi_u32 flags)
    {
        unplug(dev);
        dev = &sim::plug_rdma(node.initial_net(), "other", 2, [flags](kapi_rdma_attrs &attrs) { attrs.flags = flags; });
        world.run_for(sim::kMillisecond);
    }
    long write(kapi_u64 cookie, kapi_u64 offset, const unsigned char *from, std::size_t size)
    {
        long sent = 0;
        run(a, [&] { sent = operate(pa, {cookie, offset, {{place_of(from), size}}}); });
        return sent;
    }
    long read(kapi_u64 cookie, kapi_u64 offset, unsigned char *to, std::size_t size)
    {
        long sent = 0;
        run(a, [&] { sent = operate(pa, {cookie, offset, {{place_of(to), size}}, RDS_ABI_RDMA_NOTIFY_ME}); });
        return sent;
    }
    long add_one(kapi_u64 cookie, void *old)
    {
        long sent = 0;
        rds_abi_atomic_args args{cookie, place_of(old), 0, {1, 0, 0, 0}, RDS_ABI_RDMA_NOTIFY_ME, 77};
        run(a, [&] { sent = send_with(pa, Cmsg(RDS_ABI_CMSG_ATOMIC_FADD, args), "done"); });
        return sent;
    }
    void expect_done()
    {
        expect_success(pa);
        expect_message(pb, "done");
    }
    int get_on_b(const unsigned char *memory, std::size_t size)
    {
        int got = 0;
        run(b, [&] {
            kapi_u64 cookie = 0;
            got = get_mr(pb, const_cast<unsigned char *>(memory), size, cookie);
        });
        return got;
    }

    alignas(4096) unsigned char local[kSize], remote[kSize];
    Bytes pinned = pattern(kSize, 2);
};

// From any byte on, and no byte beside.
TEST_P(RdsRdmaOnDemand, regions__have_the_bytes_that_the_program_named)
{
    open_with(0, kFetches);
    for (std::size_t skew : {std::size_t{0}, std::size_t{1}, std::size_t{4095}}) {
        std::size_t size = kSize - 2 * skew;
        kapi_u64 cookie = region_on_b(remote + skew, size);
        EXPECT_EQ(b.pinned_pages, 0u);
        std::fill_n(remote, kSize, 0xee);
        EXPECT_EQ(write(cookie, 0, pinned.data(), size), 4);
        expect_done();
        EXPECT_TRUE(std::equal(remote + skew, remote + skew + size, pinned.begin()));
        EXPECT_TRUE(std::all_of(remote, remote + skew, [](unsigned char byte) { return byte == 0xee; }));
        EXPECT_TRUE(std::all_of(remote + skew + size, remote + kSize, [](unsigned char byte) { return byte == 0xee; }));
        Bytes back(size);
        EXPECT_EQ(read(cookie, 0, back.data(), size), 4);
        expect_done();
        EXPECT_TRUE(std::equal(back.begin(), back.end(), pinned.begin()));
        run(b, [&] { EXPECT_EQ(free_mr(pb, cookie), 0); });
    }
    EXPECT_EQ(counter(pb, "ib_rdma_mr_1m_used"), 3u);
    EXPECT_EQ(counter(pb, "ib_rdma_mr_1m_free"), 3u);
    close_both();
}

TEST_P(RdsRdmaOnDemand, key__is_dead_when_its_region_is_freed)
{
    open_with(0, kFetches);
    kapi_u64 cookie = region_on_b(remote, kSize);
    run(b, [&] {
        EXPECT_EQ(free_mr(pb, cookie), 0);
        EXPECT_EQ(free_mr(pb, cookie), -KAPI_EINVAL);
    });
    write(cookie, 0, pinned.data(), 8);
    expect_refusal(pa);
    EXPECT_EQ(remote[0], 0xee);
    close_both();
}

TEST_P(RdsRdmaOnDemand, region_of_a_single_use__ends_with_it)
{
    open_with(0, kFetches);
    kapi_u64 cookie = region_on_b(remote, kSize, RDS_ABI_RDMA_USE_ONCE);
    EXPECT_EQ(write(cookie, 0, pinned.data(), 8), 4);
    expect_done();
    run(b, [&] { EXPECT_EQ(free_mr(pb, cookie), -KAPI_EINVAL); });
    close_both();
}

TEST_P(RdsRdmaOnDemand, what_the_program_unmaps__is_refused_to_peers)
{
    open_with(0, kFetches);
    kapi_u64 cookie = region_on_b(remote, kSize);
    sim::unmap_dax(b, remote);
    write(cookie, 0, pinned.data(), 8);
    expect_refusal(pa);
    EXPECT_EQ(get_on_b(remote, 8), -KAPI_EFAULT);
    EXPECT_EQ(remote[0], 0xee);
    close_both();
}

// The local side of operations of each kind, beside memory that is pinned.
TEST_P(RdsRdmaOnDemand, operations__use_such_memory)
{
    open_with(kFetches | kAtomics, kAtomics);
    alignas(8) kapi_u64 target[512] = {41};
    kapi_u64 cookie = region_on_b(target, sizeof(target));
    EXPECT_EQ(write(cookie, 8, local + 1, 4000), 4);
    expect_done();
    EXPECT_EQ(std::memcmp(target + 1, local + 1, 4000), 0);
    run(a, [&] {
        Operation mixed{cookie, 8, {{place_of(local + 4095), 2}, {place_of(pinned.data()), 100}, {place_of(local), 7}}};
        EXPECT_EQ(operate(pa, mixed), 4);
    });
    expect_done();
    auto *bytes = reinterpret_cast<unsigned char *>(target + 1);
    EXPECT_EQ(std::memcmp(bytes, local + 4095, 2), 0);
    EXPECT_EQ(std::memcmp(bytes + 2, pinned.data(), 100), 0);
    EXPECT_EQ(std::memcmp(bytes + 102, local, 7), 0);
    EXPECT_EQ(read(cookie, 8, local + 4000, 3000), 4);
    expect_done();
    EXPECT_EQ(std::memcmp(target + 1, local + 4000, 3000), 0);
    EXPECT_EQ(add_one(cookie, local + 8), 4);
    expect_done();
    EXPECT_EQ(target[0], 42u);
    kapi_u64 old = 0;
    std::memcpy(&old, local + 8, sizeof(old));
    EXPECT_EQ(old, 41u);
    close_both();
}

TEST_P(RdsRdmaOnDemand, operation__needs_memory_that_is_there)
{
    open_with(kFetches, 0);
    Bytes target(100);
    kapi_u64 cookie = region_on_b(target.data(), target.size());
    sim::map_dax(a, local, kSize, false);
    EXPECT_EQ(read(cookie, 0, local, 100), -KAPI_EFAULT) << "not to be written";
    EXPECT_EQ(write(cookie, 0, local, 100), 4);
    expect_done();
    EXPECT_TRUE(std::equal(target.begin(), target.end(), local));
    sim::unmap_dax(a, local);
    EXPECT_EQ(write(cookie, 0, local, 100), -KAPI_EFAULT);
    close_both();
}

// It is unmapped while the operation waits for the peer: this host's device cannot do it, and the connection is made again.
TEST_P(RdsRdmaOnDemand, what_an_operation_needs__is_unmapped)
{
    open_with(kFetches, 0);
    Bytes target(100, 0xcc);
    kapi_u64 cookie = region_on_b(target.data(), target.size());
    cut(true);
    EXPECT_EQ(read(cookie, 0, local, 100), 4);
    world.run_for(sim::kMillisecond);
    Bytes before(local, local + 100);
    sim::unmap_dax(a, local);
    cut(false);
    int status = next_notice(pa).status;
    EXPECT_TRUE(status == RDS_ABI_RDMA_OTHER_ERROR || status == RDS_ABI_RDMA_DROPPED) << status;
    EXPECT_TRUE(std::equal(before.begin(), before.end(), local));
    run(a, [&] { pa.send("next"); });
    expect_message(pb, "next");
    close_both();
}

TEST_P(RdsRdmaOnDemand, device_that_cannot__is_an_error)
{
    open_with(0, 0);
    EXPECT_EQ(get_on_b(remote, kSize), -KAPI_EOPNOTSUPP);
    Bytes target(100);
    kapi_u64 cookie = region_on_b(target.data(), target.size());
    EXPECT_EQ(write(cookie, 0, local, 100), -KAPI_EOPNOTSUPP);
    EXPECT_EQ(read(cookie, 0, local, 100), -KAPI_EOPNOTSUPP);
    EXPECT_EQ(add_one(cookie, local), -KAPI_EOPNOTSUPP);
    close_both();
}

// There is no device on the way.
TEST_P(RdsRdmaOnDemand, operation_to_the_host_itself__is_an_error)
{
    open_with(kFetches, kFetches);
    pa.to = pa.from;
    EXPECT_EQ(write(1, 0, local, 100), -KAPI_EOPNOTSUPP);
    EXPECT_EQ(add_one(1, local), -KAPI_EOPNOTSUPP);
    close_both();
}

// Atomic operations on such memory may be beyond a device that has both.
TEST_P(RdsRdmaOnDemand, atomic_operations__are_refused_where_the_device_cannot)
{
    open_with(KAPI_RDMA_ON_DEMAND | kAtomics, KAPI_RDMA_ON_DEMAND | kAtomics);
    alignas(8) kapi_u64 target = 41, old = 0;
    kapi_u64 good = region_on_b(&target, sizeof(target)), bad = region_on_b(remote, kSize);
    EXPECT_EQ(add_one(good, local), 4);
    EXPECT_EQ(next_notice(pa).status, RDS_ABI_RDMA_OTHER_ERROR);
    EXPECT_EQ(target, 41u);
    EXPECT_EQ(add_one(bad, &old), 4);
    expect_refusal(pa);
    EXPECT_EQ(remote[0], 0xee);
    close_both();
}

// Sent on a connection of the device that has gone, and not posted on the next one.
TEST_P(RdsRdmaOnDemand, operation_of_a_device_that_has_gone__fails)
{
    open_with(kFetches, 0);
    Bytes target(100, 0xcc);
    kapi_u64 cookie = region_on_b(target.data(), target.size());
    cut(true);
    std::string text = contents(1 << 20, 3);
    pa.socket.sk().sndbuf = 64 << 20;
    run(a, [&] {
        for (unsigned i = 0; i < 8; i++) // no room is left for what follows
            pa.send(text);
    });
    EXPECT_EQ(write(cookie, 0, local, 100), 4);
    replug(dev_a, a, kFetches);
    cut(false);
    for (unsigned i = 0; i < 8; i++)
        expect_message(pb, text);
    EXPECT_EQ(next_notice(pa).status, RDS_ABI_RDMA_OTHER_ERROR);
    EXPECT_EQ(target, Bytes(100, 0xcc));
    close_both();
}

// Regions end with the device, and those of the next one do not use them.
TEST_P(RdsRdmaOnDemand, devices__go)
{
    open_with(kFetches, kFetches);
    kapi_u64 cookie = region_on_b(remote, kSize);
    cut(true);
    EXPECT_EQ(write(cookie, 0, local, kSize), 4);
    replug(dev_a, a, kFetches);
    replug(dev_b, b, kFetches);
    cut(false);
    int status = next_notice(pa).status;
    EXPECT_TRUE(status == RDS_ABI_RDMA_OTHER_ERROR || status == RDS_ABI_RDMA_DROPPED) << status;
    EXPECT_EQ(remote[0], 0xee);
    run(b, [&] { EXPECT_EQ(free_mr(pb, cookie), 0); });
    cookie = region_on_b(remote, kSize);
    EXPECT_EQ(write(cookie, 0, local, kSize), 4);
    expect_done();
    EXPECT_TRUE(std::equal(remote, remote + kSize, local));
    close_both();
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaOnDemand, ::testing::Range(1, 6));

} // namespace
