// SPDX-License-Identifier: GPL-2.0
// Very many small messages that TCP has at once, or that are acknowledged at once: others get the processor in between.
#include "rds_peer_test.h"
#include "rds_test.h"

#include <algorithm>
#include <string>

#include "kapi/sim/lock.h"
#include "kapi/sim/slow.h"
#include "net/rds/connection.h"
#include "net/rds/send_queue.h"
#include "net/rds/tcp/assemble.h"

namespace {

constexpr unsigned kMost = 4096;
constexpr unsigned kMostEnded = rds::SendQueue::acked_at_once;
constexpr kapi_u16 kPort = 7, kNobodys = 9;

class AtOnce : public PeerTest {
protected:
    AtOnce()
    {
        rds_tcp_net_sysctl(host.net().tcp)->rds_tcp_rcvbuf = 8 << 20;
        open_socket(kPort);
    }
    /** Messages without payload that no socket is bound for. */
    static std::string headers(kapi_u64 first, unsigned count)
    {
        std::string all;
        for (unsigned i = 0; i < count; i++) {
            rds::Header header{};
            header.sequence = first + i;
            header.sport = kPeersPort;
            header.dport = kNobodys;
            all.append(reinterpret_cast<const char *>(&header), sizeof(header));
        }
        return all;
    }
    /** Runs until so many messages of them have come. Most of them in one work. */
    std::uint64_t most_in_a_work(std::uint64_t count)
    {
        std::uint64_t most = 0, work = b.works_run, before = 0, here = 0;
        EXPECT_TRUE(world.run_until([&] {
            std::uint64_t now = counted(rds::Stat::recv_drop_no_sock);
            if (std::exchange(work, b.works_run) != b.works_run)
                here = 0;
            here += now - std::exchange(before, now);
            most = std::max(most, here);
            return now == count;
        }, 60 * sim::kSecond));
        return most;
    }

    /** As many wait in TCP behind a full socket, which is read then. Most of them in one work; each takes each_ns. */
    std::uint64_t most_of(unsigned count, std::uint64_t each_ns = 0)
    {
        kapi_u64 filled = 0;
        run(a, [&] {
            shake_hands(stream, 0);
            filled = fill(stream, kPort);
            const std::string all = headers(filled + 1, count);
            EXPECT_TRUE(stream.send(all.data(), all.size()));
            EXPECT_TRUE(stream.message(filled + count + 1, kPeersPort, kPort, "last"));
            world.sleep(sim::kSecond);
        });
        EXPECT_EQ(counted(rds::Stat::recv_drop_no_sock), 0u);
        auto reads = world.spawn(b, "reads", [&] {
            std::string buffer(1 << 20, '\0');
            for (kapi_u64 i = 0; i < filled; i++)
                EXPECT_EQ(socket.receive(buffer.data(), buffer.size(), nullptr), 10000);
            EXPECT_EQ(socket.receive(buffer.data(), buffer.size(), nullptr), 4);
        });
        sim::stand_still_after(each_ns ? "rds bind" : nullptr, each_ns);
        std::uint64_t most = most_in_a_work(count);
        sim::stand_still_after(nullptr, 0);
        EXPECT_TRUE(world.run_until([&] { return reads->is_done(); }, sim::kSecond));
        run(a, [&] { stream.close(true); });
        return most;
    }

