// SPDX-License-Identifier: GPL-2.0
// The simulated TCP: order, windows, resets, partitions, half-open connections, pages by reference.
#include "kapi_sim_stream_test.h"
#include "pattern.h"

#include <kapi/errno.h>
#include <kapi/pages.h>
#include <kapi/stream.h>

#include <cstring>
#include <string>
#include <vector>

namespace {

TEST_P(Stream, a_reset_after_draining_loses_nothing_that_was_acknowledged)
{
    connect();
    struct kapi_stream_health first{};
    run(a, [&] { kapi_stream_health(client.stream, &first); });
    bool ends = false;
    auto sender = world.spawn(a, "sender", [&] {
        while (!ends) {
            int error = 0;
            send(a, client, std::string(500, 'x'), &error);
            if (error)
                return;
            world.sleep(world.random().below(300 * sim::kMicrosecond));
        }
    });
    world.run_for(sim::kMillisecond + world.random().below(5 * sim::kMillisecond));
    run(b, [&] {
        server.limit = server.received.size();
        world.sleep(2 * sim::kMillisecond);
        EXPECT_GT(kapi_stream_drain_and_reset(server.stream), 0u);
        server.limit = ~std::size_t{0};
        EXPECT_EQ(kapi_stream_drain_and_reset(server.stream), 0u);
    });
    world.run_for(sim::kSecond);
    ends = true;
    EXPECT_TRUE(world.run_until([&] { return sender->is_done(); }, sim::kSecond));
    EXPECT_TRUE(client.closed);
    run(a, [&] {
        struct kapi_stream_health after;
        kapi_stream_health(client.stream, &after);
        EXPECT_LE(after.una - first.write_seq, server.received.size());
    });
    close_all();
}

TEST_P(Stream, bytes__arrive_in_order_over_a_lossy_link)
{
    world.network().link(a, b).lose_one_in = 20;
    world.network().link(b, a).lose_one_in = 20;
    world.network().link(a, b).duplicate_one_in = 10;
    connect();
    std::string there = text(300'000), back = text(1000);
    run(a, [&] { send(a, client, there); }, 600 * sim::kSecond);
    run(b, [&] { send(b, server, back); });
    EXPECT_TRUE(world.run_until([&] { return server.received == there && client.received == back; },
                                600 * sim::kSecond));
    close_all();
}

TEST_P(Stream, bytes__take_their_time_over_a_slow_link)
{
    sim::Link &link = world.network().link(a, b);
    link.bytes_per_s = 50'000;
    link.delay_ns = 300 * sim::kMillisecond;
    connect();
    std::uint64_t began = world.now_ns();
    std::string there = text(100'000);
    run(a, [&] { send(a, client, there); }, 600 * sim::kSecond);
    EXPECT_TRUE(world.run_until([&] { return server.received == there; }, 600 * sim::kSecond));
    EXPECT_GE(world.now_ns() - began, 2 * sim::kSecond);
    EXPECT_LE(world.now_ns() - began, 20 * sim::kSecond); // no flood of what was sent again
    close_all();
}

TEST_P(Stream, pause__lets_bytes_wait)
{
    connect();
    b.pause(10 * sim::kSecond, false);
    run(a, [&] { send(a, client, "hello"); });
    world.run_for(9 * sim::kSecond);
    EXPECT_EQ(server.received, "");
    EXPECT_TRUE(world.run_until([&] { return server.received == "hello"; }, 2 * sim::kSecond));
    close_all();
}

TEST_P(Stream, window__closes_when_rx_declines_and_opens_after_resume)
{
    kapi_stream_options options{};
    options.sndbuf = options.rcvbuf = 20'000;
    server.limit = 5'000;
    connect(options);
    std::string bytes = text(100'000);
    auto sender = world.spawn(a, "sender", [&] { send(a, client, bytes); });
    world.run_for(20 * sim::kSecond);
    EXPECT_FALSE(sender->is_done());
    EXPECT_EQ(server.received.size(), 5'000u);
    struct kapi_stream_health health;
    kapi_stream_health(client.stream, &health);
    EXPECT_EQ(health.write_seq - health.una, 20'000u);
    kapi_stream_health(server.stream, &health);
    EXPECT_GE(health.unread, 20'000u);
    EXPECT_LE(health.unread, 65535u); // the window of a stream that is not attached yet
    server.limit = ~std::size_t{0};
    run(b, [&] { kapi_stream_resume(server.stream); });
    EXPECT_TRUE(world.run_until([&] { return server.received == bytes; }, 10 * sim::kSecond));
    world.run_until([&] { return sender->is_done(); }, sim::kSecond);
    close_all();
}

TEST_P(Stream, acknowledged_bytes__stay_readable_after_a_reset_until_closed)
{
    server.limit = 0;
    connect();
    std::string bytes = text(10'000);
    run(a, [&] { send(a, client, bytes); });
    EXPECT_TRUE(world.run_until(
        [&] {
            struct kapi_stream_health health;
            kapi_stream_health(client.stream, &health);
            return health.una == health.write_seq;
        },
        10 * sim::kSecond));
    EXPECT_EQ(world.network().reset(a, b, sim::Sees::both), 1u);
    world.run_for(sim::kSecond);
    EXPECT_TRUE(client.closed && server.closed);
    EXPECT_EQ(server.error, -KAPI_ECONNRESET);
    server.limit = ~std::size_t{0};
    run(b, [&] { EXPECT_EQ(kapi_stream_resume(server.stream), 0u); });
    EXPECT_EQ(server.received, bytes);
    close_all();
}

TEST_P(Stream, pages__are_pinned_up_to_a_number)
{
    constexpr std::size_t kMost = 1024 * 4096;
    std::vector<unsigned char> memory(kMost + 1);
    run(a, [&] {
        kapi_msg msg{};
        msg.memory = memory.data();
        msg.size = memory.size();
        kapi_pages *pages;
        EXPECT_EQ(kapi_pages_pin_msg(&msg, kMost + 1, &pages), -KAPI_EMSGSIZE);
        ASSERT_EQ(kapi_pages_pin_msg(&msg, kMost, &pages), 0);
        kapi_pages_free(pages);
    });
}

TEST_P(Stream, pages__by_reference_must_not_change)
{
    connect();
    std::string bytes = text(20'000);
    std::vector<unsigned char> memory(bytes.begin(), bytes.end());
    world.network().cut(a, b);
    run(a, [&] {
        kapi_msg msg{};
        msg.memory = memory.data();
        msg.size = memory.size();
        kapi_pages *pages;
        ASSERT_EQ(kapi_pages_pin_msg(&msg, memory.size(), &pages), 0);
        kapi_segment segments[8];
        unsigned count = kapi_pages_segments(pages, 100, segments, 8);
        EXPECT_EQ(count, 5u);
        kapi_u32 seq;
        EXPECT_GT(kapi_stream_send(client.stream, segments, count, 0, &seq), 0);
        kapi_pages_free(pages);
    });
    memory[150] ^= 1;
    EXPECT_DEATH(
        {
            world.network().heal_all();
            world.run_for(100 * sim::kSecond);
        },
        "changed before it was acknowledged");
    memory[150] ^= 1;
    world.network().heal_all();
    world.run_for(100 * sim::kSecond);
    close_all();
}

TEST_P(Stream, callbacks__may_not_call_streams)
{
    connect();
    static End *victim;
    victim = &server;
    run(b, [&] { kapi_stream_close(server.stream, 1); });
    EXPECT_TRUE(world.run_until([&] { return client.closed; }, sim::kSecond));
    run(a, [&] { kapi_stream_close(std::exchange(client.stream, nullptr), 0); });
    static const kapi_stream_ops bad{
        [](void *, kapi_rx *, kapi_size length) {
            kapi_stream_resume(victim->stream);
            return length;
        },
        End::acked, End::event};
    run(a, [&] {
        kapi_addr local = sim::address("10.0.0.1"), remote = sim::address("10.0.0.2", kPort);
        ASSERT_EQ(kapi_stream_connect(&a.initial_net(), &local, &remote, &kOptions, &End::ops, &client, &client.stream),
                  0);
        send(a, client, "x");
    });
    world.run_for(sim::kSecond);
    EXPECT_DEATH(run(b,
                     [&] {
                         kapi_accept(listener, &server.stream);
                         kapi_stream_attach(server.stream, &kOptions, &bad, &server);
                     }),
                 "called from a stream callback");
    run(b, [&] { kapi_accept(listener, &server.stream); });
    close_all();
}

TEST_P(Stream, listener__is_stopped_before_it_is_closed)
{
    connect();
    EXPECT_DEATH(run(b, [&] { kapi_listener_close(listener); }), "was not stopped");
    close_all();
}

INSTANTIATE_TEST_SUITE_P(Seeds, Stream, ::testing::Range(1, 6));

} // namespace
