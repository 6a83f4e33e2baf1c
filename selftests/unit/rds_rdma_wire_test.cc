// SPDX-License-Identifier: GPL-2.0
// net/rds/rdma: private data and the headers' checksum, byte by byte.
#include <random>

#include "net/rds/rdma/private_data.h"
#include "net/rds/rdma/queue_ends.h"
#include "rds_rdma_peer.h"

namespace {

using namespace rds_rdma;

PrivateData said(unsigned major, unsigned minor, unsigned mask = 0)
{
    PrivateData data{};
    data.major = static_cast<hw::u8>(major);
    data.minor = static_cast<hw::u8>(minor);
    data.minor_mask = static_cast<hw::u16>(mask);
    return data;
}

std::string text(const AnyPrivate &data) { return {reinterpret_cast<const char *>(data.bytes), data.size}; }

const kapi_addr kOwn4 = sim::address("10.1.2.3"), kPeer4 = sim::address("10.4.5.6");
const kapi_addr kOwn6 = sim::address("2001:db8::1"), kPeer6 = sim::address("2001:db8::2");

TEST(RdsRdmaWire, versions_in_common)
{
    // 4.x: whatever the minor number is, the mask says which are understood.
    const std::map<unsigned, int> by_mask = {{0, -1}, {1, 0}, {2, 1}, {3, 1}, {4, -1}, {5, 0}, {7, 1}, {0x100, -1}, {0xffff, 1}};
    for (auto [mask, minor] : by_mask)
        for (unsigned named : {0u, 1u, 2u}) {
            auto version = negotiate(said(4, named, mask));
            ASSERT_EQ(version.has_value(), minor >= 0) << mask;
            if (version) {
                EXPECT_EQ(+version->major, 4);
                EXPECT_EQ(+version->minor, minor) << mask;
            }
        }
    EXPECT_TRUE(negotiate(said(3, 1)) == Version(3, 1));
    for (auto [major, minor] : {std::pair{3, 0}, {3, 2}, {5, 0}, {5, 1}, {0, 0}, {2, 1}})
        EXPECT_FALSE(negotiate(said(static_cast<unsigned>(major), static_cast<unsigned>(minor), 3))) << major << "." << minor;
}

TEST(RdsRdmaWire, answers_that_are_accepted)
{
    for (auto [major, minor, good] :
         {std::tuple{4u, 0u, true}, {4u, 1u, true}, {4u, 2u, false}, {3u, 1u, true}, {3u, 0u, false}, {3u, 2u, false},
          {5u, 0u, false}, {5u, 1u, false}, {0u, 0u, false}, {0u, 1u, false}})
        EXPECT_EQ(is_acceptable(said(major, minor)), good) << major << "." << minor;
}

TEST(RdsRdmaWire, private_data_of_ipv4)
{
    std::string expected("\x0a\x01\x02\x03" "\x0a\x04\x05\x06" "\x03\x01" "\x00\x03" "\x05" "hw\x03", 16);
    expected += std::string(12, '\0') + std::string("\x02\0\0\0", 4);
    EXPECT_TRUE(text(write_private(kOwn4, kPeer4, {3, 1}, 5, 2)) == expected);
}

TEST(RdsRdmaWire, private_data_of_ipv6)
{
    std::string expected(reinterpret_cast<const char *>(kOwn6.ip), 16);
    expected += std::string(reinterpret_cast<const char *>(kPeer6.ip), 16);
    expected += std::string("\x04\x00" "\x00\x03" "\xff" "hw\x03", 8) + std::string(12, '\0') + std::string("\x04\0\0\0", 4);
    EXPECT_TRUE(text(write_private(kOwn6, kPeer6, {4, 0}, 255, 4)) == expected);
}

TEST(RdsRdmaWire, what_a_peer_says_is_read__if_it_is_whole_and_of_that_peer)
{
    for (auto [own, peer] : {std::pair{kOwn4, kPeer4}, std::pair{kOwn6, kPeer6}}) {
        AnyPrivate theirs = write_private(peer, own, {3, 1}, 9, 1);
        auto read = read_private(theirs.bytes, theirs.size, own, peer);
        ASSERT_TRUE(read);
        EXPECT_EQ(+read->tos, 9);
        EXPECT_TRUE(read->is_hawser());
        EXPECT_FALSE(read_private(theirs.bytes, theirs.size - 1, own, peer));
        EXPECT_FALSE(read_private(theirs.bytes, 0, own, peer));
        std::string longer = text(theirs) + std::string(24, 'x');
        EXPECT_TRUE(read_private(longer.data(), longer.size(), own, peer)) << "it may be padded";
        EXPECT_FALSE(read_private(theirs.bytes, theirs.size, peer, peer));
        EXPECT_FALSE(read_private(theirs.bytes, theirs.size, own, own));
        AnyPrivate others = write_private(own, peer, {3, 1}, 9, 1); // the addresses of an answer are not looked at
        auto answer = read_answer(others.bytes, others.size, own);
        ASSERT_TRUE(answer);
        EXPECT_EQ(+answer->tos, 9);
        EXPECT_FALSE(read_answer(others.bytes, others.size - 1, own));
    }
}

TEST(RdsRdmaWire, the_mark_of_a_hawser_is_all_of_it)
{
    PrivateData data{};
    EXPECT_FALSE(data.is_hawser());
    std::memcpy(data.mark, "hw\3", 3);
    EXPECT_TRUE(data.is_hawser());
    for (auto &byte : data.mark) {
        byte ^= 4;
        EXPECT_FALSE(data.is_hawser());
        byte ^= 4;
    }
}

TEST(RdsRdmaWire, ipv4_is_what_has_its_prefix)
{
    EXPECT_TRUE(is_v4(sim::address("10.0.0.1")));
    EXPECT_TRUE(is_v4(sim::address("0.0.0.0")));
    for (unsigned i = 0; i < 12; i++) {
        kapi_addr addr = sim::address("10.0.0.1");
        addr.ip[i] ^= 1;
        EXPECT_FALSE(is_v4(addr)) << i;
    }
}

// Against one that adds words of 16 bits. 0 and 0xffff are the same number in ones' complement.
void expect_right_checksum(rds::Header header)
{
    seal(header);
    EXPECT_EQ(header_checksum(header), 0);
    hw::u16 expected = header.checksum;
    header.checksum = 0;
    hw::u16 got = header_checksum(header);
    ASSERT_TRUE(got == expected || (got == 0xffff && expected == 0)) << std::hex << got << " " << expected;
}

TEST(RdsRdmaWire, the_checksum_of_a_header)
{
    std::mt19937_64 random(1);
    for (unsigned i = 0; i < 20'000; i++) {
        unsigned char bytes[sizeof(rds::Header)];
        for (auto &byte : bytes)
            byte = static_cast<unsigned char>(i % 3 == 0   ? random()
                                              : i % 3 == 1 ? (random() % 16 ? 0xff : 0xfe)
                                                           : random() % 64 == 0);
        rds::Header header;
        std::memcpy(&header, bytes, sizeof(header));
        ASSERT_NO_FATAL_FAILURE(expect_right_checksum(header));
    }
}

// One in some 130'000 headers is such: each port is tried, so one of them is.
TEST(RdsRdmaWire, the_checksum_of_a_header_whose_sum_carries_in_each_step)
{
    for (unsigned port = 0; port <= 0xffff; port++) {
        rds::Header header{};
        header.sequence = 1;
        header.length = 255;
        header.sport = static_cast<hw::u16>(port);
        header.dport = 5000;
        header.flags = rds::flag_ack_required;
        ASSERT_NO_FATAL_FAILURE(expect_right_checksum(header)) << port;
    }
}

} // namespace
