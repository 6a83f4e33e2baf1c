// SPDX-License-Identifier: GPL-2.0
// net/rds/map_refresh: how often a peer is asked for its congestion map, and for how long.
#include "rds_worker_test.h"

#include <kapi/errno.h>

#include "net/rds/net.h"

namespace {

constexpr std::uint64_t kSecond = sim::kSecond;
constexpr kapi_u16 kFull = 4000;

// Nobody answers: the peer's host refuses all connections.
class MapRefresh : public PathWorker {
protected:
    MapRefresh() { noted.connect = -KAPI_ECONNREFUSED; }
    void for_long(const std::function<void()> &body) { run(a, body, 7200 * kSecond); }
    void map_comes()
    {
        std::vector<std::byte> bits(rds::map_bytes);
        bits[kFull / 8] = std::byte{1 << kFull % 8};
        connection->remote_map().replace(bits.data());
    }
    void meet_full_port()
    {
        map_comes();
        connection->met_congestion(kFull);
    }
    kapi_u64 requests() { return connection->net.counted(rds::Stat::cong_refresh); }
    kapi_u64 requests_in(std::uint64_t time_ns)
    {
        kapi_u64 before = requests();
        world.sleep(time_ns);
        return requests() - before;
    }
};

// After 50 ms, and again after twice the time, and so on, up to 30 seconds.
TEST_F(MapRefresh, is_requested_again_after_twice_the_time)
{
    for_long([&] {
        meet_full_port();
        EXPECT_EQ(requests_in(45 * kMs), 0u);
        EXPECT_EQ(requests_in(10 * kMs), 1u);
        for (unsigned delay_ms = 50; delay_ms < 25'000; delay_ms *= 2) {
            EXPECT_EQ(requests_in((delay_ms - 8) * kMs), 0u) << delay_ms;
            EXPECT_EQ(requests_in(8 * kMs), 1u) << delay_ms;
        }
        world.sleep(100 * kSecond);
        EXPECT_EQ(requests_in(300 * kSecond), 10u);
    });
}

// "The answer to a request does not shorten that time, other maps do."
TEST_F(MapRefresh, is_requested_soon__after_a_map_that_was_not_requested)
{
    for_long([&] {
        meet_full_port();
        for (unsigned seen = 0; seen < 7; seen++) {
            kapi_u64 before = requests();
            while (requests() == before)
                world.sleep(kMs);
            map_comes();
        }
        EXPECT_EQ(requests_in(2 * kSecond), 0u) << "each was an answer";
        kapi_u64 before = requests();
        for (unsigned i = 0; i < 10'000 / 20; i++) {
            map_comes();
            world.sleep(20 * kMs);
        }
        EXPECT_EQ(requests(), before) << "there is always a new one";
        EXPECT_GE(requests_in(200 * kMs), 1u);
    });
}

// Its sender may sleep in poll() for as long as it likes, and be the user of another connection by now.
TEST_F(MapRefresh, is_requested_for_half_an_hour__for_a_sender_that_is_gone)
{
    for_long([&] {
        meet_full_port();
        world.sleep(1790 * kSecond);
        EXPECT_TRUE(connection->may_wait_for_map());
        world.sleep(45 * kSecond);
        EXPECT_FALSE(connection->may_wait_for_map());
        EXPECT_EQ(requests_in(100 * kSecond), 0u);
        connection->met_congestion(kFull);
        EXPECT_GE(requests_in(kSecond), 4u) << "another one meets it";
    });
}

} // namespace
