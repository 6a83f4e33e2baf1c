// SPDX-License-Identifier: GPL-2.0
// drivers/infiniband/ulp/rtrs/common: what is sent, byte by byte, and what of it is refused.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "drivers/infiniband/ulp/rtrs/common/connect.h"
#include "drivers/infiniband/ulp/rtrs/common/heartbeat.h"
#include "drivers/infiniband/ulp/rtrs/common/immediate.h"
#include "drivers/infiniband/ulp/rtrs/common/info.h"
#include "drivers/infiniband/ulp/rtrs/common/request.h"

namespace {

using namespace rtrs;

template <class T> std::string text(const T &message) { return {reinterpret_cast<const char *>(&message), sizeof(message)}; }
Bytes bytes(const std::string &s) { return {reinterpret_cast<const hw::u8 *>(s.data()), s.size()}; }

Uuid uuid(unsigned char first)
{
    Uuid id{};
    for (unsigned i = 0; i < 16; i++)
        id.bytes[i] = static_cast<unsigned char>(first + i);
    return id;
}

// ---- Chunks ----

TEST(RtrsWire, geometry__what_28_bits_hold)
{
    struct {
        hw::s64 depth, chunk;
        bool good;
    } cases[] = {
        {512, 131072, true},   {2048, 131072, true},   {2049, 131072, false}, {4096, 131072, false}, {65535, 131072, false},
        {512, 1 << 20, false}, {256, 1 << 20, true},   {65535, 8192, false},  {32768, 8192, true},   {32769, 8192, false},
        {1, 8192, true},       {0, 8192, false},       {-1, 8192, false},     {512, 4096, false},    {512, 100000, false},
        {512, 0, false},       {512, -8192, false},    {65536, 8192, false},  {1, 1 << 28, true},    {2, 1 << 28, false},
        {1, 1LL << 29, false}, {1, 1LL << 33, false},  {1LL << 32 | 1, 8192, false},
    };
    for (auto [depth, chunk, good] : cases) {
        auto geometry = Geometry::create_for_server(depth, chunk);
        EXPECT_EQ(geometry.has_value(), good) << depth << " x " << chunk;
        if (!geometry) {
            EXPECT_EQ(geometry.error().code(), KAPI_EINVAL);
        }
    }
    // A client takes other sizes, too.
    EXPECT_TRUE(Geometry::create(512, 100000));
    EXPECT_FALSE(Geometry::create(512, 0));
    EXPECT_FALSE(Geometry::create(0, 8192));
    EXPECT_FALSE(Geometry::create(65536, 1));
    EXPECT_TRUE(Geometry::create(65535, 4096));
    EXPECT_FALSE(Geometry::create(65535, 4097));
    EXPECT_TRUE(Geometry::create(65535, 1));
}

TEST(RtrsWire, geometry__places)
{
    Geometry usual = Geometry::create(512, 131072).value();
    EXPECT_EQ(usual.offset_bits(), 19u);
    EXPECT_EQ(usual.payload_of({1, 0x1020}), 0x00081020u); // a capture from 6.1
    for (auto [depth, chunk] : {std::pair{512u, 131072u}, {1u, 8192u}, {2u, 8192u}, {3u, 100000u}, {65535u, 4096u}}) {
        Geometry geometry = Geometry::create(depth, chunk).value();
        for (Place place : {Place{0, 0}, {depth - 1, 0}, {0, chunk - 1}, {depth - 1, chunk - 1}}) {
            auto again = geometry.place_of(geometry.payload_of(place));
            ASSERT_TRUE(again) << depth;
            EXPECT_EQ(again->chunk, place.chunk);
            EXPECT_EQ(again->offset, place.offset);
        }
    }
    EXPECT_EQ(usual.place_of(131072).error().code(), KAPI_EPROTO);
    EXPECT_FALSE(usual.place_of(511u << 19 | 131072));
    EXPECT_TRUE(usual.place_of(511u << 19 | 131071));
    Geometry three = Geometry::create(3, 8192).value();
    EXPECT_FALSE(three.place_of(3u << 26));
    EXPECT_FALSE(Geometry::create(1, 8192)->place_of(1u << 27));
}

// ---- Immediate data ----

TEST(RtrsWire, immediate__types)
{
    for (unsigned type = 0; type < 16; type++) {
        auto parsed = parse_immediate(type << 28 | 0x0abcdef);
        bool known = type <= 2 || type == 8 || type == 9;
        ASSERT_EQ(parsed.has_value(), known) << type;
        if (known) {
            EXPECT_EQ(static_cast<unsigned>(parsed->type), type);
            EXPECT_EQ(parsed->payload, 0x0abcdefu);
            EXPECT_EQ(write_immediate(parsed->type, parsed->payload), type << 28 | 0x0abcdef);
        }
    }
    EXPECT_EQ(write_immediate(ImmediateType::heartbeat), 0x80000000u);
    EXPECT_EQ(write_immediate(ImmediateType::heartbeat_ack), 0x90000000u);
    EXPECT_EQ(write_immediate(ImmediateType::response, ~0u), 0x1fffffffu);
}

TEST(RtrsWire, immediate__answers)
{
    EXPECT_EQ(answer_payload({5, 0}), 5u);
    EXPECT_EQ(answer_payload({5, KAPI_EIO}), 5u << 19 | 5);
    EXPECT_EQ(answer_payload({65534, 511}), 511u << 19 | 65534);
    // Nine bits of 512 are 0: success.
    for (int error : {512, 524, 4095, 1 << 20, -1, -5})
        EXPECT_EQ(answer_payload({7, error}), static_cast<unsigned>(KAPI_EIO) << 19 | 7) << error;
    auto answer = parse_answer(511u << 19 | 31, 32);
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->chunk, 31u);
    EXPECT_EQ(answer->error, 511);
    EXPECT_EQ(parse_answer(32, 32).error().code(), KAPI_EPROTO);
    EXPECT_FALSE(parse_answer(0x7ffff, 65535));
}

