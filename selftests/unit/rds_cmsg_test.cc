// SPDX-License-Identifier: GPL-2.0
// net/rds/cmsg: control data of sendmsg, well-formed and hostile.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "net/rds/cmsg.h"

namespace {

using Bytes = std::vector<std::byte>;

void add(Bytes &control, int level, int type, std::size_t size, std::size_t claimed = ~std::size_t{0})
{
    rds_abi_cmsghdr head{};
    head.cmsg_len = claimed == ~std::size_t{0} ? sizeof(head) + size : claimed;
    head.cmsg_level = level;
    head.cmsg_type = type;
    std::size_t at = control.size();
    control.resize(at + RDS_ABI_CMSG_ALIGN(sizeof(head) + size));
    std::memcpy(control.data() + at, &head, sizeof(head));
    std::memset(control.data() + at + sizeof(head), 7, size);
}

int error_of(const Bytes &control)
{
    auto parsed = rds::parse_controls(control);
    return parsed ? 0 : parsed.error().code();
}

TEST(Cmsg, empty__and_other_levels_are_nothing)
{
    Bytes control;
    EXPECT_EQ(error_of(control), 0);
    add(control, RDS_ABI_SOL_SOCKET, 1, 12);
    auto parsed = rds::parse_controls(control);
    ASSERT_TRUE(parsed.has_value());
    EXPECT_FALSE(parsed->rdma() || parsed->zerocopy_cookie);
}

TEST(Cmsg, cookie__is_read)
{
    Bytes control;
    add(control, RDS_ABI_SOL_SOCKET, 1, 3);
    add(control, RDS_ABI_SOL_RDS, RDS_ABI_CMSG_ZCOPY_COOKIE, 4);
    auto parsed = rds::parse_controls(control);
    ASSERT_TRUE(parsed.has_value());
    EXPECT_EQ(parsed->zerocopy_cookie, 0x07070707u);
}

struct Operation {
    int type;
    std::size_t size;
    bool local; // done by us, not by the peer
};
constexpr Operation kOperations[] = {
    {RDS_ABI_CMSG_RDMA_ARGS, sizeof(rds_abi_rdma_args), true},
    {RDS_ABI_CMSG_RDMA_DEST, sizeof(std::uint64_t), false},
    {RDS_ABI_CMSG_RDMA_MAP, sizeof(rds_abi_get_mr_args), false},
    {RDS_ABI_CMSG_ATOMIC_FADD, sizeof(rds_abi_atomic_args), true},
    {RDS_ABI_CMSG_ATOMIC_CSWP, sizeof(rds_abi_atomic_args), true},
    {RDS_ABI_CMSG_MASKED_ATOMIC_FADD, sizeof(rds_abi_atomic_args), true},
    {RDS_ABI_CMSG_MASKED_ATOMIC_CSWP, sizeof(rds_abi_atomic_args), true},
};

TEST(Cmsg, rdma__operations_need_their_size)
{
    for (const Operation &operation : kOperations) {
        Bytes whole, cut;
        add(whole, RDS_ABI_SOL_RDS, operation.type, operation.size);
        add(cut, RDS_ABI_SOL_RDS, operation.type, operation.size - 1);
        auto parsed = rds::parse_controls(whole);
        ASSERT_TRUE(parsed.has_value()) << operation.type;
        EXPECT_TRUE(parsed->rdma());
        EXPECT_EQ(error_of(cut), KAPI_EINVAL) << operation.type;
    }
}

TEST(Cmsg, rdma__operations_exclude_each_other)
{
    for (const Operation &first : kOperations) {
        for (const Operation &second : kOperations) {
            Bytes control;
            add(control, RDS_ABI_SOL_RDS, first.type, first.size);
            add(control, RDS_ABI_SOL_RDS, second.type, second.size);
            EXPECT_EQ(error_of(control), KAPI_EINVAL) << first.type << " and " << second.type;
        }
        Bytes control;
        add(control, RDS_ABI_SOL_RDS, first.type, first.size);
        add(control, RDS_ABI_SOL_RDS, RDS_ABI_CMSG_ZCOPY_COOKIE, 4);
        EXPECT_EQ(error_of(control), first.local ? KAPI_EINVAL : 0) << first.type;
    }
}

TEST(Cmsg, rdma_args__vectors)
{
    std::vector<rds_abi_iovec> vectors(1025, {0x1000, 0x2000});
    rds_abi_rdma_args args{};
    args.local_vec_addr = reinterpret_cast<std::uintptr_t>(vectors.data());
    auto error = [&](std::uint64_t count) {
        args.nr_local = count;
        auto checked = rds::check_rdma_args(args);
        return checked ? 0 : checked.error().code();
    };
    EXPECT_EQ(error(0), KAPI_EINVAL);
    EXPECT_EQ(error(1), 0);
    EXPECT_EQ(error(1024), 0);
    EXPECT_EQ(error(1025), KAPI_EMSGSIZE);
    for (const rds_abi_iovec &bad : {rds_abi_iovec{0x1000, 0}, {~0ull, 2}, {0x1000, 1ull << 32}}) {
        vectors[17] = bad; // of the second part that is read
        EXPECT_EQ(error(17), 0);
        EXPECT_EQ(error(18), KAPI_EINVAL);
    }
    vectors[17] = {0x1000, 0xffffffff};
    EXPECT_EQ(error(18), 0);
    args.remote_vec.bytes = (1u << 20) + 1;
    EXPECT_EQ(error(1), KAPI_EMSGSIZE);
}

TEST(Cmsg, unknown__type_is_refused)
{
    for (int type : {0, 14, 200, -1}) {
        Bytes control;
        add(control, RDS_ABI_SOL_RDS, type, 8);
        EXPECT_EQ(error_of(control), KAPI_EINVAL) << type;
    }
}

TEST(Cmsg, cookie__of_wrong_size_is_refused)
{
    for (std::size_t size : {0, 1, 3}) {
        Bytes control;
        add(control, RDS_ABI_SOL_RDS, RDS_ABI_CMSG_ZCOPY_COOKIE, size);
        EXPECT_EQ(error_of(control), KAPI_EINVAL) << size;
    }
}

TEST(Cmsg, lengths__that_lie_are_refused)
{
    for (std::size_t claimed : {std::size_t{0}, std::size_t{1}, std::size_t{15}, std::size_t{1000}, ~std::size_t{0} - 8,
                                std::size_t{1} << 63}) {
        Bytes control;
        add(control, RDS_ABI_SOL_RDS, RDS_ABI_CMSG_ZCOPY_COOKIE, 4, claimed);
        EXPECT_EQ(error_of(control), KAPI_EINVAL) << claimed;
    }
}

} // namespace
