// SPDX-License-Identifier: GPL-2.0
// include/hawser/endian.h: bytes on the wire.
#include <gtest/gtest.h>

#include <hawser/endian.h>

#include <cstring>

namespace {

TEST(Endian, bytes__most_significant_first)
{
    struct Wire {
        hw::Be16 two;
        hw::Be32 four;
        hw::Be64 eight;
    } wire;
    static_assert(sizeof(Wire) == 14);
    wire.two = 0x0102;
    wire.four = 0x03040506;
    wire.eight = 0x0708090a0b0c0d0eULL;
    const unsigned char expected[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
    EXPECT_EQ(std::memcmp(&wire, expected, sizeof(expected)), 0);
    EXPECT_EQ(static_cast<hw::u16>(wire.two), 0x0102u);
    EXPECT_EQ(static_cast<hw::u32>(wire.four), 0x03040506u);
    EXPECT_EQ(static_cast<hw::u64>(wire.eight), 0x0708090a0b0c0d0eULL);
}

TEST(Endian, bytes__least_significant_first)
{
    struct Wire {
        hw::Le16 two;
        hw::Le32 four;
        hw::Le64 eight;
    } wire;
    static_assert(sizeof(Wire) == 14);
    wire.two = 0x0201;
    wire.four = 0x06050403;
    wire.eight = 0x0e0d0c0b0a090807ULL;
    const unsigned char expected[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
    EXPECT_EQ(std::memcmp(&wire, expected, sizeof(expected)), 0);
    EXPECT_EQ(static_cast<hw::u16>(wire.two), 0x0201u);
    EXPECT_EQ(static_cast<hw::u32>(wire.four), 0x06050403u);
    EXPECT_EQ(static_cast<hw::u64>(wire.eight), 0x0e0d0c0b0a090807ULL);
}

TEST(Endian, values__survive_at_the_edges)
{
    for (hw::u64 value : {hw::u64{0}, hw::u64{1}, hw::u64{0x80}, hw::u64{0x8000000000000000}, ~hw::u64{0}}) {
        EXPECT_EQ(static_cast<hw::u64>(hw::Be64(value)), value);
        EXPECT_EQ(static_cast<hw::u32>(hw::Be32(static_cast<hw::u32>(value))), static_cast<hw::u32>(value));
        EXPECT_EQ(static_cast<hw::u16>(hw::Be16(static_cast<hw::u16>(value))), static_cast<hw::u16>(value));
    }
    EXPECT_EQ(hw::Be32(7), hw::Be32(7));
    EXPECT_EQ(static_cast<hw::u32>(hw::Be32()), 0u);
}

} // namespace