// ---- Connecting ----

TEST(RtrsWire, connect_request__bytes)
{
    ConnectRequest request{1, 3, 0x0102, uuid(0x10), uuid(0x40), true};
    std::string expected("\0\0" "\xbd\x1b" "\x00\x02" "\x01\x00" "\x03\x00" "\x02\x01", 12);
    expected += text(uuid(0x10)) + text(uuid(0x40)) + '\1' + std::string(11, '\0');
    EXPECT_TRUE(text(write_connect_request(request)) == expected);
    auto parsed = parse_connect_request(bytes(expected));
    ASSERT_TRUE(parsed);
    EXPECT_EQ(+parsed->connection, 1);
    EXPECT_EQ(+parsed->connections, 3);
    EXPECT_EQ(+parsed->reconnects, 0x0102);
    EXPECT_TRUE(parsed->path == uuid(0x10) && parsed->session == uuid(0x40));
    EXPECT_TRUE(parsed->first);
    EXPECT_FALSE(parsed->whole_answers);
    expected[44] = '\xfc'; // the bits that are reserved
    EXPECT_FALSE(parse_connect_request(bytes(expected))->first);
    EXPECT_FALSE(parse_connect_request(bytes(expected))->whole_answers);
    request.first = false;
    request.whole_answers = true;
    expected[44] = '\2';
    EXPECT_TRUE(text(write_connect_request(request)) == expected);
    EXPECT_TRUE(parse_connect_request(bytes(expected))->whole_answers);
    EXPECT_FALSE(parse_connect_request(bytes(expected))->first);
}

