// SPDX-License-Identifier: GPL-2.0
// net/rds/peers_memory: what peers with many addresses make a host hold that no program is charged for.
#include "rds_peers_memory_test.h"
#include "rds_test.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "net/rds/connection.h"
#include "net/rds/send_queue.h"

namespace {

constexpr std::size_t kMiB = 1 << 20;

TEST_F(PeersMemory, parts_of_messages__are_bounded_and_end_for_others)
{
    constexpr unsigned kPeers = 40;
    open_socket(kPort);
    socket.sk().rcvtimeo_ns = 200 * sim::kSecond;
    std::size_t before = b.uncharged_bytes();
    run(a, [&] {
        for (unsigned i = 0; i < kPeers; i++)
            begin_message(peer(), kMiB, kMiB * 9 / 10);
        flush_for(2 * sim::kSecond);
    });
    EXPECT_GT(b.uncharged_bytes() - before, 12 * kMiB) << "or nothing is held";
    EXPECT_LT(b.uncharged_bytes() - before, 30 * kMiB);
    auto reader = world.spawn(b, "reader", [&] {
        std::string buffer(kMiB, '\0');
        EXPECT_EQ(socket.receive(buffer.data(), buffer.size(), nullptr), long{kMiB});
    });
    run(a, [&] {
        begin_message(peer(), kMiB, kMiB);
        for (unsigned i = 0; i < 90 && !reader->is_done(); i++)
            flush_for(sim::kSecond);
        EXPECT_TRUE(reader->is_done());
        for (auto &stream : streams_)
            stream->close(true);
    }, 120 * sim::kSecond);
    world.run_for(sim::kSecond);
    EXPECT_LT(b.uncharged_bytes() - before, 4 * kMiB) << "what is held ends with its stream";
    run(b, [&] {
        EXPECT_TRUE(net().peers_memory.take_partial(16 * kMiB)) << "all was given back";
        net().peers_memory.give_partial(16 * kMiB);
    });
}

// The memory for a small payload, or for a map, comes with its header, and a peer may stop right behind that.
TEST_F(PeersMemory, headers_alone__are_bounded)
{
    constexpr unsigned kPeers = 20, kPiece = 1000;
    unsigned pieces = 0, again = 0;
    open_socket(kPort);
    std::size_t before = 0;
    run(a, [&] {
        for (unsigned i = 0; i < kPeers; i++)
            peer();
        world.sleep(100 * sim::kMillisecond);
        before = b.uncharged_bytes();
        {
            sim::NodeScope scope(b);
            while (net().peers_memory.take_partial(kPiece))
                pieces++;
            for (unsigned i = 0; i < 10; i++)
                net().peers_memory.give_partial(kPiece);
        }
        for (auto &stream : streams_) {
            begin_message(*stream, 4000, 0);
            stream->flush();
        }
        world.sleep(100 * sim::kMillisecond);
    });
    std::size_t held = b.uncharged_bytes() - before;
    EXPECT_GE(held, 2 * 4000u);
    EXPECT_LE(held, 2 * 4000u + 1000 + kPeers * 64);
    {
        sim::NodeScope scope(b);
        for (unsigned i = 10; i < pieces; i++)
            net().peers_memory.give_partial(kPiece);
    }
    run(a, [&] {
        std::string rest(4000, 'x');
        for (auto &stream : streams_)
            EXPECT_TRUE(stream->send(rest.data(), rest.size()));
        world.sleep(2 * sim::kSecond);
    });
    for (unsigned i = 0; i < kPeers; i++)
        EXPECT_EQ(victim_receives().size(), 4000u) << i;
    run(b, [&] {
        while (net().peers_memory.take_partial(kPiece))
            again++;
        EXPECT_EQ(again, pieces) << "all was given back";
        for (unsigned i = 0; i < again; i++)
            net().peers_memory.give_partial(kPiece);
    });
}

// So many messages end as wait, and those of the peer that has most of them.
TEST_F(PeersMemory, parts_of_messages__end_one_for_one_that_waits)
{
    constexpr unsigned kOne = 4, kPeers = 12;
    open_socket(kPort);
    socket.sk().rcvtimeo_ns = 60 * sim::kSecond;
    run(a, [&] {
        for (unsigned i = 0; i < kPeers; i++)
            begin_message(peer(), kMiB, 1000);
        for (unsigned i = 0; i < kOne; i++) {
            WireStream &stream = *streams_.emplace_back(std::make_unique<WireStream>(a));
            shake_hands(stream, i);
            begin_message(stream, kMiB, 1000);
        }
        flush_for(11 * sim::kSecond);
    });
    auto reader = world.spawn(b, "reader", [&] {
        std::string buffer(kMiB, '\0');
        EXPECT_EQ(socket.receive(buffer.data(), buffer.size(), nullptr), long{kMiB});
    });
    run(a, [&] {
        begin_message(peer(), kMiB, kMiB);
        for (unsigned i = 0; i < 40 && !reader->is_done(); i++)
            flush_for(sim::kSecond);
        EXPECT_TRUE(reader->is_done());
        EXPECT_EQ(gone(0, kPeers), 0u);
        EXPECT_EQ(gone(kPeers, kPeers + kOne), 1u);
        EXPECT_EQ(std::count(b.log.begin(), b.log.end(),
                             "rds: 10.0.0.1 sends too slowly for what peers may hold in parts of messages, its stream ends"), 1);
        for (auto &stream : streams_)
            stream->close(true);
    });
}

// However slow all are, one of them arrives.
TEST_F(PeersMemory, parts_of_messages__that_are_the_oldest_stay_while_they_go_on)
{
    open_socket(kPort);
    run(a, [&] {
        for (unsigned i = 0; i < 40; i++) {
            begin_message(peer(), kMiB, 1000);
            flush_for(10 * sim::kMillisecond);
        }
        char bytes[1000] = {};
        for (unsigned second = 0; second < 40; second++) {
            for (auto &stream : streams_)
                if (stream->is_usable())
                    stream->queue(bytes, sizeof(bytes));
            flush_for(sim::kSecond);
        }
        EXPECT_FALSE(streams_[0]->is_gone());
        EXPECT_EQ(gone(1, 16), 15u);
        for (auto &stream : streams_)
            stream->close(true);
    }, 120 * sim::kSecond);
}

/** A peer with messages of several paths, none of which is slow by itself, and another that waits: no memory is left. */
class PartsOfOnePeer : public PeersMemory {
protected:
    static constexpr unsigned kPiece = 64 << 10;

