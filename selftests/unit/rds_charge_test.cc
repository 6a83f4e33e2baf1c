// SPDX-License-Identifier: GPL-2.0
// Memory: what a program makes the kernel hold, or has others send it, is charged to it; without memory nothing is lost, and
// nobody else waits for it.
#include "rds_test.h"

#include <kapi/errno.h>
#include <kapi/share.h>

#include <algorithm>
#include <memory>

#include "net/rds/connection.h"
#include "net/rds/socket.h"

namespace {

using sim::kSecond;

// A socket counts true size by the kernel's classes and pages, which is more than the simulator allocates.
constexpr std::size_t kOfANamespace = 256 << 10; // connections, maps, the modules: not a program's

class Charge : public RdsTest {
protected:
    Charge()
    {
        run(a, [&] { make(a_sockets, host_a, "10.0.0.1"); });
        run(b, [&] { make(b_sockets, host_b, "10.0.0.2"); });
        at_rest_a = uncharged(a);
        at_rest_b = uncharged(b);
    }
    ~Charge() override
    {
        run(a, [&] { a_sockets.clear(); });
        run(b, [&] { b_sockets.clear(); });
    }

    using Sockets = std::vector<std::unique_ptr<RdsSocket>>;
    static constexpr unsigned kSockets = 20;
    static void make(Sockets &sockets, RdsHost &host, const char *address)
    {
        for (unsigned i = 0; i < kSockets; i++) {
            auto &socket = *sockets.emplace_back(std::make_unique<RdsSocket>(host));
            ASSERT_EQ(socket.open(), 0);
            ASSERT_EQ(socket.bind(sim::address(address, static_cast<kapi_u16>(100 + i))), 0);
            socket.sk().sndbuf = 4 << 20;
        }
    }
    /** Each sends to the others as long as it can. */
    void fill(Sockets &sockets, const char *to, std::size_t size)
    {
        for (auto &socket : sockets)
            for (unsigned i = 0, failed = 0; i < 200 && failed < 3; i++)
                failed += send(*socket, std::string(size, 'x'), to, static_cast<kapi_u16>(100 + i % kSockets),
                               RDS_ABI_MSG_DONTWAIT) < 0;
    }
    static unsigned queued(RdsSocket &socket)
    {
        unsigned count = 0;
        sim::NodeScope scope(*socket.sk().node);
        rds::Socket::Place place;
        reinterpret_cast<rds::Socket *>(socket.core())->visit_received(place, ~0u, [&](rds::Incoming &) { count++; });
        return count;
    }
    static long uncharged(sim::Node &node) { return static_cast<long>(node.uncharged_bytes()); }
    static std::size_t held(sim::Node &node) { return node.memory().charged_bytes() + node.charged_to_sockets; }