TEST(RtrsWire, connect_request__what_is_refused)
{
    auto tried = [](auto change) {
        wire::ConnectRequest request = write_connect_request({0, 2, 0, uuid(1), uuid(2), true});
        change(request);
        auto parsed = parse_connect_request(bytes(text(request)));
        if (!parsed) {
            EXPECT_EQ(parsed.error().code(), KAPI_ECONNRESET);
        }
        return parsed.has_value();
    };
    EXPECT_TRUE(tried([](auto &) {}));
    EXPECT_FALSE(tried([](auto &r) { r.magic = 0x1bbc; }));
    EXPECT_FALSE(tried([](auto &r) { r.version = 0x0100; }));
    EXPECT_FALSE(tried([](auto &r) { r.version = 0x0300; }));
    EXPECT_TRUE(tried([](auto &r) { r.version = 0x02ff; })) << "minor versions understand each other";
    EXPECT_FALSE(tried([](auto &r) { r.connection = 2; }));
    EXPECT_TRUE(tried([](auto &r) { r.connection = 1; }));
    EXPECT_FALSE(tried([](auto &r) { r.connections = 0; }));
    EXPECT_TRUE(tried([](auto &r) { r.connections = 4096; }));
    EXPECT_FALSE(tried([](auto &r) { r.connections = 4097; }));
    std::string whole = text(write_connect_request({0, 2, 0, uuid(1), uuid(2), true}));
    for (std::size_t size = 0; size < whole.size(); size++)
        EXPECT_FALSE(parse_connect_request(bytes(whole.substr(0, size)))) << size;
}

TEST(RtrsWire, acceptance__bytes)
{
    // A capture from 6.1: queue depth 512, 126976 bytes of data, 4096 of headers, new keys.
    std::string expected("\xbd\x1b" "\x00\x02" "\x00\x00" "\x00\x02" "\x00\xf0\x01\x00"
                         "\x00\x10\x00\x00" "\x02\x00\x00\x00", 20);
    expected += std::string(36, '\0');
    EXPECT_TRUE(text(write_acceptance(Geometry::create(512, 131072).value(), true, false)) == expected);
    auto offer = parse_acceptance(bytes(expected + std::string(140, '\0')));
    ASSERT_TRUE(offer);
    EXPECT_TRUE(offer->geometry == Geometry::create(512, 131072).value());
    EXPECT_EQ(offer->max_io_bytes, 126976u);
    EXPECT_EQ(offer->max_header_bytes, 4096u);
    EXPECT_TRUE(offer->new_rkeys);
    EXPECT_FALSE(offer->whole_answers);
    expected[16] = 0;
    EXPECT_TRUE(text(write_acceptance(Geometry::create(512, 131072).value(), false, false)) == expected);
    EXPECT_FALSE(parse_acceptance(bytes(expected))->new_rkeys);
    expected[16] = 4;
    EXPECT_TRUE(text(write_acceptance(Geometry::create(512, 131072).value(), false, true)) == expected);
    EXPECT_TRUE(parse_acceptance(bytes(expected))->whole_answers);
}

TEST(RtrsWire, next_key__changes_the_last_byte)
{
    EXPECT_EQ(wire::next_key(0x12345678), 0x12345679u);
    EXPECT_EQ(wire::next_key(0x123456ff), 0x12345600u);
}

TEST(RtrsWire, acceptance__what_is_refused)
{
    auto tried = [](auto change) {
        wire::ConnectResponse response = write_acceptance(Geometry::create(512, 131072).value(), true, false);
        change(response);
        auto parsed = parse_acceptance(bytes(text(response)));
        if (!parsed) {
            EXPECT_EQ(parsed.error().code(), KAPI_ECONNRESET);
        }
        return parsed.has_value();
    };
    EXPECT_TRUE(tried([](auto &) {}));
    EXPECT_FALSE(tried([](auto &r) { r.magic = 1; }));
    EXPECT_FALSE(tried([](auto &r) { r.version = 0x0100; }));
    EXPECT_FALSE(tried([](auto &r) { r.error = 1; }));
    EXPECT_FALSE(tried([](auto &r) { r.queue_depth = 0; }));
    EXPECT_FALSE(tried([](auto &r) { r.queue_depth = 2049; }));
    EXPECT_FALSE(tried([](auto &r) { r.max_io_bytes = 0; }));
    EXPECT_TRUE(tried([](auto &r) { r.max_header_bytes = 0; }));
    EXPECT_TRUE(tried([](auto &r) { r.queue_depth = 1, r.max_io_bytes = 1 << 28, r.max_header_bytes = 0; })) << "28 bits hold it";
    EXPECT_FALSE(tried([](auto &r) { r.queue_depth = 1, r.max_io_bytes = 1 << 28, r.max_header_bytes = 1; }));
    // Sums that wrap around to a size that would be good.
    EXPECT_FALSE(tried([](auto &r) { r.max_io_bytes = 0xffffffff, r.max_header_bytes = 8193; }));
    EXPECT_FALSE(tried([](auto &r) { r.max_io_bytes = 8193, r.max_header_bytes = 0xffffffff; }));
    std::string whole = text(write_acceptance(Geometry::create(512, 131072).value(), true, false));
    for (std::size_t size = 0; size < whole.size(); size++)
        EXPECT_FALSE(parse_acceptance(bytes(whole.substr(0, size)))) << size;
}

