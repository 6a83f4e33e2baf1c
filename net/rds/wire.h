// SPDX-License-Identifier: GPL-2.0
// The RDS wire format: header and extension headers (facts: include/net/rds/rds.h of Linux 6.1 and 7.2).
#pragma once

#include <hawser/endian.h>
#include <hawser/result.h>

#include <optional>

namespace rds {

using namespace hw;

inline constexpr u32 max_message = 1u << 20;
inline constexpr u32 map_bytes = 65536 / 8; // a congestion map: one bit a port
inline constexpr unsigned max_paths = 8;
inline constexpr u16 probe_port = 1; // the port of handshakes, not for users

enum HeaderFlag : u8 {
    flag_congestion_map = 0x01, // compared with ==, as the kernel's own does
    flag_ack_required = 0x02,
    flag_retransmitted = 0x04,
};

struct Header {
    Be64 sequence;
    Be64 ack;
    Be32 length;
    Be16 sport;
    Be16 dport;
    u8 flags;
    u8 credit;
    u8 padding[4];
    Be16 checksum;
    u8 extensions[16];
};
static_assert(sizeof(Header) == 48 && alignof(Header) == 1);
static_assert(offsetof(Header, flags) == 24 && offsetof(Header, checksum) == 30 && offsetof(Header, extensions) == 32);

// The kinds of checked headers.
enum class MessageKind {
    data,           // to a bound port
    ping,           // dport 0: answered
    congestion_map, // the sender's ports that are full
    probe,          // handshake: ping from the probe port
    probe_reply,    // its answer
    nothing,        // ports 0, length 0: an acknowledgement on other transports
};

// The kind of header. Fails with EPROTO when no RDS peer would send it: a length over the maximum, or a congestion
// map of a wrong size.
Result<MessageKind> classify(const Header& header);

// The extension headers of a handshake.
struct Handshake {
    std::optional<u16> paths;       // how many the peer can use
    std::optional<u32> generation;  // whose numbers these are: one value for each life of the peer's connection
    bool source_port_index = false; // the peer's source port, modulo paths, is the path
    bool hawser = false;            // the peer runs hawser; only then:
    u8 path = 0;                    // which path it takes this stream for
    u32 memory = 0;                 // the name of its memory of this path
};

Handshake parse_handshake(const Header& header);
// Writes the extension headers of our own probes and replies.
void write_handshake(Header& header, u32 generation, u8 path, u32 memory);
// The same to a peer that has shown that it is foreign: without the extensions that it would log as unknown.
void write_foreign_handshake(Header& header, u32 generation, bool source_port_index);

// What goes with a message about memory: the key that an operation before it has used, and memory that the receiver may use.
struct MemoryNames {
    std::optional<u32> used;
    std::optional<u64> cookie;
};
MemoryNames parse_memory_names(const Header& header);
void write_used_key(Header& header, u32 key);
void write_cookie(Header& header, u64 cookie);

// Names memory for programs: its key, and where it begins in its first page.
inline u64 make_cookie(u32 key, u32 offset) { return static_cast<u64>(offset) << 32 | key; }
inline u32 key_of(u64 cookie) { return static_cast<u32>(cookie); }
inline u32 offset_of(u64 cookie) { return static_cast<u32>(cookie >> 32); }

} // namespace rds
