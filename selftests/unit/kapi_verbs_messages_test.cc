// SPDX-License-Identifier: GPL-2.0
// The simulated RDMA queues: order, completions, what happens to all that is posted when something fails.
#include "kapi_verbs_test.h"
#include "pattern.h"

namespace {

class VerbsMessages : public VerbsTest {
protected:
    static kapi_size count_flushed(const std::vector<kapi_wc> &wcs)
    {
        return static_cast<kapi_size>(std::count_if(wcs.begin(), wcs.end(), [](const kapi_wc &wc) {
            return wc.status == KAPI_WC_FLUSHED;
        }));
    }
};

TEST_P(VerbsMessages, message__of_any_size)
{
    connect();
    std::size_t done = 0;
    for (std::size_t size : {1, 1023, 1024, 1025, 4095, 4096, 4097, 8192}) {
        run(a, [&] { ASSERT_EQ(client.send(text(size)), 0); });
        done++;
        ASSERT_TRUE(wait([&] { return server.messages.size() == done && client.sent.size() == done; }));
        EXPECT_EQ(server.messages.back(), text(size));
    }
    close_all();
}

TEST_P(VerbsMessages, loss__neither_loses_nor_doubles_nor_reorders)
{
    connect(0);
    for (auto *link : {&world.network().link(a, b), &world.network().link(b, a)})
        link->lose_one_in = 20, link->duplicate_one_in = 10;
    for (unsigned i = 0; i < 40; i++) {
        run(b, [&] { ASSERT_EQ(server.post_recv(i % Peer::kSlots), 0); });
        run(a, [&] { ASSERT_EQ(client.send(text(100 + i * 150), i), 0); });
        ASSERT_TRUE(wait([&] { return client.sent.size() == i + 1 && server.messages.size() == i + 1; }, 100 * sim::kSecond));
        EXPECT_EQ(client.sent.back().status, KAPI_WC_OK);
        EXPECT_EQ(client.sent.back().cookie, i);
        EXPECT_EQ(server.messages.back(), text(100 + i * 150));
    }
    world.network().heal_all();
    close_all();
}

TEST_P(VerbsMessages, immediate_data_and_inline_bytes)
{
    plug();
    listen();
    resolve();
    client.caps.max_inline = 64;
    ask();
    accept();
    ASSERT_TRUE(wait([&] { return client.established; }, 100 * sim::kSecond));
    run(a, [&] {
        char bytes[] = "inline";
        kapi_sge sge{static_cast<kapi_u64>(reinterpret_cast<std::uintptr_t>(bytes)), 6, 0};
        kapi_wr wr = client.make_wr(KAPI_WR_SEND_IMM, 1, KAPI_WR_SIGNALED | KAPI_WR_INLINE), *bad;
        wr.imm = 0x12345678;
        wr.sges = &sge;
        wr.n_sges = 1;
        EXPECT_EQ(kapi_qp_send(client.qp, &wr, &bad), 0);
        bytes[0] = 'X'; // it was copied
    });
    ASSERT_TRUE(wait([&] { return server.messages.size() == 1; }));
    EXPECT_EQ(server.messages[0], "inline");
    EXPECT_EQ(server.received[0].flags, KAPI_WC_IMM);
    EXPECT_EQ(server.received[0].imm, 0x12345678u);
    close_all();
}

TEST_P(VerbsMessages, unsignalled_requests__are_done_with_a_later_one)
{
    connect();
    run(a, [&] {
        for (unsigned i = 0; i < 10; i++)
            EXPECT_EQ(client.send("quiet", i, 0), 0);
        EXPECT_EQ(client.send("loud", 10), 0);
    });
    ASSERT_TRUE(wait([&] { return client.sent.size() == 1 && server.messages.size() == 11; }));
    EXPECT_EQ(client.sent[0].cookie, 10u);
    close_all();
}

TEST_P(VerbsMessages, full_queue__refuses_and_the_rest_of_a_chain_is_named)
{
    connect();
    world.network().cut(a, b);
    run(a, [&] {
        for (unsigned i = 0; i < 63; i++)
            EXPECT_EQ(client.send("x", i, 0), 0);
        kapi_wr first = client.make_wr(KAPI_WR_SEND, 63), second = client.make_wr(KAPI_WR_SEND, 64), *bad;
        first.next = &second;
        EXPECT_EQ(kapi_qp_send(client.qp, &first, &bad), -KAPI_ENOMEM);
        EXPECT_EQ(bad, &second);
    });
    world.network().heal_all();
    close_all();
}

TEST_P(VerbsMessages, impossible_requests__are_refused)
{
    plug();
    listen();
    resolve();
    ask();
    run(a, [&] { EXPECT_EQ(client.send("too early"), -KAPI_EINVAL); });
    accept();
    ASSERT_TRUE(wait([&] { return client.established; }, 100 * sim::kSecond));
    run(a, [&] {
        kapi_wr masked = client.make_wr(KAPI_WR_MASKED_ADD, 1);
        EXPECT_EQ(client.post(masked, 0, 8), -KAPI_EINVAL); // this device has none
        kapi_wr chain[3] = {client.make_wr(KAPI_WR_SEND, 1), client.make_wr(KAPI_WR_SEND, 2), masked}, *bad;
        chain[0].next = &chain[1];
        chain[1].next = &chain[2];
        EXPECT_EQ(kapi_qp_send(client.qp, chain, &bad), -KAPI_EINVAL);
        EXPECT_EQ(bad, &chain[2]);
    });
    EXPECT_TRUE(wait([&] { return client.sent.size() == 2; }));
    close_all();
}

TEST_P(VerbsMessages, receiver_not_ready__is_waited_for)
{
    connect(0);
    run(a, [&] { EXPECT_EQ(client.send("early bird"), 0); });
    world.run_for(2 * sim::kSecond);
    EXPECT_TRUE(client.sent.empty()); // retry 7: for ever
    run(b, [&] { EXPECT_EQ(server.post_recv(0), 0); });
    EXPECT_TRUE(wait([&] { return server.messages.size() == 1 && client.sent.size() == 1; }));
    close_all();
}

TEST_P(VerbsMessages, receiver_not_ready__is_waited_for_by_many_requests)
{
    connect(0);
    run(a, [&] {
        for (unsigned i = 0; i < 20; i++)
            EXPECT_EQ(client.send("early bird", i), 0);
    });
    world.run_for(20 * sim::kSecond);
    EXPECT_TRUE(client.sent.empty());
    run(b, [&] { EXPECT_EQ(server.post_recv(0), 0); });
    EXPECT_TRUE(wait([&] { return server.messages.size() == 1 && client.sent.size() == 1; }));
    EXPECT_EQ(client.sent[0].status, KAPI_WC_OK);
    close_all();
}

TEST_P(VerbsMessages, receiver_not_ready__for_too_long)
{
    rnr_retry = 3;
    connect(0);
    run(a, [&] { EXPECT_EQ(client.send("early bird"), 0); });
    ASSERT_TRUE(wait([&] { return client.sent.size() == 1; }));
    EXPECT_EQ(client.sent[0].status, KAPI_WC_RNR_EXCEEDED);
    close_all();
}

TEST_P(VerbsMessages, silence__ends_in_an_error_and_a_flush_in_order)
{
    retry = 1;
    connect();
    world.network().cut(a, b);
    std::uint64_t since = world.now_ns();
    run(a, [&] {
        for (unsigned i = 0; i < 20; i++)
            EXPECT_EQ(client.send("lost", i, i % 2 ? KAPI_WR_SIGNALED : 0), 0);
    });
    ASSERT_TRUE(wait([&] { return client.sent.size() == 20; }, 20 * sim::kSecond)); // the unsignalled, too
    EXPECT_GE(world.now_ns() - since, sim::kSecond);
    EXPECT_LE(world.now_ns() - since, 4 * sim::kSecond);
    EXPECT_EQ(client.sent[0].status, KAPI_WC_RETRY_EXCEEDED);
    for (unsigned i = 0; i < 20; i++)
        EXPECT_EQ(client.sent[i].cookie, i);
    EXPECT_EQ(count_flushed(client.sent), 19u);
    EXPECT_FALSE(client.end); // nobody says so but the completion
    run(a, [&] { EXPECT_EQ(client.send("too late", 99), 0); });
    EXPECT_TRUE(wait([&] { return client.sent.size() == 21 && client.sent[20].status == KAPI_WC_FLUSHED; }));
    world.network().heal_all();
    close_all();
}

TEST_P(VerbsMessages, message__longer_than_the_receive_ends_both)
{
    connect(0);
    run(b, [&] {
        EXPECT_EQ(server.post_recv(0, 100), 0);
        EXPECT_EQ(server.post_recv(1, 100), 0);
    });
    run(a, [&] { EXPECT_EQ(client.send(text(101)), 0); });
    ASSERT_TRUE(wait([&] { return client.sent.size() == 1 && server.received.size() == 2 && server.end; }));
    EXPECT_EQ(client.sent[0].status, KAPI_WC_REMOTE_ERROR);
    EXPECT_EQ(server.received[0].status, KAPI_WC_LOCAL_ERROR);
    EXPECT_EQ(server.received[1].status, KAPI_WC_FLUSHED);
    EXPECT_EQ(server.end->why, KAPI_CM_QUEUE_ERROR);
    close_all();
}

TEST_P(VerbsMessages, completion_in_error__has_a_cookie_and_garbage)
{
    connect();
    run(b, [&] { EXPECT_EQ(kapi_qp_drain(server.qp), 0); });
    ASSERT_EQ(server.received.size(), Peer::kSlots);
    unsigned other = 0;
    for (unsigned i = 0; i < Peer::kSlots; i++) {
        EXPECT_EQ(server.received[i].cookie, i);
        EXPECT_EQ(server.received[i].status, KAPI_WC_FLUSHED);
        EXPECT_EQ(server.received[i].qp_context, &server);
        other += server.received[i].op != KAPI_WC_RECV;
    }
    EXPECT_GT(other, 0u);
    run(b, [&] { kapi_qp_free(std::exchange(server.qp, nullptr)); });
    close_all();
}

TEST_P(VerbsMessages, answer__is_now_and_then_seen_before_the_completion_of_what_it_answers)
{
    connect(0);
    unsigned early = 0;
    for (unsigned i = 0; i < 100; i++) {
        run(a, [&] {
            ASSERT_EQ(client.post_recv(0), 0);
            ASSERT_EQ(client.send("ping"), 0);
        });
        run(b, [&] { ASSERT_EQ(server.post_recv(0), 0); });
        ASSERT_TRUE(wait([&] { return server.messages.size() == i + 1; }));
        run(b, [&] { ASSERT_EQ(server.send("pong", 1, KAPI_WR_SIGNALED), 0); });
        ASSERT_TRUE(wait([&] { return client.messages.size() == i + 1; }));
        early += client.sent.size() < i + 1;
        ASSERT_TRUE(wait([&] { return client.sent.size() == i + 1 && server.sent.size() == i + 1; }));
    }
    EXPECT_GT(early, 0u);
    EXPECT_LT(early, 60u);
    close_all();
}

TEST_P(VerbsMessages, direct_queue__is_silent_until_it_is_polled)
{
    client.mode = KAPI_CQ_DIRECT;
    connect();
    run(a, [&] { EXPECT_EQ(client.send("x"), 0); });
    EXPECT_TRUE(wait([&] { return server.messages.size() == 1; }));
    world.run_for(sim::kSecond);
    EXPECT_TRUE(client.sent.empty());
    run(a, [&] {
        EXPECT_EQ(kapi_cq_poll(client.send_cq, 8), 1u);
        EXPECT_EQ(kapi_cq_poll(client.send_cq, 8), 0u);
    });
    EXPECT_EQ(client.sent.size(), 1u);
    close_all();
}

TEST_P(VerbsMessages, work_queue__may_sleep_but_not_wait_for_a_queue)
{
    client.mode = KAPI_CQ_WORK;
    connect();
    client.on_done = [](const kapi_wc &) { kapi_free(kapi_zalloc(64, KAPI_SLEEP)); };
    run(a, [&] { EXPECT_EQ(client.send("x"), 0); });
    EXPECT_TRUE(wait([&] { return client.sent.size() == 1; }));
    client.on_done = [&](const kapi_wc &) { kapi_qp_drain(client.qp); };
    EXPECT_DEATH(
        {
            run(a, [&] { client.send("x"); });
            world.run_for(sim::kSecond);
        },
        "kapi_qp_drain waits for a queue");
    client.on_done = {};
    close_all();
}

TEST_P(VerbsMessages, softirq_queue__may_not_sleep)
{
    connect();
    client.on_done = [](const kapi_wc &) { kapi_free(kapi_zalloc(64, KAPI_SLEEP)); };
    EXPECT_DEATH(
        {
            run(a, [&] { client.send("x"); });
            world.run_for(sim::kSecond);
        },
        "may sleep, but is called from a callback");
    client.on_done = {};
    close_all();
}

TEST_P(VerbsMessages, peer_that_waits_for_solicited_messages__sleeps_through_others_and_flushes)
{
    connect();
    sim::arm_solicited(*server.recv_cq);
    run(a, [&] { EXPECT_EQ(client.send("quiet"), 0); });
    EXPECT_TRUE(wait([&] { return client.sent.size() == 1; }));
    world.run_for(sim::kSecond);
    EXPECT_TRUE(server.messages.empty());
    run(a, [&] { EXPECT_EQ(client.send("wake up", 2, KAPI_WR_SIGNALED | KAPI_WR_SOLICITED), 0); });
    EXPECT_TRUE(wait([&] { return server.messages.size() == 2; }));
    std::uint64_t since = world.now_ns();
    run(b, [&] { EXPECT_EQ(kapi_qp_drain(server.qp), 0); }); // the kernel's own hangs there on rxe of 6.12
    EXPECT_GE(world.now_ns() - since, 10 * sim::kSecond);
    EXPECT_EQ(server.received.size(), Peer::kSlots);
    run(b, [&] { kapi_qp_free(std::exchange(server.qp, nullptr)); });
    close_all();
}

TEST_P(VerbsMessages, drain__of_a_broken_device_ends)
{
    connect();
    sim::make_stuck(*dev_b);
    std::uint64_t since = world.now_ns();
    run(b, [&] { EXPECT_EQ(kapi_qp_drain(server.qp), -KAPI_ETIMEDOUT); });
    EXPECT_LE(world.now_ns() - since, 11 * sim::kSecond);
    b.crash(); // what was posted can never be freed
    server = Peer();
    run(a, [&] { client.drop(); });
}

// One second for each of 16, and more for one than a drain waits for a device.
TEST_P(VerbsMessages, drain__waits_for_slow_callbacks)
{
    std::uint64_t slow_s = GetParam() % 2 ? 1 : 12;
    server.mode = KAPI_CQ_WORK;
    connect();
    server.on_done = [&](const kapi_wc &) { world.sleep(slow_s * sim::kSecond); };
    run(b, [&] { EXPECT_EQ(kapi_qp_drain(server.qp), 0); }, 200 * sim::kSecond);
    EXPECT_EQ(server.received.size(), Peer::kSlots);
    run(b, [&] { kapi_qp_free(std::exchange(server.qp, nullptr)); });
    close_all();
}

TEST_P(VerbsMessages, queue_pair__that_was_not_drained_is_freed_and_is_silent)
{
    connect();
    run(a, [&] { EXPECT_EQ(client.send("x"), 0); });
    EXPECT_TRUE(wait([&] { return client.sent.size() == 1 && server.messages.size() == 1; }));
    sim::make_stuck(*dev_b);
    run(b, [&] {
        EXPECT_EQ(kapi_qp_drain(server.qp), -KAPI_ETIMEDOUT);
        kapi_qp_free(std::exchange(server.qp, nullptr));
    });
    world.run_for(10 * sim::kSecond);
    EXPECT_EQ(server.received.size(), 1u);
    EXPECT_DEATH(run(b, [&] { server.in.drop(); }), "a mapping ends that 15 posted requests use");
    b.crash(); // what was posted can never be freed
    server = Peer();
    run(a, [&] { client.drop(); });
}

TEST_P(VerbsMessages, inline_bytes__are_of_sends_and_writes)
{
    client.caps.max_inline = 8;
    connect();
    for (kapi_wr_op op : {KAPI_WR_READ, KAPI_WR_ATOMIC_ADD})
        run(a, [&] { EXPECT_EQ(client.post(client.make_wr(op, 1, KAPI_WR_INLINE), 0, 8), -KAPI_EINVAL); });
    close_all();
}

TEST_P(VerbsMessages, inline_bytes__are_none_where_the_device_refuses_so_many)
{
    client.caps.max_inline = 513;
    connect();
    EXPECT_EQ(client.caps.max_inline, 0u);
    run(a, [&] { EXPECT_EQ(client.post(client.make_wr(KAPI_WR_SEND, 1, KAPI_WR_INLINE), 0, 8), -KAPI_EINVAL); });
    close_all();
}

TEST_P(VerbsMessages, posting__to_what_is_drained_is_reported)
{
    connect();
    run(a, [&] { EXPECT_EQ(kapi_qp_drain(client.qp), 0); });
    EXPECT_DEATH(run(a, [&] { client.send("x"); }), "posted to a queue pair that is drained");
    run(a, [&] { kapi_qp_free(std::exchange(client.qp, nullptr)); });
    close_all();
}

TEST_P(VerbsMessages, crash__is_silence)
{
    retry = 2;
    connect();
    b.crash();
    server = Peer();
    listener = nullptr;
    run(a, [&] { EXPECT_EQ(client.send("anybody there?"), 0); });
    ASSERT_TRUE(wait([&] { return client.sent.size() == 1; }, 20 * sim::kSecond));
    EXPECT_EQ(client.sent[0].status, KAPI_WC_RETRY_EXCEEDED);
    run(a, [&] { client.drop(); });
}

INSTANTIATE_TEST_SUITE_P(Seeds, VerbsMessages, ::testing::Range(1, 6));

} // namespace
