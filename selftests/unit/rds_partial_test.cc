// SPDX-License-Identifier: GPL-2.0
// net/rds/partial: whether an incomplete message progresses, and whether it is slow.
#include "rds_peer_test.h"

#include "net/rds/net.h"
#include "net/rds/partial.h"

namespace {

constexpr kapi_u32 kSize = 1 << 20;
constexpr std::uint64_t kPeriod = rds::PeersMemory::look_ns;
constexpr kapi_u32 kEnough = 20480; // bytes in a period, as 2048 a second

class Partial : public PeerTest {
protected:
    rds::PeersMemory &memory() { return reinterpret_cast<rds::Net *>(host.net().rds)->peers_memory; }
    /** A message that begins now; when that is. */
    std::uint64_t begin()
    {
        EXPECT_TRUE(partial.take(memory(), kSize));
        return world.now_ns();
    }
    void end() { partial.give(memory(), kSize); }

    rds::Partial partial;
};

TEST_F(Partial, is_slow__with_less_than_2048_bytes_a_second)
{
    run(b, [&] {
        for (kapi_u32 bytes : {0u, kEnough - 1, kEnough, kEnough + 1}) {
            std::uint64_t began = begin();
            partial.got(bytes);
            auto look = partial.look(began + kPeriod);
            EXPECT_EQ(look.is_slow, bytes < kEnough) << bytes;
            EXPECT_EQ(look.progresses, bytes != 0) << bytes;
            EXPECT_EQ(look.began_ns, began);
            EXPECT_EQ(look.size, kSize);
            end();
            world.sleep(2 * kPeriod); // until after the look
        }
    }, 10 * kPeriod);
}

TEST_F(Partial, is_judged_after_a_whole_period__with_the_bytes_of_the_last_one)
{
    run(b, [&] {
        std::uint64_t began = begin();
        partial.got(kEnough / 2);
        EXPECT_FALSE(partial.look(began + kPeriod - 1).is_slow) << "too early";
        partial.got(kEnough / 2);
        EXPECT_FALSE(partial.look(began + kPeriod).is_slow) << "all bytes of the period count";
        EXPECT_FALSE(partial.look(began + kPeriod + 1).is_slow) << "the next one has just begun";
        partial.got(1);
        EXPECT_TRUE(partial.look(began + 2 * kPeriod).is_slow) << "the first period's bytes do not count again";
        EXPECT_FALSE(partial.look(began + 2 * kPeriod).progresses);
        EXPECT_TRUE(partial.look(began + 2 * kPeriod + 1).is_slow) << "until it is judged again";
        partial.got(2 * kEnough);
        EXPECT_FALSE(partial.look(began + 4 * kPeriod).is_slow) << "a late look counts for the time since the one before";
        end();
    }, 10 * kPeriod);
}

TEST_F(Partial, next_message__is_not_slow_because_the_one_before_was)
{
    run(b, [&] {
        std::uint64_t began = begin();
        EXPECT_TRUE(partial.look(began + kPeriod).is_slow);
        end();
        EXPECT_FALSE(partial.exists());
        EXPECT_EQ(partial.look(began + kPeriod).began_ns, 0u);
        world.sleep(2 * kPeriod);
        began = begin();
        EXPECT_TRUE(partial.exists());
        EXPECT_FALSE(partial.look(began).is_slow);
        partial.got(kEnough);
        EXPECT_FALSE(partial.look(began + kPeriod).is_slow);
        end();
    }, 10 * kPeriod);
}

} // namespace
