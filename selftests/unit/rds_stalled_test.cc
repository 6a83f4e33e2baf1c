// SPDX-License-Identifier: GPL-2.0
// One party is stalled: a program that does not read, a host that is silent, a peer whose window is closed. The others'
// messages must arrive as if it were not there, in simulated time.
#include "rds_peer_test.h"
#include "rds_test.h"

#include <kapi/errno.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "net/rds/uapi.h"

namespace {

constexpr unsigned kHealthy = 8, kMessages = 10;
constexpr kapi_u16 kPort = 4000, kDeafPort = 3999;
constexpr std::size_t kBytes = 9000;
constexpr std::uint64_t kWithin = 500 * sim::kMillisecond; // less than any tick that could heal it

class RdsStalled : public RdsTest {
protected:
    ~RdsStalled() override
    {
        run(a, [&] { from_.clear(), stalled_.close(); });
        run(b, [&] { to_.clear(), deaf_.close(); });
    }

    void open(RdsSocket &socket, const char *address, kapi_u16 port)
    {
        ASSERT_EQ(socket.open(), 0);
        ASSERT_EQ(socket.bind(sim::address(address, port)), 0);
    }
    /** The healthy ones, on as many paths as there are, with their connections up. */
    void set_up()
    {
        run(b, [&] {
            open(deaf_, "10.0.0.2", kDeafPort);
            for (unsigned i = 0; i < kHealthy; i++)
                open(*to_.emplace_back(std::make_unique<RdsSocket>(host_b)), "10.0.0.2", static_cast<kapi_u16>(kPort + i));
        });
        run(a, [&] {
            open(stalled_, "10.0.0.1", kDeafPort);
            for (unsigned i = 0; i < kHealthy; i++)
                open(*from_.emplace_back(std::make_unique<RdsSocket>(host_a)), "10.0.0.1", static_cast<kapi_u16>(kPort + i));
        });
        exchange(10 * sim::kSecond);
    }
    /** Sends, until the call would wait. */
    void stall(const char *address, kapi_u16 port)
    {
        unsigned sent = 0;
        run(a, [&] {
            std::string bytes(kBytes, 'x');
            for (unsigned i = 0; i < 2000; i++) {
                if (stalled_.send(bytes.data(), bytes.size(), sim::address(address, port), RDS_ABI_MSG_DONTWAIT) > 0)
                    sent++;
                else
                    world.sleep(sim::kMillisecond / 10);
            }
        });
        EXPECT_GT(sent, 10u) << "or nothing is stalled";
    }
    /** Every healthy socket sends its messages, and gets an answer to each. */
    void exchange(std::uint64_t within)
    {
        std::vector<sim::TaskRef> tasks;
        for (unsigned i = 0; i < kHealthy; i++) {
            tasks.push_back(world.spawn(a, "healthy", [this, i] {
                std::string bytes(kBytes, 'y'), in(kBytes, '\0');
                for (unsigned n = 0; n < kMessages; n++) {
                    EXPECT_EQ(send(*from_[i], bytes, "10.0.0.2", static_cast<kapi_u16>(kPort + i)), long{kBytes});
                    EXPECT_EQ(from_[i]->receive(in.data(), in.size(), nullptr), long{kBytes});
                }
            }));
            tasks.push_back(world.spawn(b, "healthy", [this, i] {
                std::string in(kBytes, '\0');
                for (unsigned n = 0; n < kMessages; n++) {
                    kapi_addr from;
                    EXPECT_EQ(to_[i]->receive(in.data(), in.size(), &from), long{kBytes});
                    EXPECT_EQ(to_[i]->send(in.data(), in.size(), from), long{kBytes});
                }
            }));
        }
        auto all_done = [&] {
            return std::all_of(tasks.begin(), tasks.end(), [](const auto &task) { return task->is_done(); });
        };
        if (!world.run_until(all_done, within))
            world.fail("parties that are independent of the stalled one wait for it");
    }

