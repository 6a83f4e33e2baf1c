// SPDX-License-Identifier: GPL-2.0
// The RTRS server: connecting, and requests, with keys that end with each request and with keys that last.
#include "rtrs_srv_test.h"

namespace {

class SrvRequests : public SrvTest {};
INSTANTIATE_TEST_SUITE_P(Seeds, SrvRequests, ::testing::Range(1, 6));

TEST_P(SrvRequests, a_path_connects_and_ends)
{
    load(true);
    establish(first);
    EXPECT_EQ(first.offer->geometry.queue_depth(), kDepth);
    EXPECT_EQ(first.offer->max_io_bytes, kChunk - 4096);
    EXPECT_TRUE(first.offer->new_rkeys);
    EXPECT_EQ(user.links, std::vector<int>{RTRS_SRV_CORE_CONNECTED});
    run(b, [&] {
        char name[rtrs::max_name + 1];
        EXPECT_EQ(rtrs_srv_core_path_name(user.session, name, sizeof(name)), 0);
        EXPECT_STREQ(name, "session");
        EXPECT_EQ(rtrs_srv_core_path_name(user.session, name, 4), 0);
        EXPECT_STREQ(name, "ses");
        EXPECT_EQ(rtrs_srv_core_queue_depth(user.session), static_cast<int>(kDepth));
    });
    drop(first);
    EXPECT_TRUE(wait([&] { return user.links.size() == 2; }));
    EXPECT_EQ(user.links.back(), RTRS_SRV_CORE_DISCONNECTED);
}

// What a client gets of a chunk: its place in its region, and nothing of where the memory lies.
TEST_P(SrvRequests, chunks_are_described_by_their_places)
{
    for (bool always_invalidate : {true, false}) {
        load(always_invalidate);
        establish(first);
        ASSERT_EQ(first.chunks.size(), kDepth);
        for (unsigned i = 0; i < kDepth; i++)
            EXPECT_EQ(first.chunks[i].address, always_invalidate ? 0 : i * kChunk) << i;
        drop(first);
        unload();
    }
}

TEST_P(SrvRequests, writes_and_reads)
{
    for (bool always_invalidate : {true, false}) {
        load(always_invalidate);
        establish(first);
        for (unsigned round = 0; round < 4; round++) {
            for (unsigned chunk = 0; chunk < kDepth; chunk++)
                write(first, chunk % 3, chunk, contents(100 + chunk * 512, round * 10 + chunk), "w" + std::to_string(chunk));
            for (unsigned chunk = 0; chunk < kDepth; chunk++)
                EXPECT_EQ(answer(first, chunk), 0);
            for (unsigned chunk = 0; chunk < kDepth; chunk++)
                read(first, (chunk + 1) % 3, chunk, 100 + chunk * 512, "r" + std::to_string(chunk));
            for (unsigned chunk = 0; chunk < kDepth; chunk++) {
                EXPECT_EQ(answer(first, chunk), 0);
                EXPECT_TRUE(first.answers[chunk].invalidated);
                EXPECT_TRUE(first.fetched(chunk, 100 + chunk * 512) == contents(100 + chunk * 512, round * 10 + chunk));
            }
        }
        EXPECT_EQ(first.duplicates, 0u);
        drop(first);
        unload();
    }
}

/** Which the client has asked for: an answer is one message, with the data of a read, and without the chunk's new key. */
TEST_P(SrvRequests, answers_are_whole)
{
    for (bool always_invalidate : {true, false}) {
        load(always_invalidate);
        for (unsigned i = 0; i < 3; i++)
            ASSERT_TRUE(ask(first, request(i, 3, 1, 100, true, 0, true)).established);
        EXPECT_TRUE(first.offer->whole_answers);
        exchange(first);
        first.invalidates = false;
        for (unsigned round = 0; round < 300; round++) { // keys come back
            for (unsigned chunk = 0; chunk < kDepth; chunk++)
                write(first, chunk % 3, chunk, contents(100 + chunk * 10, round + chunk), "w" + std::to_string(chunk));
            for (unsigned chunk = 0; chunk < kDepth; chunk++)
                EXPECT_EQ(answer(first, chunk), 0);
        }
        first.messages = 0;
        for (unsigned chunk = 0; chunk < kDepth; chunk++)
            read(first, (chunk + 1) % 3, chunk, 100 + chunk * 10, "r" + std::to_string(chunk));
        for (unsigned chunk = 0; chunk < kDepth; chunk++) {
            EXPECT_EQ(answer(first, chunk), 0);
            EXPECT_FALSE(first.answers[chunk].invalidated);
            EXPECT_TRUE(first.fetched(chunk, 100 + chunk * 10) == contents(100 + chunk * 10, 299 + chunk));
        }
        EXPECT_EQ(first.messages, kDepth);
        drop(first);
        unload();
    }
}

/** It may ask for an invalidation nevertheless, whose message comes before the answer. */
TEST_P(SrvRequests, a_whole_answer_comes_behind_an_invalidation)
{
    load(true);
    for (unsigned i = 0; i < 3; i++)
        ASSERT_TRUE(ask(first, request(i, 3, 1, 100, true, 0, true)).established);
    exchange(first);
    write(first, 1, 0, contents(500, 1), "wx");
    EXPECT_EQ(answer(first, 0), 0);
    read(first, 1, 0, 500, "rx");
    EXPECT_EQ(answer(first, 0), 0);
    EXPECT_TRUE(first.answers[0].invalidated);
    EXPECT_TRUE(first.fetched(0, 500) == contents(500, 1));
}

} // namespace
