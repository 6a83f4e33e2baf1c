// SPDX-License-Identifier: GPL-2.0
// What a device may reach: mappings of memory, and the device's own accesses, which are checked at the moment they happen.
#include <kapi/errno.h>

#include <algorithm>
#include <cstring>

#include "rdma.h"
#include "rxbuf.h"

namespace sim {

Mapping *find_mapping(const kapi_map *map, const char *call)
{
    for (const auto &dev : fabric().devices) {
        auto found = dev->mappings.find(map->opaque[0]);
        if (found != dev->mappings.end())
            return found->second.get();
    }
    broken("%s of what is not mapped", call);
}

Mapping *mapping_at(kapi_rdma_dev &dev, kapi_u64 address)
{
    auto next = dev.by_address.upper_bound(address);
    if (next == dev.by_address.begin())
        return nullptr;
    auto [mapping, index] = std::prev(next)->second;
    return address < mapping->pieces[index].address + mapping->pieces[index].length ? mapping : nullptr;
}

void expect_unmapped(const void *memory, std::size_t size)
{
    if (!World::current() || !world().network().rdma)
        return;
    auto from = reinterpret_cast<std::uintptr_t>(memory);
    const auto &mapped = fabric().mapped;
    for (auto it = mapped.lower_bound(from); it != mapped.end() && it->first < from + size; ++it)
        broken("memory is freed that a device may use");
}

namespace {

[[noreturn]] void report_stray(kapi_rdma_dev &dev, kapi_u64 address, const char *verb)
{
    auto next = dev.unmapped.upper_bound(address);
    if (next != dev.unmapped.begin() && address < std::prev(next)->second.end) {
        const Unmapped &old = std::prev(next)->second;
        broken("%s %s at %llx, which task %u unmapped at %.6f ms", dev.attrs.name, verb,
               static_cast<unsigned long long>(address), old.task, static_cast<double>(old.when_ns) / 1e6);
    }
    broken("%s %s at %llx, which was never mapped", dev.attrs.name, verb, static_cast<unsigned long long>(address));
}

/** Calls use(bytes, length) for the memory from address on, as the device sees it. */
template <class Use> void reach(kapi_rdma_dev &dev, kapi_u64 address, std::size_t length, bool write, Use use)
{
    const char *verb = write ? "writes" : "reads";
    while (length) {
        auto next = dev.by_address.upper_bound(address);
        if (next == dev.by_address.begin())
            report_stray(dev, address, verb);
        auto [mapping, index] = std::prev(next)->second;
        DmaPiece &piece = mapping->pieces[index];
        if (address >= piece.address + piece.length)
            report_stray(dev, address, verb);
        if (!(mapping->direction & (write ? KAPI_MAP_FROM_DEVICE : KAPI_MAP_TO_DEVICE)))
            broken("%s %s memory that is mapped the other way", dev.attrs.name, verb);
        if (piece.page && piece.page->references <= piece.page->mapped)
            broken("%s %s a page that was freed", dev.attrs.name, verb);
        std::size_t offset = address - piece.address, part = std::min(length, piece.length - offset);
        use((piece.bounce.empty() ? piece.bytes : piece.bounce.data()) + offset, part);
        address += part;
        length -= part;
    }
}

template <class Use> bool each_piece(const std::vector<kapi_sge> &sges, std::size_t offset, std::size_t length, Use use)
{
    for (const kapi_sge &sge : sges) {
        if (offset >= sge.length) {
            offset -= sge.length;
            continue;
        }
        std::size_t part = std::min<std::size_t>(length, sge.length - offset);
        if (!use(sge, sge.address + offset, part))
            return false;
        length -= part;
        offset = 0;
        if (!length)
            return true;
    }
    if (length)
        broken("a device goes beyond the pieces of a request");
    return true;
}

} // namespace

void dma_read(kapi_rdma_dev &dev, kapi_u64 address, void *to, std::size_t length)
{
    reach(dev, address, length, false, [&](const unsigned char *bytes, std::size_t part) {
        std::memcpy(to, bytes, part);
        to = static_cast<unsigned char *>(to) + part;
    });
}

void dma_write(kapi_rdma_dev &dev, kapi_u64 address, const void *from, std::size_t length)
{
    reach(dev, address, length, true, [&](unsigned char *bytes, std::size_t part) {
        std::memcpy(bytes, from, part);
        from = static_cast<const unsigned char *>(from) + part;
    });
}

bool gather(kapi_qp &qp, const std::vector<kapi_sge> &sges, std::size_t offset, void *to, std::size_t length)
{
    return each_piece(sges, offset, length, [&](const kapi_sge &sge, kapi_u64 address, std::size_t part) {
        void *at = std::exchange(to, static_cast<unsigned char *>(to) + part);
        if (sge.key == qp.pd->key)
            return dma_read(*qp.dev, address, at, part), true;
        kapi_mr *mr = find_region(*qp.dev, qp.pd, sge.key, address, part, 0);
        return mr && region_read(*mr, address, at, part);
    });
}

bool scatter(kapi_qp &qp, const std::vector<kapi_sge> &sges, std::size_t offset, const void *from, std::size_t length)
{
    return each_piece(sges, offset, length, [&](const kapi_sge &sge, kapi_u64 address, std::size_t part) {
        const void *at = std::exchange(from, static_cast<const unsigned char *>(from) + part);
        if (sge.key == qp.pd->key)
            return dma_write(*qp.dev, address, at, part), true;
        kapi_mr *mr = find_region(*qp.dev, qp.pd, sge.key, address, part, KAPI_ACCESS_LOCAL_WRITE);
        return mr && region_write(*mr, address, at, part);
    });
}

} // namespace sim

