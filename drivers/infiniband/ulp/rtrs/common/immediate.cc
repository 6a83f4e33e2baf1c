// SPDX-License-Identifier: GPL-2.0
#include "immediate.h"

namespace rtrs {

namespace {

constexpr unsigned chunk_bits = 19;
static_assert(max_wire_chunk >= max_queue_depth - 1 && (max_wire_chunk >> chunk_bits) == 0);

} // namespace

std::optional<Immediate> parse_immediate(u32 imm)
{
    Immediate immediate{static_cast<ImmediateType>(imm >> imm_payload_bits), imm & ((1u << imm_payload_bits) - 1)};
    switch (immediate.type) {
    case ImmediateType::request:
    case ImmediateType::response:
    case ImmediateType::response_invalidated:
    case ImmediateType::heartbeat:
    case ImmediateType::heartbeat_ack:
        return immediate;
    }
    return std::nullopt;
}

u32 answer_payload(Answer answer)
{
    int error = answer.error >= 0 && answer.error <= max_wire_error ? answer.error : KAPI_EIO;
    return static_cast<u32>(error) << chunk_bits | (answer.chunk & max_wire_chunk);
}

Result<Answer> parse_answer(u32 payload, u32 queue_depth)
{
    Answer answer{payload & max_wire_chunk, static_cast<int>(payload >> chunk_bits & max_wire_error)};
    if (answer.chunk >= queue_depth)
        return fail(KAPI_EPROTO);
    return answer;
}

} // namespace rtrs
