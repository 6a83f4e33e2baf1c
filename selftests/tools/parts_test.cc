// SPDX-License-Identifier: GPL-2.0
// The parts of the RDS programs that need no kernel: numbers, addresses, messages.
extern "C" {
#include "numbers.h"
#include "rds-address.h"
#include "stress-message.h"
}

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr uint64_t no_limit = UINT64_MAX;

TEST(ParseNumber, TakesDecimalHexadecimalAndSuffixes)
{
    uint64_t value = 0;

    EXPECT_TRUE(parse_number("0", 0, 10, &value));
    EXPECT_EQ(value, 0U);
    EXPECT_TRUE(parse_number("0x1f", 0, no_limit, &value));
    EXPECT_EQ(value, 31U);
    EXPECT_TRUE(parse_number("4K", 0, no_limit, &value));
    EXPECT_EQ(value, 4096U);
    EXPECT_TRUE(parse_number("3m", 0, no_limit, &value));
    EXPECT_EQ(value, 3U << 20);
    EXPECT_TRUE(parse_number("2G", 0, no_limit, &value));
    EXPECT_EQ(value, 2ULL << 30);
    EXPECT_TRUE(parse_number("18446744073709551615", 0, no_limit, &value));
    EXPECT_EQ(value, UINT64_MAX);
}

TEST(ParseNumber, RefusesWhatIsNotEntirelyANumber)
{
    for (const char *text : {"", "-1", "+1", " 1", "1 ", "x", "1x", "1KB", "0x", "1.5",
                             "18446744073709551616", "17179869184G"}) {
        uint64_t value = 7;

        EXPECT_FALSE(parse_number(text, 0, no_limit, &value)) << text;
        EXPECT_EQ(value, 7U) << text;
    }
}

TEST(ParseNumber, KeepsTheBounds)
{
    uint64_t value = 0;

    EXPECT_TRUE(parse_number("1", 1, 3, &value));
    EXPECT_TRUE(parse_number("3", 1, 3, &value));
    EXPECT_FALSE(parse_number("0", 1, 3, &value));
    EXPECT_FALSE(parse_number("4", 1, 3, &value));
    EXPECT_FALSE(parse_number("1K", 1, 1023, &value));
}

TEST(ParseDuration, KnowsUnits)
{
    const struct {
        const char *text;
        uint64_t ns;
    } cases[] = {{"1", 1000000000},   {"0.5", 500000000}, {".25", 250000000}, {"2s", 2000000000},
                 {"3ms", 3000000},    {"3msec", 3000000}, {"7us", 7000},      {"7usec", 7000},
                 {"1.5ms", 1500000},  {"0", 0},           {"1e2", 100000000000}};

    for (const auto &one : cases) {
        uint64_t ns = 1;

        EXPECT_TRUE(parse_duration(one.text, &ns)) << one.text;
        EXPECT_EQ(ns, one.ns) << one.text;
    }
}

TEST(ParseDuration, RefusesTheRest)
{
    for (const char *text : {"", "-1", "inf", "nan", "1h", "1 s", "s", "1e30", "."}) {
        uint64_t ns = 7;

        EXPECT_FALSE(parse_duration(text, &ns)) << text;
        EXPECT_EQ(ns, 7U) << text;
    }
}

std::string format(const union rds_address &address)
{
    char text[RDS_ADDRESS_TEXT_SIZE];

    return rds_address_format(&address, text);
}

TEST(Address, ReadsAndWritesBothFamilies)
{
    for (const char *text : {"10.0.0.1", "127.0.0.1", "0.0.0.0", "fd00::1", "::1", "::"}) {
        union rds_address address;

        ASSERT_EQ(rds_address_parse(text, &address), nullptr) << text;
        EXPECT_EQ(format(address), text);
        EXPECT_EQ(rds_address_port(&address), 0U);
    }
}