    WireStream stream{a};
};

TEST_F(AtOnce, what_waited_for_a_program__is_read_in_pieces)
{
    std::uint64_t most = most_of(6 * kMost);
    EXPECT_GT(most, kMost / 32) << "they were not there at once";
    EXPECT_LE(most, kMost);
}

// What a part costs is up to those who wait for it.
TEST_F(AtOnce, slow_parts__are_read_in_shorter_pieces)
{
    constexpr std::uint64_t kEach = 50 * sim::kMicrosecond;
    constexpr std::uint64_t kMostInTime = KAPI_TURN_NS / kEach + rds_tcp::Assembler::parts_a_look;
    std::uint64_t most = most_of(2 * kMost, kEach);
    EXPECT_GT(most, kMostInTime / 4) << "they were not there at once";
    EXPECT_LE(most, kMostInTime);
}

// As many, and no work waits for them.
TEST_F(AtOnce, what_comes_little_by_little__waits_for_no_work)
{
    std::uint64_t works = 0;
    run(a, [&] {
        shake_hands(stream, 0);
        world.sleep(sim::kSecond);
        for (unsigned i = 0; i < 3 * kMost; i += 16) {
            const std::string some = headers(i + 1, 16);
            EXPECT_TRUE(stream.send(some.data(), some.size()));
            world.sleep(10 * sim::kMillisecond);
            if (i == 0)
                works = b.works_run;
        }
    });
    EXPECT_EQ(counted(rds::Stat::recv_drop_no_sock), 3u * kMost);
    EXPECT_EQ(b.works_run, works);
    run(a, [&] { stream.close(true); });
}

// It shows another name with an acknowledgement, or a connection later: what was sent to the former one is given up.
TEST_F(AtOnce, what_a_restarted_peer_was_sent__is_given_up_in_pieces)
{
    constexpr unsigned kCount = 5 * kMostEnded;
    rds_tcp_net_sysctl(host.net().tcp)->rds_tcp_sndbuf = 16 << 20;
    socket.sk().sndbuf = 1 << 30;
    WireStream next(a);
    run(a, [&] {
        ASSERT_TRUE(connect(stream, 0));
        foreign_handshake(stream, false, 1, kGeneration);
        world.sleep(10 * sim::kMillisecond);
        stream.deaf = true;
    });
    for (unsigned i = 0; i < kCount; i++)
        victim_sends("x");
    sim::forget_steps();
    run(a, [&] {
        world.sleep(sim::kSecond);
        {
            sim::NodeScope scope(b);
            rds_tcp_net_sysctl(host.net().tcp)->rds_tcp_sndbuf = 4608; // what it has of them again is little
        }
        stream.close(true);
        ASSERT_TRUE(connect(next, 0));
        foreign_handshake(next, false, 1, kNextGeneration);
        world.sleep(5 * sim::kSecond);
        next.close(true);
    });
    EXPECT_GT(counted(rds::Stat::send_drop_restart), 3 * kMostEnded) << "they were not given up";
    EXPECT_LE(sim::most_steps_without_pause(), kMostEnded);
}

class AckedAtOnce : public RdsTest, public ::testing::WithParamInterface<int> {
protected:
    AckedAtOnce() : RdsTest(static_cast<std::uint64_t>(GetParam())), from(host_a)
    {
        rds_tcp_net_sysctl(host_a.net().tcp)->rds_tcp_sndbuf = 8 << 20;
        rds_tcp_net_sysctl(host_b.net().tcp)->rds_tcp_rcvbuf = 8 << 20;
        run(a, [&] {
            ASSERT_EQ(from.open(), 0);
            ASSERT_EQ(from.bind(sim::address("10.0.0.1", port_of_path(0))), 0);
            from.sk().sndbuf = 1 << 30;
        });
    }
    ~AckedAtOnce() override
    {
        run(a, [&] { from.close(); });
    }
    /** No socket is bound for them. */
    void send_to_nobody(unsigned count)
    {
        run(a, [&] {
            for (unsigned i = 0; i < count; i++)
                ASSERT_EQ(send(from, "x", "10.0.0.2", kNobodys), 1);
        });
    }
    /** As many, of which the acknowledgements are lost. */
    void send_unacknowledged()
    {
        send_to_nobody(1);
        world.run_for(sim::kSecond);
        world.network().link(b, a).cut = true;
        send_to_nobody(kCount);
        world.run_for(sim::kSecond);
        world.network().link(b, a).cut = false;
    }
    /** The path, in a task of a. */
    rds::Path::Snapshot path()
    {
        rds::Path::Snapshot now{};
        reinterpret_cast<rds::Net *>(host_a.net().rds)->connections.for_each([&](rds::Connection &connection) {
            now = connection.path(0).snapshot();
        });
        return now;
    }
    /** Messages that were given to the stream, and of which the peer's TCP has not acknowledged all. */
    unsigned unacknowledged()
    {
        rds_tcp_socket_row row{};
        reinterpret_cast<rds::Net *>(host_a.net().rds)->connections.for_each([&](rds::Connection &connection) {
            EXPECT_TRUE(connection.with_state([&](void *state) { return connection.transport.socket_row(state, 0, &row); }));
        });
        constexpr unsigned kSize = sizeof(rds::Header) + 1;
        return (row.expected_una - row.seen_una + kSize - 1) / kSize;
    }
    void expect_queued(unsigned count)
    {
        run(a, [&] { EXPECT_EQ(path().queued, count); });
    }

    static constexpr unsigned kCount = 5 * kMostEnded;

    RdsSocket from;
};

// The acknowledgements of all of them were lost, and one comes that stands for all.
TEST_P(AckedAtOnce, messages__are_ended_in_pieces)
{
    send_unacknowledged();
    expect_queued(kCount);
    sim::forget_steps();
    world.run_for(5 * sim::kSecond);
    expect_queued(0);
    EXPECT_GE(sim::most_steps_without_pause(), kMostEnded / 8) << "they were not acknowledged at once";
    EXPECT_LT(sim::most_steps_without_pause(), 2 * kMostEnded); // a message leaves and joins lists
}

// The stream ends before the work has ended the rest.
TEST_P(AckedAtOnce, messages_that_are_not_ended_yet__are_not_sent_again)
{
    send_unacknowledged();
    run(a, [&] {
        while (path().queued == kCount)
            world.sleep(1);
        world.network().reset(a, b, sim::Sees::both);
        unsigned left = unacknowledged();
        world.sleep(5 * sim::kSecond);
        EXPECT_EQ(path().queued, 0u);
        EXPECT_EQ(path().drops, 1u);
        EXPECT_LE(path().retransmits, left);
    });
}

INSTANTIATE_TEST_SUITE_P(Seeds, AckedAtOnce, ::testing::Range(1, 9));

} // namespace
