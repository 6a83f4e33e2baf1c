// SPDX-License-Identifier: GPL-2.0
#include "cmsg.h"

#include "wire.h"

#include <kapi/socket.h>

namespace rds {

namespace {

struct Control {
    int level;
    int type;
    std::span<const std::byte> data;
};

constexpr usize header_bytes = RDS_ABI_CMSG_ALIGN(sizeof(rds_abi_cmsghdr));

// Takes the next control message off rest; nothing when less than a header is left.
Result<std::optional<Control>> next_control(std::span<const std::byte>& rest)
{
    if (rest.size() < sizeof(rds_abi_cmsghdr))
        return std::nullopt;
    rds_abi_cmsghdr header;
    kapi_copy(&header, rest.data(), sizeof(header));
    if (header.cmsg_len < sizeof(header) || header.cmsg_len > rest.size())
        return fail(KAPI_EINVAL);
    usize data = header.cmsg_len - min<usize>(header.cmsg_len, header_bytes);
    Control control{header.cmsg_level, header.cmsg_type, rest.subspan(header.cmsg_len - data, data)};
    usize step = RDS_ABI_CMSG_ALIGN(header.cmsg_len);
    rest = rest.subspan(min<usize>(step, rest.size()));
    return control;
}

Result<> apply(const Control& control, SendControls& controls)
{
    auto sized = [&](usize size) -> Result<> { return control.data.size() >= size ? Result<>() : fail(KAPI_EINVAL); };
    switch (control.type) {
    case RDS_ABI_CMSG_RDMA_ARGS:
        if (controls.rdma_args || controls.atomic)
            return fail(KAPI_EINVAL);
        TRY(sized(sizeof(rds_abi_rdma_args)));
        kapi_copy(&controls.rdma_args.emplace(), control.data.data(), sizeof(rds_abi_rdma_args));
        return {};
    case RDS_ABI_CMSG_RDMA_DEST:
        if (controls.rdma_dest || controls.rdma_map)
            return fail(KAPI_EINVAL);
        TRY(sized(sizeof(u64)));
        kapi_copy(&controls.rdma_dest.emplace(), control.data.data(), sizeof(u64));
        return {};
    case RDS_ABI_CMSG_RDMA_MAP:
        if (controls.rdma_dest || controls.rdma_map)
            return fail(KAPI_EINVAL);
        TRY(sized(sizeof(rds_abi_get_mr_args)));
        kapi_copy(&controls.rdma_map.emplace(), control.data.data(), sizeof(rds_abi_get_mr_args));
        return {};
    case RDS_ABI_CMSG_ATOMIC_FADD:
    case RDS_ABI_CMSG_ATOMIC_CSWP:
    case RDS_ABI_CMSG_MASKED_ATOMIC_FADD:
    case RDS_ABI_CMSG_MASKED_ATOMIC_CSWP:
        if (controls.rdma_args || controls.atomic)
            return fail(KAPI_EINVAL);
        TRY(sized(sizeof(rds_abi_atomic_args)));
        controls.atomic.emplace().type = control.type;
        kapi_copy(&controls.atomic->args, control.data.data(), sizeof(rds_abi_atomic_args));
        return {};
    case RDS_ABI_CMSG_ZCOPY_COOKIE: {
        TRY(sized(sizeof(u32)));
        u32 cookie;
        kapi_copy(&cookie, control.data.data(), sizeof(cookie));
        controls.zerocopy_cookie = cookie;
        return {};
    }
    case RDS_ABI_CMSG_LENGTHS:
        if (!controls.lengths.empty() || control.data.empty() || control.data.size() % sizeof(u32) ||
            control.data.size() > RDS_ABI_MOST_LENGTHS * sizeof(u32))
            return fail(KAPI_EINVAL);
        controls.lengths = control.data;
        return {};
    default:
        return fail(KAPI_EINVAL);
    }
}

} // namespace

Result<SendControls> parse_controls(std::span<const std::byte> control)
{
    SendControls controls;
    while (auto next = TRY(next_control(control)))
        if (next->level == RDS_ABI_SOL_RDS)
            TRY(apply(*next, controls));
    bool local = controls.rdma_args || controls.atomic;
    bool remote = controls.rdma_dest || controls.rdma_map || controls.zerocopy_cookie;
    if ((local && remote) || (!controls.lengths.empty() && (local || remote)))
        return fail(KAPI_EINVAL);
    return controls;
}

u32 SendControls::length(usize i) const
{
    u32 length;
    kapi_copy(&length, lengths.data() + i * sizeof(length), sizeof(length));
    return length;
}

Result<> check_lengths(const SendControls& controls, usize size)
{
    u64 sum = 0;
    for (usize i = 0; i < controls.count(); i++) {
        if (!controls.length(i))
            return fail(KAPI_EINVAL);
        sum += controls.length(i);
    }
    return sum == size ? Result<>() : fail(KAPI_EINVAL);
}

Result<> check_rdma_size(const rds_abi_rdma_args& args)
{
    if (args.remote_vec.bytes > max_message)
        return fail(KAPI_EMSGSIZE);
    if (args.nr_local == 0)
        return fail(KAPI_EINVAL);
    return args.nr_local > max_rdma_vectors ? Result<>(fail(KAPI_EMSGSIZE)) : Result<>();
}

Result<> check_rdma_args(const rds_abi_rdma_args& args)
{
    constexpr unsigned at_once = 16;
    TRY(check_rdma_size(args));
    rds_abi_iovec vectors[at_once];
    for (u64 done = 0; done < args.nr_local; done += at_once) {
        u64 count = min<u64>(at_once, args.nr_local - done);
        TRY(check(
            kapi_user_copy_in(vectors, args.local_vec_addr + done * sizeof(vectors[0]), count * sizeof(vectors[0]))));
        for (u64 i = 0; i < count; i++)
            if (vectors[i].addr + vectors[i].bytes <= vectors[i].addr || vectors[i].bytes > 0xffffffffu)
                return fail(KAPI_EINVAL);
    }
    return {};
}

} // namespace rds