    RdsSocket stalled_{host_a}, deaf_{host_b};
    std::vector<std::unique_ptr<RdsSocket>> from_, to_;
};

TEST_F(RdsStalled, a_program_that_does_not_read)
{
    set_up();
    stall("10.0.0.2", kDeafPort);
    exchange(kWithin);
}

TEST_F(RdsStalled, a_program_of_this_host_that_does_not_read)
{
    set_up();
    RdsSocket deaf(host_a);
    run(a, [&] { open(deaf, "10.0.0.1", kDeafPort - 1); });
    stall("10.0.0.1", kDeafPort - 1);
    exchange(kWithin);
    run(a, [&] { deaf.close(); });
}

TEST_F(RdsStalled, hosts_that_are_silent)
{
    set_up();
    sim::Node &silent = world.add_node("silent");
    world.network().cut(a, silent);
    run(a, [&] {
        for (int i = 1; i <= 50; i++) {
            std::string to = "10.0.9." + std::to_string(i);
            silent.initial_net().add(sim::address(to.c_str()));
            EXPECT_EQ(stalled_.send("x", 1, sim::address(to.c_str(), 1), RDS_ABI_MSG_DONTWAIT), 1);
        }
    });
    for (int i = 0; i < 10; i++) { // at any moment of its back-off
        exchange(kWithin);
        world.run_for(300 * sim::kMillisecond);
    }
}

TEST_F(RdsStalled, a_peer_that_does_not_read)
{
    set_up();
    sim::Node &deaf = world.add_node("deaf");
    deaf.initial_net().add(sim::address("10.0.0.7"));
    kapi_listener *listener = nullptr;
    run(deaf, [&] { listener = sim::program_listen(deaf.initial_net(), sim::address("::", 16385)); });
    ASSERT_TRUE(listener);
    stall("10.0.0.7", 7); // it accepts and never sends anything
    exchange(kWithin);
    run(deaf, [&] { sim::program_unlisten(listener); });
}

class ShortMessages : public RdsTest {};

// A program is sent a short message now and then, and reads none. Others want to hear from that host.
TEST_F(ShortMessages, short_messages_that_nobody_reads__make_their_port_congested_before_they_hold_up_others)
{
    RdsSocket deaf(host_a), to(host_a), from(host_b), other(host_b);
    const kapi_u16 port = port_of_path(3), second = port_of_path(3, static_cast<kapi_u16>(port + 1));
    run(a, [&] {
        ASSERT_EQ(deaf.open(), 0);
        ASSERT_EQ(deaf.bind(sim::address("10.0.0.1", 5)), 0);
        ASSERT_EQ(to.open(), 0);
        ASSERT_EQ(to.bind(sim::address("10.0.0.1", 6)), 0);
        to.sk().rcvtimeo_ns = 60 * sim::kSecond;
    });
    run(b, [&] {
        ASSERT_EQ(from.open(), 0);
        ASSERT_EQ(from.bind(sim::address("10.0.0.2", port)), 0);
        ASSERT_EQ(other.open(), 0);
        ASSERT_EQ(other.bind(sim::address("10.0.0.2", second)), 0);
        EXPECT_EQ(send(other, "first", "10.0.0.1", 6), 5);
        unsigned sent = 0;
        long result = 1;
        for (; sent < 20'000 && result == 1; sent++) {
            result = send(from, "x", "10.0.0.1", 5, RDS_ABI_MSG_DONTWAIT);
            world.sleep(10 * sim::kMillisecond);
        }
        EXPECT_EQ(send(other, "second", "10.0.0.1", 6, RDS_ABI_MSG_DONTWAIT), 6);
    }, 1000 * sim::kSecond);
    run(a, [&] {
        EXPECT_EQ(receive(to), "first");
        EXPECT_EQ(receive(to), "second");
        deaf.close(), to.close();
    }, 100 * sim::kSecond);
    run(b, [&] { from.close(), other.close(); });
}

} // namespace
