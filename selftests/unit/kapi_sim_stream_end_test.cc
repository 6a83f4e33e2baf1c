// SPDX-License-Identifier: GPL-2.0
// The simulated TCP: how streams end.
#include "kapi/sim/stream.h"
#include "kapi_sim_stream_test.h"
#include "pattern.h"

#include <kapi/errno.h>
#include <kapi/pages.h>
#include <kapi/stream.h>

#include <algorithm>
#include <cstring>
#include <string>

namespace {

class StreamEnd : public Stream {};

TEST_P(StreamEnd, half_open__is_found_by_the_next_write)
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

TEST_P(StreamEnd, partition__times_out_or_heals)
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

TEST_P(StreamEnd, fin__is_an_end_of_file_and_both_make_a_close)
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

TEST_P(StreamEnd, close__with_unread_bytes_resets)
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

TEST_P(StreamEnd, close__lets_written_bytes_out)
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

TEST_P(StreamEnd, connect__errors)
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

TEST_P(StreamEnd, crash__is_silence_then_reset_after_restart)
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

TEST_P(StreamEnd, crash__ends_the_timers_of_a_stream_whose_lock_is_held_for_ever)
{
    connect();
    offer("more is to come", KAPI_STREAM_MORE);
    sim::TcbRef tcb = client.stream->tcb;
    world.spawn(a, "closes", [tcb] {
        sim::Locked locked(*tcb);
        tcb->close(-KAPI_ECONNRESET);
        tcb->world.sleep(sim::kSecond);
    });
    world.run_for(sim::kMillisecond);
    a.crash();
    client = End();
    world.run_for(sim::kSecond);
    world.end_softirqs();
    EXPECT_TRUE(std::all_of(world.tasks().begin(), world.tasks().end(), [](const auto &task) { return task->is_done(); }));
    close_all();
}

TEST_P(StreamEnd, keepalive__finds_a_dead_peer)
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

INSTANTIATE_TEST_SUITE_P(Seeds, StreamEnd, ::testing::Range(1, 6));

} // namespace
