// SPDX-License-Identifier: GPL-2.0
#include "buffer.h"

namespace rtrs_srv {

Result<Buffer> Buffer::create(kapi_rdma_dev* dev, kapi_pd* pd, u32 size, kapi_map_direction direction)
{
    Buffer buffer;
    auto* bytes = static_cast<u8*>(kapi_alloc_contiguous(size));
    if (!bytes)
        return fail(KAPI_ENOMEM);
    buffer.bytes_.reset(bytes);
    kapi_segment segment{bytes, nullptr, 0, size};
    TRY(buffer.map_.begin(
        [&](kapi_map* map) { return kapi_map_segments(map, dev, &segment, 1, direction, KAPI_SLEEP); }));
    kapi_map_place place{};
    kapi_size length = size;
    kapi_map_sges(buffer.map_.c(), &place, &length, pd, &buffer.all_, 1);
    if (length)
        return fail(KAPI_EIO);
    return buffer;
}

} // namespace rtrs_srv