TEST(RtrsWire, rejections)
{
    std::string expected("\xbd\x1b" "\x00\x02" "\xef\xff", 6); // -17
    expected += std::string(50, '\0');
    EXPECT_TRUE(text(write_rejection(hw::Errno(KAPI_EEXIST))) == expected);
    EXPECT_EQ(parse_rejection(bytes(expected + std::string(92, '\0'))).code(), KAPI_EEXIST);
    auto named = [](unsigned error) {
        wire::ConnectResponse response = write_rejection(hw::Errno(1));
        response.error = static_cast<hw::u16>(error);
        return parse_rejection(bytes(text(response))).code();
    };
    EXPECT_EQ(named(0xffff), KAPI_EPERM);
    EXPECT_EQ(named(0x10000 - 511), 511);
    // Those from 512 on are no program's. Linux ends a thread that writes to a file and gets 529.
    for (unsigned error : {0u, 1u, 0x7fffu, 0x8000u, 0x10000u - 4096, 0x10000u - 4095, 0x10000u - 529, 0x10000u - 512})
        EXPECT_EQ(named(error), KAPI_ECONNRESET) << error;
    EXPECT_EQ(parse_rejection(bytes(std::string(148, '\0'))).code(), KAPI_ECONNRESET);
    EXPECT_EQ(parse_rejection(bytes(expected.substr(0, 55))).code(), KAPI_ECONNRESET);
    EXPECT_EQ(parse_rejection({}).code(), KAPI_ECONNRESET);
}

// ---- Information ----

TEST(RtrsWire, info_request)
{
    SessionName name = parse_name(bytes("blya")).value();
    std::string expected = std::string("\0\0blya", 6) + std::string(266, '\0');
    EXPECT_TRUE(text(write_info_request(name)) == expected);
    EXPECT_TRUE(parse_info_request(bytes(expected)).value() == name);
    for (std::size_t size = 0; size < expected.size(); size++)
        EXPECT_EQ(parse_info_request(bytes(expected.substr(0, size))).error().code(), KAPI_EPROTO) << size;
    expected[0] = 1;
    EXPECT_EQ(parse_info_request(bytes(expected)).error().code(), KAPI_EPROTO);
}

TEST(RtrsWire, info_request__names)
{
    auto tried = [](std::string name) {
        std::string message = std::string(2, '\0') + name;
        message.resize(272, '\0');
        auto parsed = parse_info_request(bytes(message));
        if (!parsed) {
            EXPECT_EQ(parsed.error().code(), KAPI_EINVAL);
        }
        return parsed.has_value();
    };
    EXPECT_TRUE(tried("a"));
    EXPECT_TRUE(tried("a b~\xff"));
    EXPECT_TRUE(tried(std::string(254, 'x')));
    EXPECT_FALSE(tried(std::string(255, 'x'))) << "it does not end";
    EXPECT_FALSE(tried(std::string(270, 'x')));
    for (const char *name : {"", ".", "a.b", "a/b", "/", "..", "a\nb", "\x1f", "a\x7f"})
        EXPECT_FALSE(tried(name)) << name;
    std::string behind("good\0/..", 8); // what is behind the end says nothing
    EXPECT_TRUE(tried(behind));
    EXPECT_FALSE(parse_name({}));
    EXPECT_TRUE(parse_name(bytes(std::string(254, 'x'))));
    EXPECT_FALSE(parse_name(bytes(std::string(255, 'x'))));
    EXPECT_FALSE(parse_name(bytes(std::string(1, '\0'))));
}