TEST(Address, MappedAddressIsIPv4)
{
    union rds_address address;

    ASSERT_EQ(rds_address_parse("::ffff:10.1.2.3", &address), nullptr);
    EXPECT_EQ(address.any.sa_family, AF_INET);
    EXPECT_EQ(format(address), "10.1.2.3");
    EXPECT_EQ(rds_address_size(&address), sizeof(struct sockaddr_in));
    EXPECT_NE(rds_address_parse("::ffff:10.1.2.3%lo", &address), nullptr);
}

TEST(Address, LinkLocalNeedsItsInterface)
{
    union rds_address address;
    const std::string number = "fe80::1%" + std::to_string(if_nametoindex("lo"));

    EXPECT_NE(rds_address_parse("fe80::1", &address), nullptr);
    EXPECT_NE(rds_address_parse("fe80::1%no-such-interface", &address), nullptr);
    EXPECT_NE(rds_address_parse("fe80::1%", &address), nullptr);
    EXPECT_NE(rds_address_parse("fe80::1%99999999", &address), nullptr);
    ASSERT_EQ(rds_address_parse("fe80::1%lo", &address), nullptr);
    EXPECT_EQ(address.ipv6.sin6_scope_id, if_nametoindex("lo"));
    EXPECT_EQ(format(address), "fe80::1%lo");
    ASSERT_EQ(rds_address_parse(number.c_str(), &address), nullptr);
    EXPECT_EQ(format(address), "fe80::1%lo");
}

TEST(Address, RefusesNonsense)
{
    union rds_address address;
    const std::string endless = std::string(300, ':') + "1";

    for (const char *text : {"", "1:2", ":::", "fd00::1::2", "fd00::g", endless.c_str()})
        EXPECT_NE(rds_address_parse(text, &address), nullptr) << text;
}

TEST(Address, ResolvesNames)
{
    union rds_address address;

    ASSERT_EQ(rds_address_parse("localhost", &address), nullptr);
    EXPECT_TRUE(format(address) == "127.0.0.1" || format(address) == "::1");
}

TEST(Address, ComparesHostsWhateverThePort)
{
    union rds_address one, other, six;

    ASSERT_EQ(rds_address_parse("10.0.0.1", &one), nullptr);
    other = one;
    rds_address_set_port(&other, 4000);
    EXPECT_EQ(rds_address_port(&other), 4000U);
    EXPECT_EQ(other.ipv4.sin_port, htons(4000));
    EXPECT_TRUE(rds_address_same_host(&one, &other));
    ASSERT_EQ(rds_address_parse("10.0.0.2", &other), nullptr);
    EXPECT_FALSE(rds_address_same_host(&one, &other));
    ASSERT_EQ(rds_address_parse("fd00::1", &six), nullptr);
    EXPECT_FALSE(rds_address_same_host(&one, &six));
    rds_address_set_port(&six, 4001);
    EXPECT_EQ(rds_address_port(&six), 4001U);
}

TEST(Address, KnowsTheWildcards)
{
    union rds_address address;

    ASSERT_EQ(rds_address_parse("0.0.0.0", &address), nullptr);
    EXPECT_TRUE(rds_address_is_any(&address));
    ASSERT_EQ(rds_address_parse("::", &address), nullptr);
    EXPECT_TRUE(rds_address_is_any(&address));
    ASSERT_EQ(rds_address_parse("::1", &address), nullptr);
    EXPECT_FALSE(rds_address_is_any(&address));
}

struct stress_header some_header()
{
    struct stress_header header = {};

    header.run_id = 0x12345678;
    header.kind = STRESS_REQUEST;
    header.rdma_operation = STRESS_RDMA_WRITE;
    header.from_task = 3;
    header.to_task = 9;
    header.length = 100;
    header.rdma_bytes = 4096;
    header.sequence = 0x1122334455667788;
    header.sent_ns = 0x8877665544332211;
    return header;
}

