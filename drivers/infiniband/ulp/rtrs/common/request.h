// SPDX-License-Identifier: GPL-2.0
// Requests as they lie in a chunk, and the key that goes with an answer.
//
// Of a write the client fills the chunk from its beginning with data, user message and header. Of a read the data's place is left
// as it is, user message and header are behind it. The immediate data names the place of the header.
#pragma once

#include "geometry.h"

namespace rtrs {

// The client's memory that the answer to a read is written to.
struct Target {
    u64 address;
    u32 key;
    u32 length;
};

struct Request {
    bool is_read = false;
    u32 data_bytes = 0;      // from the chunk's beginning: what was written, or the room for what is read
    u32 user_bytes = 0;      // behind the data
    bool has_target = false; // of a read. It may have none: then nothing is written
    bool invalidate = false; // the target's key is to be invalidated with the answer
    Target target{};
};

// A server offers so much room beside the data. The kernel's own client sends no more.
inline constexpr u32 most_user_bytes = header_bytes - sizeof(wire::WriteRequest);

// What a request asks for whose header is at offset in a chunk. Looks at each byte once: the client may be changing it. Fails
// with EINVAL: an unknown type, a user message that begins before the chunk or is too long, a header that ends behind it, or a
// target that is empty or larger than the data's place. Then request has what is needed for an answer: is_read, has_target,
// invalidate and target are set as far as the header can be understood.
Result<> parse_request(Bytes chunk, u32 offset, Request& request);

// The header of a request, to be put behind the user message: at most max_header bytes. Returns how many.
inline constexpr usize max_request_header = sizeof(wire::ReadRequest) + sizeof(wire::Descriptor);
usize write_request_header(std::span<u8, max_request_header> to, const Request& request);

// The key for the next request in this chunk.
struct NewKey {
    u16 chunk;
    u32 key;
};
// Fails with EPROTO: no such message, or a chunk that the session has not.
Result<NewKey> parse_rkey_response(Bytes bytes, u32 queue_depth);
wire::RkeyResponse write_rkey_response(NewKey key);

} // namespace rtrs
