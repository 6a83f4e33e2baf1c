// SPDX-License-Identifier: GPL-2.0
// The simulated TCP: order, windows, resets, partitions, half-open connections, pages by reference.
#include "kapi_sim_test.h"
#include "pattern.h"

#include <kapi/errno.h>
#include <kapi/pages.h>
#include <kapi/stream.h>

#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr kapi_u16 kPort = 16385;

/** What one end of a stream has seen. */
struct End {
    kapi_stream *stream = nullptr;
    std::string received;
    std::size_t limit = ~std::size_t{0}; // bytes that rx() takes before it declines
    bool established = false, eof = false, closed = false;
    int error = 0;
    kapi_u32 una = 0;
    unsigned acks = 0;

    static kapi_size rx(void *context, kapi_rx *rx, kapi_size length)
    {
        auto &self = *static_cast<End *>(context);
        kapi_size take = std::min<kapi_size>(length, self.limit - self.received.size());
        std::string bytes(take, '\0');
        kapi_rx_copy(rx, 0, bytes.data(), take);
        self.received += bytes;
        return take;
    }
    static void acked(void *context, kapi_u32 una)
    {
        auto &self = *static_cast<End *>(context);
        self.una = una;
        self.acks++;
    }
    static void event(void *context, kapi_stream_event event, int error)
    {
        auto &self = *static_cast<End *>(context);
        if (event == KAPI_STREAM_ESTABLISHED)
            self.established = true;
        if (event == KAPI_STREAM_EOF)
            self.eof = true;
        if (event == KAPI_STREAM_CLOSED) {
            EXPECT_FALSE(self.closed);
            self.closed = true;
            self.error = error;
        }
    }
    static constexpr kapi_stream_ops ops{rx, acked, event};
};

const kapi_stream_options kOptions{};

class Stream : public SimTest, public ::testing::WithParamInterface<int> {
protected:
    Stream() : SimTest(static_cast<std::uint64_t>(GetParam())) {}

    void listen()
    {
        kapi_addr any = sim::address("::", kPort);
        ASSERT_EQ(
            kapi_listen(
                &b.initial_net(), &any, 8, [](void *ready) { *static_cast<bool *>(ready) = true; }, &ready, &listener),
            0);
    }
    /** Connects a to b and attaches both ends. */
    void connect(const kapi_stream_options &options = kOptions)
    {
        run(b, [&] { listen(); });
        run(a, [&] {
            kapi_addr local = sim::address("10.0.0.1"), remote = sim::address("10.0.0.2", kPort);
            ASSERT_EQ(
                kapi_stream_connect(&a.initial_net(), &local, &remote, &options, &End::ops, &client, &client.stream),
                0);
        });
        ASSERT_TRUE(world.run_until([&] { return ready && client.established; }, 30 * sim::kSecond));
        run(b, [&] {
            ASSERT_EQ(kapi_accept(listener, &server.stream), 0);
            kapi_stream_attach(server.stream, &options, &End::ops, &server);
        });
    }
    /** Writes all of text, waiting for room. */
    void send(sim::Node &node, End &end, const std::string &text, int *error = nullptr)
    {
        std::size_t done = 0;
        while (done < text.size()) {
            kapi_segment segment{text.data() + done, nullptr, 0, static_cast<kapi_u32>(text.size() - done)};
            kapi_u32 seq;
            kapi_s64 taken = kapi_stream_send(end.stream, &segment, 1, 0, &seq);
            if (taken < 0) {
                if (error)
                    *error = static_cast<int>(taken);
                return;
            }
            done += static_cast<std::size_t>(taken);
            if (!taken)
                node.world().sleep(sim::kMillisecond);
        }
    }
    void offer(const std::string &text, unsigned flags)
    {
        run(a, [&] {
            kapi_segment segment{text.data(), nullptr, 0, static_cast<kapi_u32>(text.size())};
            kapi_u32 seq;
            EXPECT_EQ(kapi_stream_send(client.stream, &segment, text.empty() ? 0 : 1, flags, &seq),
                      static_cast<kapi_s64>(text.size()));
        });
    }
    void close_all()
    {
        run(a, [&] { kapi_stream_close(std::exchange(client.stream, nullptr), 0); });
        run(b, [&] {
            kapi_stream_close(std::exchange(server.stream, nullptr), 0);
            kapi_listener_stop(listener);
            kapi_listener_close(std::exchange(listener, nullptr));
        });
        world.run_for(100 * sim::kSecond);
    }

