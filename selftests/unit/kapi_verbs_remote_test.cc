// SPDX-License-Identifier: GPL-2.0
// The simulated RDMA operations: reads, writes and atomics of the peer's memory, under keys that live and die.
#include "kapi_verbs_test.h"

namespace {

constexpr unsigned kAll =
    KAPI_ACCESS_LOCAL_WRITE | KAPI_ACCESS_REMOTE_WRITE | KAPI_ACCESS_REMOTE_READ | KAPI_ACCESS_REMOTE_ATOMIC;

class VerbsRemote : public VerbsTest {
protected:
    /** A connection, and a region of the server's. */
    void connect_and_expose(unsigned access = kAll, kapi_size size = 16384)
    {
        connect();
        mr = expose(b, server, memory, size, access);
        key = kapi_mr_key(mr);
        base = kapi_mr_address(mr);
        for (std::size_t i = 0; i < size; i++)
            memory.bytes[i] = static_cast<unsigned char>(i * 31 + i / 256);
    }
    void drop()
    {
        run(a, [&] { client.drop_queues(); });
        run(b, [&] { server.drop_queues(); });
        drop_region(b, mr, memory);
        close_all();
    }
    /** The connection is over on both sides. */
    void expect_refused(kapi_wc_status status)
    {
        EXPECT_EQ(status, KAPI_WC_REMOTE_ACCESS);
        EXPECT_TRUE(wait([&] { return server.end.has_value(); }));
        EXPECT_EQ(server.end->why, KAPI_CM_QUEUE_ERROR);
    }

