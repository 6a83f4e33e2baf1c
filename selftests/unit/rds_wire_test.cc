// SPDX-License-Identifier: GPL-2.0
// net/rds/wire: what a header can be, and the extension headers of a handshake.
#include <gtest/gtest.h>

#include <cstring>

#include "net/rds/wire.h"

namespace {

rds::Header header(unsigned short sport, unsigned short dport, unsigned length = 0, unsigned char flags = 0)
{
    rds::Header h{};
    h.sport = sport;
    h.dport = dport;
    h.length = length;
    h.flags = flags;
    return h;
}

TEST(Wire, header__layout)
{
    rds::Header h{};
    h.sequence = 1;
    h.length = 0x01020304;
    h.sport = 0x1112;
    h.checksum = 0x2122;
    const auto *bytes = reinterpret_cast<const unsigned char *>(&h);
    EXPECT_EQ(bytes[7], 1);
    EXPECT_EQ(bytes[16], 1);
    EXPECT_EQ(bytes[19], 4);
    EXPECT_EQ(bytes[20], 0x11);
    EXPECT_EQ(bytes[30], 0x21);
}

TEST(Wire, classify__kinds)
{
    using rds::MessageKind;
    EXPECT_EQ(rds::classify(header(5, 6)).value(), MessageKind::data);
    EXPECT_EQ(rds::classify(header(5, 0)).value(), MessageKind::ping);
    EXPECT_EQ(rds::classify(header(0, 5)).value(), MessageKind::data);
    EXPECT_EQ(rds::classify(header(1, 0)).value(), MessageKind::probe);
    EXPECT_EQ(rds::classify(header(0, 1)).value(), MessageKind::probe_reply);
    EXPECT_EQ(rds::classify(header(0, 0)).value(), MessageKind::nothing);
    EXPECT_EQ(rds::classify(header(0, 0, rds::map_bytes, 1)).value(), MessageKind::congestion_map);
}

TEST(Wire, classify__what_no_peer_sends)
{
    EXPECT_TRUE(rds::classify(header(5, 6, rds::max_message)).has_value());
    EXPECT_EQ(rds::classify(header(5, 6, rds::max_message + 1)).error().code(), KAPI_EPROTO);
    EXPECT_EQ(rds::classify(header(5, 6, 0xffffffff)).error().code(), KAPI_EPROTO);
    EXPECT_EQ(rds::classify(header(0, 0, rds::map_bytes - 1, 1)).error().code(), KAPI_EPROTO);
    // The kernel's own compares the flag with ==, so a map with another flag is data for it and for us.
    EXPECT_EQ(rds::classify(header(5, 6, 10, 3)).value(), rds::MessageKind::data);
}

TEST(Wire, handshake__survives_its_own_parser)
{
    rds::Header h{};
    rds::write_handshake(h, 0xdeadbeef, 7, 0xfedcba98);
    rds::Handshake parsed = rds::parse_handshake(h);
    EXPECT_EQ(parsed.paths, rds::max_paths);
    EXPECT_EQ(parsed.generation, 0xdeadbeefu);
    EXPECT_TRUE(parsed.source_port_index);
    EXPECT_TRUE(parsed.hawser);
    EXPECT_EQ(parsed.path, 7);
    EXPECT_EQ(parsed.memory, 0xfedcba98u);
}

// As in Documentation/networking/rds.rst: other hosts, too, read it.
TEST(Wire, handshake__bytes)
{
    rds::Header h{};
    rds::write_handshake(h, 0xdeadbeef, 7, 0xfedcba98);
    const unsigned char wanted[16] = {5, 0, 8, 6, 0xde, 0xad, 0xbe, 0xef, 8, 0, 15, 7, 0xfe, 0xdc, 0xba, 0x98};
    EXPECT_EQ(std::memcmp(h.extensions, wanted, sizeof(wanted)), 0);
}

TEST(Wire, handshake__of_the_kernels_own)
{
    rds::Header h{};
    const unsigned char seen[] = {5, 0, 8, 0}; // a capture from 6.1
    std::memcpy(h.extensions, seen, sizeof(seen));
    rds::Handshake parsed = rds::parse_handshake(h);
    EXPECT_EQ(parsed.paths, 8);
    EXPECT_FALSE(parsed.generation.has_value());
    EXPECT_FALSE(parsed.source_port_index || parsed.hawser);
}

TEST(Wire, handshake__garbage_ends_it)
{
    rds::Header h{};
    std::memset(h.extensions, 0xff, sizeof(h.extensions));
    EXPECT_FALSE(rds::parse_handshake(h).paths.has_value());
    const unsigned char cut[] = {5, 0, 4, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 6, 1}; // a generation that does not fit
    std::memcpy(h.extensions, cut, sizeof(cut));
    EXPECT_EQ(rds::parse_handshake(h).paths, 4);
    EXPECT_FALSE(rds::parse_handshake(h).generation.has_value());
}

TEST(Wire, handshake__an_extension_ends_with_the_header)
{
    // Behind a type that has no entry, and behind one that has a byte too little.
    struct {
        rds::Header header;
        unsigned char behind[16];
    } h{};
    std::memset(h.behind, 1, sizeof(h.behind));
    for (unsigned char type : {0, 7, 16, 17, 255}) {
        const unsigned char bytes[] = {5, 0, 4, type, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
        std::memcpy(h.header.extensions, bytes, sizeof(bytes));
        EXPECT_EQ(rds::parse_handshake(h.header).paths, 4) << static_cast<int>(type);
        EXPECT_FALSE(rds::parse_handshake(h.header).generation.has_value());
    }
    const unsigned char cut[] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 8, 0, 8, 0, 5, 3};
    std::memcpy(h.header.extensions, cut, sizeof(cut));
    EXPECT_FALSE(rds::parse_handshake(h.header).paths.has_value());
    const unsigned char fits[] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 8, 0, 0, 5, 0, 3};
    std::memcpy(h.header.extensions, fits, sizeof(fits));
    EXPECT_FALSE(rds::parse_handshake(h.header).paths.has_value()); // a type of none ends it
    const unsigned char last[] = {8, 1, 1, 0, 0, 0, 0, 8, 0, 8, 0, 8, 0, 5, 0, 3};
    std::memcpy(h.header.extensions, last, sizeof(last));
    EXPECT_EQ(rds::parse_handshake(h.header).paths, 3);
}

} // namespace
