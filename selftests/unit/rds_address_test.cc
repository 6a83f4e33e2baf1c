// SPDX-License-Identifier: GPL-2.0
// net/rds/address: addresses and socket names.
#include <gtest/gtest.h>

#include <kapi/sim/sim.h>

#include <cstring>

#include "net/rds/address.h"
#include "net/rds/uapi.h"
#include "selftests/sim/rds_host.h"

namespace {

rds::Ip ip(const char *text)
{
    kapi_addr addr = sim::address(text);
    return rds::Ip::from(addr.ip);
}

std::span<const std::byte> bytes(const SocketName &name, int size)
{
    return {reinterpret_cast<const std::byte *>(name.bytes), static_cast<std::size_t>(size)};
}

TEST(Address, kinds)
{
    EXPECT_TRUE(ip("::").is_any());
    EXPECT_TRUE(ip("10.0.0.1").is_v4() && ip("10.0.0.1").is_host());
    EXPECT_FALSE(ip("0.0.0.0").is_host());
    EXPECT_FALSE(ip("255.255.255.255").is_host());
    EXPECT_FALSE(ip("224.0.0.1").is_host());
    EXPECT_FALSE(ip("239.1.2.3").is_host());
    EXPECT_TRUE(ip("240.0.0.1").is_host());
    EXPECT_FALSE(ip("::").is_host());
    EXPECT_FALSE(ip("ff02::1").is_host());
    EXPECT_TRUE(ip("fe80::1").is_host() && ip("fe80::1").is_link_local());
    EXPECT_TRUE(ip("febf::1").is_link_local());
    EXPECT_FALSE(ip("fec0::1").is_link_local());
}

TEST(Address, order__is_of_numbers_in_network_order)
{
    EXPECT_TRUE(ip("10.0.0.1") < ip("10.0.0.2"));
    EXPECT_TRUE(ip("10.0.0.255") < ip("10.0.1.0"));
    EXPECT_TRUE(ip("9.255.255.255") < ip("10.0.0.0"));
    EXPECT_FALSE(ip("10.0.0.1") < ip("10.0.0.1"));
    EXPECT_TRUE(ip("10.0.0.1") == ip("10.0.0.1"));
}

TEST(Address, sockaddr__both_families_survive)
{
    for (const char *text : {"10.1.2.3", "fe80::7", "2001:db8::7"}) {
        SocketName name(sim::address(text, 4711, text[0] == 'f' ? 3 : 0));
        auto parsed = rds::parse_sockaddr(bytes(name, name.size));
        ASSERT_TRUE(parsed.has_value());
        EXPECT_EQ(parsed->port, 4711);
        EXPECT_TRUE(parsed->ip == ip(text));
        unsigned char written[28];
        EXPECT_EQ(rds::format_sockaddr(*parsed, written), name.size);
        EXPECT_EQ(std::memcmp(written, name.bytes, static_cast<std::size_t>(name.size)), 0);
    }
}

TEST(Address, sockaddr__every_short_length_is_refused)
{
    SocketName v4(sim::address("10.1.2.3", 1)), v6(sim::address("2001:db8::7", 1));
    for (int size = 0; size < 16; size++) {
        EXPECT_FALSE(rds::parse_sockaddr(bytes(v4, size)).has_value()) << size;
        EXPECT_FALSE(rds::parse_sockaddr(bytes(v6, size)).has_value()) << size;
    }
    for (int size = 16; size < 28; size++)
        EXPECT_FALSE(rds::parse_sockaddr(bytes(v6, size)).has_value()) << size;
    v4.bytes[0] = 77;
    for (int size : {2, 16})
        EXPECT_EQ(rds::parse_sockaddr(bytes(v4, size)).error().code(), KAPI_EAFNOSUPPORT) << "a family alone says it";
    EXPECT_EQ(rds::parse_sockaddr(bytes(v4, 1)).error().code(), KAPI_EINVAL);
}

} // namespace
