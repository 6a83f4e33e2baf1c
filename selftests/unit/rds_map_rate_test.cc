// SPDX-License-Identifier: GPL-2.0
// A program fills and empties its socket all the time: how many congestion maps that makes its host send.
#include "rds_peer_test.h"

#include <algorithm>
#include <deque>
#include <string>

namespace {

class MapRate : public PeerTest {
protected:
    MapRate() : sender(host)
    {
        open_socket(kPort);
        run(b, [&] {
            socket.sk().rcvbuf = 4096;
            ASSERT_EQ(sender.open(), 0);
            ASSERT_EQ(sender.bind(sim::address("10.0.0.2", kPort + 1)), 0);
        });
    }
    ~MapRate() override
    {
        run(b, [&] { sender.close(); });
    }
    void add_peers(unsigned count)
    {
        for (unsigned i = 1; i <= count; i++) {
            std::string address = "9.0." + std::to_string(i / 200) + "." + std::to_string(i % 200 + 1);
            a.initial_net().add(sim::address(address.c_str()));
            WireStream &stream = peers.emplace_back(a);
            EXPECT_TRUE(stream.connect(sim::address(address.c_str(), 30000), sim::address("10.0.0.2", 16385)));
            EXPECT_TRUE(stream.handshake(false, kGeneration + i, 0, kMemory + i));
        }
        world.sleep(sim::kSecond);
    }
    /** It is full, and empty again, more often than maps are sent. */
    void fill_and_empty(std::uint64_t time_ns)
    {
        std::string message(4000, 'x'), buffer(4000, 0);
        for (std::uint64_t end_ns = world.now_ns() + time_ns; world.now_ns() < end_ns;) {
            while (sender.send(message.data(), message.size(), sim::address("10.0.0.2", kPort), RDS_ABI_MSG_DONTWAIT) > 0)
                ;
            while (socket.receive(buffer.data(), buffer.size(), nullptr, RDS_ABI_MSG_DONTWAIT) > 0)
                ;
            world.sleep(200 * sim::kMicrosecond);
        }
    }
    /** Maps that the peers get in a second. */
    unsigned maps_in_a_second()
    {
        unsigned before = maps();
        auto task = world.spawn(b, "program", [&] { fill_and_empty(sim::kSecond); });
        while (!task->is_done())
            world.sleep(sim::kMillisecond);
        return maps() - before;
    }
    unsigned maps() const
    {
        unsigned sum = 0;
        for (const WireStream &peer : peers)
            sum += peer.maps();
        return sum;
    }

    static constexpr kapi_u16 kPort = 1000;
    RdsSocket sender;
    std::deque<WireStream> peers;
};

TEST_F(MapRate, few_peers__get_one_every_five_milliseconds)
{
    run(a, [&] {
        add_peers(4);
        unsigned maps = maps_in_a_second();
        EXPECT_GE(maps, 4 * 150u);
        EXPECT_LE(maps, 4 * 200u + 4);
        peers.clear();
    });
}

TEST_F(MapRate, many_peers__get_fewer)
{
    run(a, [&] {
        add_peers(200);
        unsigned maps = maps_in_a_second();
        EXPECT_GE(maps, 10'000u);
        EXPECT_LE(maps, 20'200u);
        peers.clear();
    });
}

} // namespace
