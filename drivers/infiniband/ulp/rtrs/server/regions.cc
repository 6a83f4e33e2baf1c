// SPDX-License-Identifier: GPL-2.0
#include "regions.h"

namespace rtrs_srv {

namespace {

constexpr u32 page_bytes = 4096; // of a region
constexpr u32 bytes_per_region = 1024, bytes_per_page = 16; // about what they take of the host's memory

u32 up(u32 value, u32 by) { return (value + by - 1) / by; }

} // namespace

Regions::~Regions()
{
    for (u32 i = 0; i < count_; i++) {
        regions_[i].mr.reset();
        regions_[i].map.end_synced(); // the user, or another path, may have the chunk
        regions_[i].~OfChunks();
    }
    kapi_free(regions_);
    kapi_free(places_);
    kapi_free(static_cast<void*>(posted_));
}

Result<> Regions::make(kapi_rdma_dev* dev, const kapi_rdma_attrs& attrs, Chunks& chunks, const Geometry& geometry,
                       bool each_chunk, Budget& budget)
{
    dev_ = dev;
    chunk_bytes_ = geometry.chunk_bytes();
    chunks_ = chunks.count();
    u32 pages = chunk_bytes_ / page_bytes;
    if (pages > attrs.max_mr_pages)
        return fail(KAPI_EOPNOTSUPP);
    per_region_ = each_chunk ? 1 : min(attrs.max_mr_pages / pages, chunks_);
    u32 regions = up(chunks_, per_region_);
    share_ = TRY(Share::of(budget, u64{regions} * bytes_per_region + u64{chunks_} * pages * bytes_per_page));
    kapi_pd* pd = nullptr;
    TRY(check(kapi_pd_create(dev, &pd)));
    pd_.reset(pd);
    places_ = static_cast<kapi_sge*>(kapi_zalloc(chunks_ * sizeof(kapi_sge), KAPI_SLEEP));
    regions_ = static_cast<OfChunks*>(kapi_zalloc(regions * sizeof(OfChunks), KAPI_SLEEP));
    posted_ = static_cast<Posted*>(kapi_zalloc(chunks_ * sizeof(Posted), KAPI_SLEEP));
    if (!places_ || !regions_ || !posted_)
        return fail(KAPI_ENOMEM);
    if (each_chunk)
        keys_ = TRY(Buffer::create(dev, pd, chunks_ * static_cast<u32>(sizeof(wire::RkeyResponse)), KAPI_MAP_TO_DEVICE));
    auto* segments = static_cast<kapi_segment*>(kapi_zalloc(per_region_ * sizeof(kapi_segment), KAPI_SLEEP));
    if (!segments)
        return fail(KAPI_ENOMEM);
    Result<> made;
    for (u32 i = 0; i < regions && made; i++)
        made = make_region(i, chunks, segments);
    kapi_free(segments);
    return made;
}

Result<> Regions::make_region(u32 index, Chunks& chunks, kapi_segment* segments)
{
    OfChunks& region = *::new (&regions_[index]) OfChunks;
    count_ = index + 1;
    u32 first = index * per_region_, count = min(per_region_, chunks_ - first);
    for (u32 i = 0; i < count; i++)
        segments[i] = {chunks[first + i].memory, nullptr, 0, chunk_bytes_};
    TRY(region.map.begin(
        [&](kapi_map* map) { return kapi_map_segments(map, dev_, segments, count, KAPI_MAP_BOTH, KAPI_SLEEP); }));
    kapi_map_place place{};
    for (u32 i = 0; i < count; i++) {
        kapi_size length = chunk_bytes_;
        kapi_map_sges(region.map.c(), &place, &length, pd_.get(), &places_[first + i], 1);
        if (length)
            return fail(KAPI_EIO);
    }
    kapi_mr* mr = nullptr;
    TRY(check(kapi_mr_alloc(pd_.get(), count * (chunk_bytes_ / page_bytes), 0, &mr)));
    region.mr.reset(mr);
    return check(kapi_mr_map(mr, region.map.c()));
}

wire::Descriptor Regions::describe(u32 index) const
{
    const kapi_mr* mr = regions_[index].mr.get();
    u32 count = min(per_region_, chunks_ - index * per_region_);
    return {kapi_mr_address(mr), kapi_mr_key(mr), count * chunk_bytes_};
}

void Regions::sync(u32 chunk, u32 offset, u32 length, kapi_map_side side) const
{
    u32 region = chunk / per_region_;
    kapi_map_sync(regions_[region].map.c(), usize{chunk % per_region_} * chunk_bytes_ + offset, length, side);
}

kapi_sge Regions::write_key_message(u32 chunk, u32 key)
{
    constexpr u32 size = sizeof(wire::RkeyResponse);
    wire::RkeyResponse message = write_rkey_response({static_cast<u16>(chunk), key});
    keys_.sync(chunk * size, size, KAPI_MAP_FOR_CPU);
    kapi_copy(keys_.bytes() + chunk * size, &message, size);
    keys_.sync(chunk * size, size, KAPI_MAP_FOR_DEVICE);
    return keys_.sge(chunk * size, size);
}

void Regions::leak()
{
    for (u32 i = 0; i < count_; i++)
        regions_[i].map.leak();
    if (keys_)
        keys_.leak();
    share_.leak();
}

} // namespace rtrs_srv
