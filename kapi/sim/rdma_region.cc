// SPDX-License-Identifier: GPL-2.0
// Regions: memory under a key that lives and dies.
#include <kapi/errno.h>

#include <algorithm>
#include <cstring>

#include "rdma.h"

namespace sim {

namespace {

constexpr kapi_u32 kKeyBits = 0xff;

/** Calls use(address, length) for what the device is to reach of a region. */
template <class Use> void walk(const kapi_mr &mr, kapi_u64 address, std::size_t length, Use use)
{
    std::size_t offset = address - mr.iova;
    for (const auto &range : mr.ranges) {
        if (offset >= range.length) {
            offset -= range.length;
            continue;
        }
        std::size_t part = std::min(length, range.length - offset);
        use(range.address + offset, part);
        length -= part;
        offset = 0;
        if (!length)
            return;
    }
}

} // namespace

kapi_mr *region_of(kapi_rdma_dev &dev, kapi_u32 key)
{
    auto found = dev.regions.find(key >> 8);
    return found == dev.regions.end() ? nullptr : found->second;
}

kapi_mr *find_region(kapi_rdma_dev &dev, const kapi_pd *pd, kapi_u32 key, kapi_u64 address, std::size_t length, kapi_u32 access)
{
    kapi_mr *mr = region_of(dev, key);
    if (!mr || mr->key != key || !mr->valid || mr->pd != pd || (mr->access & access) != access)
        return nullptr;
    if (address < mr->iova || address - mr->iova > mr->length || length > mr->length - (address - mr->iova))
        return nullptr;
    return mr;
}

/** Of a region on demand; null: no page is found there. */
static unsigned char *fetch(const kapi_mr &mr, kapi_u64 address, std::size_t length, bool write)
{
    kapi_u64 at = address - mr.iova + mr.program;
    bool good = can_access(*mr.dev->node, at, length, write);
    return good ? reinterpret_cast<unsigned char *>(static_cast<std::uintptr_t>(at)) : nullptr;
}

bool region_read(kapi_mr &mr, kapi_u64 address, void *to, std::size_t length)
{
    if (mr.on_demand) {
        const unsigned char *from = fetch(mr, address, length, false);
        return from && std::memcpy(to, from, length);
    }
    walk(mr, address, length, [&](kapi_u64 from, std::size_t part) {
        dma_read(*mr.dev, from, to, part);
        to = static_cast<unsigned char *>(to) + part;
    });
    return true;
}

bool region_write(kapi_mr &mr, kapi_u64 address, const void *from, std::size_t length)
{
    if (mr.on_demand) {
        unsigned char *to = fetch(mr, address, length, true);
        return to && std::memcpy(to, from, length);
    }
    walk(mr, address, length, [&](kapi_u64 to, std::size_t part) {
        dma_write(*mr.dev, to, from, part);
        from = static_cast<const unsigned char *>(from) + part;
    });
    return true;
}

bool execute_register(kapi_qp &qp, const SendEntry &entry)
{
    kapi_mr *mr = qp.dev->regions.at(entry.mr_index);
    if (mr->valid || mr->pd != qp.pd || mr->key != entry.mr_key)
        return false;
    mr->valid = mr->was_valid = true;
    mr->access = entry.wr.access;
    world().note("region valid", mr->key, mr->length);
    return true;
}

bool execute_invalidate(kapi_qp &qp, kapi_u32 key)
{
    kapi_mr *mr = region_of(*qp.dev, key);
    if (!mr || mr->key != key || mr->pd != qp.pd || mr->on_demand)
        return false;
    mr->valid = false;
    world().note("region invalid", key);
    return true;
}

} // namespace sim

using namespace sim;

static kapi_mr *make_region(kapi_pd *pd, unsigned pages)
{
    kapi_rdma_dev *dev = pd->dev;
    dev->made("region");
    kapi_u32 index = dev->next_region++;
    auto *mr = new kapi_mr{.dev = dev, .pd = pd, .index = index, .key = 0, .pages = pages, .gaps = false};
    auto bits = static_cast<kapi_u32>(world().host_random().next()) & kKeyBits;
    mr->key = index << 8 | (dev->repeats_keys ? 0 : bits);
    pd->users++;
    dev->regions[index] = mr;
    account(*dev->node, "region", mr, [](void *object) { delete static_cast<kapi_mr *>(object); });
    return mr;
}

int kapi_mr_alloc(struct kapi_pd *pd, unsigned int pages, int gaps, struct kapi_mr **result) noexcept
{
    enter_sleep("kapi_mr_alloc");
    const kapi_rdma_attrs &attrs = pd->dev->attrs;
    if (!pages || pages > attrs.max_mr_pages || (gaps && !(attrs.flags & KAPI_RDMA_GAPS)))
        return -KAPI_EINVAL;
    if (fault("kapi_mr_alloc") || pd->dev->regions.size() >= attrs.max_mr)
        return -KAPI_ENOMEM;
    *result = make_region(pd, pages);
    (*result)->gaps = gaps;
    return 0;
}

