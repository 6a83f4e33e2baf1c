// SPDX-License-Identifier: GPL-2.0
// How the memory of a session is divided into chunks, and how immediate data names a place in it.
#pragma once

#include "wire.h"

namespace rtrs {

// A byte of a session's memory.
struct Place {
    u32 chunk;
    u32 offset;
};

class Geometry {
public:
    Geometry() = default;
    // Fails with EINVAL if there is no chunk, if there are more than max_queue_depth, or if 28 bits do not hold the number of a
    // chunk and an offset in it.
    static Result<Geometry> create(u32 queue_depth, u32 chunk_bytes);
    // The same for a server's own: chunks are a power of two and at least min_chunk_bytes.
    static Result<Geometry> create_for_server(s64 queue_depth, s64 chunk_bytes);

    u32 queue_depth() const { return queue_depth_; }
    u32 chunk_bytes() const { return chunk_bytes_; }
    usize total_bytes() const { return static_cast<usize>(queue_depth_) * chunk_bytes_; }
    unsigned offset_bits() const;
    bool operator==(const Geometry&) const = default;

    // The payload of the immediate data of a request whose message is at that place.
    u32 payload_of(Place place) const;
    // Fails with EPROTO: the place is in no chunk.
    Result<Place> place_of(u32 payload) const;

private:
    Geometry(u32 queue_depth, u32 chunk_bytes) : queue_depth_(queue_depth), chunk_bytes_(chunk_bytes) {}
    u32 queue_depth_ = 0;
    u32 chunk_bytes_ = 0;
};

} // namespace rtrs
