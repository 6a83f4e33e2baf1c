// SPDX-License-Identifier: GPL-2.0
// The worker of a path beside other threads, and of one whose messages were moved to another.
#include "rds_worker_test.h"

namespace {

/** The peer had only one path for a while: what sockets enqueue on path 1 goes over path 0 for good. */
class PathWorkerMoved : public PathWorker {
protected:
    PathWorkerMoved()
    {
        in_node([&] {
            come_up();
            says_paths(1);
            path(1).notify(RDS_PATH_SEND);
            world.sleep(kMs);
            says_paths(2);
            world.sleep(kMs);
            noted.sent.clear();
            EXPECT_TRUE(path(1).enqueue(message()));
        });
    }
    void says_paths(kapi_u8 count)
    {
        rds::Header header{};
        rds::write_foreign_handshake(header, 9, true);
        header.extensions[2] = count;
        connection->handshake_received(path(), header, true);
        ASSERT_EQ(connection->paths(), count);
    }
    void expect_sent_over_the_other()
    {
        ASSERT_EQ(noted.sent.size(), 1u);
        EXPECT_EQ(noted.sent[0].path, 0u);
        EXPECT_EQ(noted.sent[0].bytes, kSize);
    }
};

TEST_F(PathWorkerMoved, transmit__is_of_the_other_path)
{
    in_node([&] {
        EXPECT_FALSE(path(1).took_all());
        path(1).transmit();
        expect_sent_over_the_other();
        EXPECT_TRUE(path(1).took_all());
    });
}

TEST_F(PathWorkerMoved, transmit_later__is_of_the_other_path)
{
    in_node([&] {
        path(1).transmit_later();
        world.sleep(9 * kMs);
        EXPECT_EQ(noted.sent.size(), 0u);
        world.sleep(3 * kMs);
        expect_sent_over_the_other();
    });
}

/** Threads that request the same at any times, for a path that may end meanwhile. */
class PathWorkerStorm : public PathWorker, public ::testing::WithParamInterface<int> {
protected:
    PathWorkerStorm() : PathWorker(static_cast<std::uint64_t>(GetParam())) {}

    void request(kapi_u64 delay_ns)
    {
        first_ns = std::min<std::uint64_t>(first_ns, world.now_ns() + delay_ns);
        path().retry_later(RDS_PATH_RESUME, delay_ns);
    }
    /** Each with its own sequence of delays. Only while none is due nobody else requests it, so first_ns is exact. */
    std::vector<sim::TaskRef> spawn_threads()
    {
        std::vector<sim::TaskRef> threads;
        for (kapi_u64 i = 0; i < 4; i++)
            threads.push_back(world.spawn(a, "requests", [this, i] {
                for (kapi_u64 j = 0; j < 20; j++) {
                    request((30 + (i * 37 + j * 61) % 200) * kMs);
                    path().retry_later(RDS_PATH_SEND, (i * 13 + j * 7) % 20 * kMs);
                    world.sleep((i + j) % 3 * kMs / 2);
                }
            }));
        return threads;
    }

    std::uint64_t first_ns = ~0ull;
};

TEST_P(PathWorkerStorm, retry__comes_at_the_first_time)
{
    in_node([&] { come_up(); });
    for (const auto &thread : spawn_threads())
        EXPECT_TRUE(world.run_until([&] { return thread->is_done(); }, sim::kSecond));
    world.run_for(sim::kSecond);
    ASSERT_EQ(noted.resumed.size(), 1u);
    EXPECT_GE(noted.resumed[0], first_ns);
    EXPECT_LE(noted.resumed[0], first_ns + 2 * kMs);
}

// Neither a reference nor a work is left, or the module would not unload.
TEST_P(PathWorkerStorm, path_ends)
{
    in_node([&] { come_up(); });
    auto threads = spawn_threads();
    world.run_for(static_cast<kapi_u64>(GetParam()) * kMs / 2);
    in_node([&] { kill(); });
    for (const auto &thread : threads)
        EXPECT_TRUE(world.run_until([&] { return thread->is_done(); }, sim::kSecond));
    auto resumed = noted.resumed.size();
    world.run_for(sim::kSecond);
    EXPECT_EQ(noted.resumed.size(), resumed);
}

// At the same moment. A foreign peer gets no probe, and a hawser no message before it has answered one.
TEST_P(PathWorkerStorm, path_comes_up_and_the_peer_turns_out_to_be_a_hawser)
{
    in_node([&] {
        come_up();
        answers(0, 9);
        come_up(1);
    });
    for (int round = 0; round < 30; round++) {
        in_node([&] {
            path(1).notify(RDS_PATH_LOST);
            connection->peer_is(rds::Peer::foreign);
            while (!path(1).is_connecting())
                world.sleep(kMs);
            noted.sent.clear();
        });
        world.spawn(a, "established", [&] { path(1).notify(RDS_PATH_ESTABLISHED); });
        world.spawn(a, "answers", [&] { answers(0, 9); });
        world.run_for(kMs);
        EXPECT_TRUE(path(1).is_up());
        EXPECT_TRUE(std::ranges::any_of(noted.sent, [](const auto &sent) { return sent.path == 1; })) << round;
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, PathWorkerStorm, ::testing::Range(1, 21));

} // namespace
