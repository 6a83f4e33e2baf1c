// SPDX-License-Identifier: GPL-2.0
// The worker of a path with a transport that only notes what it is called for: what is sent, when the stream is looked after
// and read again, and how it is closed.
#include "rds_worker_test.h"

namespace {

TEST_F(PathWorker, promise_of_more__is_taken_back_when_the_rest_is_cancelled)
{
    in_node([&] {
        come_up();
        ASSERT_EQ(noted.sent.size(), 1u); // a probe and a map
        EXPECT_FALSE(noted.sent[0].more);
        std::vector<rds::Ref<rds::Message>> messages;
        for (unsigned i = 0; i < rds::Batch::max_messages + 4; i++) {
            messages.push_back(message());
            ASSERT_TRUE(path().enqueue(messages.back()));
        }
        noted.after_send = [&] {
            for (auto &queued : messages)
                if (queued->on == rds::Message::On::send)
                    path().cancel(*queued);
        };
        path().answered(7);
        world.sleep(kMs);
        ASSERT_EQ(noted.sent.size(), 3u);
        EXPECT_EQ(noted.sent[1].bytes, rds::Batch::max_messages * kSize);
        EXPECT_TRUE(noted.sent[1].more);
        EXPECT_EQ(noted.sent[2].bytes, 0u);
        EXPECT_FALSE(noted.sent[2].more);
        path().notify(RDS_PATH_SEND); // it is taken back once
        world.sleep(kMs);
        EXPECT_EQ(noted.sent.size(), 3u);
        noted.after_send = [] {};
    });
}

// The timer that bounds an attempt to connect once also served as the first tick of the stream, up to three seconds late.
TEST_F(PathWorker, ticks__begin_with_the_stream)
{
    in_node([&] {
        come_up();
        ASSERT_TRUE(path().enqueue(message()));
        path().answered(7);
        world.sleep(3000 * kMs);
        for (int loss = 0; loss < 5; loss++) {
            path().notify(RDS_PATH_LOST); // while a tick is due
            world.sleep(kMs);
            noted.ticks[0].clear();
            path().notify(RDS_PATH_ESTABLISHED);
            world.sleep(kMs);
            ASSERT_TRUE(path().is_up());
            std::uint64_t up_ns = world.now_ns();
            world.sleep(6000 * kMs);
            ASSERT_GE(noted.ticks[0].size(), 5u);
            for (std::size_t i = 0; i < noted.ticks[0].size(); i++)
                EXPECT_LE(noted.ticks[0][i] - up_ns, (i + 1) * 1010 * kMs) << loss;
        }
    });
}

// The first sender on an idle stream relies on the timer if it is set.
TEST_F(PathWorker, ticks__begin_with_the_first_message)
{
    in_node([&] {
        come_up();
        path().answered(7);
        come_up(1);
        path(1).answered(7);
        world.sleep(10 * kMs);
        EXPECT_TRUE(path(1).drained());
        ASSERT_TRUE(path(1).enqueue(message()));
        path(1).transmit();
        world.sleep(1100 * kMs);
        EXPECT_GE(noted.ticks[1].size(), 1u);
        world.sleep(4000 * kMs);
        EXPECT_GE(noted.ticks[1].size(), 4u);
    });
}

// The peer may be gone since it accepted the stream, and has not answered the probe for which the message waits.
TEST_F(PathWorker, ticks__begin_with_a_message_that_cannot_be_sent_yet)
{
    in_node([&] {
        come_up();
        path().answered(7);
        come_up(1);
        world.sleep(3000 * kMs);
        noted.ticks[1].clear();
        ASSERT_TRUE(path(1).enqueue(message()));
        path(1).transmit();
        world.sleep(4100 * kMs);
        EXPECT_GE(noted.ticks[1].size(), 3u);
    });
}

// What the transport requests for later, in its turn, was once done at the next wake-up of the worker.
TEST_F(PathWorker, retry__comes_in_its_time)
{
    in_node([&] {
        come_up();
        std::uint64_t from_ns = world.now_ns();
        path().retry_later(RDS_PATH_RESUME, 500 * kMs);
        for (int i = 0; i < 40; i++) {
            path().notify(RDS_PATH_SEND);
            world.sleep(10 * kMs);
        }
        EXPECT_EQ(noted.resumed.size(), 0u);
        world.sleep(200 * kMs);
        ASSERT_EQ(noted.resumed.size(), 1u);
        EXPECT_GE(noted.resumed[0] - from_ns, 500 * kMs);
    });
}

// It once waited for the longer one, which may be one for memory.
TEST_F(PathWorker, retry__comes_earlier_after_a_shorter_request)
{
    in_node([&] {
        come_up();
        path().retry_later(RDS_PATH_RESUME, 1000 * kMs);
        world.sleep(100 * kMs);
        std::uint64_t from_ns = world.now_ns();
        path().retry_later(RDS_PATH_RESUME, 10 * kMs);
        path().retry_later(RDS_PATH_RESUME, 2000 * kMs); // which puts nothing off
        world.sleep(5000 * kMs);
        ASSERT_EQ(noted.resumed.size(), 1u) << "once for all requests";
        EXPECT_GE(noted.resumed[0] - from_ns, 10 * kMs);
        EXPECT_LE(noted.resumed[0] - from_ns, 12 * kMs);
    });
}

// A message that is gathered again and again, on a path that waits for its turn to get memory.
TEST_F(PathWorker, retry__of_each_kind_comes_in_its_own_time)
{
    in_node([&] {
        come_up();
        path().answered(7);
        world.sleep(10 * kMs);
        std::uint64_t from_ns = world.now_ns();
        path().retry_later(RDS_PATH_RESUME, 1000 * kMs);
        for (int i = 0; i < 90; i++) {
            std::size_t sent = noted.sent.size();
            ASSERT_TRUE(path().enqueue(message()));
            path().transmit_later();
            world.sleep(9 * kMs);
            EXPECT_EQ(noted.sent.size(), sent);
            world.sleep(2 * kMs);
            EXPECT_EQ(noted.sent.size(), sent + 1);
        }
        EXPECT_EQ(noted.resumed.size(), 0u);
        world.sleep(500 * kMs);
        ASSERT_EQ(noted.resumed.size(), 1u);
        EXPECT_GE(noted.resumed[0] - from_ns, 1000 * kMs);
        EXPECT_LE(noted.resumed[0] - from_ns, 1002 * kMs);
        EXPECT_GE(noted.ticks[0].size(), 1u);
    });
}

// A message could not be mapped while the path waits for its turn to get memory for what it receives.
TEST_F(PathWorker, turn_for_memory__is_not_of_what_is_sent)
{
    in_node([&] {
        come_up();
        path().answered(7);
        world.sleep(10 * kMs);
        for (int i = 0; i < 1000; i++) // others have the turns before it
            path().partial().wait_for_turn(connection->net.peers_memory);
        std::size_t sent = noted.sent.size();
        ASSERT_TRUE(path().enqueue(message()));
        auto *conn = reinterpret_cast<rds_conn *>(connection.get());
        rds_path_retry_later(conn, 0, RDS_PATH_SEND);
        rds_path_retry_later(conn, 0, RDS_PATH_RESUME);
        world.sleep(12 * kMs);
        EXPECT_EQ(noted.sent.size(), sent + 1);
        EXPECT_EQ(noted.resumed.size(), 0u);
        world.sleep(1000 * kMs);
        EXPECT_EQ(noted.resumed.size(), 1u);
    });
}

TEST_F(PathWorker, retry__of_a_path_that_has_ended_is_not_queued)
{
    in_node([&] {
        come_up();
        path().retry_later(RDS_PATH_RESUME, 20 * kMs);
        kill();
        auto works = a.works_run;
        auto references = connection->references();
        path().retry_later(RDS_PATH_RESUME, 10 * kMs);
        path().transmit_later();
        EXPECT_EQ(connection->references(), references);
        world.sleep(100 * kMs);
        EXPECT_EQ(a.works_run, works);
    });
}

// A stream may close for as long as a program does not read. What one acknowledgement was for is ended in parts.
TEST_F(PathWorker, acknowledged_messages__end_while_the_stream_closes)
{
    constexpr unsigned kMany = 2 * rds::SendQueue::acked_at_once + 1;
    in_node([&] {
        come_up();
        path().answered(7);
        for (unsigned i = 0; i < kMany; i++)
            ASSERT_TRUE(path().enqueue(message()));
        path().notify(RDS_PATH_SEND);
        world.sleep(100 * kMs);
        noted.close = RDS_CLOSE_UNREAD;
        path().notify(RDS_PATH_LOST);
        world.sleep(kMs);
        EXPECT_EQ(path().snapshot().queued, kMany);
        path().acked(noted.sequence);
        world.sleep(10 * kMs);
        EXPECT_EQ(path().snapshot().queued, 0u);
        noted.close = RDS_CLOSED;
    });
}

// The first path has an answer, for which another one waits. It comes from another sender than before, so it is not believed that
// there are fewer paths.
TEST_F(PathWorker, missing_path__is_connected_after_an_answer_that_is_not_believed)
{
    in_node([&] {
        for (unsigned i = 0; i < Noted::kPaths; i++) {
            come_up(i);
            answers(i, 9);
            world.sleep(kMs);
        }
        ASSERT_EQ(connection->paths(), Noted::kPaths);
        path(1).notify(RDS_PATH_LOST);
        path(0).notify(RDS_PATH_LOST);
        world.sleep(100 * kMs);
        noted.connected.clear();
        path(0).notify(RDS_PATH_ESTABLISHED);
        world.sleep(100 * kMs);
        ASSERT_TRUE(path(0).is_up());
        EXPECT_EQ(noted.connected, std::vector<unsigned>{});
        answers(0, 10, 2);
        world.sleep(10 * kMs);
        EXPECT_EQ(connection->paths(), Noted::kPaths);
        EXPECT_EQ(noted.connected, std::vector<unsigned>{1});
    });
}

} // namespace
