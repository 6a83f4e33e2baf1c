// SPDX-License-Identifier: GPL-2.0
// A path of the RTRS client is lost while another one comes up, in slow motion, so that either is between any two steps of the
// other.
#include "rtrs_clt_test.h"

#include "drivers/infiniband/ulp/rtrs/client/module.h"

#include <kapi/sim/slow.h>
#include <kapi/sim/threads.h>

namespace {

class RtrsClientMoments : public RtrsClientTest {
protected:
    static constexpr std::uint64_t kMs = sim::kMillisecond, kSlow = 20 * kMs;

    void make_requests()
    {
        while (!stop) {
            Ended ended;
            ended.data = contents(100, 1);
            rtrs_clt_chunk *permit = rtrs_clt_core_get_permit(session, 0, 1);
            int error = permit ? begin(permit, ended, false, "disk") : -KAPI_ECONNABORTED;
            while (!error && !ended.done)
                world.sleep(100 * sim::kMicrosecond);
            failed += error || ended.error;
            if (permit)
                rtrs_clt_core_put_permit(session, permit);
            world.sleep(kMs);
        }
    }
    void note_the_second()
    {
        server.on_request = [this](WireServer::Request &request) {
            kapi_cm_info info;
            kapi_cm_describe(request.on->cm, &info);
            if (info.local.ip[14])
                carried.push_back(request.came_ns);
            return false;
        };
    }
    sim::TaskRef write_file(unsigned nth, const std::string &file)
    {
        return world.spawn(a, "administrator", [=, this] { EXPECT_EQ(sim::sysfs_write(path(nth) + file, "1"), 0); });
    }
    /** That the server received over the second path since begun_ns. */
    bool second_has_carried(std::uint64_t begun_ns, std::uint64_t until_ns)
    {
        return std::ranges::any_of(carried, [&](std::uint64_t ns) { return ns > begun_ns && ns < until_ns; });
    }
    /** The first path is disconnected that long after the second one began to connect. Was the user told that none is left? */
    bool lose_one_while_another_comes_up(const char *slow, std::uint64_t after_ns)
    {
        EXPECT_EQ(put(path(1) + "disconnect", "1"), 0);
        world.run_for(400 * kMs); // then it may come back at once
        links.clear();
        failed = 0;
        std::uint64_t begun_ns = world.now_ns();
        when_told = [&](int up) {
            if (!up) {
                EXPECT_FALSE(second_has_carried(begun_ns, world.now_ns() - kMs)) << "it was there";
            }
        };
        sim::stand_still_after(slow, kSlow);
        auto comes = write_file(1, "reconnect");
        world.run_for(after_ns);
        auto goes = write_file(0, "disconnect");
        EXPECT_TRUE(world.run_until([&] { return comes->is_done() && goes->is_done(); }, 5 * sim::kSecond));
        sim::stand_still_after(nullptr, 0);
        world.run_for(100 * kMs);
        when_told = {};
        bool told = !links.empty();
        if (told) {
            EXPECT_EQ(links, (std::vector<int>{0, 1}));
        } else {
            EXPECT_EQ(failed, 0u) << "a path was there all the time";
        }
        EXPECT_EQ(put(path(0) + "reconnect", "1"), 0);
        return told;
    }