    Buffer memory;
    kapi_mr *mr = nullptr;
    kapi_u32 key = 0;
    kapi_u64 base = 0;
};

TEST_P(VerbsRemote, write_and_read__any_bytes_of_a_region)
{
    connect_and_expose();
    const std::pair<kapi_size, kapi_size> parts[] = {{0, 1}, {5, 1024}, {4095, 4098}, {0, 16384}};
    for (auto [offset, size] : parts) {
        for (kapi_size i = 0; i < size; i++)
            client.out.bytes[i] = static_cast<unsigned char>(i * 7 + size);
        ASSERT_EQ(operate(KAPI_WR_WRITE, key, base + offset, size), KAPI_WC_OK);
        ASSERT_EQ(std::memcmp(memory.bytes + offset, client.out.bytes, size), 0);
        std::memset(client.out.bytes, 0, size);
        ASSERT_EQ(operate(KAPI_WR_READ, key, base + offset, size), KAPI_WC_OK);
        ASSERT_EQ(std::memcmp(memory.bytes + offset, client.out.bytes, size), 0);
    }
    EXPECT_TRUE(server.received.empty()); // the peer hears nothing of it
    drop();
}

TEST_P(VerbsRemote, loss__does_not_change_what_is_moved)
{
    connect_and_expose();
    for (auto *link : {&world.network().link(a, b), &world.network().link(b, a)})
        link->lose_one_in = 30, link->duplicate_one_in = 20;
    for (unsigned round = 0; round < 10; round++) {
        ASSERT_EQ(operate(KAPI_WR_READ, key, base + round, 12000), KAPI_WC_OK);
        ASSERT_EQ(std::memcmp(memory.bytes + round, client.out.bytes, 12000), 0);
        client.out.bytes[round] ^= 1;
        ASSERT_EQ(operate(KAPI_WR_WRITE, key, base, 12000), KAPI_WC_OK);
        ASSERT_EQ(std::memcmp(memory.bytes, client.out.bytes, 12000), 0);
    }
    world.network().heal_all();
    drop();
}

TEST_P(VerbsRemote, write_with_immediate_data__uses_up_a_receive)
{
    connect_and_expose();
    ASSERT_EQ(operate(KAPI_WR_WRITE_IMM, key, base, 3000), KAPI_WC_OK);
    ASSERT_TRUE(wait([&] { return server.received.size() == 1; }));
    EXPECT_EQ(server.received[0].op, KAPI_WC_RECV_WRITE_IMM);
    EXPECT_EQ(server.received[0].imm, 77u);
    EXPECT_EQ(server.received[0].length, 3000u);
    ASSERT_EQ(operate(KAPI_WR_WRITE_IMM, 0, 0, 0), KAPI_WC_OK); // a heartbeat: no bytes, no key
    ASSERT_TRUE(wait([&] { return server.received.size() == 2; }));
    EXPECT_EQ(server.received[1].length, 0u);
    drop();
}

TEST_P(VerbsRemote, region__ends_with_its_last_byte)
{
    connect_and_expose(kAll, 5000);
    ASSERT_EQ(operate(KAPI_WR_WRITE, key, base + 4000, 1000), KAPI_WC_OK);
    expect_refused(operate(KAPI_WR_WRITE, key, base + 4000, 1001));
    drop();
}

TEST_P(VerbsRemote, region__begins_with_its_first_byte)
{
    connect_and_expose();
    expect_refused(operate(KAPI_WR_READ, key, base - 1, 1));
    drop();
}

TEST_P(VerbsRemote, region__forbids_what_was_not_allowed)
{
    connect_and_expose(KAPI_ACCESS_LOCAL_WRITE | KAPI_ACCESS_REMOTE_WRITE);
    ASSERT_EQ(operate(KAPI_WR_WRITE, key, base, 100), KAPI_WC_OK);
    expect_refused(operate(GetParam() % 2 ? KAPI_WR_READ : KAPI_WR_ATOMIC_ADD, key, base, 8));
    drop();
}

TEST_P(VerbsRemote, address__of_a_region_is_its_place_within_a_page)
{
    connect_and_expose(kAll, 8192);
    EXPECT_EQ(base, 0u);
    ASSERT_EQ(operate(KAPI_WR_READ, key, 8191, 1), KAPI_WC_OK);
    EXPECT_EQ(client.out.bytes[0], memory.bytes[8191]);
    drop();
}

TEST_P(VerbsRemote, stale_key__is_refused)
{
    connect_and_expose();
    invalidate(b, server, mr);
    expect_refused(operate(KAPI_WR_WRITE, key, base, 1));
    drop();
}

TEST_P(VerbsRemote, new_key__of_the_same_bytes)
{
    connect_and_expose();
    invalidate(b, server, mr);
    kapi_u32 next = 0;
    run(b, [&] { next = kapi_mr_next_key(mr); });
    EXPECT_NE(next, key);
    EXPECT_EQ(next >> 8, key >> 8);
    register_again(b, server, mr, kAll);
    ASSERT_EQ(operate(KAPI_WR_WRITE, next, base, 100), KAPI_WC_OK);
    expect_refused(operate(KAPI_WR_WRITE, key, base, 100));
    drop();
}

TEST_P(VerbsRemote, freed_region__is_refused)
{
    connect_and_expose();
    drop_region(b, mr, memory);
    expect_refused(operate(KAPI_WR_READ, key, base, 1));
    close_all();
}

TEST_P(VerbsRemote, send_that_invalidates)
{
    connect_and_expose();
    run(a, [&] {
        kapi_wr wr = client.make_wr(KAPI_WR_SEND_INV, 1);
        wr.key = key;
        EXPECT_EQ(client.post(wr, 0, 10), 0);
    });
    ASSERT_TRUE(wait([&] { return server.received.size() == 1 && client.sent.size() == 1; }));
    EXPECT_EQ(server.received[0].flags, KAPI_WC_INVALIDATED);
    EXPECT_EQ(server.received[0].key, key);
    expect_refused(operate(KAPI_WR_READ, key, base, 1));
    drop();
}

TEST_P(VerbsRemote, invalidation__cuts_a_long_write_short)
{
    connect_and_expose();
    std::memset(memory.bytes, 0, 16384);
    std::memset(client.out.bytes, 0xee, 16384);
    std::size_t cut_at = world.random().below(800) * sim::kMicrosecond;
    run(a, [&] {
        for (unsigned i = 0; i < 8; i++) {
            kapi_wr wr = client.make_wr(KAPI_WR_WRITE, i);
            wr.key = key;
            wr.remote = base;
            ASSERT_EQ(client.post(wr, 0, 16384), 0);
        }
    });
    world.run_for(cut_at);
    invalidate(b, server, mr);
    std::string then = memory.text(0, 16384); // from here on the memory is ours
    ASSERT_TRUE(wait([&] { return client.sent.size() == 8; }, 100 * sim::kSecond));
    EXPECT_EQ(memory.text(0, 16384), then);
    drop();
}

TEST_P(VerbsRemote, atomics__return_what_was_there)
{
    connect_and_expose();
    kapi_u64 value = 40, old;
    std::memcpy(memory.bytes + 8, &value, 8);
    ASSERT_EQ(operate(KAPI_WR_ATOMIC_ADD, key, base + 8, 8, 2), KAPI_WC_OK);
    std::memcpy(&old, client.out.bytes, 8);
    std::memcpy(&value, memory.bytes + 8, 8);
    EXPECT_EQ(old, 40u);
    EXPECT_EQ(value, 42u);
    ASSERT_EQ(operate(KAPI_WR_ATOMIC_SWAP, key, base + 8, 8, 7, 41), KAPI_WC_OK);
    std::memcpy(&value, memory.bytes + 8, 8);
    EXPECT_EQ(value, 42u);
    ASSERT_EQ(operate(KAPI_WR_ATOMIC_SWAP, key, base + 8, 8, 7, 42), KAPI_WC_OK);
    std::memcpy(&value, memory.bytes + 8, 8);
    EXPECT_EQ(value, 7u);
    EXPECT_EQ(operate(KAPI_WR_ATOMIC_ADD, key, base + 4, 8, 2), KAPI_WC_REMOTE_ERROR); // not aligned
    drop();
}

TEST_P(VerbsRemote, atomic__is_executed_once_whatever_is_lost)
{
    connect_and_expose();
    std::memset(memory.bytes, 0, 8);
    for (auto *link : {&world.network().link(a, b), &world.network().link(b, a)})
        link->lose_one_in = 5, link->duplicate_one_in = 5;
    kapi_u64 value = 0;
    for (unsigned i = 0; i < 20; i++) {
        ASSERT_EQ(operate(KAPI_WR_ATOMIC_ADD, key, base, 8, 1), KAPI_WC_OK);
        std::memcpy(&value, client.out.bytes, 8);
        EXPECT_EQ(value, i);
    }
    world.network().heal_all();
    drop();
}

TEST_P(VerbsRemote, masked_atomics__where_the_device_has_them)
{
    dev_a = &sim::plug_rdma(a.initial_net(), "mlx_a", 2, [](kapi_rdma_attrs &attrs) { attrs.flags |= KAPI_RDMA_MASKED_ATOMICS; });
    dev_b = &sim::plug_rdma(b.initial_net(), "mlx_b", 2, [](kapi_rdma_attrs &attrs) { attrs.flags |= KAPI_RDMA_MASKED_ATOMICS; });
    listen();
    resolve();
    ask();
    accept();
    ASSERT_TRUE(wait([&] { return client.established; }, 100 * sim::kSecond));
    mr = expose(b, server, memory, 4096, kAll);
    kapi_u64 value = 0x00000001ffffffffULL;
    std::memcpy(memory.bytes, &value, 8);
    auto post = [&](kapi_wr_op op, kapi_u64 operand, kapi_u64 mask, kapi_u64 compare, kapi_u64 compare_mask) {
        std::size_t before = client.sent.size();
        run(a, [&] {
            kapi_wr wr = client.make_wr(op, 1);
            wr.key = kapi_mr_key(mr);
            wr.remote = kapi_mr_address(mr);
            wr.add_or_swap = operand;
            wr.add_or_swap_mask = mask;
            wr.compare = compare;
            wr.compare_mask = compare_mask;
            ASSERT_EQ(client.post(wr, 0, 8), 0);
        });
        ASSERT_TRUE(wait([&] { return client.sent.size() > before; }));
        ASSERT_EQ(client.sent.back().status, KAPI_WC_OK);
        std::memcpy(&value, memory.bytes, 8);
    };
    post(KAPI_WR_MASKED_ADD, 1, 1ULL << 31, 0, 0); // two fields of 32 bits: no carry between them
    EXPECT_EQ(value, 0x0000000100000000ULL);
    post(KAPI_WR_MASKED_SWAP, ~0ULL, 0xff, 1ULL << 32, ~0ULL << 32);
    EXPECT_EQ(value, 0x00000001000000ffULL);
    post(KAPI_WR_MASKED_SWAP, 0, ~0ULL, 2ULL << 32, ~0ULL << 32);
    EXPECT_EQ(value, 0x00000001000000ffULL);
    drop();
}

TEST_P(VerbsRemote, fence__waits_for_reads)
{
    connect_and_expose();
    unsigned overtaken = 0;
    for (unsigned flags : {0u, static_cast<unsigned>(KAPI_WR_FENCE)}) {
        for (unsigned round = 0; round < (flags ? 20u : 60u); round++) {
            std::size_t read = client.sent.size(), got = server.messages.size();
            run(a, [&] {
                kapi_wr wr = client.make_wr(KAPI_WR_READ, kOperate);
                wr.key = key;
                wr.remote = base;
                ASSERT_EQ(client.post(wr, 0, 8192), 0);
                kapi_wr notice = client.make_wr(KAPI_WR_SEND, 2, KAPI_WR_SIGNALED | flags);
                ASSERT_EQ(client.post(notice, 8192, 10), 0);
            });
            bool arrived = wait([&] { return server.messages.size() > got; });
            ASSERT_TRUE(arrived);
            // The peer that hears of it may change the memory at once: only behind a fence is that harmless.
            run(b, [&] { memory.bytes[8191]++; });
            unsigned char now = memory.bytes[8191];
            ASSERT_TRUE(wait([&] { return client.sent.size() == read + 2; }));
            if (flags)
                EXPECT_NE(client.out.bytes[8191], now);
            else
                overtaken += client.out.bytes[8191] == now;
            run(b, [&] { ASSERT_EQ(server.post_recv(got % Peer::kSlots), 0); });
        }
    }
    EXPECT_GT(overtaken, 0u);
    drop();
}

TEST_P(VerbsRemote, region_of_another_domain__is_refused)
{
    connect();
    kapi_pd *other = nullptr;
    Peer stranger;
    run(b, [&] { ASSERT_EQ(kapi_pd_create(server.dev, &other), 0); });
    run(b, [&] {
        memory.make(server.dev, 4096, KAPI_MAP_BOTH);
        ASSERT_EQ(kapi_mr_alloc(other, 1, 0, &mr), 0);
        ASSERT_EQ(kapi_mr_map(mr, &memory.map), 0);
        kapi_wr wr = server.make_wr(KAPI_WR_REGISTER, kRegister);
        wr.mr = mr;
        wr.access = kAll;
        ASSERT_EQ(server.post(wr), 0);
    });
    ASSERT_TRUE(wait([&] { return !server.sent.empty(); }));
    EXPECT_EQ(server.sent[0].status, KAPI_WC_LOCAL_PROTECTION);
    run(b, [&] { server.drop_queues(); });
    drop_region(b, mr, memory);
    run(b, [&] { kapi_pd_free(other); });
    close_all();
}

INSTANTIATE_TEST_SUITE_P(Seeds, VerbsRemote, ::testing::Range(1, 6));

} // namespace
