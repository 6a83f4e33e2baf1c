// SPDX-License-Identifier: GPL-2.0
// A session ends with chunks that are kept from use.
#include "rtrs_clt_unanswered_test.h"

namespace {

class RtrsClientKeptEnd : public RtrsClientUnanswered {};

/** All permits are kept when a path is up again, and the user waits for one in its callback for that, as RNBD does. */
TEST_P(RtrsClientKeptEnd, a_session_ends_although_its_user_waits_for_a_permit_when_told)
{
    ready(2);
    bool waits = false;
    when_told = [&](int up) {
        if (!up)
            return;
        waits = true;
        if (auto *taken = rtrs_clt_core_get_permit(session, 1, 1)) // or none any more
            rtrs_clt_core_put_permit(session, taken);
        waits = false;
    };
    keep_all();
    EXPECT_EQ(put(path(0) + "reconnect", "1"), 0);
    world.run_for(kSecond);
    EXPECT_TRUE(waits);
    std::uint64_t begun = world.now_ns();
    run(a, [&] { rtrs_clt_core_close(session); }, 20 * kSecond);
    session = nullptr;
    EXPECT_LT(world.now_ns() - begun, 2 * kSecond);
    EXPECT_FALSE(waits);
    EXPECT_EQ(links, (std::vector<int>{0, 1}));
}

/** More of them than there are permits, so that most are not woken by one. */
TEST_P(RtrsClientKeptEnd, a_session_ends_while_threads_wait_for_permits_that_are_kept)
{
    ready();
    EXPECT_EQ(put(root + "io_timeout_ms", "1000"), 0);
    swallow("late");
    std::vector<Ended> ended(depth());
    for (auto &one : ended)
        begin_one(one, "late");
    for (auto &one : ended)
        ASSERT_TRUE(until(one, 3 * kSecond));
    give_all();
    EXPECT_EQ(put(path(0) + "disconnect", "1"), 0);
    world.run_for(kSecond);
    std::vector<sim::TaskRef> waiting;
    for (unsigned i = 0; i < 2 * depth(); i++)
        waiting.push_back(world.spawn(a, "waits", [this] {
            if (auto *one = rtrs_clt_core_get_permit(session, 1, 1))
                rtrs_clt_core_put_permit(session, one);
        }));
    world.run_for(100 * sim::kMillisecond);
    auto closes = world.spawn(a, "closes", [this] { rtrs_clt_core_close(session); });
    EXPECT_TRUE(world.run_until([&] { return closes->is_done(); }, 5 * kSecond));
    EXPECT_TRUE(std::ranges::all_of(waiting, [](auto &task) { return task->is_done(); }));
    session = nullptr;
}

TEST_P(RtrsClientKeptEnd, a_session_ends_with_chunks_that_are_kept)
{
    ready();
    EXPECT_EQ(put(root + "io_timeout_ms", "1000"), 0);
    swallow("late");
    server.reject = 0;
    std::string data = contents(100, 1);
    EXPECT_EQ(request(false, "late", data), -KAPI_ETIMEDOUT);
    std::uint64_t begun = world.now_ns();
    close();
    EXPECT_LT(world.now_ns() - begun, 2 * kSecond);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RtrsClientKeptEnd, ::testing::Range(1, 5));

} // namespace
