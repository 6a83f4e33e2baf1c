// SPDX-License-Identifier: GPL-2.0
// Streams that are opened to the kernel's own RDS, or to a listener that says nothing.
#include "rds_peer_test.h"

#include <kapi/errno.h>

namespace {

TEST_F(Connecting, no_second_path_before_the_first_is_answered)
{
    run(b, [&] {
        ASSERT_EQ(accept(), 0);
        EXPECT_TRUE(streams[0]->handshake(false, kGeneration, 0, kMemory));
        EXPECT_EQ(accept(), -1);
        EXPECT_TRUE(streams[0]->handshake(true, kGeneration, 0, kMemory));
        unsigned seen = 1;
        for (unsigned i = 1; i < rds::max_paths; i++)
            seen |= 1u << accept();
        EXPECT_EQ(seen, 0xffu);
    });
}

// Whose ports mean nothing to each other count the streams as they come.
TEST_F(Connecting, paths_to_who_counts_streams_come_in_order)
{
    run(b, [&] {
        ASSERT_EQ(accept(), 0);
        EXPECT_TRUE(foreign_handshake(*streams[0], true, 8));
        for (int i = 1; i < static_cast<int>(rds::max_paths); i++)
            EXPECT_EQ(accept(), i);
        EXPECT_EQ(accept(), -1);
    });
}

// It would take the new streams for the first paths that it misses, and what it sends again on one may be another's.
TEST_F(Connecting, streams_are_opened_again_one_at_a_time)
{
    run(b, [&] {
        ASSERT_EQ(accept(), 0);
        EXPECT_TRUE(foreign_handshake(*streams[0], true, 8));
        for (int i = 1; i < static_cast<int>(rds::max_paths); i++)
            ASSERT_EQ(accept(), i);
        EXPECT_TRUE(send_map(*streams[0], {kPeersPort}));
        world.sleep(10 * sim::kMillisecond);
    });
    run(a, [&] {
        EXPECT_EQ(socket.send("y", 1, sim::address("10.0.0.2", kPeersPort), RDS_ABI_MSG_DONTWAIT), -KAPI_ENOBUFS);
    });
    run(b, [&] {
        auto gone = [&] {
            unsigned bits = 0;
            for (std::size_t i = 0; i < streams.size(); i++)
                bits |= streams[i]->is_gone() ? 1u << i : 0;
            return bits;
        };
        world.sleep(3 * sim::kSecond);
        EXPECT_EQ(gone(), 1u << 7);
        EXPECT_GE(reinterpret_cast<rds::Net *>(host.net().rds)->counted(rds::Stat::cong_refresh), 3u);
        streams[7]->close(false);
        ASSERT_EQ(accept(), 7); // which brings the map, if the peer has another
        EXPECT_TRUE(streams[8]->wait([&] { return gone() == (1u << 8 | 1u << 7); }, 60 * sim::kSecond));
    }, 100 * sim::kSecond);
}

// Any program of a host without RDS can listen there.
TEST_F(Connecting, a_listener_that_says_nothing_gets_nothing)
{
    run(b, [&] {
        for (int i = 0; i < 2; i++) {
            ASSERT_EQ(accept(2 * sim::kSecond), 0);
            EXPECT_TRUE(streams.back()->wait([&] { return streams.back()->is_gone(); }, 100 * sim::kSecond));
            for (const auto &arrived : streams.back()->take())
                EXPECT_TRUE(is_probe(arrived));
        }
        ASSERT_EQ(accept(2 * sim::kSecond), 0);
        EXPECT_TRUE(streams.back()->handshake(false, kGeneration, 0, kMemory));
        EXPECT_TRUE(streams.back()->handshake(true, kGeneration, 0, kMemory));
        EXPECT_TRUE(streams.back()->wait([&] {
            const auto &arrived = streams.back()->received();
            return !arrived.empty() && arrived.back().payload == "x";
        }));
    }, 400 * sim::kSecond);
}

// The path is not needed any more: there is no next attempt for a peer that never sent anything.
TEST_F(Connecting, a_listener_that_says_nothing_is_left_alone)
{
    run(b, [&] {
        ASSERT_EQ(accept(2 * sim::kSecond), 0);
        auto task = world.spawn(a, "closer", [&] { socket.close(); });
        EXPECT_TRUE(streams.back()->wait([&] { return streams.back()->is_gone(); }, 100 * sim::kSecond));
        EXPECT_TRUE(task->is_done());
        EXPECT_EQ(accept(100 * sim::kSecond), -1);
    }, 400 * sim::kSecond);
}

} // namespace
