// SPDX-License-Identifier: GPL-2.0
// How soon, not only whether: a wake-up that is lost is found a second later by a tick, or by a look that repeats, and then all
// arrives after all. Time is simulated, so short times can be required.
#include "rds_peer_test.h"
#include "rds_test.h"

#include <kapi/errno.h>

#include <memory>
#include <string>
#include <vector>

#include "net/rds/tcp/net.h"

namespace {

/** Some round trips, of which none takes half a millisecond. */
constexpr std::uint64_t kMoment = 10 * sim::kMillisecond;

class Soon : public RdsTest {
protected:
    Soon() : from(host_a), to(host_b)
    {
        run(a, [&] { open(from, "10.0.0.1", 100); });
        run(b, [&] { open(to, "10.0.0.2", 200); });
    }
    ~Soon() override
    {
        run(a, [&] { from.close(); });
        run(b, [&] { to.close(); });
    }
    static void open(RdsSocket &socket, const char *address, kapi_u16 port)
    {
        ASSERT_EQ(socket.open(), 0);
        ASSERT_EQ(socket.bind(sim::address(address, port)), 0);
    }
    void exchange()
    {
        run(a, [&] { EXPECT_EQ(send(from, "x", "10.0.0.2", 200), 1); });
        run(b, [&] { EXPECT_EQ(receive(to), "x"); });
    }
    /** How long this takes, in simulated time. */
    std::uint64_t time_of(sim::Node &node, std::function<void()> body)
    {
        std::uint64_t began = world.now_ns();
        run(node, std::move(body), 600 * sim::kSecond);
        return world.now_ns() - began;
    }
    void kill_connections(sim::Node &node)
    {
        RdsHost &host = &node == &a ? host_a : host_b;
        reinterpret_cast<rds::Net *>(host.net().rds)->kill_connections(&rds_tcp::Module::get().transport);
    }
    /** All connections of a machine over TCP end, as at the end of its namespace, but the sockets are there. */
    void end_connections(sim::Node &node)
    {
        run(node, [&] { kill_connections(node); });
    }

