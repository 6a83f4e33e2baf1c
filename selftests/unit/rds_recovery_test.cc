// SPDX-License-Identifier: GPL-2.0
// After trouble the same peer is served again, on its next stream: garbage, a full socket, a dead peer, a peer that never
// closes. Asserted on the peer that caused it, for others would not notice.
#include "rds_peer_test.h"
#include "rds_test.h"

#include <kapi/errno.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "net/rds/connection.h"
#include "net/rds/tcp/connection.h"

namespace {

/** Without the lines that only an administrator who debugs has. */
std::vector<std::string> notes_of(const sim::Node &node)
{
    std::vector<std::string> notes;
    std::copy_if(node.log.begin(), node.log.end(), std::back_inserter(notes),
                 [](const std::string &line) { return line.find(" -> ") == std::string::npos; });
    return notes;
}

class Recovery : public PeerTest {
protected:
    /** Another socket of the victim; port is its own. */
    void open(RdsSocket &other, kapi_u16 port)
    {
        run(b, [&] {
            ASSERT_EQ(other.open(), 0);
            ASSERT_EQ(other.bind(sim::address("10.0.0.2", port)), 0);
            other.sk().rcvtimeo_ns = sim::kSecond;
        });
    }
    std::string receives(RdsSocket &other)
    {
        std::string text;
        run(b, [&] {
            std::string buffer(1 << 20, '\0');
            long size = other.receive(buffer.data(), buffer.size(), nullptr);
            text = size < 0 ? "error " + std::to_string(size) : buffer.substr(0, static_cast<std::size_t>(size));
        });
        return text;
    }
    void close(RdsSocket &other)
    {
        run(b, [&] { other.close(); });
    }
};

TEST_F(Recovery, from_garbage)
{
    const kapi_u16 port = port_of_path(0);
    open_socket(port);
    WireStream stream(a), again(a), next(a);
    run(a, [&] {
        std::string junk(48, '\xff');
        for (WireStream *bad : {&stream, &again}) {
            shake_hands(*bad, 0);
            EXPECT_TRUE(bad->send(junk.data(), junk.size()));
            EXPECT_TRUE(bad->wait([&] { return bad->is_gone(); }, 100 * sim::kMillisecond));
        }
        shake_hands(next, 0);
        EXPECT_TRUE(next.message(1, kPeersPort, port, "after"));
    });
    EXPECT_EQ(victim_receives(), "after");
    EXPECT_EQ(std::count(b.log.begin(), b.log.end(), "rds: 10.0.0.1 sends what is no RDS, its stream ends"), 1)
        << "a peer does not fill the log";
    run(a, [&] { next.close(true); });
}

TEST_F(Recovery, from_a_peer_that_never_closes)
{
    const kapi_u16 port = port_of_path(3);
    open_socket(port);
    WireStream first(a), third(a), next(a);
    run(a, [&] {
        shake_hands(first, 0);
        shake_hands(third, 3);
        foreign_handshake(first, false, 1, 0, false, 1); // one path: the stream of the other one is closed
        EXPECT_TRUE(third.wait([&] { return third.is_gone(); }, sim::kSecond));
        world.sleep(10 * sim::kSecond); // third is not closed at this end
        EXPECT_EQ(b.live_streams, 1u);  // it is not waited for any longer
        first.handshake(false, kGeneration, 0, kMemory);
        first.handshake(true, kGeneration, 0, kMemory);
        world.sleep(sim::kSecond);
        shake_hands(next, 3);
        EXPECT_TRUE(next.message(1, kPeersPort, port, "again"));
    });
    EXPECT_EQ(victim_receives(), "again");
    run(a, [&] { first.close(true), third.close(true), next.close(true); });
}

// Nothing is unread then, so room in the socket would not resume the path.
TEST_F(Recovery, from_a_peer_that_never_closes__when_its_last_message_filled_a_socket)
{
    const kapi_u16 port = port_of_path(0);
    open_socket(port);
    WireStream stream(a), next(a);
    run(a, [&] {
        shake_hands(stream, 0);
        stream.deaf = true;
        kapi_u64 count = fill(stream, port);
        {
            sim::NodeScope scope(b);
            auto &net = *reinterpret_cast<rds::Net *>(host.net().rds);
            net.connections.for_each([](rds::Connection &connection) { connection.retire(); });
        }
        world.sleep(10 * sim::kSecond);
        EXPECT_EQ(b.live_streams, 0u);
        shake_hands(next, 0);
        world.spawn(b, "sender", [&] { socket.send("out", 3, sim::address("10.0.0.1", kPeersPort)); });
        EXPECT_EQ(next.next().payload, "out");
        ASSERT_TRUE(next.message(count + 1, kPeersPort, port, "next"));
    });
    std::string last;
    for (int i = 0; i < 1000 && last != "next"; i++)
        last = victim_receives();
    EXPECT_EQ(last, "next");
    run(a, [&] { stream.close(true), next.close(true); });
}

// The limit of "a full socket in one direction never blocks the other": what a lost stream still holds is read before the next
// one is used. Without that, nothing is blocked (rds_handshake_test.cc).
TEST_F(Recovery, from_a_loss_behind_a_full_socket__when_it_has_room)
{
    const kapi_u16 port = port_of_path(0);
    open_socket(port);
    WireStream first(a), second(a);
    kapi_u64 count = 0;
    run(a, [&] {
        shake_hands(first, 0);
        count = fill(first, port);
        ASSERT_TRUE(first.message(++count, kPeersPort, port, "unread"));
        first.close(false);
        world.sleep(sim::kSecond);
        ASSERT_TRUE(connect(second, 0));
        ASSERT_TRUE(second.handshake(false, kGeneration, 0, kMemory));
        ASSERT_TRUE(second.handshake(true, kGeneration, 0, kMemory));
        ASSERT_TRUE(second.message(count + 1, kPeersPort, port, "next"));
    });
    victim_sends("out");
    run(a, [&] {
        world.sleep(20 * sim::kSecond);
        EXPECT_TRUE(second.take().empty()) << "then the documentation promises too little";
    });
    for (kapi_u64 i = 1; i < count; i++)
        EXPECT_EQ(victim_receives().size(), 10000u);
    EXPECT_EQ(victim_receives(), "unread");
    EXPECT_EQ(victim_receives(), "next");
    run(a, [&] {
        EXPECT_TRUE(second.wait([&] { return !second.received().empty() && second.received().back().payload == "out"; }));
        second.close(true);
    });
}

// ---- a dead peer, over a link of a known speed

class DeadPeer : public RdsTest {
protected:
    DeadPeer() : from(host_a), to(host_b)
    {
        run(a, [&] {
            ASSERT_EQ(from.open(), 0);
            ASSERT_EQ(from.bind(sim::address("10.0.0.1", 100)), 0);
        });
        run(b, [&] {
            ASSERT_EQ(to.open(), 0);
            ASSERT_EQ(to.bind(sim::address("10.0.0.2", 200)), 0);
        });
    }
    ~DeadPeer() override
    {
        run(a, [&] { from.close(); });
        run(b, [&] { to.close(); });
    }
    kapi_u64 counted(const char *name)
    {
        kapi_u64 value = 0;
        run(a, [&] {
            rds_abi_info_counter rows[128];
            int length = sizeof(rows);
            from.get_option(RDS_ABI_INFO_COUNTERS, rows, &length);
            for (unsigned i = 0; i < static_cast<unsigned>(length) / sizeof(rows[0]); i++)
                if (!std::strcmp(reinterpret_cast<const char *>(rows[i].name), name))
                    value = rows[i].value;
        });
        return value;
    }
    RdsSocket from, to;
};

TEST_F(DeadPeer, is_noticed_and_served_again)
{
    run(a, [&] { EXPECT_EQ(send(from, "x", "10.0.0.2", 200), 1); });
    run(b, [&] { EXPECT_EQ(receive(to), "x"); });
    world.network().cut(a, b);
    run(a, [&] { EXPECT_EQ(send(from, "y", "10.0.0.2", 200), 1); });
    world.run_for(8 * sim::kSecond);
    EXPECT_EQ(counted("path_dead_peer"), 0u);
    world.run_for(5 * sim::kSecond);
    EXPECT_EQ(counted("path_dead_peer"), 1u);
    std::vector<std::string> notes = notes_of(a);
    ASSERT_GE(notes.size(), 2u);
    EXPECT_EQ(notes[0], "rds: 10.0.0.2 is connected");
    EXPECT_EQ(notes[1], "rds: 10.0.0.2 does not answer");
    world.network().cut(a, b, false);
    std::uint64_t began = world.now_ns();
    run(b, [&] { EXPECT_EQ(receive(to), "y"); });
    EXPECT_LT(world.now_ns() - began, 5 * sim::kSecond);
}

// What an administrator sees of it: the first path's streams.
TEST_F(DeadPeer, comings_and_goings_are_noted)
{
    b.initial_net().add(sim::address("2001:db8:a:b:c0:d:1e:ff02"));
    run(a, [&] {
        RdsSocket six(host_a);
        ASSERT_EQ(six.open(), 0);
        ASSERT_EQ(six.bind(sim::address("2001:db8::1", 9)), 0);
        EXPECT_EQ(send(six, "x", "2001:db8:a:b:c0:d:1e:ff02", 9), 1);
        EXPECT_EQ(notes_of(a), std::vector<std::string>{"rds: 2001:db8:a:b:c0:d:1e:ff02 is connected"});
        a.log.clear();
        six.close();
        EXPECT_EQ(send(from, "x", "10.0.0.2", 200), 1);
    });
    run(b, [&] { EXPECT_EQ(receive(to), "x"); });
    EXPECT_EQ(notes_of(a), std::vector<std::string>{"rds: 10.0.0.2 is connected"});
    a.log.clear();
    world.network().reset(a, b, sim::Sees::both);
    world.run_for(sim::kSecond);
    auto noted = [&](const char *line) { return std::count(a.log.begin(), a.log.end(), line); };
    EXPECT_EQ(noted("rds: 10.0.0.2 is not connected any more (lost)"), 1);
    EXPECT_EQ(noted("rds: 10.0.0.2 is connected"), 1);
    EXPECT_EQ(noted("rds: 10.0.0.2 path 0: up -> closing (lost)"), 1) << "for debugging, of each path";
    EXPECT_EQ(noted("rds: 10.0.0.2 path 7: up -> closing (lost)"), 1);
}

TEST_F(DeadPeer, is_none_that_is_busy_for_long)
{
    for (auto *link : {&world.network().link(a, b), &world.network().link(b, a)}) {
        link->delay_ns = 10 * sim::kMillisecond;
        link->bytes_per_s = 200'000;
    }
    constexpr int kMessages = 80;
    constexpr long kSize = 50'000; // 20 s of the link
    world.spawn(a, "sender", [&] {
        std::string text(kSize, 'x');
        for (int i = 0; i < kMessages; i++)
            EXPECT_EQ(send(from, text, "10.0.0.2", 200), kSize);
    });
    run(b, [&] {
        for (int i = 0; i < kMessages; i++)
            EXPECT_EQ(receive(to).size(), static_cast<std::size_t>(kSize));
    }, 100 * sim::kSecond);
    EXPECT_EQ(counted("path_dead_peer"), 0u);
}

// ---- the end of the module while peers connect

// The work that accepts them must have ended before what it uses goes.
TEST(AcceptRace, streams_arrive_while_the_module_goes)
{
    for (std::uint64_t seed = 1; seed <= 150; seed++) {
        sim::World world(seed);
        sim::Node &near = world.add_node("near"), &far = world.add_node("far");
        near.initial_net().add(sim::address("10.0.0.2"));
        far.initial_net().add(sim::address("10.0.0.1"));
        RdsHost host(near);
        bool done = false;
        for (int i = 0; i < 8; i++)
            world.spawn(far, "peer", [&] {
                while (!done) {
                    WireStream stream(far);
                    stream.start(sim::address("10.0.0.1"), sim::address("10.0.0.2", 16385));
                    world.sleep(300 * sim::kMicrosecond);
                    stream.close(true);
                }
            });
        auto admin = world.spawn(near, "admin", [&] {
            for (unsigned i = 0; i < 5; i++) {
                ASSERT_EQ(host.load(), 0);
                world.sleep((150 + 37 * i) * sim::kMicrosecond);
                EXPECT_TRUE(host.unload_soon());
            }
            done = true;
        });
        ASSERT_TRUE(world.run_until([&] { return admin->is_done(); }, 60 * sim::kSecond)) << "seed " << seed;
        world.run_for(sim::kSecond);
    }
}

} // namespace
