// SPDX-License-Identifier: GPL-2.0
// What was meant for a stream, or is left of it, when the next one of its path comes.
#include "rds_peer_test.h"

#include <kapi/errno.h>

#include <string>

#include "net/rds/connection.h"

namespace {

class NextStream : public PeerTest {
protected:
    /** body(connection) for the only one of the victim. */
    template <class Body> void with_connection(Body &&body)
    {
        sim::NodeScope scope(b);
        reinterpret_cast<rds::Net *>(host.net().rds)->connections.for_each(body);
    }
};

// ---- the ports of a lost stream

// A foreign peer is knocked at between the ports of a lost stream, which ends it there. The next stream ended in order.
TEST_F(NextStream, that_ended_in_order__the_knock_comes_from_a_new_port)
{
    open_socket(port_of_path(0));
    kapi_listener *listener = nullptr;
    run(a, [&] {
        kapi_addr any{};
        any.port = 16385;
        ASSERT_EQ(kapi_listen(&a.initial_net(), &any, 4, [](void *) {}, nullptr, &listener), 0);
        WireStream lost(a), next(a), knock(a);
        ASSERT_TRUE(connect(lost, 0));
        ASSERT_TRUE(foreign_handshake(lost, false, 1, 0, true));
        world.sleep(10 * sim::kMillisecond);
        ASSERT_TRUE(connect(next, 0)); // with which the victim gives up the one before it
        EXPECT_TRUE(lost.wait([&] { return lost.is_gone(); }, 100 * sim::kMillisecond));
        lost.close(true);
        ASSERT_TRUE(foreign_handshake(next, false, 1, 0, true));
        world.sleep(2 * sim::kSecond);
        std::uint64_t failures = counted(rds::Stat::conn_reset);
        next.close(false);
        EXPECT_TRUE(knock.wait([&] { return knock.accept(listener); }, sim::kSecond));
        EXPECT_EQ(counted(rds::Stat::conn_reset), failures + 1); // of the stream, and of no attempt to connect
        kapi_listener_stop(listener);
        kapi_listener_close(listener);
    });
}

// ---- fewer paths

// They were sent to a memory that may be met again, which knows by their numbers whether it had them.
TEST_F(NextStream, of_a_path_that_the_peer_did_without__has_what_was_not_acknowledged_before)
{
    open_socket(port_of_path(3));
    WireStream first(a), third(a);
    run(a, [&] {
        shake_hands(first, 0);
        shake_hands(third, 3);
    });
    victim_sends_in_vain("sent");
    run(a, [&] {
        shake_hands(first, 0);
        ASSERT_TRUE(handshake_of(first, 1));
        world.sleep(10 * sim::kSecond);
        ASSERT_TRUE(handshake_of(first, 8));
        world.sleep(sim::kSecond);
        shake_hands(third, 3);
        auto sent = third.next();
        EXPECT_EQ(sent.payload, "sent");
        EXPECT_EQ(sent.header.flags, rds::flag_retransmitted);
        first.close(true), third.close(true);
    });
    EXPECT_EQ(counted(rds::Stat::send_drop_restart), 0u);
}

// Nobody may ever ask for that path again.
TEST_F(NextStream, never_comes_on_a_path_that_the_peer_does_without__what_was_sent_is_given_up_in_time)
{
    open_socket(port_of_path(3));
    WireStream first(a), third(a);
    run(a, [&] {
        shake_hands(first, 0);
        shake_hands(third, 3);
    });
    victim_sends_in_vain("sent");
    run(a, [&] {
        shake_hands(first, 0);
        ASSERT_TRUE(handshake_of(first, 1));
        world.sleep(1700 * sim::kSecond);
        EXPECT_EQ(counted(rds::Stat::send_drop_restart), 0u);
        world.sleep(200 * sim::kSecond);
        EXPECT_EQ(counted(rds::Stat::send_drop_restart), 1u);
        first.close(true), third.close(true);
    }, 3600 * sim::kSecond);
}

TEST_F(NextStream, is_not_needed__while_the_last_one_of_a_path_still_has_messages)
{
    constexpr unsigned kMessages = 600;
    open_socket(port_of_path(3));
    socket.sk().sndbuf = 64 << 20;
    WireStream first(a), third(a);
    run(a, [&] {
        shake_hands(first, 0);
        shake_hands(third, 3);
        third.deaf = true;
    });
    for (unsigned i = 0; i < kMessages; i++)
        victim_sends(std::string(1000, 'x'));
    run(a, [&] {
        ASSERT_TRUE(handshake_of(first, 1));
        world.sleep(20 * sim::kSecond);
        third.read_on();
        unsigned count = 0;
        EXPECT_TRUE(third.wait([&] {
            for (const auto &arrived : third.take())
                count += arrived.payload.size() == 1000;
            return count == kMessages;
        })) << count;
        EXPECT_TRUE(third.wait([&] { return third.is_gone(); }, 2 * sim::kSecond));
        first.close(true), third.close(true);
    }, 100 * sim::kSecond);
}

// The same of a foreign peer, whose streams are not answered, and whose ports encode the path among those that are left.
TEST_F(NextStream, is_not_needed__while_the_last_one_of_a_foreign_peer_s_path_still_has_messages)
{
    constexpr unsigned kMessages = 600;
    open_socket(port_of_path(3));
    socket.sk().sndbuf = 64 << 20;
    WireStream first(a), third(a);
    run(a, [&] {
        ASSERT_TRUE(connect(first, 0));
        ASSERT_TRUE(foreign_handshake(first, false, 8, kGeneration, true));
        world.sleep(10 * sim::kMillisecond);
        ASSERT_TRUE(connect(third, 3));
        third.deaf = true;
    });
    for (unsigned i = 0; i < kMessages; i++)
        victim_sends(std::string(1000, 'x'));
    run(a, [&] {
        ASSERT_TRUE(foreign_handshake(first, false, 2, kGeneration, true));
        world.sleep(20 * sim::kSecond);
        EXPECT_TRUE(third.is_usable());
        third.read_on();
        unsigned count = 0;
        EXPECT_TRUE(third.wait([&] {
            for (const auto &arrived : third.take())
                count += arrived.payload.size() == 1000;
            return count == kMessages;
        })) << count;
        EXPECT_TRUE(third.wait([&] { return third.is_gone(); }, 2 * sim::kSecond));
        first.close(true), third.close(true);
    }, 100 * sim::kSecond);
}

// Ports encode the path of one of eight, four or two. A number between them is taken for the next smaller one.
TEST_F(NextStream, is_not_taken_for_another_path_s__whatever_number_of_paths_is_said)
{
    open_socket(port_of_path(1));
    for (unsigned paths : {3, 5, 6, 7, 2, 4, 8, 9, 65535}) {
        WireStream first(a), second(a);
        run(a, [&] {
            shake_hands(first, 0);
            shake_hands(second, 1);
            ASSERT_TRUE(handshake_of(first, paths));
            world.sleep(10 * sim::kMillisecond);
            unsigned agreed = 0;
            with_connection([&](rds::Connection &connection) { agreed = connection.paths(); });
            EXPECT_EQ(agreed, paths >= 8 ? 8u : paths >= 4 ? 4u : 2u) << paths;
            with_connection([&](rds::Connection &connection) { connection.path(1).notify(RDS_PATH_TICK); });
            world.sleep(100 * sim::kMillisecond);
            EXPECT_TRUE(second.is_usable()) << paths;
            ASSERT_TRUE(handshake_of(first, 8));
            first.close(true), second.close(true);
            world.sleep(sim::kSecond);
        });
    }
}

// ---- an address moves from a hawser to a host of the kernel's own

class Moved : public NextStream {
protected:
    /** Five messages of the hawser come over one of its two paths. Then the first path ends. */
    void move_after_messages(WireStream &first, WireStream &second, bool over_second)
    {
        shake_hands(first, 0);
        shake_hands(second, 1);
        for (kapi_u64 i = 1; i <= 5; i++)
            EXPECT_TRUE((over_second ? second : first).message(i, kPeersPort, kPort, "hawser's"));
        world.sleep(10 * sim::kMillisecond);
        EXPECT_EQ(queued(), 5u);
        first.close(true);
    }
    const kapi_u16 kPort = port_of_path(0);
};

// The first stream of that path may have been lost with them, before it was adopted. That the hawser's stream there has ended
// is known only after the foreign peer has said who it is.
TEST_F(Moved, first_messages_of_another_path_are_not_old)
{
    open_socket(kPort);
    run(a, [&] {
        WireStream first(a), second(a);
        move_after_messages(first, second, true);
        ASSERT_TRUE(connect(first, 0));
        ASSERT_TRUE(foreign_handshake(first, false, 8, kNextGeneration, true, 1));
        world.sleep(10 * sim::kMillisecond);
        second.close(true);
        world.sleep(10 * sim::kMillisecond);
        ASSERT_TRUE(connect(second, 1));
        for (kapi_u64 i : {1, 2, 3, 3})
            EXPECT_TRUE(second.message(i, kPeersPort, kPort, "moved", rds::flag_retransmitted));
        world.sleep(10 * sim::kMillisecond);
        EXPECT_EQ(queued(), 8u);
        EXPECT_EQ(counted(rds::Stat::recv_drop_old_seq), 1u);
        first.close(true), second.close(true);
    });
}

TEST_F(Moved, handshake_that_is_sent_again_is_not_old_and_what_follows_it_is_not)
{
    open_socket(kPort);
    run(a, [&] {
        WireStream first(a), second(a);
        move_after_messages(first, second, false);
        second.close(true);
        ASSERT_TRUE(connect(first, 0));
        ASSERT_TRUE(foreign_handshake(first, false, 8, kNextGeneration, true, 1, rds::flag_retransmitted));
        for (kapi_u64 i : {2, 3, 3})
            EXPECT_TRUE(first.message(i, kPeersPort, kPort, "moved", rds::flag_retransmitted));
        world.sleep(100 * sim::kMillisecond);
        EXPECT_EQ(queued(), 7u);
        EXPECT_EQ(counted(rds::Stat::recv_drop_old_seq), 1u);
        first.close(true);
    });
}

// ---- requests that come too late

TEST_F(NextStream, is_not_closed_for_a_request_to_close_the_one_before_it)
{
    open_socket(port_of_path(0));
    for (unsigned request : {RDS_PATH_RETIRE, RDS_PATH_RECYCLE}) {
        run(a, [&] {
            WireStream first(a), next(a);
            shake_hands(first, 0);
            ASSERT_TRUE(connect(next, 0));
            world.sleep(10 * sim::kMillisecond);
            EXPECT_TRUE(next.received().empty()); // it waits
            with_connection([&](rds::Connection &connection) { connection.path(0).notify(RDS_PATH_LOST | request); });
            world.sleep(sim::kSecond);
            EXPECT_FALSE(first.is_usable());
            EXPECT_TRUE(next.is_usable());
            EXPECT_TRUE(is_probe(next.next()));
            first.close(true);
            next.close(true);
            world.sleep(10 * sim::kMillisecond);
        });
    }
}

// A foreign peer's map comes with a new stream, and none is opened while messages are on their way.
TEST_F(NextStream, is_not_asked_for_while_messages_are_on_their_way__and_no_request_is_counted)
{
    open_socket(port_of_path(0));
    socket.sk().sndbuf = 64 << 20;
    constexpr kapi_u16 kFull = kPeersPort + 1;
    std::string map(rds::map_bytes, '\0');
    map[kFull / 8] = static_cast<char>(1 << (kFull % 8));
    WireStream stream(a);
    run(a, [&] {
        ASSERT_TRUE(connect(stream, 0));
        ASSERT_TRUE(foreign_handshake(stream, false, 1));
        EXPECT_TRUE(stream.message(0, 0, 0, map, rds::flag_congestion_map));
        world.sleep(10 * sim::kMillisecond);
        stream.deaf = true;
    });
    for (unsigned i = 0; i < 600; i++)
        victim_sends(std::string(1000, 'x'));
    run(b, [&] {
        EXPECT_EQ(socket.send("x", 1, sim::address("10.0.0.1", kFull), RDS_ABI_MSG_DONTWAIT), -KAPI_ENOBUFS);
    });
    run(a, [&] {
        world.sleep(3 * sim::kSecond);
        EXPECT_TRUE(stream.is_usable());
        EXPECT_EQ(counted(rds::Stat::cong_refresh), 0u);
        stream.read_on();
        EXPECT_TRUE(stream.wait([&] { return stream.is_gone(); }, 10 * sim::kSecond));
        EXPECT_EQ(counted(rds::Stat::cong_refresh), 1u);
        stream.close(true);
    });
}

} // namespace
