// SPDX-License-Identifier: GPL-2.0
#include "geometry.h"

#include "immediate.h"

#include <bit>

namespace rtrs {

namespace {

// How many bits hold the numbers below count.
unsigned bits_below(u32 count) { return static_cast<unsigned>(std::bit_width(count - 1)); }

// Of one that is not 0. Not std::has_single_bit(), for which g++ calls a function that kernels do not have.
bool is_power_of_two(u32 number) { return !(number & (number - 1)); }

} // namespace

Result<Geometry> Geometry::create(u32 queue_depth, u32 chunk_bytes)
{
    if (queue_depth < 1 || queue_depth > max_queue_depth || chunk_bytes < 1)
        return fail(KAPI_EINVAL);
    if (bits_below(queue_depth) + bits_below(chunk_bytes) > imm_payload_bits)
        return fail(KAPI_EINVAL);
    return Geometry(queue_depth, chunk_bytes);
}

Result<Geometry> Geometry::create_for_server(s64 queue_depth, s64 chunk_bytes)
{
    if (queue_depth < 1 || queue_depth > max_queue_depth)
        return fail(KAPI_EINVAL);
    if (chunk_bytes < min_chunk_bytes || chunk_bytes > 1 << imm_payload_bits ||
        !is_power_of_two(chunk_bytes))
        return fail(KAPI_EINVAL);
    return create(static_cast<u32>(queue_depth), static_cast<u32>(chunk_bytes));
}

unsigned Geometry::offset_bits() const
{
    return imm_payload_bits - bits_below(queue_depth_);
}

u32 Geometry::payload_of(Place place) const
{
    return place.chunk << offset_bits() | place.offset;
}

Result<Place> Geometry::place_of(u32 payload) const
{
    // Of one chunk all bits are the offset's; its number then is 0, and the shift leaves none.
    Place place{payload >> offset_bits(), payload & ((1u << offset_bits()) - 1)};
    if (place.chunk >= queue_depth_ || place.offset >= chunk_bytes_)
        return fail(KAPI_EPROTO);
    return place;
}

} // namespace rtrs
