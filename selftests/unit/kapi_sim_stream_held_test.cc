// SPDX-License-Identifier: GPL-2.0
// The simulated TCP: what it holds back because more was announced.
#include "kapi_sim_stream_test.h"

namespace {

class StreamHeld : public Stream {};

// As with MSG_MORE.
TEST_P(StreamHeld, partial_packet__is_held_back_until_more_comes_or_it_is_pushed)
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

TEST_P(StreamHeld, partial_packet__that_is_held_back_goes_with_an_acknowledgement)
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

TEST_P(StreamHeld, partial_packet__is_not_held_back_for_longer_than_tcp_does)
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

TEST_P(StreamHeld, more__that_was_announced_has_to_come)
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

INSTANTIATE_TEST_SUITE_P(Seeds, StreamHeld, ::testing::Range(1, 6));

} // namespace