using namespace sim;

namespace {

/** A piece as the caller gave it: bytes, and their place within a page. */
struct Given {
    unsigned char *bytes;
    std::size_t place, length;
    Page *page;
};

void copy_for(Mapping &mapping, std::size_t offset, std::size_t length, bool to_device)
{
    for (DmaPiece &piece : mapping.pieces) {
        if (offset >= piece.length) {
            offset -= piece.length;
            continue;
        }
        std::size_t part = std::min(length, piece.length - offset);
        if (!piece.bounce.empty()) {
            if (to_device)
                std::memcpy(piece.bounce.data() + offset, piece.bytes + offset, part);
            else
                std::memcpy(piece.bytes + offset, piece.bounce.data() + offset, part);
        }
        length -= part;
        offset = 0;
        if (!length)
            return;
    }
}

/** Where the next piece may begin: at a page, with one between that nobody has. */
kapi_u64 beyond(const DmaPiece &piece)
{
    return (piece.address + piece.length + 2 * kPageSize) / kPageSize * kPageSize;
}

int make_mapping(kapi_map *map, kapi_rdma_dev *dev, const std::vector<Given> &given, kapi_map_direction direction, kapi_pin *pin,
                 const char *call)
{
    if (fault(call))
        return world().host_random().one_in(2) ? -KAPI_ENOMEM : -KAPI_EIO;
    std::size_t size = 0;
    for (const Given &one : given)
        size += dev->bounces ? one.length : 0;
    if (size > dev->bounce_room)
        return -KAPI_EIO;
    dev->bounce_room -= size;
    dev->made("mapping");
    auto owned = std::make_unique<Mapping>(Mapping{.id = fabric().next_id++, .dev = dev, .direction = direction});
    Mapping &mapping = *owned;
    mapping.pin = pin;
    if (pin)
        pin->mappings++;
    for (const Given &one : given) {
        if (!one.length)
            continue;
        DmaPiece *last = mapping.pieces.empty() ? nullptr : &mapping.pieces.back();
        auto host = reinterpret_cast<std::uintptr_t>(one.bytes);
        mapping.host.push_back(fabric().mapped.emplace(host, host + one.length));
        mapping.length += one.length;
        if (one.page) {
            one.page->references++;
            one.page->mapped++;
        } else if (last && !last->page && last->bytes + last->length == one.bytes &&
                   (last->address + last->length) % kPageSize == one.place) {
            last->length += one.length; // neighbours
            continue;
        }
        kapi_u64 address = last ? beyond(*last) : dev->next_address;
        mapping.pieces.push_back({address + (dev->bounces_shift ? 0 : one.place), one.bytes, one.length, one.page});
    }
    if (!mapping.pieces.empty())
        dev->next_address = beyond(mapping.pieces.back());
    for (std::size_t i = 0; i < mapping.pieces.size(); i++) {
        dev->by_address[mapping.pieces[i].address] = {&mapping, i};
        if (dev->bounces)
            mapping.pieces[i].bounce.assign(mapping.pieces[i].length, 0xb0);
    }
    if (direction & KAPI_MAP_TO_DEVICE)
        copy_for(mapping, 0, mapping.length, true);
    *map = {};
    map->opaque[0] = mapping.id;
    dev->node->live_rdma["mapping"]++;
    dev->mappings[mapping.id] = std::move(owned);
    return 0;
}

} // namespace