    Sockets a_sockets, b_sockets;
    long at_rest_a = 0, at_rest_b = 0;
};

TEST_F(Charge, what_is_sent_and_not_taken)
{
    for (std::size_t size : {0u, 100u, 3000u}) {
        world.network().cut(a, b);
        run(a, [&] { fill(a_sockets, "10.0.0.2", size); });
        EXPECT_GT(held(a), 1u << 19) << size;
        EXPECT_LT(uncharged(a), at_rest_a + static_cast<long>(kOfANamespace)) << size;
        run(a, [&] {
            a_sockets.clear();
            make(a_sockets, host_a, "10.0.0.1");
        });
        world.network().cut(a, b, false);
        world.run_for(5 * kSecond);
    }
}

// Eight times as much memory as payload, and one message beyond.
TEST_F(Charge, tiny_messages_that_are_not_taken)
{
    world.network().cut(a, b);
    run(a, [&] {
        RdsSocket &socket = *a_sockets.front();
        socket.sk().sndbuf = 100'000;
        while (send(socket, "x", "10.0.0.2", 100, RDS_ABI_MSG_DONTWAIT) == 1)
            ;
        std::size_t all = 0, last = 0;
        reinterpret_cast<rds::Net *>(host_a.net().rds)->connections.for_each([&](rds::Connection &connection) {
            for (unsigned i = 0; i < connection.path_count(); i++)
                connection.path(i).for_each_message(false, [&](rds::Message &message) { all += last = message.true_size(); });
        });
        EXPECT_GE(all, 50'000u * 8);
        EXPECT_LT(all - last, 50'000u * 8);
    });
    world.network().cut(a, b, false);
}

TEST_F(Charge, what_waits_in_sockets)
{
    for (std::size_t size : {0u, 100u, 3000u, 30000u}) {
        run(a, [&] { fill(a_sockets, "10.0.0.2", size); });
        world.run_for(5 * kSecond);
        EXPECT_GT(held(b), 1u << 19) << size;
        EXPECT_LT(uncharged(b), at_rest_b + static_cast<long>(kOfANamespace)) << size;
        run(a, [&] {
            a_sockets.clear();
            make(a_sockets, host_a, "10.0.0.1");
        });
        run(b, [&] {
            b_sockets.clear();
            make(b_sockets, host_b, "10.0.0.2");
        });
        EXPECT_EQ(b.charged_to_sockets, 0u);
        world.run_for(5 * kSecond); // until a has a map without full ports
    }
}

TEST_F(Charge, loopback)
{
    run(a, [&] { fill(a_sockets, "10.0.0.1", 1000); });
    EXPECT_GT(held(a), 1u << 20);
    EXPECT_LT(uncharged(a), at_rest_a + static_cast<long>(kOfANamespace));
}

// A reader whose memory stalls still holds what it took.
TEST_F(Charge, what_is_being_copied)
{
    RdsSocket &from = *a_sockets[0], &to = *b_sockets[0];
    run(a, [&] { EXPECT_EQ(send(from, std::string(30000, 'x'), "10.0.0.2", 100), 30000); });
    world.run_for(kSecond);
    to.trouble = {.stall_at = 0, .stall_ns = kSecond};
    auto reader = world.spawn(b, "reader", [&] { EXPECT_EQ(receive(to).size(), 30000u); });
    world.run_for(100 * sim::kMillisecond);
    EXPECT_FALSE(reader->is_done());
    EXPECT_GT(b.charged_to_sockets, 30000u);
    EXPECT_TRUE(world.run_until([&] { return reader->is_done(); }, 2 * kSecond));
    EXPECT_EQ(b.charged_to_sockets, 0u);
}

// A program whose cgroup has no more memory still gets all: the guaranteed memory and one uncharged message.
TEST_F(Charge, receiver_without_memory__loses_nothing_and_holds_no_more_than_is_guaranteed)
{
    constexpr unsigned kMessages = 50;
    RdsSocket &from = *a_sockets[0], &poor = *b_sockets[0], &rich = *b_sockets[1];
    run(a, [&] { EXPECT_EQ(send(from, "up", "10.0.0.2", 101), 2); });
    run(b, [&] { EXPECT_EQ(receive(rich), "up"); });
    poor.sk().charge_limit = 0;
    auto sender = world.spawn(a, "sender", [&] {
        for (unsigned i = 0; i < kMessages; i++)
            EXPECT_EQ(send(from, std::to_string(i) + std::string(30000, 'x'), "10.0.0.2", 100), i < 10 ? 30001 : 30002);
        EXPECT_EQ(send(from, "last", "10.0.0.2", 101), 4);
    });
    world.run_for(5 * kSecond);
    EXPECT_FALSE(sender->is_done() && queued(rich)) << "or nothing was held back";
    EXPECT_LT(uncharged(b), at_rest_b + static_cast<long>(kOfANamespace));
    for (unsigned i = 0; i < kMessages; i++) {
        EXPECT_LE(poor.sk().charged, std::size_t{KAPI_GUARANTEED});
        EXPECT_LE(queued(poor), KAPI_GUARANTEED / 30000 + 1u);
        run(b, [&] {
            poor.sk().rcvtimeo_ns = kSecond / 10;
            EXPECT_EQ(receive(poor).compare(0, std::to_string(i).size() + 1, std::to_string(i) + "x"), 0) << i;
        });
        world.run_for(10 * sim::kMillisecond);
    }
    run(b, [&] {
        rich.sk().rcvtimeo_ns = kSecond / 10;
        EXPECT_EQ(receive(rich), "last");
    });
    EXPECT_TRUE(world.run_until([&] { return sender->is_done(); }, kSecond));
    EXPECT_EQ(poor.sk().charged, 0u);
}

// The first message makes its port congested, and messages on their way at that time do not stop the path.
TEST_F(Charge, receiver_without_memory__holds_up_its_own_senders_and_nobody_else)
{
    RdsSocket &from = *a_sockets[0], &poor = *b_sockets[0], &rich = *b_sockets[1];
    poor.sk().charge_limit = 0;
    run(a, [&] { EXPECT_EQ(send(from, "first", "10.0.0.2", 100), 5); });
    world.run_for(kSecond);
    run(a, [&] { EXPECT_EQ(send(from, "second", "10.0.0.2", 100, RDS_ABI_MSG_DONTWAIT), -KAPI_ENOBUFS); });
    for (unsigned i = 0; i < 3; i++) {
        run(b, [&] { EXPECT_EQ(receive(poor), "first"); });
        world.run_for(kSecond);
        run(a, [&] { // as much as is on its way before the first congestion is reported
            for (unsigned n = 0; n < 10; n++)
                EXPECT_EQ(send(from, std::string(9000, 'x'), "10.0.0.2", 100), 9000);
            EXPECT_EQ(send(from, "others", "10.0.0.2", 101), 6);
        });
        world.run_for(kSecond);
        run(a, [&] { EXPECT_EQ(send(from, "more", "10.0.0.2", 100, RDS_ABI_MSG_DONTWAIT), -KAPI_ENOBUFS); });
        run(b, [&] {
            rich.sk().rcvtimeo_ns = kSecond / 2;
            EXPECT_EQ(receive(rich), "others");
            for (unsigned n = 0; n < 10; n++)
                EXPECT_EQ(receive(poor).size(), 9000u);
        });
        world.run_for(kSecond);
        run(a, [&] { EXPECT_EQ(send(from, "first", "10.0.0.2", 100, RDS_ABI_MSG_DONTWAIT), 5); });
        world.run_for(kSecond);
    }
}

// However many sockets a user fills, those of another user receive without restriction.
TEST_F(Charge, user_with_many_full_sockets__leaves_others_their_share)
{
    constexpr unsigned kHungry = 200, kMessages = 20;
    constexpr std::size_t kMemory = 32 << 20, kBytes = 9000;
    Sockets hungry;
    b.socket_memory = kMemory;
    run(b, [&] {
        for (unsigned i = 0; i < kHungry; i++) {
            auto &socket = *hungry.emplace_back(std::make_unique<RdsSocket>(host_b));
            ASSERT_EQ(socket.open(), 0);
            ASSERT_EQ(socket.bind(sim::address("10.0.0.2", static_cast<kapi_u16>(1000 + i))), 0);
            socket.sk().user = 1000;
        }
    });
    run(a, [&] {
        for (unsigned i = 0; i < kHungry; i++)
            for (unsigned n = 0; n < 50; n++) {
                RdsSocket &from = *a_sockets[(i + n) % kSockets];
                if (send(from, std::string(kBytes, 'x'), "10.0.0.2", static_cast<kapi_u16>(1000 + i), RDS_ABI_MSG_DONTWAIT) < 0)
                    break;
                // Changes of a map travel every 5 ms: what is sent meanwhile still has to find room.
                world.sleep(10 * sim::kMillisecond);
            }
    });
    world.run_for(kSecond);
    EXPECT_GT(b.charged_to_users[1000], kMemory / 4) << "or memory was never short";
    EXPECT_LE(b.charged_to_users[1000], kMemory / 2);
    // All of them are on the paths of the messages to the full sockets.
    run(a, [&] {
        for (unsigned i = 0; i < kSockets; i++)
            for (unsigned n = 0; n < kMessages; n++)
                EXPECT_EQ(send(*a_sockets[i], std::string(100, 'y'), "10.0.0.2", static_cast<kapi_u16>(100 + i)), 100) << i;
    });
    world.run_for(kSecond / 2);
    for (auto &socket : b_sockets) {
        EXPECT_EQ(queued(*socket), kMessages);
        run(b, [&] {
            socket->sk().rcvtimeo_ns = sim::kMillisecond;
            for (unsigned n = 0; n < kMessages; n++)
                EXPECT_EQ(receive(*socket).size(), 100u);
        });
    }
    run(b, [&] { hungry.clear(); });
    EXPECT_EQ(b.charged_to_users[1000], 0u);
}

// The rule itself: users whose sockets take whatever they may have leave some for the next one, to whom it is as if there were
// only what is left.
TEST(Share, of_users_and_sockets)
{
    constexpr kapi_u64 kAll = 1000000;
    for (unsigned sockets : {1u, 20u, 900u}) {
        kapi_u64 left = kAll;
        for (unsigned users = 0; users < 3; users++) {
            const kapi_u64 before = left;
            kapi_u64 user = 0, least = before;
            std::vector<kapi_u64> held(sockets, 0);
            for (bool more = true; more;) {
                more = false;
                for (kapi_u64 &socket : held) {
                    int may = kapi_share(socket, user, left, 1);
                    if (may < 0)
                        continue;
                    if (may == 1)
                        least = std::min(least, user);
                    socket++, user++, left--;
                    more = true;
                }
            }
            EXPECT_LE(user, before / 2);
            EXPECT_GE(user, before / 3) << sockets;
            EXPECT_LE(least, before / 3);
            EXPECT_GE(held.back(), before / 3 / sockets);
            EXPECT_GE(kapi_share(0, user, left, held.back() / 2), 0) << "another socket of that user, and messages to it";
        }
    }
    EXPECT_EQ(kapi_share(0, 0, 100, 50), 0);
    EXPECT_EQ(kapi_share(0, 47, 100, 3), 0);
    EXPECT_EQ(kapi_share(0, 48, 100, 3), 1);
    EXPECT_EQ(kapi_share(20, 77, 100, 3), 1);
    EXPECT_EQ(kapi_share(20, 78, 100, 3), -KAPI_ENOMEM);
}

// Any user can make some, in a user namespace of his own.
TEST_F(Charge, namespace__is_charged_to_the_program_that_makes_it)
{
    run(a, [&] {
        std::size_t before = a.memory().charged_bytes();
        kapi_net &net = a.add_net();
        ASSERT_EQ(host_a.add_net(net), 0);
        EXPECT_GE(a.memory().charged_bytes() - before, sizeof(rds::Net));
        ASSERT_TRUE(host_a.delete_nets({&net}));
        EXPECT_EQ(a.memory().charged_bytes(), before);
    });
}

} // namespace
