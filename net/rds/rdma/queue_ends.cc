// SPDX-License-Identifier: GPL-2.0
#include "queue_ends.h"

namespace rds_rdma {

u16 header_checksum(const Header& header)
{
    u8 bytes[sizeof(header)];
    kapi_copy(bytes, &header, sizeof(header));
    u32 sum = 0;
    for (unsigned i = 0; i < sizeof(bytes); i += 2)
        sum += static_cast<u32>(bytes[i] << 8 | bytes[i + 1]);
    sum = (sum & 0xffff) + (sum >> 16);
    sum += sum >> 16;
    return static_cast<u16>(~sum);
}

Result<> Headers::make(Device& device, u32 count, kapi_map_direction direction)
{
    auto* memory = static_cast<Header*>(kapi_alloc_contiguous(count * sizeof(Header)));
    if (!memory)
        return fail(KAPI_ENOMEM);
    memory_.reset(memory);
    kapi_segment segment{memory, nullptr, 0, static_cast<u32>(count * sizeof(Header))};
    map_ = TRY(Mapping::with(
        [&](kapi_map* map) { return kapi_map_segments(map, device.dev, &segment, 1, direction, KAPI_SLEEP); }));
    // sge() has one for each header.
    kapi_map_place place{};
    kapi_size length = count * sizeof(Header);
    kapi_sge all{};
    kapi_map_sges(map_.c(), &place, &length, device.pd.get(), &all, 1);
    return length ? Result<>(fail(KAPI_EIO)) : Result<>();
}

kapi_sge Headers::sge(u32 index, const kapi_pd* pd) const
{
    kapi_map_place place{0, static_cast<u32>(index * sizeof(Header))};
    kapi_size length = sizeof(Header);
    kapi_sge sge{};
    kapi_map_sges(map_.c(), &place, &length, pd, &sge, 1);
    return sge;
}

} // namespace rds_rdma
