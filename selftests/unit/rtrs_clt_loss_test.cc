// SPDX-License-Identifier: GPL-2.0
// The last path of a session is lost: what its user has under way ends before the loss is reported, as with the kernel's own
// client, and nothing of the session succeeds behind its end. RNBD frees and remaps disks by these events.
#include "rtrs_clt_test.h"

namespace {

class RtrsClientLoss : public RtrsClientTest {
protected:
    static constexpr std::uint64_t kSecond = sim::kSecond, kMs = sim::kMillisecond;

    rtrs_clt_chunk *permit(bool admin)
    {
        rtrs_clt_chunk *taken = nullptr;
        run(a, [&] { taken = rtrs_clt_core_get_permit(session, admin, 1); });
        return taken;
    }
    void give(rtrs_clt_chunk *taken)
    {
        run(a, [&] { rtrs_clt_core_put_permit(session, taken); });
    }
    void lose(unsigned nth)
    {
        EXPECT_EQ(put(path(nth) + "disconnect", "1"), 0);
    }
    /** The last path is lost while the completion of a request that was answered is still to come. */
    void end_answered(bool other_comes)
    {
        ready(2);
        lose(1);
        world.run_for(400 * kMs); // then it may come back at once
        links.clear();
        Ended ended;
        ended.data = contents(4096, 1);
        auto *taken = permit(true);
        sim::hold_packets(*devices[0], 5 * kSecond);
        run(a, [&] { EXPECT_EQ(begin(taken, ended, false, "block"), 0); });
        run(b, [&] { server.answer(*server.service(), 0, 0); });
        world.run_for(10 * kMs);
        EXPECT_FALSE(ended.done);
        auto goes = world.spawn(a, "administrator", [this] { EXPECT_EQ(sim::sysfs_write(path(0) + "disconnect", "1"), 0); });
        world.run_for(kMs);
        if (other_comes) {
            EXPECT_EQ(put(path(1) + "reconnect", "1"), 0);
            EXPECT_FALSE(ended.done);
        }
        EXPECT_TRUE(world.run_until([&] { return ended.done && goes->is_done(); }, 5 * kSecond));
        EXPECT_EQ(ended.error, -KAPI_ECONNABORTED);
        give(taken);
        EXPECT_TRUE(reported(other_comes ? std::vector<int>{0, 1} : std::vector<int>{0}, kSecond));
    }
    bool reported(std::vector<int> what, std::uint64_t limit_ns)
    {
        return world.run_until([&] { return links == what; }, limit_ns);
    }
};

TEST_P(RtrsClientLoss, a_request_ends_before_the_loss_is_reported)
{
    ready();
    server.poll_ns = 100 * kMs; // so it takes some time to end the path
    server.on_request = [](WireServer::Request &) { return true; };
    Ended ended;
    ended.data = contents(2048, 1);
    auto *taken = permit(false);
    run(a, [&] { EXPECT_EQ(begin(taken, ended, false, "block"), 0); });
    ASSERT_TRUE(world.run_until([&] { return !server.requests.empty(); }, kSecond));
    when_told = [&](int up) { EXPECT_TRUE(up || ended.done); };
    lose(0);
    EXPECT_TRUE(reported({0}, kSecond));
    EXPECT_EQ(ended.error, -KAPI_ECONNABORTED);
    give(taken);
}

/** It waits for a path by itself, or for memory. */
TEST_P(RtrsClientLoss, so_does_one_that_no_path_has)
{
    ready();
    EXPECT_EQ(put(root + "no_path_timeout_ms", "60000"), 0);
    server.on_request = [](WireServer::Request &) { return true; };
    std::vector<Ended> ended(6);
    std::vector<rtrs_clt_chunk *> taken;
    for (Ended &one : ended) {
        one.data = contents(2048, 1);
        taken.push_back(permit(false));
        run(a, [&] { EXPECT_EQ(begin(taken.back(), one, false, "block"), 0); });
    }
    when_told = [&](int up) {
        EXPECT_TRUE(up || std::ranges::all_of(ended, [](const Ended &one) { return one.done; }));
    };
    lose(0);
    EXPECT_TRUE(reported({0}, kSecond));
    for (auto *one : taken)
        give(one);
}

/** The mapper of a disk has it until its disk is in no list any more. */
TEST_P(RtrsClientLoss, what_follows_an_admin_request_is_done_before_the_loss_is_reported)
{
    ready();
    auto *taken = permit(true);
    lose(0);
    world.run_for(500 * kMs);
    EXPECT_TRUE(links.empty());
    give(taken);
    std::uint64_t given_ns = world.now_ns();
    EXPECT_TRUE(reported({0}, 100 * kMs));
    EXPECT_GE(world.now_ns() - given_ns, 10 * kMs) << "RNBD has something to do after it, too";
}

TEST_P(RtrsClientLoss, nor_is_it_at_once_when_it_came_during_another_report)
{
    ready();
    std::uint64_t given_ns = 0, told_ns = 0;
    when_told = [&](int up) {
        told_ns = world.now_ns();
        if (!up)
            return;
        auto *taken = rtrs_clt_core_get_permit(session, 1, 1);
        world.sleep(500 * kMs); // until the path is lost
        rtrs_clt_core_put_permit(session, taken);
        given_ns = world.now_ns();
    };
    lose(0);
    EXPECT_TRUE(reported({0}, kSecond));
    world.run_for(400 * kMs);
    EXPECT_EQ(put(path(0) + "reconnect", "1"), 0);
    world.run_for(100 * kMs);
    lose(0);
    EXPECT_TRUE(world.run_until([&] { return given_ns && told_ns > given_ns; }, 3 * kSecond));
    EXPECT_GE(told_ns - given_ns, 10 * kMs);
}

TEST_P(RtrsClientLoss, but_it_is_reported_after_two_seconds_in_any_case)
{
    ready(2);
    auto *taken = permit(true);
    lose(1);
    world.run_for(kSecond);
    lose(0);
    std::uint64_t lost_ns = world.now_ns();
    EXPECT_EQ(put(path(1) + "reconnect", "1"), 0);
    EXPECT_TRUE(reported({0, 1}, 3 * kSecond)) << "the other path is connected by then";
    EXPECT_GE(world.now_ns() - lost_ns, 1900 * kMs);
    EXPECT_LT(world.now_ns() - lost_ns, 2100 * kMs);
    lose(1);
    lost_ns = world.now_ns();
    EXPECT_TRUE(reported({0, 1, 0}, 3 * kSecond));
    EXPECT_GE(world.now_ns() - lost_ns, 1900 * kMs) << "each loss has its own";
    give(taken);
}

/** A switch has what the client sent, and the answer has come: the session of which it speaks is over. */
TEST_P(RtrsClientLoss, an_answered_request_does_not_succeed_behind_the_end_of_its_session)
{
    end_answered(false);
}

TEST_P(RtrsClientLoss, nor_when_another_path_is_there_by_then)
{
    end_answered(true);
}

/** RNBD asks for one more while it has one, and many disks are mapped at a time. */
class RtrsClientNoPermit : public RtrsClientLoss {
protected:
    void take_all()
    {
        server.geometry = *rtrs::Geometry::create(3, 65536);
        ready();
        for (unsigned i = 0; i < 2; i++)
            permits.push_back(permit(true));
    }
    void wait_for_one()
    {
        waits = world.spawn(a, "mapper", [this] { got = rtrs_clt_core_get_permit(session, 1, 1); });
    }
    void give_all()
    {
        for (auto *one : std::exchange(permits, {}))
            give(one);
    }
    std::vector<rtrs_clt_chunk *> permits;
    rtrs_clt_chunk *got = nullptr;
    sim::TaskRef waits;
};

TEST_P(RtrsClientNoPermit, who_waits_gets_none_when_all_are_in_hands_that_do_nothing)
{
    take_all();
    server.on_request = [](WireServer::Request &) { return true; };
    Ended ended;
    ended.data = contents(2048, 1);
    wait_for_one();
    world.run_for(20 * kSecond);
    run(a, [&] { EXPECT_EQ(begin(permits[0], ended, false, "block"), 0); });
    world.run_for(100 * kSecond);
    EXPECT_FALSE(waits->is_done()) << "the end of that request may give one back";
    run(b, [&] { server.answer(*server.requests[0].on, server.requests[0].chunk, 0); });
    EXPECT_TRUE(world.run_until([&] { return ended.done; }, kSecond));
    world.run_for(29 * kSecond);
    EXPECT_FALSE(waits->is_done());
    EXPECT_TRUE(world.run_until([&] { return waits->is_done(); }, 2 * kSecond));
    EXPECT_EQ(got, nullptr);
    give_all();
}

TEST_P(RtrsClientNoPermit, not_while_others_use_theirs)
{
    take_all();
    wait_for_one();
    for (unsigned second = 0; second < 100; second++) {
        Ended ended;
        ended.data = contents(2048, 1);
        run(a, [&] { EXPECT_EQ(begin(permits[0], ended, false, "block"), 0); });
        EXPECT_TRUE(world.run_until([&] { return ended.done; }, kSecond));
        world.run_for(kSecond);
    }
    EXPECT_FALSE(waits->is_done());
    give(permits.back());
    permits.pop_back();
    EXPECT_TRUE(world.run_until([&] { return waits->is_done(); }, kSecond));
    ASSERT_NE(got, nullptr);
    permits.push_back(got);
    give_all();
}

/** What it would be used for is refused then. So a mapping fails before the loss is reported. */
TEST_P(RtrsClientNoPermit, who_waits_gets_none_when_the_last_path_is_lost)
{
    take_all();
    wait_for_one();
    world.run_for(kSecond);
    EXPECT_FALSE(waits->is_done());
    lose(0);
    EXPECT_TRUE(world.run_until([&] { return waits->is_done(); }, 500 * kMs));
    EXPECT_EQ(got, nullptr);
    EXPECT_TRUE(links.empty());
    give_all();
    EXPECT_TRUE(reported({0}, 100 * kMs));
}

/** Other disks go on meanwhile. */
TEST_P(RtrsClientNoPermit, nor_does_it_wait_for_the_end_of_io)
{
    take_all();
    wait_for_one();
    for (unsigned second = 0; second < 32 && !waits->is_done(); second++) {
        EXPECT_EQ(write("block", contents(2048, second)), 0);
        world.run_for(kSecond);
    }
    EXPECT_TRUE(waits->is_done());
    EXPECT_EQ(got, nullptr);
    give_all();
}

/** Or the first sectors of no disk could be read, and none be made. */
TEST_P(RtrsClientNoPermit, one_is_left_for_io)
{
    take_all();
    run(a, [&] { EXPECT_EQ(rtrs_clt_core_get_permit(session, 1, 0), nullptr); });
    for (unsigned i = 0; i < 3; i++) {
        run(a, [&] { got = rtrs_clt_core_get_permit(session, 0, 0); });
        ASSERT_NE(got, nullptr);
        run(a, [&] { EXPECT_EQ(rtrs_clt_core_get_permit(session, 0, 0), nullptr); });
        give(got);
    }
    wait_for_one();
    world.run_for(kSecond);
    EXPECT_FALSE(waits->is_done());
    give(permits.back());
    permits.pop_back();
    EXPECT_TRUE(world.run_until([&] { return waits->is_done(); }, kMs)) << "it is woken";
    ASSERT_NE(got, nullptr);
    permits.push_back(got);
    give_all();
}

TEST_P(RtrsClientNoPermit, of_a_single_one_admin_requests_get_none)
{
    server.geometry = *rtrs::Geometry::create(1, 65536);
    ready();
    EXPECT_EQ(std::count_if(a.log.begin(), a.log.end(), [](auto &line) { return line.find("depth of 1") != line.npos; }), 1);
    wait_for_one();
    EXPECT_TRUE(world.run_until([&] { return waits->is_done(); }, kMs));
    EXPECT_EQ(got, nullptr);
    Ended ended;
    ended.data = contents(2048, 1);
    auto *taken = permit(false);
    ASSERT_NE(taken, nullptr);
    run(a, [&] { EXPECT_EQ(begin(taken, ended, false, "block"), 0); });
    EXPECT_TRUE(world.run_until([&] { return ended.done; }, kSecond));
    EXPECT_EQ(ended.error, 0);
    give(taken);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RtrsClientLoss, ::testing::Range(1, 4));
INSTANTIATE_TEST_SUITE_P(Seeds, RtrsClientNoPermit, ::testing::Range(1, 4));

} // namespace
