// SPDX-License-Identifier: GPL-2.0
// Addresses and paths of RTRS as text.
#include <gtest/gtest.h>

#include <kapi/sim/sim.h>

#include <string>

#include "drivers/infiniband/ulp/rtrs/common/path_name.h"

namespace {

std::string shown(kapi_cm_space space, const char *address)
{
    char bytes[rtrs::max_path_name];
    rtrs::Text text(bytes, sizeof(bytes));
    rtrs::write_address(text, space, sim::address(address));
    return {bytes, text.length()};
}

TEST(RtrsText, addresses_are_shown_as_upstream)
{
    EXPECT_EQ(shown(KAPI_CM_IP, "10.0.200.1"), "ip:10.0.200.1");
    EXPECT_EQ(shown(KAPI_CM_IP, "::"), "ip:::");
    EXPECT_EQ(shown(KAPI_CM_IP, "fe80::1"), "ip:fe80::1");
    EXPECT_EQ(shown(KAPI_CM_IP, "fe80:0:0:1::"), "ip:fe80:0:0:1::");
    EXPECT_EQ(shown(KAPI_CM_IP, "1:0:2:3:4:5:6:7"), "ip:1:0:2:3:4:5:6:7") << "one zero group is shown";
    EXPECT_EQ(shown(KAPI_CM_IP, "1:0:0:2:0:0:0:abcd"), "ip:1:0:0:2::abcd");
    EXPECT_EQ(shown(KAPI_CM_IP, "1:0:0:2:3:0:0:4"), "ip:1::2:3:0:0:4");
    EXPECT_EQ(shown(KAPI_CM_IP, "1:0:0:2:3:4:0:0"), "ip:1::2:3:4:0:0") << "what follows the address does not count";
    EXPECT_EQ(shown(KAPI_CM_GID, "fe80::200:5aee:feaa:20a2"), "gid:fe80:0000:0000:0000:0200:5aee:feaa:20a2");
}

TEST(RtrsText, the_longest_name_of_a_path_has_room)
{
    char bytes[200];
    rtrs::Text text(bytes, sizeof(bytes));
    rtrs::write_path_name(text, KAPI_CM_GID, sim::address("::1"), sim::address("::2"));
    EXPECT_EQ(text.length(), rtrs::max_path_name);
}

TEST(RtrsText, what_is_too_long_is_cut_off)
{
    char bytes[5] = "...";
    rtrs::Text text(bytes, 3);
    text.add("ab").add("cdef").number(-7);
    EXPECT_EQ(text.length(), 3u);
    EXPECT_EQ(std::string(bytes, 4), std::string("abc\0", 4));
}

TEST(RtrsText, numbers)
{
    char bytes[64];
    rtrs::Text text(bytes, sizeof(bytes));
    text.number(0).add(" ").number(-9223372036854775807 - 1).add(" ").number(9223372036854775807).add(" ");
    text.hex(0, 1).hex(0xabc, 4);
    EXPECT_EQ(std::string(bytes, text.length()), "0 -9223372036854775808 9223372036854775807 00abc");
    rtrs::Text digits(bytes, sizeof(bytes));
    digits.hex(0x9876fedc, 1);
    EXPECT_EQ(std::string(bytes, digits.length()), "9876fedc");
    EXPECT_EQ(*rtrs::parse_number("-1", -1, 5), -1);
    EXPECT_EQ(*rtrs::parse_number("+5", -1, 5), 5);
    for (const char *bad : {"", "-", "6", "-2", "1 ", " 1", "0x1", "1\n", "99999999999999999999999999", "18446744073709551617"})
        EXPECT_FALSE(rtrs::parse_number(bad, -1, 5)) << bad;
    EXPECT_FALSE(rtrs::parse_number("1", 2, 5));
    EXPECT_EQ(*rtrs::parse_number("-7", -9, -5), -7);
    EXPECT_FALSE(rtrs::parse_number("-4", -9, -5));
    EXPECT_EQ(*rtrs::parse_number("999999999999999999", 0, 999999999999999999), 999999999999999999);
}

TEST(RtrsText, paths_are_parsed)
{
    struct {
        const char *text, *local, *remote;
        kapi_cm_space space;
    } good[] = {
        {"ip:10.0.0.2", "0.0.0.0", "10.0.0.2", KAPI_CM_IP},
        {"ip:10.0.0.1@ip:10.0.0.2", "10.0.0.1", "10.0.0.2", KAPI_CM_IP},
        {"ip:10.0.0.1,ip:10.0.0.2", "10.0.0.1", "10.0.0.2", KAPI_CM_IP},
        {"ip:fe80::1", "::", "fe80::1", KAPI_CM_IP},
        {"ip:1:2:3:4:5:6:7:8@ip:::", "1:2:3:4:5:6:7:8", "::", KAPI_CM_IP},
        {"ip:1::@ip:::FFFF:10.0.0.1", "", "", KAPI_CM_IP}, // not of one family
        {"gid:fe80::200:5aee:feaa:20a2", "::", "fe80::200:5aee:feaa:20a2", KAPI_CM_GID},
        {"ip:64:ff9b::10.1.2.3", "::", "64:ff9b::a01:203", KAPI_CM_IP},
        {"ip:9.8.7.255@ip:255.90.99.0", "9.8.7.255", "255.90.99.0", KAPI_CM_IP},
        {"ip:FE80::ABCD:EF01", "::", "fe80::abcd:ef01", KAPI_CM_IP},
        {"ip:1:2:3:4:5:6:10.1.2.3", "::", "1:2:3:4:5:6:a01:203", KAPI_CM_IP},
        {"ip:1:2:3:4:5:6:7::", "::", "1:2:3:4:5:6:7:0", KAPI_CM_IP},
        {"ip:::2:3:4:5:6:7:8", "::", "0:2:3:4:5:6:7:8", KAPI_CM_IP},
    };
    for (const auto &row : good) {
        auto ends = rtrs::parse_path(row.text);
        ASSERT_EQ(ends.has_value(), row.local[0] != 0) << row.text;
        if (!ends)
            continue;
        EXPECT_EQ(ends->space, row.space);
        EXPECT_TRUE(sim::same_ip(ends->local, sim::address(row.local))) << row.text;
        EXPECT_TRUE(sim::same_ip(ends->remote, sim::address(row.remote))) << row.text;
    }
    for (const char *bad : {"", "10.0.0.1", "ip:", //
                            "ip:1.2.3", "ip:1.2.3.4.5", "ip:1.2.3.256", "ip:+1.2.3.4", "ip:1.2..4", "ip:1.2.3.",
                            "ip:1:2:3:4:5:6:7", "ip:1:2:3:4:5:6:7:8:9", "ip:1::2::3", "ip::1", "ip:1:", "ip:12345::", "ip:g::",
                            "ip:1:2:3:4:5:6:7:1.2.3.4", "gid:10.0.0.1", "ip:10.0.0.1@", "@ip:10.0.0.1", "ip:10.0.0.1@gid:::1",
                            "ip:10.0.0.1@ip:10.0.0.2@ip:10.0.0.3", "ip:10.0.0.1 ", "tcp:10.0.0.1",
                            "xyz10.0.0.1", "ip:1:2:3:4:5:6:7:8:", "ip:1::2:", "ip:1:2:3:4::5:6:7:8", "ip:1::10.0.0.256", "ip:`::",
                            "ip:G::", "gid:::1@ip:::1"})
        EXPECT_FALSE(rtrs::parse_path(bad)) << bad;
}

} // namespace
