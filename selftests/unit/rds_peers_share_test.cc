// SPDX-License-Identifier: GPL-2.0
// net/rds/peers_share: what peers may make a machine hold in all its namespaces together.
#include "kapi_sim_test.h"

#include <kapi/errno.h>

#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "net/rds/connection.h"
#include "net/rds/loop.h"
#include "net/rds/net.h"
#include "selftests/sim/rds_host.h"

namespace {

constexpr unsigned kUser = 1000, kOther = 2000;
// For each of the two pools of connections 256 of 48 KiB, of which one user may have a half; above a third they are many.
constexpr std::size_t kMemory = 192 << 20;
constexpr unsigned kMost = 128, kMany = 86;

class PeersShare : public SimTest {
protected:
    PeersShare() : host(a)
    {
        a.total_memory = kMemory;
        run(a, [this] { ASSERT_EQ(host.load(), 0); });
    }
    ~PeersShare() override
    {
        run(a, [this] { EXPECT_TRUE(host.unload_soon()); });
    }
    kapi_net &add_net(unsigned owner)
    {
        kapi_net &net = a.add_net();
        net.owner = owner;
        EXPECT_EQ(host.add_net(net), 0);
        return net;
    }
    rds::Net &core(kapi_net &net) { return *reinterpret_cast<rds::Net *>(host.net(net).rds); }
    /** Connections as a peer makes them, to so many addresses that had none before. How many were made. */
    unsigned fill(kapi_net &in, unsigned count, hw::Alloc mode = hw::Alloc::sleep)
    {
        unsigned made = 0;
        rds::Endpoint local{rds::Ip::from(sim::address("127.0.0.1").ip), 0, 0};
        for (unsigned i = 0; i < count; i++, next_++) {
            std::string text = "127.1." + std::to_string(next_ / 200) + "." + std::to_string(next_ % 200 + 1);
            rds::Endpoint remote{rds::Ip::from(sim::address(text.c_str()).ip), 0, 0};
            auto got = core(in).connections.get(core(in), rds::loop_transport, local, remote, 0, 0, mode);
            EXPECT_TRUE(got || got.error().to_c() == -KAPI_ENOBUFS);
            made += got.has_value();
        }
        return made;
    }