    RdsSocket from, to;
};

TEST_F(Soon, first_message)
{
    world.spawn(a, "sender", [&] { EXPECT_EQ(send(from, "x", "10.0.0.2", 200), 1); });
    EXPECT_LT(time_of(b, [&] { EXPECT_EQ(receive(to), "x"); }), kMoment);
}

TEST_F(Soon, first_message_of_the_larger_address)
{
    world.spawn(b, "sender", [&] { EXPECT_EQ(send(to, "x", "10.0.0.1", 100), 1); });
    EXPECT_LT(time_of(a, [&] { EXPECT_EQ(receive(from), "x"); }), kMoment);
}

TEST_F(Soon, first_message_when_the_ports_tried_first_are_taken)
{
    constexpr unsigned kTaken = 20;
    std::vector<std::unique_ptr<WireStream>> others;
    for (unsigned i = 0; i < kTaken; i++) {
        others.push_back(std::make_unique<WireStream>(a));
        ASSERT_TRUE(others.back()->start(sim::address("10.0.0.1", static_cast<kapi_u16>(32768 + 8 * i)),
                                         sim::address("10.0.0.99", 9)));
    }
    world.spawn(a, "sender", [&] { EXPECT_EQ(send(from, "x", "10.0.0.2", 200), 1); });
    EXPECT_LT(time_of(b, [&] { EXPECT_EQ(receive(to), "x"); }), kMoment);
    run(a, [&] { others.clear(); });
}

TEST_F(Soon, what_waits_for_room_in_the_stream)
{
    for (auto *link : {&world.network().link(a, b), &world.network().link(b, a)}) {
        link->delay_ns = 10 * sim::kMillisecond;
        link->bytes_per_s = 10'000'000;
    }
    from.sk().sndbuf = 64 << 20;
    constexpr long kSize = 500'000;
    constexpr int kMessages = 20; // a second's worth of the link
    world.spawn(a, "sender", [&] {
        std::string text(kSize, 'x');
        for (int i = 0; i < kMessages; i++)
            EXPECT_EQ(send(from, text, "10.0.0.2", 200), kSize);
    });
    EXPECT_LT(time_of(b, [&] {
                  for (int i = 0; i < kMessages; i++)
                      EXPECT_EQ(receive(to).size(), static_cast<std::size_t>(kSize));
              }), 1500 * sim::kMillisecond);
}

TEST_F(Soon, senders_at_the_same_time)
{
    constexpr unsigned kSenders = 6;
    std::vector<std::unique_ptr<RdsSocket>> senders;
    for (unsigned i = 0; i < kSenders; i++)
        senders.push_back(std::make_unique<RdsSocket>(host_a));
    run(a, [&] {
        for (unsigned i = 0; i < kSenders; i++)
            open(*senders[i], "10.0.0.1", static_cast<kapi_u16>(1000 + i));
        for (auto &sender : senders)
            EXPECT_EQ(send(*sender, "warm", "10.0.0.2", 200), 4);
    });
    auto receive_all = [&] {
        for (unsigned i = 0; i < kSenders; i++)
            receive(to);
    };
    run(b, receive_all);
    for (unsigned round = 0; round < 150; round++) {
        for (auto &sender : senders)
            world.spawn(a, "sender", [&sender] { EXPECT_EQ(send(*sender, "hello", "10.0.0.2", 200), 5); });
        ASSERT_LT(time_of(b, receive_all), kMoment) << "round " << round;
    }
    run(a, [&] { senders.clear(); });
}

// A sender that waits for room looks again after a tenth of a second, and a poller never.
TEST_F(Soon, room_that_a_cancellation_makes)
{
    exchange();
    world.network().cut(a, b);
    from.sk().sndbuf = 4096;
    run(a, [&] {
        while (send(from, "waits", "10.0.0.2", 200, RDS_ABI_MSG_DONTWAIT) > 0)
            ;
    });
    auto sender = world.spawn(a, "sender", [&] { EXPECT_EQ(send(from, "x", "10.0.0.2", 200), 1); });
    auto poller = world.spawn(a, "poller", [&] { EXPECT_NE(from.wait(KAPI_OUT), 0u); });
    world.run_for(50 * sim::kMillisecond);
    EXPECT_FALSE(sender->is_done() || poller->is_done());
    const SocketName name(sim::address("10.0.0.2", 200));
    run(a, [&] { EXPECT_EQ(from.set_option(RDS_ABI_CANCEL_SENT_TO, name.bytes, name.size), 0); });
    world.run_for(kMoment);
    EXPECT_TRUE(sender->is_done() && poller->is_done());
    world.network().cut(a, b, false);
}

/** The receiver's queue is full, and a sender is blocked by that. */
class SoonFull : public Soon {
protected:
    sim::TaskRef block_sender(sim::Node &node, RdsSocket &sender, const char *address, kapi_u16 port)
    {
        run(node, [&] {
            long result = 0;
            for (int i = 0; i < 50 && result >= 0; i++) {
                result = send(sender, std::string(1000, 'x'), address, port, RDS_ABI_MSG_DONTWAIT);
                world.sleep(10 * sim::kMillisecond);
            }
            EXPECT_EQ(result, -KAPI_ENOBUFS);
        });
        auto task = world.spawn(node, "sender", [&sender, address, port] { send(sender, "last", address, port); });
        world.run_for(100 * sim::kMillisecond);
        EXPECT_FALSE(task->is_done());
        return task;
    }
    void drain(sim::Node &node, RdsSocket &socket)
    {
        run(node, [&] {
            while (receive(socket, RDS_ABI_MSG_DONTWAIT).find("error") == std::string::npos)
                ;
        });
    }
};

TEST_F(SoonFull, room_at_the_peer)
{
    to.sk().rcvbuf = 4096;
    exchange();
    auto sender = block_sender(a, from, "10.0.0.2", 200);
    drain(b, to);
    world.run_for(kMoment);
    EXPECT_TRUE(sender->is_done());
}

TEST_F(SoonFull, room_on_this_machine)
{
    RdsSocket near(host_a);
    run(a, [&] { open(near, "10.0.0.1", 300); });
    near.sk().rcvbuf = 4096;
    auto sender = block_sender(a, from, "10.0.0.1", 300);
    drain(a, near);
    world.run_for(kMoment);
    EXPECT_TRUE(sender->is_done());
    run(a, [&] { near.close(); });
}

TEST_F(SoonFull, the_end_of_a_connection_wakes_whom_the_full_peer_blocks)
{
    to.sk().rcvbuf = 4096;
    exchange();
    block_sender(a, from, "10.0.0.2", 200);
    long result = 0;
    run(a, [&] { // another one, so that its look of once a second is far away
        RdsSocket other(host_a);
        open(other, "10.0.0.1", 101);
        auto task = world.spawn(a, "sender", [&] { result = send(other, "x", "10.0.0.2", 200); });
        world.sleep(sim::kMillisecond);
        EXPECT_FALSE(task->is_done());
        kill_connections(a);
        world.sleep(kMoment);
        EXPECT_TRUE(task->is_done());
        EXPECT_EQ(result, -KAPI_ENETUNREACH);
    });
}

// No host has 10.0.0.77. What is sent to a path that has ended would never be given back.
TEST_F(Soon, the_end_of_a_connection_wakes_whom_the_handshake_keeps)
{
    from.sk().zerocopy = true;
    long plain = 0, pinned = 0;
    RdsSocket other(host_a);
    run(a, [&] { open(other, "10.0.0.1", 101); });
    std::string text(100, 'x');
    auto first = world.spawn(a, "first", [&] { plain = send(other, "x", "10.0.0.77", 9); });
    auto second = world.spawn(a, "second", [&] {
        pinned = from.send_pinned(text.data(), text.size(), sim::address("10.0.0.77", 9), 7);
    });
    world.run_for(100 * sim::kMillisecond);
    EXPECT_FALSE(first->is_done() || second->is_done());
    end_connections(a);
    world.run_for(kMoment);
    EXPECT_TRUE(first->is_done() && second->is_done());
    EXPECT_EQ(plain, -KAPI_ENETUNREACH);
    EXPECT_EQ(pinned, -KAPI_ENETUNREACH);
    run(a, [&] { // a send that failed has no completion
        char byte;
        std::vector<std::uint32_t> cookies;
        EXPECT_EQ(from.receive(&byte, 1, nullptr, RDS_ABI_MSG_DONTWAIT, nullptr, &cookies), -KAPI_EAGAIN);
        EXPECT_TRUE(cookies.empty());
        other.close();
    });
}

TEST_F(Soon, the_end_of_a_connection_waits_for_who_transmits)
{
    for (unsigned round = 0; round < 100; round++) {
        exchange();
        auto sender = world.spawn(a, "sender", [&] {
            for (int i = 0; i < 5; i++)
                send(from, "late", "10.0.0.2", 200, RDS_ABI_MSG_DONTWAIT);
        });
        ASSERT_LT(time_of(a, [&] { kill_connections(a); }), kMoment) << "round " << round;
        ASSERT_TRUE(world.run_until([&] { return sender->is_done(); }, sim::kSecond));
        run(b, [&] {
            world.sleep(2 * kMoment);
            while (receive(to, RDS_ABI_MSG_DONTWAIT).find("error") == std::string::npos)
                ;
        });
    }
}

// A knock means that the peer needs the path: a probe shows the smaller address that its stream is dead.
TEST_F(Soon, a_stream_that_only_the_larger_address_lost)
{
    exchange();
    world.run_for(sim::kSecond);
    world.network().reset(a, b, sim::Sees::second);
    world.spawn(b, "sender", [&] { EXPECT_EQ(send(to, "y", "10.0.0.1", 100), 1); });
    EXPECT_LT(time_of(a, [&] { EXPECT_EQ(receive(from), "y"); }), 2 * kMoment);
}

// The peer offered eight paths, and then one.
TEST_F(PeerTest, soon__messages_that_move_to_the_first_path)
{
    open_socket(port_of_path(3));
    WireStream stream(a);
    run(a, [&] {
        shake_hands(stream, 0);
        stream.take();
    });
    victim_sends("moved");
    run(a, [&] {
        world.sleep(100 * sim::kMillisecond);
        std::uint64_t began = world.now_ns();
        foreign_handshake(stream, false, 1, 0, false, 1);
        EXPECT_TRUE(stream.wait([&] {
            for (const auto &arrived : stream.received())
                if (arrived.payload == "moved")
                    return true;
            return false;
        }));
        EXPECT_LT(world.now_ns() - began, kMoment);
        stream.close(true);
    });
}

// All wait for the first one of a peer that answers nothing, so nothing else happens then.
TEST_F(PeerTest, soon__path_whose_stream_came_before_that_of_the_first)
{
    open_socket(port_of_path(1));
    run(a, [&] {
        WireStream first(a), second(a);
        ASSERT_TRUE(connect(first, 0));
        ASSERT_TRUE(foreign_handshake(first, false, 8, 0, true));
        world.sleep(10 * sim::kMillisecond);
        first.close(true);
        world.sleep(10 * sim::kMillisecond);
        world.spawn(b, "sender", [&] { socket.send("x", 1, sim::address("10.0.0.1", kPeersPort), RDS_ABI_MSG_DONTWAIT); });
        ASSERT_TRUE(connect(second, 1));
        world.sleep(10 * sim::kMillisecond);
        EXPECT_TRUE(second.received().empty());
        ASSERT_TRUE(connect(first, 0));
        EXPECT_TRUE(second.wait([&] { return !second.received().empty(); }, kMoment));
        first.close(true), second.close(true);
    });
}

/** Machine b answers at RDS's port and resets what it accepts. */
class Refused : public Soon {
protected:
    Refused()
    {
        run(b, [&] {
            to.close();
            EXPECT_TRUE(host_b.unload_soon());
            kapi_addr any{};
            any.port = 16385;
            EXPECT_EQ(kapi_listen(&b.initial_net(), &any, 8, [](void *) {}, nullptr, &listener), 0);
        });
        refuser = world.spawn(b, "refuser", [this] {
            for (; !stop; world.sleep(sim::kMillisecond)) {
                kapi_stream *stream;
                while (kapi_accept(listener, &stream) == 0) {
                    kapi_stream_close(stream, 1);
                    refused++;
                }
            }
            kapi_listener_stop(listener);
            kapi_listener_close(listener);
        });
    }
    ~Refused() override { end_refusing(); }
    void end_refusing()
    {
        stop = true;
        EXPECT_TRUE(world.run_until([&] { return refuser->is_done(); }, sim::kSecond));
    }

    kapi_listener *listener = nullptr;
    sim::TaskRef refuser;
    unsigned refused = 0;
    bool stop = false;
};

// By default the delay doubles from 4 ms to a second, of which a random part is waited.
TEST_F(Refused, attempts_become_rare_and_do_not_end)
{
    run(a, [&] { EXPECT_EQ(send(from, "x", "10.0.0.2", 200, RDS_ABI_MSG_DONTWAIT), 1); });
    world.run_for(60 * sim::kSecond);
    EXPECT_LT(refused, 240u);
    EXPECT_GT(refused, 60u);
    unsigned before = refused;
    world.run_for(60 * sim::kSecond);
    EXPECT_GT(refused - before, 60u);
}

} // namespace
