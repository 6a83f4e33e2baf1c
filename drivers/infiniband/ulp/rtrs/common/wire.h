// SPDX-License-Identifier: GPL-2.0
// What RTRS 2.0 sends, byte by byte (facts: drivers/infiniband/ulp/rtrs/rtrs-pri.h of Linux 6.1 and 6.12). All integers of
// messages are little-endian; immediate data is in host order here and big-endian on the wire.
#pragma once

#include <hawser/endian.h>
#include <hawser/result.h>

#include <span>

namespace rtrs {

using namespace hw;

inline constexpr u16 protocol_magic = 0x1bbd;
inline constexpr u16 protocol_version = 0x0200; // major, minor; peers look at the major number only
inline constexpr u32 max_connections = 4096;    // of a path, the service connection included
inline constexpr u32 max_paths = 128;           // of a session
inline constexpr u32 max_queue_depth = 65535;   // requests of a session at a time, each with a chunk
inline constexpr u32 min_chunk_bytes = 8192;
inline constexpr u32 header_bytes = 4096;       // of a chunk: what a server reserves for messages beside the data
inline constexpr u32 service_queue_depth = 512; // receives that both sides post on the service connection
inline constexpr usize max_name = 254;          // bytes of a session's name

// Bytes of the connection manager's, and messages that are sent or written.
using Bytes = std::span<const u8>;

struct Uuid {
    u8 bytes[16];
    bool operator==(const Uuid&) const = default;
};

namespace wire {

enum MessageType : u16 {
    info_request = 0,
    info_response = 1,
    write_request = 2,
    read_request = 3,
    rkey_response = 4,
};

enum MessageFlag : u32 {
    flag_need_invalidation = 1, // of a read: the server invalidates the client's key with its answer
    flag_new_rkey = 2,          // of a connect response: each answer has a new key for its chunk
    flag_whole_answers = 4,     // of a connect response: hawser's own, see ConnectRequest
};

// Memory of the sender that the receiver may write to.
struct Descriptor {
    Le64 address;
    Le32 key;
    Le32 length;
};
static_assert(sizeof(Descriptor) == 16 && alignof(Descriptor) == 1);

enum ConnectFlag : u8 {
    connect_first = 1,         // the server may make a session
    connect_whole_answers = 2, // hawser's own: answers may be whole
};

// Client to server, with the request for each connection.
//
// An answer is whole if it is one message: the immediate data comes with the data of a read. A client that takes such answers
// asks a server that gives them for no invalidation, and computes new keys itself (next_key()). Others ignore both flags.
struct ConnectRequest {
    u8 cm_version;   // 0: the connection manager's
    u8 ip_version;   // 0: the connection manager's
    Le16 magic;
    Le16 version;
    Le16 connection; // its number, 0 is the service connection
    Le16 connections;// of this path
    Le16 reconnects;
    Uuid path;
    Uuid session;
    u8 flags;        // of ConnectFlag; the others are reserved
    u8 reserved[11];
};
static_assert(sizeof(ConnectRequest) == 56 && alignof(ConnectRequest) == 1);
static_assert(offsetof(ConnectRequest, magic) == 2 && offsetof(ConnectRequest, connection) == 6 &&
              offsetof(ConnectRequest, reconnects) == 10 && offsetof(ConnectRequest, path) == 12 &&
              offsetof(ConnectRequest, session) == 28 && offsetof(ConnectRequest, flags) == 44);

// Server to client, with the acceptance or the rejection of a connection.
struct ConnectResponse {
    Le16 magic;
    Le16 version;
    Le16 error; // of a rejection a negative errno, else 0
    Le16 queue_depth;
    Le32 max_io_bytes;
    Le32 max_header_bytes;
    Le32 flags;
    u8 reserved[36];
};
static_assert(sizeof(ConnectResponse) == 56 && alignof(ConnectResponse) == 1);
static_assert(offsetof(ConnectResponse, error) == 4 && offsetof(ConnectResponse, max_io_bytes) == 8 &&
              offsetof(ConnectResponse, flags) == 16 && offsetof(ConnectResponse, reserved) == 20);

// Client to server: sent over the service connection when all connections are there.
struct InfoRequest {
    Le16 type;
    u8 name[255]; // ends with a zero
    u8 reserved[15];
};
static_assert(sizeof(InfoRequest) == 272 && alignof(InfoRequest) == 1 && offsetof(InfoRequest, name) == 2);

// Server to client: its answer, with `descriptors` of struct Descriptor behind it, which describe all chunks in order.
struct InfoResponse {
    Le16 type;
    Le16 descriptors;
    u8 reserved[4];
};
static_assert(sizeof(InfoResponse) == 8 && alignof(InfoResponse) == 1 && offsetof(InfoResponse, descriptors) == 2);

// Client to server: lies in the chunk behind data and user message, where the offset of the immediate data points.
struct WriteRequest {
    Le16 type;
    Le16 user_bytes;
};
static_assert(sizeof(WriteRequest) == 4 && alignof(WriteRequest) == 1);

// The same with `descriptors` of struct Descriptor behind it, of which there is one or none.
struct ReadRequest {
    Le16 type;
    Le16 user_bytes;
    Le16 flags;
    Le16 descriptors;
};
static_assert(sizeof(ReadRequest) == 8 && alignof(ReadRequest) == 1 && offsetof(ReadRequest, flags) == 4);

// Server to client: goes with each answer of a session with flag_new_rkey.
struct RkeyResponse {
    Le16 type;
    Le16 chunk;
    Le32 key;
};
static_assert(sizeof(RkeyResponse) == 8 && alignof(RkeyResponse) == 1 && offsetof(RkeyResponse, key) == 4);

// The key of a region that had this one, which no message has if answers are whole: 8 bits of a key are the owner's.
constexpr u32 next_key(u32 key) { return (key & ~0xffu) | ((key + 1) & 0xffu); }

// Fills to with the first bytes of from. False: there are too few.
template <class T> [[nodiscard]] bool read(T& to, Bytes from)
{
    if (from.size() < sizeof(to))
        return false;
    kapi_copy(&to, from.data(), sizeof(to));
    return true;
}

} // namespace wire
} // namespace rtrs