int kapi_mr_free(struct kapi_mr *mr) noexcept
{
    if (!mr)
        return 0;
    enter_sleep("kapi_mr_free");
    expect_not_in_done("kapi_mr_free");
    if (mr->posted)
        broken("a region ends that %u posted requests change", mr->posted);
    world().note("region freed", mr->key, mr->valid);
    if (mr->on_demand)
        mr->dev->on_demand_ended.insert(mr->key);
    mr->pd->users--;
    mr->dev->gone("region");
    if (mr->dev->keeps_regions)
        return -KAPI_EIO;
    mr->dev->regions.erase(mr->index);
    settle(*mr->dev->node, "region", mr);
    delete mr;
    return 0;
}

int kapi_mr_map(struct kapi_mr *mr, const struct kapi_map *map) noexcept
{
    enter_any("kapi_mr_map");
    Mapping &mapping = *find_mapping(map, "kapi_mr_map");
    if (mr->valid || mr->posted)
        broken("the region %x is given other memory, and it is %s", mr->key, mr->valid ? "valid" : "being changed");
    if (mapping.dev != mr->dev || mr->on_demand)
        broken("a region is given memory that is mapped for another device");
    if (mapping.pieces.empty())
        return -KAPI_EINVAL;
    std::size_t pages = 0, last = mapping.pieces.size() - 1;
    for (std::size_t i = 0; i <= last; i++) {
        const DmaPiece &piece = mapping.pieces[i];
        std::size_t place = piece.address % kPageSize, end = (place + piece.length) % kPageSize;
        if (!mr->gaps && ((i && place) || (i < last && end)))
            return -KAPI_EINVAL;
        pages += mr->gaps ? 1 : (place + piece.length + kPageSize - 1) / kPageSize;
    }
    if (pages > mr->pages)
        return -KAPI_EMSGSIZE;
    mr->mapping = mapping.id;
    mr->was_valid = false;
    mr->iova = mapping.pieces.front().address % kPageSize;
    mr->length = mapping.length;
    mr->ranges.clear();
    for (const DmaPiece &piece : mapping.pieces)
        mr->ranges.push_back({piece.address, piece.length});
    mapping.regions.push_back(mr->index);
    kapi_mr_next_key(mr);
    return 0;
}

kapi_u32 kapi_mr_next_key(struct kapi_mr *mr) noexcept
{
    enter_any("kapi_mr_next_key");
    // A REGISTER that is still to be executed fails then, because its key is the old one.
    if (mr->valid)
        broken("the key of the region %x changes, and it is valid", mr->key);
    mr->key = (mr->key & ~kKeyBits) | ((mr->key + 1) & kKeyBits);
    return mr->key;
}

kapi_u32 kapi_mr_key(const struct kapi_mr *mr) noexcept
{
    return mr->key;
}

kapi_u32 kapi_mr_local_key(const struct kapi_mr *mr) noexcept
{
    return mr->key;
}

kapi_u64 kapi_mr_address(const struct kapi_mr *mr) noexcept
{
    return mr->iova;
}

int kapi_mr_on_demand(struct kapi_pd *pd, kapi_u64 address, kapi_size length, kapi_u64 iova, kapi_u32 access,
                      struct kapi_mr **result) noexcept
{
    enter_task("kapi_mr_on_demand");
    if (!(pd->dev->attrs.flags & KAPI_RDMA_ON_DEMAND))
        return -KAPI_EOPNOTSUPP;
    constexpr kapi_u32 kChanges = KAPI_ACCESS_REMOTE_WRITE | KAPI_ACCESS_REMOTE_ATOMIC;
    if (!length || length > UINT32_MAX || address + length < address ||
        (access & kChanges && !(access & KAPI_ACCESS_LOCAL_WRITE)))
        return -KAPI_EINVAL;
    if (iova + length < iova || iova % kPageSize != address % kPageSize)
        return -KAPI_EINVAL;
    if (!can_access(*pd->dev->node, address, length, access & KAPI_ACCESS_LOCAL_WRITE))
        return -KAPI_EFAULT;
    if (fault("kapi_mr_on_demand"))
        return -KAPI_ENOMEM;
    kapi_mr *mr = make_region(pd, 0);
    mr->on_demand = mr->valid = true;
    mr->iova = iova;
    mr->program = address;
    mr->length = length;
    mr->access = access;
    *result = mr;
    return 0;
}