int kapi_map_segments(struct kapi_map *map, struct kapi_rdma_dev *dev, const struct kapi_segment *segments, unsigned int count,
                      enum kapi_map_direction direction, enum kapi_alloc_mode mode) noexcept
{
    mode == KAPI_SLEEP || mode == KAPI_SLEEP_CHARGED ? enter_sleep("kapi_map_segments") : enter_any("kapi_map_segments");
    std::vector<Given> given;
    for (unsigned int i = 0; i < count; i++) {
        const kapi_segment &segment = segments[i];
        if (segment.page) {
            auto *page = static_cast<Page *>(segment.page);
            given.push_back({page->data() + segment.offset, segment.offset % kPageSize, segment.length, page});
            continue;
        }
        auto *bytes = static_cast<unsigned char *>(const_cast<void *>(segment.addr));
        std::size_t place;
        if (!dev->node->memory().holds(bytes, segment.length, place))
            broken("memory is mapped that was not allocated (%u bytes)", segment.length);
        given.push_back({bytes, place % kPageSize, segment.length, nullptr});
    }
    return make_mapping(map, dev, given, direction, nullptr, "kapi_map_segments");
}

int kapi_map_sg(struct kapi_map *map, struct kapi_rdma_dev *dev, struct kapi_sglist *list, unsigned int count,
                enum kapi_map_direction direction) noexcept
{
    enter_any("kapi_map_sg");
    std::vector<Given> given;
    for (unsigned int i = 0; i < count; i++)
        given.push_back({list[i].bytes, list[i].place, list[i].length, nullptr});
    return make_mapping(map, dev, given, direction, nullptr, "kapi_map_sg");
}

int kapi_map_pin(struct kapi_map *map, struct kapi_rdma_dev *dev, struct kapi_pin *pin, enum kapi_map_direction direction,
                 enum kapi_alloc_mode mode) noexcept
{
    mode == KAPI_SLEEP || mode == KAPI_SLEEP_CHARGED ? enter_sleep("kapi_map_pin") : enter_any("kapi_map_pin");
    if (!pin->write && direction & KAPI_MAP_FROM_DEVICE)
        broken("pages that are pinned to be read are mapped to be written");
    std::vector<Given> given{{pin->bytes, reinterpret_cast<std::uintptr_t>(pin->bytes) % kPageSize, pin->length, nullptr}};
    return make_mapping(map, dev, given, direction, pin, "kapi_map_pin");
}

int kapi_map_rxbuf(struct kapi_map *map, struct kapi_rdma_dev *dev, struct kapi_rxbuf *buffer) noexcept
{
    enter_any("kapi_map_rxbuf");
    std::vector<Given> given{{buffer->bytes, 0, buffer->length, nullptr}};
    return make_mapping(map, dev, given, KAPI_MAP_FROM_DEVICE, nullptr, "kapi_map_rxbuf");
}

