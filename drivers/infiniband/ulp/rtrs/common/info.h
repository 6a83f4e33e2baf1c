// SPDX-License-Identifier: GPL-2.0
// The exchange of information that ends the connecting of a path: the session's name, and where the server's chunks are.
#pragma once

#include "geometry.h"

namespace rtrs {

struct SessionName {
    char text[max_name + 1]; // ends with a zero, and the rest is zero
    bool operator==(const SessionName&) const = default;
};

// A name has 1 to max_name bytes, none of which is a control character, '/' or '.': it becomes the name of a folder. Fails with
// EINVAL.
Result<SessionName> parse_name(Bytes text);

// Fails with EPROTO (no such message), or EINVAL (a name that is not allowed).
Result<SessionName> parse_info_request(Bytes bytes);
wire::InfoRequest write_info_request(const SessionName& name);

// A chunk as the client sees it: where to write, and by which key.
struct RemoteChunk {
    u64 address;
    u32 key;
};

inline usize info_response_bytes(u32 descriptors) { return sizeof(wire::InfoResponse) + descriptors * sizeof(wire::Descriptor); }
// A message of info_response_bytes(descriptors.size()), which is at most max_queue_depth. to has room for it.
void write_info_response(std::span<u8> to, std::span<const wire::Descriptor> descriptors);
// Fills chunks, which are geometry's. Fails with EPROTO: no such message, it is too short, or what it describes is not exactly
// those chunks; then chunks may be filled in part.
Result<> parse_info_response(Bytes bytes, const Geometry& geometry, std::span<RemoteChunk> chunks);

} // namespace rtrs