    bool ready = false;
    kapi_listener *listener = nullptr;
    End client, server;
};

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

// As with MSG_MORE.
TEST_P(Stream, partial_packet__is_held_back_until_more_comes_or_it_is_pushed)
{
    connect();
    world.run_for(sim::kSecond);
    offer("a", KAPI_STREAM_MORE);
    world.run_for(20 * sim::kMillisecond);
    EXPECT_EQ(server.received, "");
    offer("b", 0);
    world.run_for(20 * sim::kMillisecond);
    EXPECT_EQ(server.received, "ab");
    offer("c", KAPI_STREAM_MORE);
    world.run_for(20 * sim::kMillisecond);
    EXPECT_EQ(server.received, "ab");
    offer("", 0);
    world.run_for(20 * sim::kMillisecond);
    EXPECT_EQ(server.received, "abc");
    offer("d", KAPI_STREAM_MORE);
    run(a, [&] { kapi_stream_shutdown_write(client.stream); });
    world.run_for(20 * sim::kMillisecond);
    EXPECT_EQ(server.received, "abcd");
    close_all();
}

TEST_P(Stream, partial_packet__that_is_held_back_goes_with_an_acknowledgement)
{
    connect();
    world.run_for(sim::kSecond);
    run(a, [&] {
        for (unsigned flags : {0, 1}) {
            kapi_segment segment{"x", nullptr, 0, 1};
            kapi_u32 seq;
            EXPECT_EQ(kapi_stream_send(client.stream, &segment, 1, flags, &seq), 1);
        }
    });
    world.run_for(20 * sim::kMillisecond);
    EXPECT_EQ(server.received, "xx");
    close_all();
}

TEST_P(Stream, partial_packet__is_not_held_back_for_longer_than_tcp_does)
{
    connect();
    world.run_for(sim::kSecond);
    for (unsigned i = 0; i < 5; i++) {
        offer("x", KAPI_STREAM_MORE);
        world.run_for(39 * sim::kMillisecond);
        EXPECT_EQ(server.received, "");
    }
    world.run_for(10 * sim::kMillisecond);
    EXPECT_EQ(server.received, "xxxxx");
    close_all();
}