/** shows: what the device wrote becomes visible. */
static void unmap(kapi_map *map, bool shows, const char *call)
{
    enter_any(call);
    Mapping &mapping = *find_mapping(map, call);
    kapi_rdma_dev &dev = *mapping.dev;
    if (mapping.posted)
        broken("a mapping ends that %u posted requests use", mapping.posted);
    for (kapi_u32 index : mapping.regions) {
        auto found = dev.regions.find(index);
        if (found == dev.regions.end() || found->second->mapping != mapping.id)
            continue;
        if (found->second->valid)
            broken("a mapping ends under the valid region %x", found->second->key);
        if (dev.copies_late && found->second->was_valid)
            broken("a mapping ends under the region %x, into which a copy may have begun", found->second->key);
    }
    if (shows && mapping.direction & KAPI_MAP_FROM_DEVICE)
        copy_for(mapping, 0, mapping.length, false);
    for (const DmaPiece &piece : mapping.pieces) {
        dev.by_address.erase(piece.address);
        dev.unmapped[piece.address] = {piece.address + piece.length, world().now_ns(), World::current_task()->id};
        if (piece.page) {
            piece.page->mapped--;
            PageRef::put(piece.page);
        }
    }
    for (auto host : mapping.host)
        fabric().mapped.erase(host);
    if (dev.bounces)
        dev.bounce_room += mapping.length;
    if (mapping.pin)
        mapping.pin->mappings--;
    if (--dev.node->live_rdma["mapping"] == 0)
        dev.node->live_rdma.erase("mapping");
    dev.mappings.erase(mapping.id);
    *map = {};
    dev.gone("mapping");
}

void kapi_unmap(struct kapi_map *map) noexcept
{
    unmap(map, true, "kapi_unmap");
}

void kapi_unmap_synced(struct kapi_map *map) noexcept
{
    unmap(map, false, "kapi_unmap_synced");
}

void kapi_map_sync(const struct kapi_map *map, kapi_size offset, kapi_size length, enum kapi_map_side side) noexcept
{
    enter_any("kapi_map_sync");
    Mapping &mapping = *find_mapping(map, "kapi_map_sync");
    if (offset > mapping.length || length > mapping.length - offset)
        broken("kapi_map_sync beyond the end");
    if (side == KAPI_MAP_FOR_DEVICE && mapping.direction & KAPI_MAP_TO_DEVICE)
        copy_for(mapping, offset, length, true);
    if (side == KAPI_MAP_FOR_CPU && mapping.direction & KAPI_MAP_FROM_DEVICE)
        copy_for(mapping, offset, length, false);
}

unsigned int kapi_map_sges(const struct kapi_map *map, struct kapi_map_place *place, kapi_size *length, const struct kapi_pd *pd,
                           struct kapi_sge *sges, unsigned int count) noexcept
{
    enter_any("kapi_map_sges");
    const Mapping &mapping = *find_mapping(map, "kapi_map_sges");
    unsigned int filled = 0;
    while (*length && place->piece < mapping.pieces.size() && filled < count) {
        const DmaPiece &piece = mapping.pieces[place->piece];
        std::size_t part = std::min<std::size_t>(*length, piece.length - place->offset);
        sges[filled++] = {piece.address + place->offset, static_cast<kapi_u32>(part), pd->key};
        *length -= part;
        place->offset += static_cast<kapi_u32>(part);
        if (place->offset == piece.length)
            *place = {place->piece + 1, 0};
    }
    if (*length && place->piece == mapping.pieces.size())
        broken("more bytes of a mapping are used than it has");
    return filled;
}

kapi_size kapi_map_length(const struct kapi_map *map) noexcept
{
    return find_mapping(map, "kapi_map_length")->length;
}
