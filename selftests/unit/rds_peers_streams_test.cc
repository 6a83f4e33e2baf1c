// SPDX-License-Identifier: GPL-2.0
// net/rds/peers_memory: streams of peers, how many wait and where.
#include "rds_peers_memory_test.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "net/rds/connection.h"
#include "net/rds/send_queue.h"
#include "net/rds/tcp/waiting.h"

namespace {

/** Streams that one address opens, 8 for each path. */
class PeersStreams : public PeersMemory {
protected:
    void open_many(unsigned paths = 8, unsigned done = 0)
    {
        run(a, [&] {
            for (unsigned i = done; i < 8 * paths; i++) {
                WireStream &stream = *streams_.emplace_back(std::make_unique<WireStream>(a));
                if (i < paths)
                    shake_hands(stream, i);
                else
                    connect(stream, i % paths);
            }
            world.sleep(100 * sim::kMillisecond);
        });
    }
    void close_all()
    {
        run(a, [&] {
            for (auto &stream : streams_)
                stream->close(true);
            streams_.clear();
            world.sleep(100 * sim::kSecond); // the victim asks for new ones for a while
        }, 200 * sim::kSecond);
    }
    /** Counts streams while room is what it is now; how many. */
    unsigned take_while(int room)
    {
        sim::NodeScope scope(b);
        unsigned count = 0;
        for (; net().peers_memory.stream_room() == room; count++)
            net().peers_memory.stream_added();
        return count;
    }
    void give(unsigned count)
    {
        sim::NodeScope scope(b);
        while (count--)
            net().peers_memory.stream_gone();
    }
};

TEST_F(PeersStreams, of_one_address__are_counted_while_they_wait)
{
    open_socket(kPort);
    open_many(1);
    unsigned live = static_cast<unsigned>(b.live_streams), left = take_while(0);
    EXPECT_EQ(live, 8u);
    give(left);
    close_all();
    EXPECT_EQ(b.live_streams, 0u);
    unsigned all = take_while(0);
    EXPECT_EQ(all, left + live - 1) << "all were given back; the first is the connection's";
    give(all);
}

// The first one of a path without a stream is the connection's, and is not counted; those behind it are.
TEST_F(PeersStreams, of_one_address__are_given_back_once_by_a_path_that_took_none)
{
    open_socket(kPort);
    std::vector<unsigned> room;
    for (unsigned round = 0; round < 3; round++) {
        run(a, [&] {
            for (unsigned i = 0; i < 3; i++)
                connect(*streams_.emplace_back(std::make_unique<WireStream>(a)), 0);
            world.sleep(100 * sim::kMillisecond);
        });
        EXPECT_EQ(b.live_streams, 3u);
        close_all();
        room.push_back(take_while(0));
        give(room.back());
    }
    EXPECT_EQ(room, std::vector<unsigned>(3, room[0]));
}

TEST_F(PeersStreams, of_one_address__one_waits_at_each_path_when_there_are_many)
{
    open_socket(kPort);
    unsigned taken = take_while(0);
    open_many();
    EXPECT_EQ(b.live_streams, 16u);
    close_all();
    give(taken);
}

// A path that has none gets one.
TEST_F(PeersStreams, of_one_address__none_waits_when_there_is_no_room)
{
    open_socket(kPort);
    run(a, [&] { shake_hands(*streams_.emplace_back(std::make_unique<WireStream>(a)), 0); });
    unsigned taken = take_while(0) + take_while(1);
    open_many(8, 1);
    EXPECT_EQ(b.live_streams, 8u);
    close_all();
    give(taken);
}

// The same for a peer whose ports do not say which path is meant.
TEST_F(PeersStreams, of_a_foreign_peer__a_path_that_has_none_gets_one_when_there_is_no_room)
{
    open_socket(kPort);
    unsigned taken = 0;
    run(a, [&] {
        WireStream first(a), second(a);
        ASSERT_TRUE(connect(first, 0));
        ASSERT_TRUE(foreign_handshake(first, false, 8));
        world.sleep(100 * sim::kMillisecond);
        taken = take_while(0) + take_while(1);
        ASSERT_TRUE(connect(second, 1));
        world.sleep(100 * sim::kMillisecond);
        EXPECT_FALSE(second.is_gone());
        EXPECT_EQ(b.live_streams, 2u);
        first.close(true), second.close(true);
    });
    world.run_for(sim::kSecond);
    give(taken);
}

TEST_F(PeersStreams, of_a_foreign_peer__that_it_has_left_are_closed_though_all_paths_are_up)
{
    open_socket(kPort);
    run(a, [&] {
        std::vector<std::unique_ptr<WireStream>> streams;
        for (unsigned i = 0; i < 9; i++) {
            streams.push_back(std::make_unique<WireStream>(a));
            ASSERT_TRUE(connect(*streams.back(), i % 8));
            if (i == 0) {
                ASSERT_TRUE(foreign_handshake(*streams.back(), false, 8));
            }
            world.sleep(100 * sim::kMillisecond);
        }
        EXPECT_EQ(b.live_streams, 9u);
        streams.back()->close(false);
        world.sleep(10 * sim::kSecond);
        EXPECT_EQ(b.live_streams, 8u);
    });
    close_all();
}

TEST_F(PeersStreams, that_wait__end_with_their_host)
{
    open_socket(kPort);
    open_many(1);
    EXPECT_EQ(b.live_streams, 8u);
    unsigned left = take_while(0);
    give(left);
    world.network().cut(a, b);
    world.run_for(45 * sim::kSecond);
    unsigned all = take_while(0), asking = static_cast<unsigned>(b.live_streams);
    EXPECT_LE(asking, 1u); // for others
    EXPECT_EQ(all, left + 7);
    give(all);
    world.network().cut(a, b, false);
    close_all();
}

// Nothing is sent over one that waits, so only TCP's keepalive finds that out.
TEST_F(PeersStreams, that_wait__end_when_their_host_has_lost_them)
{
    open_socket(kPort);
    open_many(1);
    world.network().link(b, a).delay_ns = 50 * sim::kMillisecond; // the new one has named itself when the old one is reset
    run(a, [&] {
        EXPECT_EQ(world.network().reset(a, b, sim::Sees::first), 8u);
        WireStream &anew = *streams_.emplace_back(std::make_unique<WireStream>(a));
        shake_hands(anew, 0);
        EXPECT_EQ(b.live_streams, 8u);
        world.sleep(20 * sim::kSecond);
        EXPECT_EQ(b.live_streams, 1u);
        EXPECT_FALSE(anew.is_gone());
    });
    close_all();
}

// All that wait begin as the peer's do, which an older one of them makes room for, and no other.
TEST_F(PeersStreams, of_a_stranger__take_no_place_of_the_peers)
{
    open_socket(kPort);
    run(a, [&] {
        shake_hands(*streams_.emplace_back(std::make_unique<WireStream>(a)), 0);
        for (unsigned i = 0; i < rds_tcp::Waiting::max; i++) {
            WireStream &stream = *streams_.emplace_back(std::make_unique<WireStream>(a));
            EXPECT_TRUE(connect(stream, 0));
            EXPECT_TRUE(stream.handshake(false, kGeneration, 0, kMemory));
            world.sleep(10 * sim::kMillisecond);
        }
        WireStream stranger(a);
        EXPECT_TRUE(connect(stranger, 0));
        world.sleep(100 * sim::kMillisecond);
        EXPECT_TRUE(stranger.is_gone());
        for (auto &stream : streams_)
            EXPECT_FALSE(stream->is_gone());
    });
    close_all();
}

/** A small machine: its peers may use 256 KiB for connections and streams. */
class PeersFew : public PeersStreams, public ::testing::WithParamInterface<bool> {
protected:
    static constexpr unsigned kMost = 30;

