// SPDX-License-Identifier: GPL-2.0
// drivers/infiniband/ulp/rtrs/common: requests and heartbeats, byte by byte, and what of them is refused.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "drivers/infiniband/ulp/rtrs/common/heartbeat.h"
#include "drivers/infiniband/ulp/rtrs/common/immediate.h"
#include "drivers/infiniband/ulp/rtrs/common/request.h"

namespace {

using namespace rtrs;

template <class T> std::string text(const T &message) { return {reinterpret_cast<const char *>(&message), sizeof(message)}; }
Bytes bytes(const std::string &s) { return {reinterpret_cast<const hw::u8 *>(s.data()), s.size()}; }

// A chunk of 8192 bytes with that at offset.
struct Chunk {
    std::string bytes_ = std::string(8192, '\0');
    Chunk(std::size_t offset, const std::string &header) { bytes_.replace(offset, header.size(), header); }
    Request request;
    bool parse(unsigned offset)
    {
        auto result = parse_request(bytes(bytes_), offset, request);
        EXPECT_EQ(bytes_.size(), 8192u) << "of the test";
        if (!result) {
            EXPECT_EQ(result.error().code(), KAPI_EINVAL);
        }
        return result.has_value();
    }
};

std::string header(const Request &request)
{
    hw::u8 to[max_request_header];
    return {reinterpret_cast<char *>(to), write_request_header(to, request)};
}

Request read_of(unsigned user, bool target, bool invalidate, Target where = {0x1122334455667788, 0x99aabbcc, 512})
{
    Request request;
    request.is_read = true;
    request.user_bytes = user;
    request.has_target = target;
    request.invalidate = invalidate;
    request.target = where;
    return request;
}

TEST(RtrsWire, request__write)
{
    Request request;
    request.user_bytes = 32;
    EXPECT_TRUE(header(request) == std::string("\2\0\x20\0", 4));
    Chunk chunk(544, header(request));
    ASSERT_TRUE(chunk.parse(544));
    EXPECT_FALSE(chunk.request.is_read || chunk.request.has_target || chunk.request.invalidate);
    EXPECT_EQ(chunk.request.user_bytes, 32u);
    EXPECT_EQ(chunk.request.data_bytes, 512u);
    EXPECT_TRUE(Chunk(32, header(request)).parse(32)) << "no data";
    EXPECT_FALSE(Chunk(31, header(request)).parse(31)) << "the user message begins before the chunk";
    EXPECT_TRUE(Chunk(8188, header(request)).parse(8188));
    for (unsigned offset = 8189; offset < 8192; offset++)
        EXPECT_FALSE(Chunk(0, header(request)).parse(offset)) << "the header does not fit";
    EXPECT_FALSE(Chunk(0, header(request)).parse(8192));
    EXPECT_FALSE(Chunk(0, header(request)).parse(~0u));
}

TEST(RtrsWire, request__read)
{
    std::string expected("\3\0\x20\0\1\0\1\0" "\x88\x77\x66\x55\x44\x33\x22\x11" "\xcc\xbb\xaa\x99" "\0\2\0\0", 24);
    EXPECT_TRUE(header(read_of(32, true, true)) == expected);
    Chunk chunk(544, expected);
    ASSERT_TRUE(chunk.parse(544));
    EXPECT_TRUE(chunk.request.is_read && chunk.request.has_target && chunk.request.invalidate);
    EXPECT_EQ(chunk.request.user_bytes, 32u);
    EXPECT_EQ(chunk.request.data_bytes, 512u);
    EXPECT_EQ(chunk.request.target.address, 0x1122334455667788u);
    EXPECT_EQ(chunk.request.target.key, 0x99aabbccu);
    EXPECT_EQ(chunk.request.target.length, 512u);
    EXPECT_TRUE(Chunk(8168, header(read_of(32, true, true))).parse(8168));
    EXPECT_FALSE(Chunk(8169, header(read_of(32, true, true)).substr(0, 23)).parse(8169)) << "the descriptor does not fit";
    Chunk without(100, header(read_of(100, false, true)));
    ASSERT_TRUE(without.parse(100));
    EXPECT_TRUE(without.request.is_read);
    EXPECT_FALSE(without.request.has_target || without.request.invalidate);
    EXPECT_EQ(without.request.data_bytes, 0u);
    EXPECT_TRUE(Chunk(8184, header(read_of(0, false, false))).parse(8184));
    EXPECT_FALSE(Chunk(8185, header(read_of(0, false, false)).substr(0, 7)).parse(8185));
    Chunk kept(544, header(read_of(32, true, false)));
    ASSERT_TRUE(kept.parse(544));
    EXPECT_FALSE(kept.request.invalidate);
}

TEST(RtrsWire, request__a_read_that_is_refused_can_be_answered)
{
    // More descriptors than the server takes, a user message that does not fit, targets of a wrong size.
    std::string many = header(read_of(32, true, true)), long_user = header(read_of(545, true, true));
    many[6] = 2;
    std::string empty = header(read_of(32, true, true, {1, 2, 0})), larger = header(read_of(32, true, true, {1, 2, 513}));
    for (const std::string &bad : {many, long_user, empty, larger}) {
        Chunk chunk(544, bad);
        EXPECT_FALSE(chunk.parse(544));
        EXPECT_TRUE(chunk.request.is_read && chunk.request.has_target && chunk.request.invalidate);
        EXPECT_NE(chunk.request.target.key, 0u);
    }
    many[6] = 0, many[7] = 1; // 256 of them
    EXPECT_FALSE(Chunk(544, many).parse(544));
}

TEST(RtrsWire, request__other_types)
{
    for (unsigned type : {0u, 1u, 4u, 5u, 0x0102u, 0x0200u, 0xffffu}) {
        std::string message = header({});
        message[0] = static_cast<char>(type), message[1] = static_cast<char>(type >> 8);
        EXPECT_FALSE(Chunk(544, message).parse(544)) << type;
    }
}

TEST(RtrsWire, rkey_response)
{
    std::string expected("\4\0\2\1\4\3\2\1", 8);
    EXPECT_TRUE(text(write_rkey_response({0x0102, 0x01020304})) == expected);
    auto parsed = parse_rkey_response(bytes(expected), 0x0103);
    ASSERT_TRUE(parsed);
    EXPECT_EQ(parsed->chunk, 0x0102);
    EXPECT_EQ(parsed->key, 0x01020304u);
    EXPECT_EQ(parse_rkey_response(bytes(expected), 0x0102).error().code(), KAPI_EPROTO);
    for (std::size_t size = 0; size < 8; size++)
        EXPECT_FALSE(parse_rkey_response(bytes(expected.substr(0, size)), 512));
    expected[0] = 3;
    EXPECT_FALSE(parse_rkey_response(bytes(expected), 512));
}

TEST(RtrsWire, heartbeats)
{
    using Action = Heartbeat::Action;
    Heartbeat heartbeat;
    EXPECT_EQ(heartbeat.tick(5), Action::send);
    for (unsigned i = 0; i < 5; i++)
        EXPECT_EQ(heartbeat.tick(5), Action::wait) << i;
    heartbeat.received();
    EXPECT_EQ(heartbeat.tick(5), Action::send);
    for (unsigned i = 0; i < 5; i++)
        EXPECT_EQ(heartbeat.tick(5), Action::wait) << i;
    EXPECT_EQ(heartbeat.tick(5), Action::dead);
    EXPECT_EQ(heartbeat.tick(5), Action::dead);
    Heartbeat impatient;
    EXPECT_EQ(impatient.tick(0), Action::send);
    EXPECT_EQ(impatient.tick(0), Action::dead);
}

} // namespace
