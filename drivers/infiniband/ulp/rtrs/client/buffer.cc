// SPDX-License-Identifier: GPL-2.0
#include "buffer.h"

namespace rtrs_clt {

namespace {

struct Mapped {
    Mapping map;
    kapi_sge all;
};

Result<Mapped> map_in_one_piece(Device& device, kapi_pd* pd, const u8* memory, usize size, kapi_map_direction direction)
{
    kapi_segment segment{memory, nullptr, 0, static_cast<u32>(size)};
    Mapped mapped{};
    TRY(mapped.map.begin([&](kapi_map* map) {
        return kapi_map_segments(map, device.dev, &segment, 1, direction, KAPI_SLEEP);
    }));
    kapi_map_place place{};
    kapi_size length = size;
    kapi_map_sges(mapped.map.c(), &place, &length, pd, &mapped.all, 1);
    if (length)
        return fail(KAPI_EIO);
    return mapped;
}

} // namespace

Result<> Buffer::make(Device& device, kapi_pd* pd, usize size, kapi_map_direction direction)
{
    memory_.reset(static_cast<u8*>(kapi_alloc_contiguous(size)));
    if (!memory_)
        return fail(KAPI_ENOMEM);
    Mapped mapped = TRY(map_in_one_piece(device, pd, memory_.get(), size, direction));
    map_ = std::move(mapped.map);
    all_ = mapped.all;
    return {};
}

void Buffer::abandon()
{
    map_.leak();
    static_cast<void>(memory_.release());
}

Messages::~Messages()
{
    for (u32 i = 0; i < count_ && !abandoned_; i++)
        kapi_free(block(i));
}

Result<> Messages::make(u32 count)
{
    u32 blocks = (count + slots_in_block - 1) / slots_in_block;
    blocks_.reset(static_cast<u8**>(kapi_zalloc(blocks * sizeof(u8*), KAPI_SLEEP)));
    if (!blocks_)
        return fail(KAPI_ENOMEM);
    for (; count_ < blocks; count_++) {
        blocks_.get()[count_] = static_cast<u8*>(kapi_alloc_contiguous(slots_in_block * slot_bytes));
        if (!block(count_))
            return fail(KAPI_ENOMEM);
    }
    return {};
}

void MessageMaps::drop()
{
    while (count_)
        blocks_.get()[--count_].~Block();
}

Result<> MessageMaps::make(const Messages& messages, Device& device, kapi_pd* pd)
{
    blocks_.reset(static_cast<Block*>(kapi_zalloc(messages.blocks() * sizeof(Block), KAPI_SLEEP)));
    if (!blocks_)
        return fail(KAPI_ENOMEM);
    for (; count_ < messages.blocks(); count_++) {
        Mapped mapped = TRY(map_in_one_piece(device, pd, messages.block(count_), Messages::slots_in_block * Messages::slot_bytes,
                                             KAPI_MAP_TO_DEVICE));
        ::new (&blocks_.get()[count_]) Block{std::move(mapped.map), mapped.all};
    }
    return {};
}

kapi_sge MessageMaps::sge(u32 slot, u32 length) const
{
    const kapi_sge& all = blocks_.get()[slot / Messages::slots_in_block].all;
    return {all.address + slot % Messages::slots_in_block * Messages::slot_bytes, length, all.key};
}

void MessageMaps::give(u32 slot, u32 length)
{
    kapi_map_sync(blocks_.get()[slot / Messages::slots_in_block].map.c(),
                  slot % Messages::slots_in_block * Messages::slot_bytes, length, KAPI_MAP_FOR_DEVICE);
}

void MessageMaps::abandon()
{
    for (u32 i = 0; i < count_; i++)
        blocks_.get()[i].map.leak();
}

} // namespace rtrs_clt