    void begin(unsigned paths)
    {
        for (unsigned i = 0; i < paths; i++) {
            WireStream &stream = *streams_.emplace_back(std::make_unique<WireStream>(a));
            shake_hands(stream, i);
            begin_message(stream, kMiB, 1000);
        }
        flush_for(sim::kSecond);
        sim::NodeScope scope(b);
        while (net().peers_memory.take_partial(kPiece)) // what is left is little, on a larger machine too
            pieces_++;
    }
    void go_on(unsigned paths)
    {
        char bytes[5000] = {};
        for (unsigned i = 0; i < paths; i++)
            if (streams_[i]->is_usable())
                streams_[i]->queue(bytes, sizeof(bytes));
        flush_for(sim::kSecond);
    }
    void end()
    {
        {
            sim::NodeScope scope(b);
            for (; pieces_; pieces_--)
                net().peers_memory.give_partial(kPiece);
        }
        for (auto &stream : streams_)
            stream->close(true);
    }

private:
    unsigned pieces_ = 0;
};

TEST_F(PartsOfOnePeer, that_holds_most__end_for_another)
{
    constexpr unsigned kPaths = 8;
    open_socket(kPort);
    socket.sk().rcvtimeo_ns = 100 * sim::kSecond;
    auto reader = world.spawn(b, "reader", [&] {
        std::string buffer(kMiB, '\0');
        EXPECT_EQ(socket.receive(buffer.data(), buffer.size(), nullptr), long{kMiB});
    });
    run(a, [&] {
        begin(kPaths);
        begin_message(peer(), kMiB, kMiB);
        for (unsigned second = 0; second < 60 && !reader->is_done(); second++)
            go_on(kPaths);
        EXPECT_TRUE(reader->is_done());
        EXPECT_FALSE(streams_[0]->is_gone()) << "its oldest continues";
        end();
    }, 120 * sim::kSecond);
}

TEST_F(PartsOfOnePeer, that_holds_less_than_half__stay)
{
    constexpr unsigned kPaths = 4;
    open_socket(kPort);
    run(a, [&] {
        begin(kPaths);
        begin_message(peer(), kMiB, kMiB);
        for (unsigned second = 0; second < 60; second++)
            go_on(kPaths);
        for (unsigned i = 0; i < kPaths; i++)
            EXPECT_FALSE(streams_[i]->is_gone()) << i;
        end();
    }, 120 * sim::kSecond);
}

// A path that waits for nothing but memory tries again and again, and a peer can have 65536 times eight.
TEST_F(PeersMemory, parts_of_messages__that_are_refused_take_turns)
{
    run(b, [&] {
        rds::PeersMemory &memory = net().peers_memory;
        EXPECT_EQ(memory.retry_delay_ns(), 10 * sim::kMillisecond) << "alone";
        for (std::uint64_t turn_ns = 0; turn_ns < 950 * sim::kMillisecond; turn_ns += 100 * sim::kMicrosecond)
            ASSERT_NEAR(memory.retry_delay_ns(), std::max(10 * sim::kMillisecond, turn_ns), sim::kMillisecond);
        for (unsigned i = 0; i < 100'000; i++)
            EXPECT_LE(memory.retry_delay_ns(), sim::kSecond) << "however often they are refused";
        world.sleep(2 * sim::kSecond);
        memory.retry_delay_ns();
        EXPECT_EQ(memory.retry_delay_ns(), 10 * sim::kMillisecond);
    });
}

// A path may have a few answers, whatever other peers cause, as long as there are any.
TEST_F(PeersMemory, answers__of_all_paths_are_bounded)
{
    constexpr unsigned kMany = 21845, kMost = 32768; // a third and a half of 1/512 of the machine's memory, by 256 bytes
    run(b, [&] {
        rds::Spin<rds::PathLock> lock;
        std::vector<std::unique_ptr<rds::SendQueue>> queues;
        unsigned total = 0;
        for (unsigned i = 0; i < 5000 && total < kMost; i++) {
            rds::SendQueue &queue = *queues.emplace_back(std::make_unique<rds::SendQueue>(lock, &net().peers_memory));
            unsigned before = total, count = 0;
            for (auto pong = rds::Message::internal(); pong && queue.enqueue_bounded(*pong); pong = rds::Message::internal())
                count++;
            total += count;
            EXPECT_TRUE(before < kMany || count == 4 || total == kMost) << count;
            EXPECT_TRUE(i != 99 || total <= kMany + 400);
        }
        EXPECT_EQ(total, kMost);
        EXPECT_FALSE(net().peers_memory.has_room_for_answer(true));
        for (unsigned i = 0; i < queues.size(); i++) {
            if (i % 2)
                queues[i]->stream_ended();
            queues[i]->close();
        }
        net().peers_memory.answers_added(kMany - 1);
        EXPECT_TRUE(net().peers_memory.has_room_for_answer(false)) << "all were counted off";
        net().peers_memory.answers_added(1);
        EXPECT_FALSE(net().peers_memory.has_room_for_answer(false));
        EXPECT_TRUE(net().peers_memory.has_room_for_answer(true));
        net().peers_memory.answers_gone(kMany);
    });
}

// It answers the probes of its closed window, so it is alive, but it is not used.
TEST_F(PeersMemory, answers_that_are_not_read__do_not_keep_a_connection)
{
    rds_net_sysctl(host.net().rds)->idle_connection_ms = 10'000;
    run(a, [&] {
        WireStream &stream = peer();
        EXPECT_TRUE(stream.handshake(false, kGeneration, 0, kMemory));
        world.sleep(10 * sim::kMillisecond);
        EXPECT_TRUE(stream.handshake(true, kGeneration, 0, kMemory));
        stream.deaf = true;
        kapi_u64 number = 0;
        for (unsigned round = 0; round < 100 && answers() < 500; round++, world.sleep(10 * sim::kMillisecond))
            for (unsigned i = 0; i < 500; i++)
                EXPECT_TRUE(stream.message(++number, 5, 0, ""));
    });
    EXPECT_EQ(connections(), 1u);
    world.run_for(5 * sim::kSecond);
    EXPECT_GE(answers(), 500u) << "its window is closed";
    world.run_for(60 * sim::kSecond);
    run(b, [&] {
        net().connections.for_each([](rds::Connection &c) { EXPECT_FALSE(c.has_streams()); });
    });
    world.run_for(3600 * sim::kSecond);
    EXPECT_EQ(connections(), 0u);
}

// More large messages than there is room for, over a slow link: some wait, and all arrive.
class SlowLink : public RdsTest {
protected:
    static constexpr kapi_u16 kPort = 1000;
};

TEST_F(SlowLink, large_messages__arrive_without_being_begun_again)
{
    constexpr unsigned kAddresses = 3, kTenMbit = 1'250'000;
    static const std::string large(kMiB, 'x');
    RdsSocket to(host_b);
    run(b, [&] {
        ASSERT_EQ(to.open(), 0);
        ASSERT_EQ(to.bind(sim::address("10.0.0.2", kPort)), 0);
        to.sk().rcvbuf = 64 << 20;
        to.sk().rcvtimeo_ns = 50 * sim::kSecond;
    });
    unsigned received = 0;
    bool ending = false;
    auto reader = world.spawn(b, "reader", [&] {
        std::string buffer(kMiB, '\0');
        for (long size = 1; size > 0;)
            received += (size = to.receive(buffer.data(), buffer.size(), nullptr)) == long{kMiB};
    });
    std::vector<std::unique_ptr<RdsSocket>> from;
    run(a, [&] {
        for (unsigned i = 0; i < kAddresses * rds::max_paths; i++) {
            std::string own = "9.0.0." + std::to_string(i / rds::max_paths + 1);
            a.initial_net().add(sim::address(own.c_str()));
            RdsSocket &socket = *from.emplace_back(std::make_unique<RdsSocket>(host_a));
            ASSERT_EQ(socket.open(), 0);
            ASSERT_EQ(socket.bind(sim::address(own.c_str(), port_of_path(i % rds::max_paths))), 0);
            socket.sk().sndbuf = 4 << 20;
            ASSERT_EQ(send(socket, "x", "10.0.0.2", kPort), 1);
        }
    });
    world.run_for(sim::kSecond);
    world.network().link(a, b).bytes_per_s = kTenMbit;
    std::vector<sim::TaskRef> senders;
    for (auto &socket : from)
        senders.push_back(world.spawn(a, "sender", [&] {
            socket->sk().sndtimeo_ns = sim::kSecond;
            while (!ending)
                if (send(*socket, large, "10.0.0.2", kPort) < 0)
                    world.sleep(sim::kMillisecond);
        }));
    world.run_for(40 * sim::kSecond);
    EXPECT_GE(received, 3u);
    for (RdsHost *host : {&host_a, &host_b}) {
        sim::NodeScope scope(host->node());
        EXPECT_LE(reinterpret_cast<rds::Net *>(host->net().rds)->counted(rds::Stat::conn_reset), 40u); // about one a second
    }
    ending = true;
    world.network().link(a, b).bytes_per_s = 0;
    for (auto &sender : senders)
        EXPECT_TRUE(world.run_until([&] { return sender->is_done(); }, 60 * sim::kSecond));
    EXPECT_TRUE(world.run_until([&] { return reader->is_done(); }, 600 * sim::kSecond));
    run(a, [&] {
        for (auto &socket : from)
            socket->close();
    });
    run(b, [&] { to.close(); });
}

} // namespace