TEST(Message, HeaderComesBack)
{
    const struct stress_header header = some_header();
    struct stress_header back = {};
    unsigned char message[100] = {};

    stress_header_write(&header, message);
    ASSERT_TRUE(stress_header_read(&back, message, sizeof(message)));
    EXPECT_EQ(back.run_id, header.run_id);
    EXPECT_EQ(back.kind, header.kind);
    EXPECT_EQ(back.rdma_operation, header.rdma_operation);
    EXPECT_EQ(back.from_task, header.from_task);
    EXPECT_EQ(back.to_task, header.to_task);
    EXPECT_EQ(back.length, header.length);
    EXPECT_EQ(back.rdma_bytes, header.rdma_bytes);
    EXPECT_EQ(back.sequence, header.sequence);
    EXPECT_EQ(back.sent_ns, header.sent_ns);
}

TEST(Message, AnyFlippedBitIsSeen)
{
    const struct stress_header header = some_header();
    unsigned char message[100] = {};
    struct stress_header back;

    stress_header_write(&header, message);
    for (size_t bit = 0; bit < STRESS_HEADER_SIZE * 8; bit++) {
        message[bit / 8] ^= static_cast<unsigned char>(1U << bit % 8);
        EXPECT_FALSE(stress_header_read(&back, message, sizeof(message))) << bit;
        message[bit / 8] ^= static_cast<unsigned char>(1U << bit % 8);
    }
    EXPECT_FALSE(stress_header_read(&back, message, sizeof(message) - 1));
    EXPECT_FALSE(stress_header_read(&back, message, STRESS_HEADER_SIZE - 1));
    EXPECT_TRUE(stress_header_read(&back, message, sizeof(message)));
}

TEST(Message, UnknownKindsAreRefusedEvenWithAGoodChecksum)
{
    struct stress_header header = some_header(), back;
    unsigned char message[100] = {};

    for (unsigned int kind : {0, 3, 255}) {
        header.kind = static_cast<uint8_t>(kind);
        stress_header_write(&header, message);
        EXPECT_FALSE(stress_header_read(&back, message, sizeof(message))) << kind;
    }
    header = some_header();
    header.rdma_operation = STRESS_RDMA_WRITE + 1;
    stress_header_write(&header, message);
    EXPECT_FALSE(stress_header_read(&back, message, sizeof(message)));
}

TEST(Message, PatternFindsTheFirstDamagedByte)
{
    for (size_t bytes : {size_t{0}, size_t{1}, size_t{7}, size_t{8}, size_t{9}, size_t{1000}}) {
        std::vector<unsigned char> data(bytes + 1);

        stress_pattern_fill(42, data.data(), bytes);
        EXPECT_EQ(stress_pattern_check(42, data.data(), bytes), bytes);
        for (size_t i = 0; i < bytes; i++) {
            data[i] ^= 0x10;
            EXPECT_EQ(stress_pattern_check(42, data.data(), bytes), i);
            data[i] ^= 0x10;
        }
    }
}

TEST(Message, EveryMessageHasItsOwnPattern)
{
    struct stress_header one = some_header(), other = one;
    std::vector<unsigned char> data(64);

    stress_pattern_fill(stress_pattern_seed(&one), data.data(), data.size());
    other.sequence++;
    EXPECT_LT(stress_pattern_check(stress_pattern_seed(&other), data.data(), data.size()), 8U);
    other = one;
    other.kind = STRESS_ACK;
    EXPECT_LT(stress_pattern_check(stress_pattern_seed(&other), data.data(), data.size()), 8U);
    other = one;
    other.to_task++;
    EXPECT_LT(stress_pattern_check(stress_pattern_seed(&other), data.data(), data.size()), 8U);
    /* The pattern does not repeat within a few words, so a shifted piece is noticed. */
    EXPECT_LT(stress_pattern_check(stress_pattern_seed(&one), data.data() + 8, data.size() - 8), 8U);
}

} // namespace
