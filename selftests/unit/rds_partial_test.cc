// SPDX-License-Identifier: GPL-2.0
// net/rds/partial: whether an incomplete message progresses, and whether it is slow.
#include "rds_peer_test.h"

#include "net/rds/connection.h"
#include "net/rds/net.h"
#include "net/rds/partial.h"

#include <string>

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

// The bytes of a message that arrive in one piece with the message before it are counted from its own beginning.
TEST_F(Partial, message_behind_another__is_incomplete_until_all_of_it_has_come)
{
    constexpr kapi_u16 kPort = 1000;
    constexpr std::size_t kFirst = 5, kSecond = 100, kOfSecond = 60;
    std::string bytes;
    for (std::size_t size : {kFirst, kSecond}) {
        rds::Header header{};
        header.sequence = size == kFirst ? 1 : 2;
        header.length = static_cast<kapi_u32>(size);
        header.sport = kPeersPort;
        header.dport = kPort;
        bytes.append(reinterpret_cast<const char *>(&header), sizeof(header)).append(size, 'x');
    }
    const std::size_t rest = kSecond - kOfSecond;
    auto is_incomplete = [&] {
        bool found = false;
        sim::NodeScope scope(b);
        reinterpret_cast<rds::Net *>(host.net().rds)->connections.for_each([&](rds::Connection &connection) {
            found = found || connection.path(0).partial().exists();
        });
        return found;
    };
    WireStream stream(a);
    open_socket(kPort);
    run(a, [&] {
        shake_hands(stream, 0);
        EXPECT_TRUE(stream.send(bytes.data(), bytes.size() - rest));
    });
    world.run_for(10 * sim::kMillisecond);
    EXPECT_TRUE(is_incomplete());
    run(a, [&] { EXPECT_TRUE(stream.send(bytes.data() + bytes.size() - rest, rest)); });
    world.run_for(10 * sim::kMillisecond);
    EXPECT_FALSE(is_incomplete());
    EXPECT_EQ(victim_receives().size(), kFirst);
    EXPECT_EQ(victim_receives().size(), kSecond);
    run(a, [&] { stream.close(true); });
}

} // namespace