    RdsHost host;
    unsigned next_ = 0;
};

TEST_F(PeersShare, connections__of_a_users_namespaces_have_one_bound)
{
    run(a, [&] {
        std::vector<kapi_net *> nets;
        unsigned made = 0;
        for (unsigned i = 0; i < 5; i++)
            made += fill(*nets.emplace_back(&add_net(kUser)), 60);
        EXPECT_EQ(made, kMost);
        EXPECT_EQ(fill(*nets.back(), 300, hw::Alloc::charged), 300u) << "a program that makes one is charged for it";
        EXPECT_EQ(fill(add_net(kOther), 100), kMost / 2) << "as much as the first one left";
        EXPECT_EQ(fill(a.initial_net(), 300), kMost) << "it has a part for itself";
        ASSERT_TRUE(host.delete_nets({nets[0], nets[1], nets[2], nets[3]}));
        EXPECT_GE(fill(add_net(kUser), 200), kMost / 2) << "what was given back is there again";
    });
}

// As Documentation/networking/rds.rst has them: of a large machine a part, and never less than so much.
TEST_F(PeersShare, limits__are_as_documented)
{
    struct Limit {
        unsigned kind;
        kapi_u64 divisor, least;
    };
    using Share = rds::PeersShare;
    constexpr kapi_u64 kMiB = 1 << 20, kTotal = kapi_u64{1} << 40;
    constexpr Limit limits[] = {{Share::connections, 32, 0}, {Share::partials, 512, 8 * kMiB}, {Share::answers, 1024, kMiB / 2},
                                {Share::uncharged, 256, 16 * kMiB}, {Share::overdrawn, 32, 128 * kMiB}};
    static_assert(std::size(limits) == Share::kinds);
    run(a, [&] {
        for (const Limit &limit : limits) {
            a.total_memory = 0;
            const auto kind = static_cast<Share::Kind>(limit.kind);
            auto least = std::make_unique<Share>();
            a.total_memory = kTotal;
            auto part = std::make_unique<Share>();
            for (bool initial : {true, false}) {
                EXPECT_EQ(least->account(kind, initial, kUser).most(), limit.least) << limit.kind;
                EXPECT_EQ(part->account(kind, initial, kUser).most(), kTotal / limit.divisor) << limit.kind;
            }
        }
    });
}

TEST_F(PeersShare, connections__for_which_there_is_no_memory_use_nothing_up)
{
    run(a, [&] {
        rds::Endpoint local{rds::Ip::from(sim::address("127.0.0.1").ip), 0, 0};
        rds::Net &net = core(a.initial_net());
        a.faults().one_in = 1;
        for (unsigned i = 0; i < kMost; i++) {
            auto got = net.connections.get(net, rds::loop_transport, local, local, 0, 0, hw::Alloc::sleep);
            EXPECT_EQ(got ? 0 : got.error().to_c(), -KAPI_ENOMEM);
        }
        a.faults().one_in = 0;
        EXPECT_EQ(fill(a.initial_net(), 300), kMost);
    });
}

// Its administrator may keep unused connections without limit, but not at the cost of others.
TEST_F(PeersShare, connections__that_nobody_uses_go_where_there_are_many)
{
    run(a, [&] {
        kapi_net &few = add_net(kOther), &many = add_net(kUser);
        rds_net_sysctl(host.net(few).rds)->idle_connection_ms = rds_net_sysctl(host.net(many).rds)->idle_connection_ms = 0;
        EXPECT_EQ(fill(few, 10), 10u);
        EXPECT_EQ(fill(many, 300), 123u) << "a half of what is left";
        world.sleep(200 * sim::kSecond);
        EXPECT_EQ(core(few).connections.size(), 10u);
        EXPECT_LT(core(many).connections.size(), kMany);
        EXPECT_GT(core(many).connections.size(), 0u);
    }, 300 * sim::kSecond);
}

TEST_F(PeersShare, connections__that_pings_make_on_loopback_are_the_programs)
{
    RdsSocket socket(host);
    run(a, [&] {
        kapi_net &net = add_net(kUser);
        net.add(sim::address("127.0.0.1"));
        ASSERT_EQ(socket.open(net), 0);
        ASSERT_EQ(socket.bind(sim::address("127.0.0.1", 100)), 0);
        for (unsigned i = 0; i < 300; i++) {
            std::string to = "127.1." + std::to_string(i / 200) + "." + std::to_string(i % 200 + 1);
            net.add(sim::address(to.c_str()));
            EXPECT_EQ(socket.send("", 0, sim::address(to.c_str(), 0)), 0);
            world.sleep(sim::kMillisecond);
        }
        EXPECT_EQ(core(net).connections.size(), 600u) << "one and back";
        next_ = 300;
        EXPECT_EQ(fill(net, 300), kMost) << "peers have their part";
        socket.close();
    });
}

TEST_F(PeersShare, partial_messages__of_the_initial_namespace_have_room_whatever_others_do)
{
    constexpr unsigned kMiB = 1 << 20; // 16 MiB for each pool of so small a machine
    run(a, [&] {
        unsigned taken = 0;
        std::vector<rds::PeersMemory *> holders;
        for (unsigned i = 0; i < 20; i++) {
            rds::PeersMemory &memory = core(add_net(kUser + i)).peers_memory;
            while (memory.take_partial(kMiB)) {
                holders.push_back(&memory);
                taken++;
            }
        }
        EXPECT_EQ(taken, 16u);
        EXPECT_TRUE(core(a.initial_net()).peers_memory.take_partial(8 * kMiB));
        EXPECT_FALSE(core(a.initial_net()).peers_memory.take_partial(kMiB));
        core(a.initial_net()).peers_memory.give_partial(8 * kMiB);
        for (rds::PeersMemory *memory : holders)
            memory->give_partial(kMiB);
        EXPECT_TRUE(holders.back()->take_partial(8 * kMiB));
        holders.back()->give_partial(8 * kMiB);
    });
}

} // namespace