    PeersFew()
    {
        run(b, [&] { EXPECT_TRUE(host.unload_soon()); });
        b.total_memory = 8 << 20;
        run(b, [&] { ASSERT_EQ(host.load(), 0); });
    }
    long noted(const char *what)
    {
        return std::count_if(b.log.begin(), b.log.end(), [&](const std::string &line) {
            return line.rfind("rds: 9.0.0.", 0) == 0 && line.ends_with(std::string(" ") + what);
        });
    }
    WireStream &peer(unsigned number, unsigned path)
    {
        kapi_addr from = sim::address(("9.0.0." + std::to_string(number + 1)).c_str(), static_cast<kapi_u16>(30000 + path));
        a.initial_net().add(from);
        WireStream &stream = *streams_.emplace_back(std::make_unique<WireStream>(a));
        EXPECT_TRUE(stream.connect(from, sim::address("10.0.0.2", 16385)));
        return stream;
    }
};

TEST_P(PeersFew, connections__are_limited_in_number)
{
    net().connections.limit = 4;
    run(a, [&] {
        for (unsigned i = 0; i < 8; i++)
            peer(i, 0);
        world.sleep(100 * sim::kMillisecond);
    });
    EXPECT_EQ(connections(), 2u);
    EXPECT_EQ(noted("is refused: peers have as many connections as they may have"), 1) << "not for each of them";
    close_all();
}

// Each begins with one stream. Without an answer on that the others wait.
TEST_P(PeersFew, connections__have_room_for_all_their_streams)
{
    const bool answers = GetParam();
    run(a, [&] {
        for (unsigned i = 0; i < kMost; i++) {
            WireStream &stream = peer(i, 0);
            for (bool answer : {false, true})
                if ((!answer || answers) && stream.is_usable()) {
                    stream.handshake(answer, kGeneration, 0, kMemory);
                    world.sleep(10 * sim::kMillisecond);
                }
        }
    });
    const unsigned made = connections();
    EXPECT_GE(made, 4u);
    EXPECT_LT(made, kMost);
    EXPECT_EQ(noted("is refused: connections that peers made have all memory that they may have"), 1) << "not for each of them";
    run(a, [&] {
        for (unsigned i = 0; i < made; i++)
            for (unsigned path = 1; path < rds::max_paths; path++)
                peer(i, path);
        world.sleep(100 * sim::kMillisecond);
    });
    EXPECT_EQ(connections(), made);
    EXPECT_EQ(b.live_streams, 8 * made);
    run(b, [&] {
        auto &account = rds::Module::get().peers_share.account(rds::PeersShare::connections, true, 0);
        EXPECT_GE(account.share(0), 0) << "they have more than their half";
    });
    close_all();
}

INSTANTIATE_TEST_SUITE_P(Answers, PeersFew, ::testing::Bool());

} // namespace
