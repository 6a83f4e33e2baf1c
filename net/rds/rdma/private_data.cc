// SPDX-License-Identifier: GPL-2.0
#include "private_data.h"

namespace rds_rdma {

namespace {

constexpr u8 hawser_mark[3] = {'h', 'w', 3};
constexpr u16 our_minors = 0x0003; // of 4.x: 4.0 and 4.1
constexpr u8 v4_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

template <class T> AnyPrivate write(const u8* local, const u8* remote, const PrivateData& data)
{
    T to;
    kapi_copy(to.source, local, sizeof(to.source));
    kapi_copy(to.destination, remote, sizeof(to.destination));
    to.data = data;
    AnyPrivate any{{}, sizeof(to)};
    kapi_copy(any.bytes, &to, sizeof(to));
    return any;
}

// The addresses are null where they do not matter.
template <class T> std::optional<PrivateData> read(const void* bytes, usize size, const u8* local, const u8* remote)
{
    T from;
    if (size < sizeof(from))
        return std::nullopt;
    kapi_copy(&from, bytes, sizeof(from));
    if (local && (kapi_compare(from.source, remote, sizeof(from.source)) ||
                  kapi_compare(from.destination, local, sizeof(from.destination))))
        return std::nullopt;
    return from.data;
}

} // namespace

bool PrivateData::is_hawser() const
{
    return kapi_compare(mark, hawser_mark, sizeof(mark)) == 0;
}

bool is_v4(const kapi_addr& addr)
{
    return kapi_compare(addr.ip, v4_prefix, sizeof(v4_prefix)) == 0;
}

AnyPrivate write_private(const kapi_addr& local, const kapi_addr& remote, Version version, u8 tos, u32 buffers)
{
    PrivateData data{};
    data.major = version.major;
    data.minor = version.minor;
    data.minor_mask = our_minors;
    data.tos = tos;
    data.buffers = static_cast<u8>(buffers);
    kapi_copy(data.mark, hawser_mark, sizeof(hawser_mark));
    if (is_v4(local))
        return write<PrivateV4>(local.ip + sizeof(v4_prefix), remote.ip + sizeof(v4_prefix), data);
    return write<PrivateV6>(local.ip, remote.ip, data);
}

std::optional<PrivateData> read_private(const void* bytes, usize size, const kapi_addr& local, const kapi_addr& remote)
{
    if (is_v4(local))
        return read<PrivateV4>(bytes, size, local.ip + sizeof(v4_prefix), remote.ip + sizeof(v4_prefix));
    return read<PrivateV6>(bytes, size, local.ip, remote.ip);
}

std::optional<PrivateData> read_answer(const void* bytes, usize size, const kapi_addr& local)
{
    if (is_v4(local))
        return read<PrivateV4>(bytes, size, nullptr, nullptr);
    return read<PrivateV6>(bytes, size, nullptr, nullptr);
}

std::optional<Version> negotiate(const PrivateData& request)
{
    if (request.major == 4) {
        u16 common = request.minor_mask & our_minors;
        if (!common)
            return std::nullopt;
        return Version{4, static_cast<u8>(common >> 1 ? 1 : 0)};
    }
    if (Version{request.major, request.minor} == proposed)
        return proposed;
    return std::nullopt;
}

bool is_acceptable(const PrivateData& answer)
{
    return (answer.major == 4 && answer.minor <= 1) || Version{answer.major, answer.minor} == proposed;
}

} // namespace rds_rdma
