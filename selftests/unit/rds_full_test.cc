// SPDX-License-Identifier: GPL-2.0
// A full socket that nobody reads, and programs of its host that wait for a port of the peer: the peer's map is behind messages
// for the full socket.
#include "rds_peer_test.h"
#include "rds_test.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace {

constexpr kapi_u16 kPort = 4000;
constexpr std::size_t kSize = 256 << 10;
constexpr std::size_t kLimit = (2 << 20) + (256 << 10), kBeyond = 8 << 20; // what a full socket takes more: both together

class RdsFull : public RdsTest, public ::testing::WithParamInterface<int> {
protected:
    RdsFull() : RdsTest(static_cast<std::uint64_t>(GetParam()))
    {
        run(a, [&] { open(reader_, "10.0.0.1", kPort); });
        run(b, [&] {
            open(full_, "10.0.0.2", kPort);
            open(other_, "10.0.0.2", kPort + 1);
            EXPECT_EQ(send(other_, "first", "10.0.0.1", kPort), 5);
        });
        run(a, [&] {
            EXPECT_EQ(receive(reader_), "first");
            world.sleep(sim::kSecond); // all paths are up
        });
    }
    ~RdsFull() override
    {
        run(a, [&] { senders_.clear(), reader_.close(); });
        run(b, [&] { full_.close(), other_.close(); });
    }

    void open(RdsSocket &socket, const char *address, kapi_u16 port)
    {
        ASSERT_EQ(socket.open(), 0);
        ASSERT_EQ(socket.bind(sim::address(address, port)), 0);
        socket.sk().sndbuf = 4 << 20;
        socket.sk().rcvtimeo_ns = 10 * sim::kSecond;
    }
    /** The other program sends until the port of the one that reads slowly is full. */
    void meet_full_port()
    {
        run(b, [&] {
            const std::string bytes(10'000, 'x');
            while (met_ < 1000 && send(other_, bytes, "10.0.0.1", kPort, RDS_ABI_MSG_DONTWAIT) > 0)
                met_++, world.sleep(sim::kMillisecond);
        });
        EXPECT_GT(met_, 10u);
        EXPECT_LT(met_, 1000u) << "the port is not full";
    }
    /** Then it is not any more. */
    void read_full_port()
    {
        run(a, [&] {
            for (; met_; met_--)
                EXPECT_EQ(receive(reader_), std::string(10'000, 'x'));
        });
    }
    /** As many messages over the first path to the full socket, each of another sender, before any knows that it is full. */
    void fill(unsigned count)
    {
        std::vector<sim::TaskRef> tasks;
        run(a, [&] {
            kapi_u16 port = 5000;
            for (unsigned i = 0; i < count; i++, port++) {
                port = port_of_path(0, port);
                open(*senders_.emplace_back(std::make_unique<RdsSocket>(host_a)), "10.0.0.1", port);
            }
        });
        for (unsigned i = 0; i < count; i++)
            tasks.push_back(world.spawn(a, "sends", [this, i] {
                EXPECT_EQ(send(*senders_[i], contents(i), "10.0.0.2", kPort), static_cast<long>(kSize));
            }));
        auto done = [&] { return std::all_of(tasks.begin(), tasks.end(), [](const auto &task) { return task->is_done(); }); };
        ASSERT_TRUE(world.run_until(done, sim::kSecond)) << "all have sent before they know of the congestion";
        world.run_for(500 * sim::kMillisecond);
    }
    static std::string contents(unsigned number)
    {
        std::string bytes = std::to_string(number);
        return bytes + std::string(kSize - bytes.size(), 'x');
    }
    /** All that was sent to the full socket arrives, once. */
    void drain()
    {
        std::set<std::string> all;
        run(b, [&] {
            for (std::size_t i = 0; i < senders_.size(); i++)
                EXPECT_TRUE(all.insert(receive(full_)).second);
            EXPECT_EQ(receive(full_, RDS_ABI_MSG_DONTWAIT).substr(0, 5), "error");
        });
        for (unsigned i = 0; i < senders_.size(); i++)
            EXPECT_TRUE(all.count(contents(i))) << i;
    }
    /** Bytes that the full socket was given. */
    std::size_t taken()
    {
        sim::NodeScope scope(b);
        return kSize * reinterpret_cast<rds::Net *>(host_b.net().rds)->counted(rds::Stat::recv_queued);
    }
    sim::TaskRef other_sends()
    {
        auto sends = world.spawn(b, "waits", [&] { EXPECT_EQ(send(other_, "goes", "10.0.0.1", kPort), 4); });
        world.run_for(10 * sim::kMillisecond);
        EXPECT_FALSE(sends->is_done());
        return sends;
    }
    bool is_done_within(const sim::TaskRef &task, std::uint64_t limit_ns)
    {
        return world.run_until([&] { return task->is_done(); }, limit_ns);
    }

    RdsSocket reader_{host_a}, full_{host_b}, other_{host_b};
    std::vector<std::unique_ptr<RdsSocket>> senders_;
    unsigned met_ = 0; // messages
};

TEST_P(RdsFull, one__holds_up_no_program_that_waits_for_a_port)
{
    meet_full_port();
    fill(12);
    EXPECT_LT(taken(), 12 * kSize) << "nothing waits";
    auto waits = other_sends();
    read_full_port();
    EXPECT_TRUE(is_done_within(waits, 5 * sim::kSecond));
    drain();
    run(a, [&] { EXPECT_EQ(receive(reader_), "goes"); });
}

// Then they wait for the one that does not read.
TEST_P(RdsFull, one__takes_no_more_for_those_than_its_limit_and_what_may_be_before_a_map)
{
    run(a, [&] {
        rds_tcp_net_sysctl(host_a.net().tcp)->rds_tcp_sndbuf = 32 << 20; // what TCP has goes before the map
        rds_tcp_net_sysctl_changed(host_a.net().tcp);
        world.sleep(sim::kSecond);
    });
    meet_full_port();
    fill((2 * kLimit + kBeyond) / kSize + 8);
    auto waits = other_sends();
    read_full_port();
    EXPECT_FALSE(is_done_within(waits, 20 * sim::kSecond)) << "then the documentation promises too little";
    EXPECT_GT(taken(), kLimit + kBeyond);
    EXPECT_LE(taken(), 2 * kLimit + kBeyond + 3 * kSize);
    drain();
    EXPECT_TRUE(is_done_within(waits, sim::kSecond));
    run(a, [&] { EXPECT_EQ(receive(reader_), "goes"); });
}

TEST_P(RdsFull, one__takes_nothing_more__as_long_as_nobody_waits_for_a_port)
{
    meet_full_port();
    world.run_for(100 * sim::kSecond); // the map is requested every 30 seconds
    read_full_port();
    world.run_for(50 * sim::kMillisecond); // it has arrived
    fill(24);
    std::size_t before = taken();
    EXPECT_LE(before, kLimit + kSize);
    world.run_for(40 * sim::kSecond);
    EXPECT_EQ(taken(), before);
    drain();
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsFull, ::testing::Range(1, 4));

} // namespace
