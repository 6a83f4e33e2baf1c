// SPDX-License-Identifier: GPL-2.0
// Paths that wait for a full socket: they go on when it has room, however many they are, and may end while they wait.
#include "rds_peer_test.h"

#include <memory>
#include <string>
#include <vector>

#include "net/rds/connection.h"
#include "net/rds/tcp/net.h"

namespace {

constexpr kapi_u16 kPort = 4000;
constexpr unsigned kMany = 100; // a work resumes 16
constexpr std::size_t kLarge = 200'000;

class StalledPaths : public PeerTest {
protected:
    StalledPaths() { open_socket(kPort); }
    rds::Net &net() { return *reinterpret_cast<rds::Net *>(host.net().rds); }
    /** A foreign host of its own, whose smaller address connects, sends one message. */
    void another_sends(unsigned number)
    {
        std::string own = "9.0.1." + std::to_string(number + 1);
        a.initial_net().add(sim::address(own.c_str()));
        auto &stream = streams_.emplace_back(std::make_unique<WireStream>(a));
        ASSERT_TRUE(stream->connect(sim::address(own.c_str(), 30000), sim::address("10.0.0.2", 16385)));
        ASSERT_TRUE(stream->message(1, kPeersPort, kPort, "x"));
    }

    /** first: bytes of the first message, in front of large ones. */
    void fill_and_have_many_wait(std::size_t first = kLarge)
    {
        run(a, [&] {
            shake_hands(first_, 0);
            while (!counted(rds::Stat::recv_stalled) && count_ < 100) {
                std::string text(count_ ? kLarge : first, 'x');
                EXPECT_TRUE(first_.message(++count_, kPeersPort, kPort, text));
                world.sleep(10 * sim::kMillisecond);
            }
            for (unsigned i = 0; i < kMany; i++)
                another_sends(i);
            world.sleep(sim::kSecond);
        });
        EXPECT_EQ(queued(), count_);
        EXPECT_EQ(counted(rds::Stat::recv_stalled), kMany + 1);
    }

    WireStream first_{a};
    kapi_u64 count_ = 0; // of large messages
    std::vector<std::unique_ptr<WireStream>> streams_;
};

TEST_F(StalledPaths, many__all_go_on_when_one_large_message_is_read)
{
    fill_and_have_many_wait();
    EXPECT_EQ(victim_receives().size(), kLarge);
    world.run_for(sim::kSecond);
    EXPECT_EQ(queued(), count_ + kMany);
    run(a, [&] { first_.close(true), streams_.clear(); });
}

TEST_F(StalledPaths, many__all_go_on_while_one_message_after_another_is_read)
{
    fill_and_have_many_wait();
    unsigned small = 0;
    run(b, [&] {
        std::string buffer(kLarge, '\0');
        for (kapi_u64 i = 0; i < count_ + kMany; i++)
            small += socket.receive(buffer.data(), buffer.size(), nullptr) == 1;
    });
    EXPECT_EQ(small, kMany);
    run(a, [&] { first_.close(true), streams_.clear(); });
}

// There may be any number of them: the others are left to a work.
TEST_F(StalledPaths, many__are_not_all_resumed_in_the_call_that_reads)
{
    constexpr unsigned kAtOnce = 16;
    fill_and_have_many_wait();
    kapi_u32 left = 0;
    run(b, [&] {
        std::string buffer(kLarge, '\0');
        EXPECT_EQ(socket.receive(buffer.data(), buffer.size(), nullptr), static_cast<long>(kLarge));
        left = net().stalled_paths.load();
    });
    EXPECT_LE(left, kMany + 1 - kAtOnce);
    EXPECT_GT(left, kMany / 2);
    run(a, [&] { first_.close(true), streams_.clear(); });
}

// Else they would be tried, and wait again, at each message that is read.
TEST_F(StalledPaths, many__are_not_resumed_while_the_socket_is_as_full_as_before)
{
    fill_and_have_many_wait(1);
    EXPECT_EQ(victim_receives(), "x");
    world.run_for(100 * sim::kMillisecond);
    EXPECT_EQ(queued(), count_);
    EXPECT_EQ(counted(rds::Stat::recv_stalled), kMany + 1);
    run(a, [&] { first_.close(true), streams_.clear(); });
}

// Nobody waits then, as the end of the namespace sees.
TEST_F(StalledPaths, one__ends_with_its_connection)
{
    WireStream first(a), second(a);
    kapi_u64 count = 0;
    run(a, [&] {
        shake_hands(first, 0);
        count = fill(first, kPort);
    });
    run(b, [&] { net().kill_connections(&rds_tcp::Module::get().transport); });
    run(a, [&] { shake_hands(second, 0); });
    for (kapi_u64 i = 0; i < count; i++)
        EXPECT_EQ(victim_receives().size(), 10'000u);
    run(a, [&] { EXPECT_TRUE(second.message(1, kPeersPort, kPort, "next")); });
    EXPECT_EQ(victim_receives(), "next");
    run(a, [&] { first.close(true), second.close(true); });
}

} // namespace