TEST_P(Stream, more__that_was_announced_has_to_come)
{
    connect();
    world.run_for(sim::kSecond);
    EXPECT_DEATH(
        {
            offer("x", KAPI_STREAM_MORE);
            world.run_for(60 * sim::kMillisecond);
        },
        "TCP held 1 bytes back for more, which did not come");
    offer("x", KAPI_STREAM_MORE);
    a.pause(100 * sim::kMillisecond, false);
    world.run_for(110 * sim::kMillisecond);
    offer("y", 0);
    world.run_for(20 * sim::kMillisecond);
    EXPECT_EQ(server.received, "xy") << "a machine that stood still is late with it";
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

TEST_P(Stream, half_open__is_found_by_the_next_write)
{
    connect();
    world.run_for(sim::kSecond);
    world.network().reset(a, b, sim::Sees::first);
    world.run_for(sim::kSecond);
    EXPECT_TRUE(client.closed);
    EXPECT_FALSE(server.closed);
    run(b, [&] { send(b, server, "hello"); });
    world.run_for(sim::kSecond);
    EXPECT_TRUE(server.closed);
    EXPECT_EQ(server.error, -KAPI_ECONNRESET);
    close_all();
}

TEST_P(Stream, partition__times_out_or_heals)
{
    connect();
    world.network().cut(a, b);
    run(a, [&] { send(a, client, "lost for a while"); });
    world.run_for(5 * sim::kSecond);
    struct kapi_stream_health health;
    kapi_stream_health(client.stream, &health);
    EXPECT_TRUE(health.unanswered);
    EXPECT_EQ(server.received, "");
    world.network().heal_all();
    EXPECT_TRUE(world.run_until([&] { return server.received == "lost for a while"; }, 20 * sim::kSecond));
    world.network().cut(a, b);
    run(a, [&] { send(a, client, "lost for ever"); });
    EXPECT_TRUE(world.run_until([&] { return client.closed; }, 3000 * sim::kSecond));
    EXPECT_EQ(client.error, -KAPI_ETIMEDOUT);
    close_all();
}

TEST_P(Stream, fin__is_an_end_of_file_and_both_make_a_close)
{
    connect();
    run(a, [&] {
        send(a, client, "last words");
        kapi_stream_shutdown_write(client.stream);
        kapi_segment segment{"x", nullptr, 0, 1};
        kapi_u32 seq;
        EXPECT_EQ(kapi_stream_send(client.stream, &segment, 1, 0, &seq), -KAPI_EPIPE);
    });
    EXPECT_TRUE(world.run_until([&] { return server.eof; }, sim::kSecond));
    EXPECT_EQ(server.received, "last words");
    EXPECT_FALSE(server.closed || client.closed);
    run(b, [&] {
        send(b, server, "yours");
        kapi_stream_shutdown_write(server.stream);
    });
    EXPECT_TRUE(world.run_until([&] { return client.closed && server.closed; }, 5 * sim::kSecond));
    EXPECT_EQ(client.received, "yours");
    EXPECT_EQ(client.error, 0);
    EXPECT_EQ(server.error, 0);
    close_all();
}

TEST_P(Stream, close__with_unread_bytes_resets)
{
    server.limit = 0;
    connect();
    run(a, [&] { send(a, client, "unread"); });
    world.run_for(sim::kSecond);
    run(b, [&] { kapi_stream_close(std::exchange(server.stream, nullptr), 0); });
    world.run_for(sim::kSecond);
    EXPECT_TRUE(client.closed);
    EXPECT_EQ(client.error, -KAPI_ECONNRESET);
    close_all();
}

TEST_P(Stream, close__lets_written_bytes_out)
{
    connect();
    std::string bytes = text(50'000);
    run(a, [&] {
        send(a, client, bytes);
        kapi_stream_close(std::exchange(client.stream, nullptr), 0);
    });
    EXPECT_TRUE(world.run_until([&] { return server.eof && server.received == bytes; }, 10 * sim::kSecond));
    close_all();
}

TEST_P(Stream, connect__errors)
{
    run(a, [&] {
        kapi_addr local = sim::address("10.0.0.1"), remote = sim::address("10.0.0.2", kPort);
        kapi_addr foreign = sim::address("10.0.0.9");
        kapi_stream *none = nullptr;
        EXPECT_EQ(kapi_stream_connect(&a.initial_net(), &foreign, &remote, &kOptions, &End::ops, &client, &none),
                  -KAPI_EADDRNOTAVAIL);
        EXPECT_EQ(kapi_stream_connect(&a.initial_net(), &local, &remote, &kOptions, &End::ops, &client, &client.stream),
                  0);
        kapi_addr mine, peer;
        kapi_stream_addrs(client.stream, &mine, &peer);
        EXPECT_EQ(peer.port, kPort);
        EXPECT_EQ(kapi_stream_connect(&a.initial_net(), &mine, &remote, &kOptions, &End::ops, &client, &none),
                  -KAPI_EADDRINUSE);
    });
    EXPECT_TRUE(world.run_until([&] { return client.closed; }, sim::kSecond));
    EXPECT_EQ(client.error, -KAPI_ECONNREFUSED);
    run(a, [&] { kapi_stream_close(client.stream, 0); });
    world.run_for(100 * sim::kSecond);
}

TEST_P(Stream, crash__is_silence_then_reset_after_restart)
{
    connect();
    b.crash();
    server = End();
    listener = nullptr;
    run(a, [&] { send(a, client, "anybody there?"); });
    EXPECT_TRUE(world.run_until([&] { return client.closed; }, 100 * sim::kSecond));
    EXPECT_EQ(client.error, -KAPI_ECONNRESET);
    run(a, [&] { kapi_stream_close(client.stream, 0); });
    world.run_for(100 * sim::kSecond);
}

TEST_P(Stream, keepalive__finds_a_dead_peer)
{
    kapi_stream_options options{};
    options.keepalive_idle_s = 5;
    options.keepalive_interval_s = 5;
    options.keepalive_count = 3;
    connect(options);
    world.run_for(60 * sim::kSecond);
    EXPECT_FALSE(client.closed);
    world.network().cut(a, b);
    EXPECT_TRUE(world.run_until([&] { return client.closed; }, 30 * sim::kSecond));
    EXPECT_EQ(client.error, -KAPI_ETIMEDOUT);
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
