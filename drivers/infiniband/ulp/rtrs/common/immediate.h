// SPDX-License-Identifier: GPL-2.0
// Immediate data: 4 bits that say what it is, and 28 that depend on that.
#pragma once

#include "wire.h"

#include <optional>

namespace rtrs {

inline constexpr unsigned imm_payload_bits = 28;
inline constexpr int max_wire_error = 511; // an errno of an answer has 9 bits
inline constexpr u32 max_wire_chunk = (1u << 19) - 1;

enum class ImmediateType : u8 {
    request = 0,              // client to server; the payload is Geometry's
    response = 1,             // server to client; the payload is an Answer
    response_invalidated = 2, // the same, and a message before it has invalidated the client's key
    heartbeat = 8,
    heartbeat_ack = 9,
};

struct Immediate {
    ImmediateType type;
    u32 payload;
};

// How a request ended: error is a positive errno, or 0.
struct Answer {
    u32 chunk;
    int error;
};

inline u32 write_immediate(ImmediateType type, u32 payload = 0)
{
    return static_cast<u32>(type) << imm_payload_bits | (payload & ((1u << imm_payload_bits) - 1));
}
// Nothing: a type that nobody knows.
std::optional<Immediate> parse_immediate(u32 imm);

// An errno that 9 bits do not hold becomes EIO: cut off, it would be another error, or none.
u32 answer_payload(Answer answer);
// Fails with EPROTO: no chunk of a session with this queue depth has that number.
Result<Answer> parse_answer(u32 payload, u32 queue_depth);

} // namespace rtrs
