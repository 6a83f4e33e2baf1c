// SPDX-License-Identifier: GPL-2.0
#include "address.h"

namespace rds {

namespace {

// The layouts of include/uapi/linux/in.h and in6.h.
struct SockaddrIn {
    u16 family;
    Be16 port;
    u8 addr[4];
    u8 zero[8];
};
struct SockaddrIn6 {
    u16 family;
    Be16 port;
    Be32 flowinfo;
    u8 addr[16];
    u32 scope;
};
static_assert(sizeof(SockaddrIn) == 16 && sizeof(SockaddrIn6) == 28);

constexpr u16 af_inet = 2;
constexpr u16 af_inet6 = 10;

template <class T> T read(std::span<const std::byte> bytes)
{
    T value;
    kapi_copy(&value, bytes.data(), sizeof(value));
    return value;
}

} // namespace

Result<Endpoint> parse_sockaddr(std::span<const std::byte> name)
{
    if (name.size() < sizeof(u16))
        return fail(KAPI_EINVAL);
    switch (read<u16>(name)) {
    case af_inet: {
        if (name.size() < sizeof(SockaddrIn))
            return fail(KAPI_EINVAL);
        auto sin = read<SockaddrIn>(name);
        return Endpoint{Ip::mapped(sin.addr), sin.port, 0};
    }
    case af_inet6: {
        if (name.size() < sizeof(SockaddrIn6))
            return fail(KAPI_EINVAL);
        auto sin6 = read<SockaddrIn6>(name);
        Ip ip = Ip::from(sin6.addr);
        return Endpoint{ip, sin6.port, ip.is_link_local() ? sin6.scope : 0};
    }
    default:
        return fail(KAPI_EAFNOSUPPORT);
    }
}

int format_sockaddr(const Endpoint& endpoint, void* name)
{
    if (endpoint.ip.is_v4()) {
        SockaddrIn sin{.family = af_inet, .port = endpoint.port, .addr = {}, .zero = {}};
        kapi_copy(sin.addr, endpoint.ip.v4(), sizeof(sin.addr));
        kapi_copy(name, &sin, sizeof(sin));
        return sizeof(sin);
    }
    SockaddrIn6 sin6{.family = af_inet6, .port = endpoint.port, .flowinfo = {}, .addr = {}, .scope = endpoint.scope};
    kapi_copy(sin6.addr, endpoint.ip.bytes(), sizeof(sin6.addr));
    kapi_copy(name, &sin6, sizeof(sin6));
    return sizeof(sin6);
}

} // namespace rds
