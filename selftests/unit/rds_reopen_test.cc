// SPDX-License-Identifier: GPL-2.0
// Streams that are closed to be opened again, so that a peer of the kernel's own sends its congestion map: of one before 7.x,
// which takes a new stream for the first path that it misses, none is taken for another path.
#include "rds_peer_test.h"

#include <kapi/errno.h>

#include <array>
#include <string>

#include "net/rds/connection.h"

namespace {

class Reopen : public Connecting {
protected:
    /** All paths of a peer that counts the streams. */
    void connect_all()
    {
        ASSERT_EQ(accept_next(), 0);
        EXPECT_TRUE(foreign_handshake(*streams[0], true, 8));
        for (int i = 1; i < static_cast<int>(rds::max_paths); i++)
            ASSERT_EQ(accept_next(), i);
    }
    int accept_next(std::uint64_t wait_ns = 500 * sim::kMillisecond)
    {
        int path = accept(wait_ns);
        if (path >= 0)
            present[static_cast<unsigned>(path)] = streams.back().get();
        return path;
    }
    unsigned gone() const
    {
        unsigned bits = 0;
        for (unsigned i = 0; i < rds::max_paths; i++)
            bits |= present[i]->is_gone() ? 1u << i : 0;
        return bits;
    }
    std::uint64_t counted(rds::Stat stat)
    {
        sim::NodeScope scope(a);
        return net().counted(stat);
    }
    rds::Net &net() { return *reinterpret_cast<rds::Net *>(host.net().rds); }
    /** A program of the victim is refused for a port that is full, as far as the victim can see. */
    void meet_full_port(WireStream &stream)
    {
        EXPECT_TRUE(send_map(stream, {kPeersPort}));
        world.sleep(10 * sim::kMillisecond);
        world.spawn(a, "sender", [this] {
            EXPECT_EQ(socket.send("y", 1, sim::address("10.0.0.2", kPeersPort), RDS_ABI_MSG_DONTWAIT), -KAPI_ENOBUFS);
        });
    }

    std::array<WireStream *, rds::max_paths> present{}; // streams, by path
};

TEST_F(Reopen, requests_at_the_same_moment_close_one_stream)
{
    run(b, [&] {
        connect_all();
        for (int round = 0; round < 100; round++) {
            {
                sim::NodeScope scope(a);
                net().connections.for_each([](rds::Connection &connection) {
                    for (unsigned i = 5; i < rds::max_paths; i++)
                        connection.path(i).notify(RDS_PATH_RECYCLE);
                });
            }
            world.sleep(20 * sim::kMillisecond);
            unsigned closed = gone();
            ASSERT_NE(closed, 0u) << round;
            ASSERT_EQ(closed & (closed - 1), 0u) << round;
            for (unsigned i = 0; i < rds::max_paths; i++)
                if (closed >> i & 1)
                    present[i]->close(false);
            ASSERT_GE(accept_next(2 * sim::kSecond), 5);
        }
    }, 300 * sim::kSecond);
}

// One that is missing comes before it in the peer's order, or behind it: only then a new stream is taken for the right path.
TEST_F(Reopen, a_path_is_missing_behind_a_full_socket__one_before_it_is_opened_again)
{
    constexpr unsigned kMissing = 3;
    kapi_u64 count = 0;
    run(b, [&] {
        connect_all();
        WireStream &stream = *present[kMissing];
        while (!counted(rds::Stat::recv_stalled) && count < 1000) {
            EXPECT_TRUE(stream.message(++count, kPeersPort, port_of_path(0), std::string(10000, 'x')));
            world.sleep(sim::kMillisecond);
        }
        EXPECT_TRUE(stream.message(++count, kPeersPort, port_of_path(0), "unread"));
        stream.close(false);
        world.sleep(sim::kSecond);
        meet_full_port(*present[0]);
        EXPECT_TRUE(present[2]->wait([&] { return present[2]->is_gone(); }, sim::kSecond));
        for (unsigned i : {0u, 1u, 4u, 5u, 6u, 7u})
            EXPECT_TRUE(present[i]->is_usable()) << i;
        present[2]->close(false);
        EXPECT_EQ(accept_next(2 * sim::kSecond), 2);
        EXPECT_TRUE(send_map(*present[2], {}));
        EXPECT_EQ(accept_next(), -1); // the socket is still full
    });
    run(a, [&] {
        std::string buffer(10000, '\0');
        for (kapi_u64 i = 1; i < count; i++)
            EXPECT_EQ(socket.receive(buffer.data(), buffer.size(), nullptr), 10000);
        EXPECT_EQ(socket.receive(buffer.data(), buffer.size(), nullptr), 6);
    });
    run(b, [&] { EXPECT_EQ(accept_next(2 * sim::kSecond), static_cast<int>(kMissing)); });
}

} // namespace