std::string info_response(const std::vector<wire::Descriptor> &descriptors)
{
    std::string message(info_response_bytes(static_cast<unsigned>(descriptors.size())), 'x');
    write_info_response({reinterpret_cast<hw::u8 *>(message.data()), message.size()}, descriptors);
    return message;
}

TEST(RtrsWire, info_response__one_descriptor_for_some_chunks)
{
    Geometry geometry = Geometry::create(4, 8192).value();
    std::string message = info_response({{0x1122334455667788, 7, 3 * 8192}, {0x1000, 9, 8192}});
    std::string expected("\1\0\2\0\0\0\0\0" "\x88\x77\x66\x55\x44\x33\x22\x11" "\7\0\0\0" "\0\x60\0\0", 24);
    EXPECT_TRUE(message.substr(0, 24) == expected);
    EXPECT_EQ(message.size(), 40u);
    std::vector<RemoteChunk> chunks(4);
    ASSERT_TRUE(parse_info_response(bytes(message), geometry, chunks));
    for (unsigned i = 0; i < 3; i++) {
        EXPECT_EQ(chunks[i].address, 0x1122334455667788 + i * 8192);
        EXPECT_EQ(chunks[i].key, 7u);
    }
    EXPECT_EQ(chunks[3].address, 0x1000u);
    EXPECT_EQ(chunks[3].key, 9u);
    EXPECT_TRUE(parse_info_response(bytes(message + "more"), geometry, chunks));
    for (std::size_t size = 0; size < message.size(); size++)
        EXPECT_FALSE(parse_info_response(bytes(message.substr(0, size)), geometry, chunks)) << size;
    message[0] = 0;
    EXPECT_EQ(parse_info_response(bytes(message), geometry, chunks).error().code(), KAPI_EPROTO);
}

TEST(RtrsWire, info_response__of_the_largest_session)
{
    Geometry geometry = Geometry::create(max_queue_depth, 1).value();
    std::string message = info_response(std::vector<wire::Descriptor>(max_queue_depth, {1, 2, 1}));
    std::vector<RemoteChunk> chunks(max_queue_depth);
    EXPECT_TRUE(parse_info_response(bytes(message), geometry, chunks));
    EXPECT_EQ(chunks.back().key, 2u);
}

TEST(RtrsWire, info_response__what_is_not_all_of_the_chunks)
{
    Geometry geometry = Geometry::create(4, 8192).value();
    auto tried = [&](std::vector<wire::Descriptor> descriptors) {
        std::vector<RemoteChunk> chunks(5, {77, 77});
        auto parsed = parse_info_response(bytes(info_response(descriptors)), geometry, std::span(chunks).first(4));
        EXPECT_TRUE(chunks[4].address == 77 && chunks[4].key == 77) << "it is behind them";
        return parsed.has_value();
    };
    EXPECT_TRUE(tried({{0, 1, 4 * 8192}}));
    EXPECT_TRUE(tried({{0, 1, 8192}, {0, 1, 8192}, {0, 1, 8192}, {0, 1, 8192}}));
    EXPECT_FALSE(tried({}));
    EXPECT_FALSE(tried({{0, 1, 3 * 8192}}));
    EXPECT_FALSE(tried({{0, 1, 5 * 8192}}));
    EXPECT_FALSE(tried({{0, 1, 4 * 8192}, {0, 1, 0}}));
    EXPECT_FALSE(tried({{0, 1, 4 * 8192}, {0, 1, 8192}}));
    EXPECT_FALSE(tried({{0, 1, 0}, {0, 1, 4 * 8192}}));
    EXPECT_FALSE(tried({{0, 1, 4 * 8192 + 1}}));
    EXPECT_FALSE(tried({{0, 1, 4 * 8192 - 1}}));
    EXPECT_FALSE(tried({{~0ull - 8192, 1, 4 * 8192}})) << "it wraps around";
}

} // namespace
