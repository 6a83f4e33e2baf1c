// SPDX-License-Identifier: GPL-2.0
// Regions: reads, writes, atomics, bounds and the life of keys; mappings.
#include "region.h"

#include "verbs_test.h"

namespace test {

namespace {

// Does one operation of side; its status, or -1 when it does not end.
int operate(Side& side, kapi_u8 op, kapi_size offset, kapi_size length, kapi_u64 remote, kapi_u32 key)
{
    kapi_wr wr{};
    wr.op = op;
    wr.flags = KAPI_WR_SIGNALED;
    wr.remote = remote;
    wr.key = key;
    wr.imm = 77;
    if (side.send(wr, offset, length) != 0)
        return -1;
    const kapi_wc* wc = side.next();
    if (wc && wc->status == KAPI_WC_OK && wc->op != (op == KAPI_WR_READ ? KAPI_WC_READ : KAPI_WC_SEND))
        return -1;
    return wc ? wc->status : -1;
}

} // namespace

bool read_and_write(VerbsBench& bench)
{
    OpenLink link;
    CHECK(link && link->open(bench));
    Side &a = link->a, &b = link->b;
    Boxed<Region> region;
    CHECK(region && region->open(b, 8192 + 100, 20000, all));
    const kapi_u32 key = kapi_mr_key(region->mr);
    CHECK(kapi_mr_address(region->mr) == 100);
    for (kapi_size i = 0; i < 20000; i++)
        a.memory[i] = static_cast<unsigned char>(i * 3 + i / 253);
    CHECK(operate(a, KAPI_WR_WRITE, 0, 20000, 100, key) == KAPI_WC_OK);
    CHECK(kapi_compare(a.memory, b.memory + 8192 + 100, 20000) == 0);
    CHECK(b.memory[8192 + 99] == 0 && b.memory[8192 + 20100] == 0);
    CHECK(operate(a, KAPI_WR_READ, 30001, 12345, 101, key) == KAPI_WC_OK);
    CHECK(kapi_compare(a.memory + 30001, a.memory + 1, 12345) == 0);
    CHECK(b.receive(5, 0, 0) == 0);
    CHECK(operate(a, KAPI_WR_WRITE_IMM, 7, 300, 100, key) == KAPI_WC_OK);
    const kapi_wc* wc = b.next();
    CHECK(wc && wc->status == KAPI_WC_OK && wc->op == KAPI_WC_RECV_WRITE_IMM && wc->cookie == 5);
    CHECK(wc->flags & KAPI_WC_IMM && wc->imm == 77 && wc->length == 300);
    CHECK(kapi_compare(a.memory + 7, b.memory + 8192 + 100, 300) == 0);
    return true;
}

namespace {

// One operation that the region must refuse, on a link of its own; it ends the connection.
bool refused(VerbsBench& bench, kapi_u8 access, kapi_u8 op, kapi_u64 remote, kapi_size length)
{
    OpenLink link;
    CHECK(link && link->open(bench));
    Boxed<Region> region;
    CHECK(region && region->open(link->b, 8192 + 100, 5000, access));
    kapi_fill(link->a.memory, 0xee, 8192);
    CHECK(operate(link->a, op, 0, length, remote, kapi_mr_key(region->mr)) == KAPI_WC_REMOTE_ACCESS);
    for (kapi_size i = 0; i < memory_size; i++)
        CHECK(link->b.memory[i] == 0);
    return true;
}

} // namespace

bool bounds(VerbsBench& bench)
{
    CHECK(refused(bench, all, KAPI_WR_WRITE, 99, 1));
    CHECK(refused(bench, all, KAPI_WR_WRITE, 5100, 1));
    CHECK(refused(bench, all, KAPI_WR_WRITE, 5000, 101));
    CHECK(refused(bench, all, KAPI_WR_READ, 99, 10));
    CHECK(refused(bench, all, KAPI_WR_READ, 5099, 2));
    CHECK(refused(bench, KAPI_ACCESS_REMOTE_READ, KAPI_WR_WRITE, 100, 1));
    CHECK(refused(bench, KAPI_ACCESS_LOCAL_WRITE | KAPI_ACCESS_REMOTE_WRITE, KAPI_WR_READ, 100, 1));
    return true;
}

bool dead_keys(VerbsBench& bench)
{
    for (int way = 0; way < 4; way++) {
        OpenLink link;
        CHECK(link && link->open(bench));
        Side &a = link->a, &b = link->b;
        Boxed<Region> region;
        CHECK(region && region->open(b, 4096, 4096, all));
        const kapi_u64 address = kapi_mr_address(region->mr);
        const kapi_u32 key = kapi_mr_key(region->mr);
        CHECK(operate(a, KAPI_WR_WRITE, 0, 10, address, key) == KAPI_WC_OK);
        if (way == 0 || way == 1) {
            CHECK(region->invalidate(b));
        } else if (way == 2) { // the peer itself gives it up
            CHECK(b.receive(9, 0, 100) == 0);
            kapi_wr wr{};
            wr.op = KAPI_WR_SEND_INV;
            wr.key = key;
            CHECK(a.send(wr, 0, 10) == 0);
            const kapi_wc* wc = b.next();
            CHECK(wc && wc->status == KAPI_WC_OK && wc->flags & KAPI_WC_INVALIDATED && wc->key == key && wc->length == 10);
        } else {
            kapi_mr_free(region->mr);
            region->mr = nullptr;
        }
        if (way == 1) { // valid again, under another key
            const kapi_u32 fresh = kapi_mr_next_key(region->mr);
            CHECK(fresh != key && fresh >> 8 == key >> 8 && kapi_mr_key(region->mr) == fresh);
            CHECK(region->validate(b, all));
            CHECK(operate(a, KAPI_WR_WRITE, 0, 10, address, fresh) == KAPI_WC_OK);
        }
        CHECK(operate(a, KAPI_WR_WRITE, 0, 10, address, key) == KAPI_WC_REMOTE_ACCESS);
    }
    return true;
}

bool atomics(VerbsBench& bench)
{
    OpenLink link;
    CHECK(link && link->open(bench));
    Side &a = link->a, &b = link->b;
    Boxed<Region> region;
    CHECK(region && region->open(b, 4096, 4096, all));
    auto* target = reinterpret_cast<kapi_u64*>(b.memory + 4096 + 16);
    auto* old = reinterpret_cast<kapi_u64*>(a.memory);
    *target = 1000;
    kapi_wr wr{};
    wr.flags = KAPI_WR_SIGNALED;
    wr.remote = 16;
    wr.key = kapi_mr_key(region->mr);
    wr.op = KAPI_WR_ATOMIC_ADD;
    wr.add_or_swap = 0x100000005;
    CHECK(a.send(wr, 0, 8) == 0);
    const kapi_wc* wc = a.next();
    CHECK(wc && wc->status == KAPI_WC_OK && wc->op == KAPI_WC_SEND && *old == 1000 && *target == 0x1000003ed);
    wr.op = KAPI_WR_ATOMIC_SWAP;
    wr.compare = 0x1000003ed;
    wr.add_or_swap = 42;
    CHECK(a.send(wr, 0, 8) == 0);
    wc = a.next();
    CHECK(wc && wc->status == KAPI_WC_OK && *old == 0x1000003ed && *target == 42);
    CHECK(a.send(wr, 0, 8) == 0); // does not equal any more
    wc = a.next();
    CHECK(wc && wc->status == KAPI_WC_OK && *old == 42 && *target == 42);
    wr.op = KAPI_WR_MASKED_SWAP;
    CHECK(a.send(wr, 0, 8) == -KAPI_EINVAL);
    return true;
}

bool region_errors(VerbsBench& bench)
{
    kapi_rdma_dev* dev = bench.devices->dev[0];
    kapi_pd* pd = nullptr;
    kapi_mr* mr = nullptr;
    CHECK(kapi_pd_create(dev, &pd) == 0);
    CHECK(kapi_mr_alloc(pd, 0, 0, &mr) == -KAPI_EINVAL);
    CHECK(kapi_mr_alloc(pd, kapi_rdma_dev_attrs(dev)->max_mr_pages + 1, 0, &mr) == -KAPI_EINVAL);
    CHECK(kapi_mr_alloc(pd, 4, 1, &mr) == -KAPI_EINVAL); // Soft-RoCE has no gaps
    CHECK(kapi_mr_on_demand(pd, 4096, 4096, 4096, KAPI_ACCESS_REMOTE_READ, &mr) == -KAPI_EOPNOTSUPP);
    CHECK(kapi_mr_alloc(pd, 4, 0, &mr) == 0);
    auto* memory = static_cast<unsigned char*>(kapi_alloc_contiguous(65536));
    CHECK(memory);
    kapi_map map;
    const kapi_segment five{memory, nullptr, 0, 5 * 4096}, four{memory + 5, nullptr, 0, 4 * 4096 - 5};
    const kapi_segment gap[] = {{memory, nullptr, 0, 4000}, {memory + 8192, nullptr, 0, 4096}};
    CHECK(kapi_map_segments(&map, dev, &five, 1, KAPI_MAP_BOTH, KAPI_SLEEP) == 0);
    const int too_many = kapi_mr_map(mr, &map);
    kapi_unmap(&map);
    CHECK(kapi_map_segments(&map, dev, gap, 2, KAPI_MAP_BOTH, KAPI_SLEEP) == 0);
    const int gapped = kapi_mr_map(mr, &map);
    kapi_unmap(&map);
    CHECK(kapi_map_segments(&map, dev, &four, 1, KAPI_MAP_BOTH, KAPI_SLEEP) == 0);
    const int right = kapi_mr_map(mr, &map);
    // What does not fit changes nothing.
    kapi_map other;
    CHECK(kapi_map_segments(&other, dev, gap, 2, KAPI_MAP_BOTH, KAPI_SLEEP) == 0);
    const kapi_u32 key = kapi_mr_key(mr);
    const int gapped_again = kapi_mr_map(mr, &other);
    kapi_unmap(&other);
    kapi_unmap(&map);
    CHECK(too_many == -KAPI_EMSGSIZE && gapped == -KAPI_EINVAL && right == 0 && gapped_again == -KAPI_EINVAL);
    CHECK(kapi_mr_address(mr) == 5 && kapi_mr_key(mr) == key); // nothing of where the memory lies
    kapi_mr_free(mr);
    kapi_pd_free(pd);
    kapi_free(memory);
    return true;
}

namespace {

// All of a mapping in small portions: the bytes are those of the memory, in order.
bool walks(const kapi_map& map, kapi_pd* pd, const unsigned char* bytes, kapi_size size)
{
    kapi_map_place place{};
    kapi_size left = size, seen = 0;
    CHECK(kapi_map_length(&map) == size);
    while (left) {
        kapi_sge sges[3];
        kapi_size portion = left < 1000 ? left : 1000;
        const kapi_size asked = portion;
        const unsigned filled = kapi_map_sges(&map, &place, &portion, pd, sges, 3);
        CHECK(filled && portion < asked);
        for (unsigned i = 0; i < filled; i++) {
            // Soft-RoCE's addresses are the kernel's.
            CHECK(kapi_compare(reinterpret_cast<const void*>(sges[i].address), bytes + seen, sges[i].length) == 0);
            seen += sges[i].length;
        }
        left -= asked - portion;
        CHECK(seen == size - left);
    }
    kapi_size more = 1;
    kapi_sge sge;
    CHECK(kapi_map_sges(&map, &place, &more, pd, &sge, 1) == 0 && more == 1);
    return true;
}

} // namespace

bool mappings(VerbsBench& bench)
{
    // Of several pages that are not neighbours, so that the list is longer than one page of entries.
    constexpr kapi_size size = 300 * 4096;
    kapi_rdma_dev* dev = bench.devices->dev[0];
    kapi_pd* pd = nullptr;
    CHECK(kapi_pd_create(dev, &pd) == 0);
    auto* memory = static_cast<unsigned char*>(kapi_alloc(size, KAPI_SLEEP));
    CHECK(memory);
    for (kapi_size i = 0; i < size; i++)
        memory[i] = static_cast<unsigned char>(i * 11 + i / 255);
    kapi_map map;
    constexpr struct {
        kapi_size at, size;
    } parts[] = {{0, 1}, {4095, 2}, {0, size}, {100, size - 200}, {1, 128 * 4096 - 1}, {0, 127 * 4096}, {5, 129 * 4096}};
    for (const auto& part : parts) {
        const kapi_segment segment{memory + part.at, nullptr, 0, static_cast<kapi_u32>(part.size)};
        CHECK(kapi_map_segments(&map, dev, &segment, 1, KAPI_MAP_TO_DEVICE, KAPI_ATOMIC) == 0);
        kapi_map moved = map;
        const bool right = walks(moved, pd, memory + part.at, part.size);
        kapi_map_sync(&moved, 0, part.size, KAPI_MAP_FOR_CPU);
        kapi_map_sync(&moved, part.size / 2, part.size / 3, KAPI_MAP_FOR_DEVICE);
        kapi_unmap(&moved);
        CHECK(right);
    }
    kapi_free(memory);
    for (kapi_size length : {1, 7, 48, 96, 3000, 5000, 200'000}) {
        void* piece = kapi_alloc_contiguous(length);
        kapi_size align = 1;
        while (align < length && align < 4096)
            align *= 2;
        align = align > length ? align / 2 : align;
        CHECK(piece && reinterpret_cast<unsigned long>(piece) % align == 0);
        kapi_free(piece);
    }
    kapi_pd_free(pd);
    return true;
}

// A request of the block layer, chained from pieces: all of it under one key.
bool block_list(VerbsBench& bench)
{
    OpenLink link;
    CHECK(link && link->open(bench));
    Side &a = link->a, &b = link->b;
    kapi_sglist* list = verbs_test_sglist(b.memory, 8192, 8);
    CHECK(list);
    kapi_map map;
    const int mapped = kapi_map_sg(&map, b.dev, list, 8, KAPI_MAP_BOTH);
    kapi_mr* mr = nullptr;
    bool right = mapped == 0 && walks(map, b.pd, b.memory, 65536) && kapi_mr_alloc(b.pd, 16, 0, &mr) == 0 &&
                 kapi_mr_map(mr, &map) == 0;
    if (right) {
        kapi_wr wr{};
        wr.op = KAPI_WR_REGISTER;
        wr.mr = mr;
        wr.access = all;
        kapi_fill(a.memory, 0x5a, 60000);
        right = b.send(wr, 0, 0) == 0;
        pause(50 * millisecond);
        right = right && operate(a, KAPI_WR_WRITE, 0, 60000, kapi_mr_address(mr) + 5, kapi_mr_key(mr)) == KAPI_WC_OK;
        right = right && kapi_compare(a.memory, b.memory + 5, 60000) == 0 && !b.memory[4] && !b.memory[60005];
    }
    kapi_qp_drain(b.qp);
    kapi_mr_free(mr);
    if (mapped == 0)
        kapi_unmap(&map);
    verbs_test_sglist_free(list);
    CHECK(right);
    return true;
}

namespace {

constexpr unsigned many = 8;
struct Regions {
    Region of[many];
};

// Makes a region valid, under another key if it is valid already, and says so in a message.
bool post_registration(Side& side, Region& region, bool is_valid, kapi_u64 cookie)
{
    kapi_wr invalidation{}, message{}, registration{}, *bad = nullptr;
    invalidation.op = KAPI_WR_INVALIDATE;
    invalidation.key = kapi_mr_key(region.mr);
    CHECK(!is_valid || side.send(invalidation, 0, 0) == 0);
    kapi_mr_next_key(region.mr);
    registration.op = KAPI_WR_REGISTER;
    registration.flags = cookie % 4 ? KAPI_WR_EARLY : 0;
    registration.mr = region.mr;
    registration.access = all;
    registration.next = &message;
    message.op = KAPI_WR_SEND;
    message.flags = KAPI_WR_SIGNALED;
    message.cookie = cookie;
    return kapi_qp_send(side.qp, &registration, &bad) == 0;
}

} // namespace

// Also with losses: Soft-RoCE executes a registration again when what is before it is sent again.
bool registrations(VerbsBench& bench)
{
    OpenLink link;
    CHECK(link && link->open(bench));
    Side &a = link->a, &b = link->b;
    Boxed<Regions> regions;
    CHECK(regions);
    for (unsigned i = 0; i < many; i++)
        CHECK(regions->of[i].open(a, i * 4096, 4096, all));
    for (kapi_u64 round = 1; round <= 6; round++) {
        for (unsigned i = 0; i < many; i++)
            CHECK(b.receive(i, 0, 0) == 0 && (round % 2 || regions->of[i].invalidate(a)));
        for (unsigned i = 0; i < many; i++)
            CHECK(post_registration(a, regions->of[i], round % 2, round * many + i));
        for (unsigned i = 0; i < many; i++) {
            const kapi_wc *sent = a.next(), *got = b.next();
            CHECK(sent && sent->status == KAPI_WC_OK && sent->cookie == round * many + i);
            CHECK(got && got->status == KAPI_WC_OK && got->cookie == i);
        }
        for (unsigned i = 0; i < many; i++)
            CHECK(operate(b, KAPI_WR_WRITE, 0, 4096, 0, kapi_mr_key(regions->of[i].mr)) == KAPI_WC_OK);
    }
    unsigned ended = 0;
    for (unsigned i = 0; i < many; i++) // nobody receives these
        CHECK(post_registration(a, regions->of[i], true, 1000 + i));
    CHECK(kapi_qp_drain(a.qp) == 0);
    while (a.looked < a.completed)
        ended += a.next()->cookie == 1000 + ended;
    CHECK(ended == many);
    return true;
}

// What is held for a registration is posted when nobody can be told any more that the device refuses it.
bool refused_while_held(VerbsBench& bench)
{
    OpenLink link;
    Shape shape;
    shape.rnr_retry = 7;
    CHECK(link && link->open(bench, shape));
    Side &a = link->a, &b = link->b;
    Boxed<Region> region;
    CHECK(region && region->open(a, 0, 4096, all) && region->invalidate(a));
    kapi_wr message{}, atomic{};
    message.op = KAPI_WR_SEND;
    CHECK(a.send(message, 0, 0) == 0); // nobody receives it yet, so that the registration waits
    CHECK(post_registration(a, *region, false, 1));
    atomic.op = KAPI_WR_ATOMIC_ADD;
    atomic.flags = KAPI_WR_SIGNALED;
    atomic.remote = 4; // Soft-RoCE wants a multiple of 8
    CHECK(a.send(atomic, 0, 8) == -KAPI_EINVAL);
    CHECK(b.receive(0, 0, 0) == 0 && b.receive(1, 0, 0) == 0);
    const kapi_wc* sent = a.next();
    CHECK(sent && sent->status == KAPI_WC_OK && sent->cookie == 1);
    return true;
}

} // namespace test