    bool stop = false;
    unsigned failed = 0;
    std::vector<std::uint64_t> carried; // when, by the second path
};

/** Between two lanes, and between any two steps under the session's lock. */
TEST_P(RtrsClientMoments, no_request_fails_while_a_path_is_there)
{
    ready(2);
    note_the_second();
    std::vector<sim::TaskRef> programs;
    for (unsigned n = 0; n < 8; n++)
        programs.push_back(world.spawn(a, "program", [this] { make_requests(); }));
    for (const char *slow : {"rtrs_clt lane", "rtrs_clt session"}) {
        SCOPED_TRACE(slow);
        unsigned told = 0, rounds = 0;
        for (std::uint64_t after_ns = 0; after_ns <= 160 * kMs; after_ns += 10 * kMs, rounds++) {
            SCOPED_TRACE(after_ns);
            told += lose_one_while_another_comes_up(slow, after_ns);
        }
        EXPECT_GT(told, 0u) << "some were lost before";
        EXPECT_LT(told, rounds) << "and some behind";
    }
    stop = true;
    EXPECT_TRUE(world.run_until([&] { return std::ranges::all_of(programs, [](auto &task) { return task->is_done(); }); },
                                10 * sim::kSecond));
}

/** The other path takes requests already, and is not yet called connected. */
TEST_P(RtrsClientMoments, the_server_is_asked_for_the_end_of_a_path_whenever_its_requests_move)
{
    ready(2);
    unsigned moved = 0, failed_ones = 0;
    for (std::uint64_t after_ns = 0; after_ns <= 1000 * kMs; after_ns += 40 * kMs) {
        SCOPED_TRACE(after_ns);
        EXPECT_EQ(put(path(1) + "disconnect", "1"), 0);
        world.run_for(400 * kMs); // then it may come back at once
        server.on_request = [](WireServer::Request &request) { return request.message == "late"; };
        Ended ended;
        ended.data = contents(100, 1);
        rtrs_clt_chunk *permit = nullptr;
        run(a, [&] {
            permit = rtrs_clt_core_get_permit(session, 0, 1);
            EXPECT_EQ(begin(permit, ended, false, "late"), 0);
        });
        world.run_for(10 * kMs);
        server.on_request = nullptr;
        server.queries = 0;
        sim::stand_still_after("rtrs_clt kept", 300 * kMs);
        auto comes = write_file(1, "reconnect");
        world.run_for(after_ns);
        auto goes = write_file(0, "disconnect");
        EXPECT_TRUE(world.run_until([&] { return comes->is_done() && goes->is_done(); }, 20 * sim::kSecond));
        sim::stand_still_after(nullptr, 0);
        EXPECT_TRUE(world.run_until([&] { return ended.done; }, sim::kSecond));
        moved += !ended.error;
        failed_ones += !!ended.error;
        EXPECT_TRUE(ended.error || server.queries) << "it has moved";
        run(a, [&] { rtrs_clt_core_put_permit(session, permit); });
        EXPECT_EQ(put(path(0) + "reconnect", "1"), 0);
    }
    EXPECT_GT(moved, 0u);
    EXPECT_GT(failed_ones, 0u);
}

/**
 * A program stands still in the middle of a command while another one removes the path, and what is left to do for the command
 * would be done later, by a thread that has other things to do.
 */
TEST_P(RtrsClientMoments, a_command_meets_the_removal_of_its_path)
{
    ready(2);
    run(a, [&] { sim::leave_one_thread(*rtrs_clt::Module::get().queue); });
    server.on_request = [](WireServer::Request &request) { return request.message == "late"; };
    Ended ended;
    ended.data = contents(100, 1);
    EXPECT_EQ(put(path(1) + "disconnect", "1"), 0);
    rtrs_clt_chunk *permit = nullptr;
    run(a, [&] {
        permit = rtrs_clt_core_get_permit(session, 0, 1);
        EXPECT_EQ(begin(permit, ended, false, "late"), 0);
    });
    world.run_for(10 * kMs);
    sim::stand_still_after("rtrs_clt path", 2 * sim::kSecond);
    auto command = write_file(1, "disconnect");
    world.run_for(kMs);
    sim::stand_still_after(nullptr, 0);
    auto removal = write_file(1, "remove_path");
    world.run_for(1800 * kMs);
    EXPECT_FALSE(command->is_done());
    EXPECT_FALSE(removal->is_done()) << "it waits for that call of a file";
    server.poll_ns = 2 * sim::kSecond; // so that half a second is waited for it
    auto goes = write_file(0, "disconnect");
    EXPECT_TRUE(world.run_until([&] { return removal->is_done() && goes->is_done(); }, 5 * sim::kSecond));
    EXPECT_TRUE(command->is_done());
    run(a, [&] { rtrs_clt_core_put_permit(session, permit); });
}

/** Two programs want to, at the same moment. */
TEST_P(RtrsClientMoments, a_path_is_removed_once)
{
    ready(2);
    sim::stand_still_after("rtrs_clt session", 10 * kMs);
    int errors[2] = {1, 1};
    std::vector<sim::TaskRef> tasks;
    for (int &error : errors)
        tasks.push_back(world.spawn(a, "remover", [&] { error = sim::sysfs_write(path(1) + "remove_path", "1"); }));
    EXPECT_TRUE(world.run_until([&] { return tasks[0]->is_done() && tasks[1]->is_done(); }, 5 * sim::kSecond));
    sim::stand_still_after(nullptr, 0);
    std::ranges::sort(errors);
    EXPECT_EQ(errors[0], -KAPI_EBUSY);
    EXPECT_EQ(errors[1], 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RtrsClientMoments, ::testing::Range(1, 3));

} // namespace
