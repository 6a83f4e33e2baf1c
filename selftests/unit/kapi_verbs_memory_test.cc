// SPDX-License-Identifier: GPL-2.0
// The simulated device's memory: mappings, pins, regions; and every misuse of them, which has to be reported.
#include "kapi_verbs_test.h"

#include <kapi/pages.h>

namespace {

class VerbsMemory : public VerbsTest {
protected:
    /** A posted request of the client that cannot end: the peer is away. */
    void post_without_end(kapi_wr_op op = KAPI_WR_SEND)
    {
        world.network().cut(a, b);
        run(a, [&] { ASSERT_EQ(client.post(client.make_wr(op, 1), 0, 100), 0); });
    }
    static kapi_u64 address_of(const void *memory)
    {
        return static_cast<kapi_u64>(reinterpret_cast<std::uintptr_t>(memory));
    }
};

TEST_P(VerbsMemory, what_a_posted_request_uses__is_not_ours)
{
    connect();
    post_without_end();
    EXPECT_DEATH(run(a, [&] { kapi_unmap(&client.out.map); }), "a mapping ends that 1 posted requests use");
    EXPECT_DEATH(run(a, [&] { kapi_free(client.out.bytes); }), "memory is freed that a device may use");
    EXPECT_DEATH(run(b, [&] { kapi_unmap(&server.in.map); }), "a mapping ends that 16 posted requests use");
    world.network().heal_all();
    close_all();
}

TEST_P(VerbsMemory, what_was_posted_unsignalled__is_not_ours_until_a_later_one_completes)
{
    connect();
    run(a, [&] { EXPECT_EQ(client.send("quiet", 1, 0), 0); });
    EXPECT_TRUE(wait([&] { return server.messages.size() == 1; }));
    world.run_for(sim::kSecond);
    EXPECT_DEATH(run(a, [&] { kapi_unmap(&client.out.map); }), "posted requests use");
    close_all();
}

TEST_P(VerbsMemory, request__with_memory_that_is_not_mapped)
{
    connect();
    Buffer other;
    kapi_sge stale{};
    run(a, [&] {
        other.make(client.dev, 4096, KAPI_MAP_BOTH);
        stale = other.sge(client.pd, 0, 100);
        other.drop();
    });
    EXPECT_DEATH(run(a,
                     [&] {
                         kapi_wr wr = client.make_wr(KAPI_WR_SEND, 1), *bad;
                         wr.sges = &stale;
                         wr.n_sges = 1;
                         kapi_qp_send(client.qp, &wr, &bad);
                     }),
                 "posted with memory that is not mapped");
    EXPECT_DEATH(run(a, [&] { other.map.opaque[0] = 12345; kapi_unmap(&other.map); }), "kapi_unmap of what is not mapped");
    close_all();
}

TEST_P(VerbsMemory, valid_region__keeps_its_mapping)
{
    connect();
    Buffer memory;
    kapi_mr *mr = expose(b, server, memory, 8192, KAPI_ACCESS_REMOTE_READ);
    EXPECT_DEATH(run(b, [&] { kapi_unmap(&memory.map); }), "a mapping ends under the valid region");
    EXPECT_DEATH(run(b, [&] { kapi_mr_map(mr, &memory.map); }), "given other memory, and it is valid");
    EXPECT_DEATH(run(b, [&] { kapi_mr_next_key(mr); }), "the key of the region .* changes, and it is valid");
    invalidate(b, server, mr);
    drop_region(b, mr, memory);
    close_all();
}

TEST_P(VerbsMemory, region__is_not_freed_or_changed_while_requests_change_it)
{
    connect();
    Buffer memory;
    kapi_mr *mr = expose(a, client, memory, 8192, KAPI_ACCESS_REMOTE_READ);
    run(a, [&] {
        kapi_wr wr = client.make_wr(KAPI_WR_INVALIDATE, 1, 0); // unsignalled: nobody hears of its end
        wr.key = kapi_mr_key(mr);
        ASSERT_EQ(client.post(wr), 0);
    });
    world.run_for(sim::kSecond);
    EXPECT_DEATH(run(a, [&] { kapi_mr_free(mr); }), "a region ends that 1 posted requests change");
    EXPECT_DEATH(run(a, [&] { kapi_mr_map(mr, &memory.map); }), "given other memory, and it is being changed");
    run(a, [&] { // only that it was executed counts
        kapi_u32 before = kapi_mr_key(mr);
        EXPECT_NE(kapi_mr_next_key(mr), before);
    });
    EXPECT_DEATH(run(a, [&] { kapi_unmap(&memory.map); }), "posted requests use");
    run(a, [&] { client.drop_queues(); });
    drop_region(a, mr, memory);
    close_all();
}

TEST_P(VerbsMemory, freed_page__is_not_sent)
{
    connect();
    std::vector<unsigned char> bytes(3000, 'p');
    kapi_pages *pages = nullptr;
    kapi_map map{};
    world.network().cut(a, b);
    run(a, [&] {
        kapi_msg msg{};
        msg.memory = bytes.data();
        msg.size = bytes.size();
        ASSERT_EQ(kapi_pages_from_msg(&msg, bytes.size(), &pages), 0);
        kapi_segment segments[8];
        unsigned n = kapi_pages_segments(pages, 0, segments, 8);
        ASSERT_EQ(kapi_map_segments(&map, client.dev, segments, n, KAPI_MAP_TO_DEVICE, KAPI_ATOMIC), 0);
        kapi_map_place place{};
        kapi_size length = bytes.size();
        kapi_sge sges[8];
        kapi_wr wr = client.make_wr(KAPI_WR_SEND, 1), *bad;
        wr.n_sges = kapi_map_sges(&map, &place, &length, client.pd, sges, 4);
        wr.sges = sges;
        ASSERT_EQ(length, 0u);
        ASSERT_EQ(kapi_qp_send(client.qp, &wr, &bad), 0);
    });
    EXPECT_DEATH(
        {
            run(a, [&] { kapi_pages_free(pages); });
            world.network().heal_all();
            world.run_for(10 * sim::kSecond);
        },
        "reads a page that was freed");
    world.network().heal_all();
    ASSERT_TRUE(wait([&] { return server.messages.size() == 1 && client.sent.size() == 1; }));
    EXPECT_EQ(server.messages[0], std::string(3000, 'p'));
    run(a, [&] {
        kapi_unmap(&map);
        kapi_pages_free(pages);
    });
    close_all();
}

TEST_P(VerbsMemory, mapping__has_a_direction)
{
    connect();
    EXPECT_DEATH(
        {
            run(a, [&] {
                kapi_sge sge = client.in.sge(client.pd, 0, 10);
                kapi_wr wr = client.make_wr(KAPI_WR_SEND, 1), *bad;
                wr.sges = &sge;
                wr.n_sges = 1;
                kapi_qp_send(client.qp, &wr, &bad);
            });
            world.run_for(sim::kSecond);
        },
        "reads memory that is mapped the other way");
    close_all();
}

TEST_P(VerbsMemory, stack_and_static_memory__is_not_mapped)
{
    plug();
    static char bytes[100];
    kapi_segment segment{bytes, nullptr, 0, 100};
    kapi_map map{};
    EXPECT_DEATH(run(a, [&] { kapi_map_segments(&map, dev_a, &segment, 1, KAPI_MAP_BOTH, KAPI_ATOMIC); }), "was not allocated");
}

TEST_P(VerbsMemory, what_is_not_synchronised__is_not_seen)
{
    plug();
    sim::make_bounce(*dev_a);
    sim::make_bounce(*dev_b);
    listen();
    resolve();
    ask();
    accept();
    ASSERT_TRUE(wait([&] { return client.established; }, 100 * sim::kSecond));
    run(a, [&] { ASSERT_EQ(client.send("synchronised"), 0); });
    ASSERT_TRUE(wait([&] { return server.messages.size() == 1; }));
    EXPECT_EQ(server.messages[0], "synchronised");
    run(a, [&] {
        std::memcpy(client.out.bytes, "forgotten", 9);
        ASSERT_EQ(client.post(client.make_wr(KAPI_WR_SEND, 2), 0, 9), 0);
    });
    ASSERT_TRUE(wait([&] { return server.messages.size() == 2 && client.sent.size() == 2; }));
    EXPECT_EQ(server.messages[1], "synchroni");
    close_all();
}

TEST_P(VerbsMemory, pin__is_charged_and_given_back_once)
{
    plug();
    a.memlock_pages = 3;
    std::vector<unsigned char> program(4 * 4096);
    unsigned char *page = program.data() + (4096 - address_of(program.data()) % 4096) % 4096;
    run(a, [&] {
        kapi_pin *pin = nullptr, *more = nullptr;
        EXPECT_EQ(kapi_pin_user(0, 10, 1, &pin), -KAPI_EFAULT);
        EXPECT_EQ(kapi_pin_user(address_of(page), 0, 1, &pin), -KAPI_EINVAL);
        EXPECT_EQ(kapi_pin_user(~0ULL - 5, 10, 1, &pin), -KAPI_EINVAL);
        ASSERT_EQ(kapi_pin_user(address_of(page) + 4095, 2, 1, &pin), 0);
        EXPECT_EQ(kapi_pin_pages(pin), 2u);
        EXPECT_EQ(kapi_pin_user(address_of(page), 4097, 0, &more), -KAPI_ENOMEM);
        ASSERT_EQ(kapi_pin_user(address_of(page), 4096, 0, &more), 0);
        kapi_unpin(more, 0);
        kapi_unpin(pin, 1);
    });
    EXPECT_EQ(a.pinned_pages, 0u);
}

TEST_P(VerbsMemory, pin__of_the_stack_of_a_task_that_ends)
{
    EXPECT_DEATH(run(a,
                     [&] {
                         unsigned char bytes[8] = {};
                         kapi_pin *pin = nullptr;
                         kapi_pin_user(address_of(bytes), sizeof(bytes), 1, &pin);
                     }),
                 "ends while a device may use its stack");
}

TEST_P(VerbsMemory, pin__outlives_its_mappings)
{
    plug();
    std::vector<unsigned char> program(5000);
    kapi_pin *pin = nullptr, *reads = nullptr;
    kapi_map map{};
    run(a, [&] {
        ASSERT_EQ(kapi_pin_user(address_of(program.data()), 5000, 1, &pin), 0);
        ASSERT_EQ(kapi_pin_user(address_of(program.data()), 5000, 0, &reads), 0);
        ASSERT_EQ(kapi_map_pin(&map, dev_a, pin, KAPI_MAP_BOTH, KAPI_SLEEP), 0);
        EXPECT_EQ(kapi_map_length(&map), 5000u);
    });
    EXPECT_DEATH(run(a, [&] { kapi_unpin(pin, 0); }), "unpinned that a device may use");
    EXPECT_DEATH(run(a,
                     [&] {
                         kapi_map other{};
                         kapi_map_pin(&other, dev_a, reads, KAPI_MAP_FROM_DEVICE, KAPI_SLEEP);
                     }),
                 "pinned to be read are mapped to be written");
    run(a, [&] {
        kapi_unmap(&map);
        kapi_unpin(pin, 1);
        kapi_unpin(reads, 0);
    });
}

TEST_P(VerbsMemory, pinned_memory__is_read_and_written_by_the_peer_exactly)
{
    connect();
    std::vector<unsigned char> program(6000, 0x33);
    hw::Pin pin;
    hw::Mapping mapping;
    hw::Region region;
    run(b, [&] {
        auto pinned = hw::Pin::user(address_of(program.data()) + 10, 5000, true);
        ASSERT_TRUE(pinned);
        pin = std::move(*pinned);
        ASSERT_TRUE(mapping.begin(
            [&](kapi_map *map) { return kapi_map_pin(map, server.dev, pin.c(), KAPI_MAP_BOTH, KAPI_SLEEP); }));
        kapi_mr *mr = nullptr;
        ASSERT_EQ(kapi_mr_alloc(server.pd, 3, 0, &mr), 0);
        region = hw::Region(mr);
        kapi_u64 place = (address_of(program.data()) + 10) % 4096;
        ASSERT_EQ(kapi_mr_map(mr, mapping.c()), 0);
        EXPECT_EQ(kapi_mr_address(mr), place);
    });
    register_again(b, server, region.get(), KAPI_ACCESS_LOCAL_WRITE | KAPI_ACCESS_REMOTE_WRITE);
    std::memset(client.out.bytes, 0x44, 5000);
    kapi_u64 base = kapi_mr_address(region.get());
    ASSERT_EQ(operate(KAPI_WR_WRITE, kapi_mr_key(region.get()), base, 5000), KAPI_WC_OK);
    for (unsigned i = 0; i < 6000; i++)
        ASSERT_EQ(program[i], i >= 10 && i < 5010 ? 0x44 : 0x33);
    EXPECT_EQ(operate(KAPI_WR_WRITE, kapi_mr_key(region.get()), base, 5001), KAPI_WC_REMOTE_ACCESS);
    run(a, [&] { client.drop_queues(); });
    run(b, [&] {
        server.drop_queues();
        region.reset();
        mapping = {};
        pin = {};
    });
    close_all();
}

TEST_P(VerbsMemory, region__of_pieces_needs_whole_pages_between)
{
    connect();
    std::vector<unsigned char> block(4 * 4096);
    kapi_sglist good[3] = {{block.data(), 512, 3584}, {block.data() + 4096, 0, 4096}, {block.data() + 9000, 0, 100}};
    kapi_sglist gap[2] = {{block.data(), 0, 512}, {block.data() + 4096, 0, 4096}};
    run(a, [&] {
        kapi_mr *mr = nullptr;
        kapi_map map{};
        EXPECT_EQ(kapi_mr_alloc(client.pd, 2, 1, &mr), -KAPI_EINVAL); // this device takes no gaps
        EXPECT_EQ(kapi_mr_alloc(client.pd, 513, 0, &mr), -KAPI_EINVAL);
        ASSERT_EQ(kapi_mr_alloc(client.pd, 2, 0, &mr), 0);
        ASSERT_EQ(kapi_map_sg(&map, client.dev, good, 3, KAPI_MAP_BOTH), 0);
        EXPECT_EQ(kapi_mr_map(mr, &map), -KAPI_EMSGSIZE);
        kapi_unmap(&map);
        ASSERT_EQ(kapi_map_sg(&map, client.dev, good, 2, KAPI_MAP_BOTH), 0);
        EXPECT_EQ(kapi_mr_map(mr, &map), 0);
        EXPECT_EQ(kapi_mr_address(mr), 512u);
        kapi_u64 address = kapi_mr_address(mr);
        kapi_u32 key = kapi_mr_key(mr);
        kapi_unmap(&map);
        ASSERT_EQ(kapi_map_sg(&map, client.dev, gap, 2, KAPI_MAP_BOTH), 0);
        EXPECT_EQ(kapi_mr_map(mr, &map), -KAPI_EINVAL);
        EXPECT_EQ(kapi_mr_address(mr), address); // what does not fit changes nothing
        EXPECT_EQ(kapi_mr_key(mr), key);
        kapi_unmap(&map);
        kapi_mr_free(mr);
    });
    close_all();
}

TEST_P(VerbsMemory, received_buffer__is_filled_and_trimmed)
{
    connect(0);
    kapi_rxbuf *buffer = nullptr;
    kapi_map map{};
    run(b, [&] {
        buffer = kapi_rxbuf_create(4096, KAPI_ATOMIC);
        ASSERT_EQ(kapi_map_rxbuf(&map, server.dev, buffer), 0);
        kapi_map_place place{};
        kapi_size length = 4096;
        kapi_sge sge;
        ASSERT_EQ(kapi_map_sges(&map, &place, &length, server.pd, &sge, 1), 1u);
        kapi_recv_wr wr{.next = nullptr, .cookie = 0, .sges = &sge, .n_sges = 1, .pad = 0, .opaque = {}}, *bad;
        ASSERT_EQ(kapi_qp_recv(server.qp, &wr, &bad), 0);
    });
    run(a, [&] { ASSERT_EQ(client.send("into a page"), 0); });
    ASSERT_TRUE(wait([&] { return server.received.size() == 1; }));
    EXPECT_DEATH(run(b, [&] { kapi_rxbuf_trim(buffer, 11); }), "memory is freed that a device may use");
    run(b, [&] {
        kapi_unmap(&map);
        kapi_rxbuf_trim(buffer, 11);
        char bytes[11];
        kapi_rxbuf_copy(buffer, 0, bytes, 11);
        EXPECT_EQ(std::string(bytes, 11), "into a page");
        kapi_rxbuf_free(buffer);
    });
    close_all();
}

TEST_P(VerbsMemory, leak__is_reported_at_the_end_of_the_world)
{
    EXPECT_DEATH(
        {
            plug();
            run(a, [&] {
                kapi_pd *pd;
                kapi_pd_create(dev_a, &pd);
            });
            world.~World();
        },
        "a leaks 1 RDMA objects: protection domain");
}

INSTANTIATE_TEST_SUITE_P(Seeds, VerbsMemory, ::testing::Range(1, 4));

} // namespace
