// SPDX-License-Identifier: GPL-2.0
// The RTRS client and the RTRS server, over one and two paths: what is written is read, whatever happens to the paths.
#include "rtrs_pair_test.h"

#include <kapi/sim/rdma.h>

namespace {

class RtrsPair : public RtrsPairTest {
protected:
    ~RtrsPair() override { end(); }
    void start_server(bool always_invalidate = true)
    {
        user.world = &world;
        RtrsPairTest::start_server({65536, 16, always_invalidate}, SrvUser::ops, &user);
    }
    void both(unsigned paths, bool always_invalidate = true)
    {
        load();
        start_server(always_invalidate);
        open(paths);
    }
    /** Programs that write and read blocks of their own and check them; from a task each. */
    void spawn_programs(unsigned count, unsigned rounds)
    {
        for (unsigned n = 0; n < count; n++)
            programs.push_back(world.spawn(a, "program", [this, n, rounds] { program(n, rounds); }));
    }
    void program(unsigned n, unsigned rounds)
    {
        for (unsigned round = 0; round < rounds; round++) {
            std::string name = std::to_string(n) + "." + std::to_string(round % 3);
            std::string data = contents(1 + world.random().below(61440), n * 1000 + round);
            int error = call(false, "w" + name, data);
            if (error) {
                errors.push_back(error);
                continue;
            }
            std::string got(data.size(), '-');
            error = call(true, "r" + name, got);
            if (error)
                errors.push_back(error);
            else
                EXPECT_TRUE(got == data) << "program " << n << " round " << round;
        }
    }
    bool wait_for_programs(std::uint64_t limit_ns)
    {
        return world.run_until(
            [&] { return std::all_of(programs.begin(), programs.end(), [](auto &task) { return task->is_done(); }); }, limit_ns);
    }

    /** A write ends without an answer; the server's user still has its data, as its first call. */
    void begin_late()
    {
        EXPECT_EQ(put(root + "io_timeout_ms", "1000"), 0);
        user.keeps = true;
        Ended late;
        late.data = contents(61440, 1);
        rtrs_clt_chunk *permit = nullptr;
        run(a, [&] {
            permit = rtrs_clt_core_get_permit(session, 0, 1);
            EXPECT_EQ(begin(permit, late, false, "wlate"), 0);
        });
        ASSERT_TRUE(world.run_until([&] { return user.calls.size() == 1; }, kSecond));
        user.keeps = false;
        ASSERT_TRUE(world.run_until([&] { return late.done; }, 2 * kSecond));
        EXPECT_EQ(late.error, -KAPI_ETIMEDOUT);
        run(a, [&] { rtrs_clt_core_put_permit(session, permit); });
    }
    /** Requests in all chunks that there are. */
    void overwrite_all()
    {
        for (unsigned i = 0; i < 40; i++)
            EXPECT_EQ(write("wother", contents(61440, 2 + i)), 0);
        const SrvUser::Call &late = user.calls[0];
        EXPECT_EQ(std::memcmp(late.data, late.bytes.data(), late.size), 0) << "it would be written to a disk";
    }

    SrvUser user;
    std::vector<sim::TaskRef> programs;
    std::vector<int> errors;
};

TEST_P(RtrsPair, what_is_written_is_read)
{
    both(1);
    for (std::size_t size : {1u, 4096u, 61440u}) {
        EXPECT_EQ(write("wblock", contents(size, 1)), 0);
        EXPECT_TRUE(read("rblock", size) == contents(size, 1));
    }
}

TEST_P(RtrsPair, the_same_without_new_keys)
{
    both(1, false);
    for (std::size_t size : {1u, 4096u, 61440u}) {
        EXPECT_EQ(write("wblock", contents(size, 1)), 0);
        EXPECT_TRUE(read("rblock", size) == contents(size, 1));
    }
}

TEST_P(RtrsPair, many_requests_at_a_time)
{
    both(2);
    spawn_programs(24, 10);
    EXPECT_TRUE(wait_for_programs(60 * kSecond));
    EXPECT_TRUE(errors.empty());
}

TEST_P(RtrsPair, paths_are_lost_and_come_back_under_requests)
{
    both(2);
    spawn_programs(8, 60);
    for (unsigned i = 0; i < 6; i++) {
        world.run_for(20 * sim::kMillisecond + world.random().below(200 * sim::kMillisecond));
        EXPECT_EQ(put(path((i + 1) % 2) + "reconnect", "1"), 0);
    }
    EXPECT_TRUE(wait_for_programs(100 * kSecond));
    EXPECT_TRUE(errors.empty());
    EXPECT_TRUE(links.empty());
}

/** A peer notices each of these numbers: how often and how soon it is asked again, and for how long it may lack a receive. */
TEST_P(RtrsPair, devices_are_asked_for_the_same_patience)
{
    both(1);
    EXPECT_EQ(sim::fabric().qps.size(), 2 * (1 + sim::kCpus));
    for (const auto &[number, qp] : sim::fabric().qps) {
        EXPECT_EQ(qp->retry, 6u) << "Soft-RoCE takes 7 for ever";
        EXPECT_EQ(qp->ack_timeout_ns, 4096ull << 17) << "0.54 s";
        EXPECT_EQ(qp->rnr_retry, 7u) << "for ever";
        EXPECT_EQ(qp->rnr_timer_ns, 320'000u);
        EXPECT_EQ(qp->reads_in, qp->node == &a ? 1u : 0u) << "a connection without any is refused by some devices";
    }
}

/** Whatever is done to one path, the other one stays connected. */
TEST_P(RtrsPair, a_path_that_nobody_touches_stays)
{
    both(2);
    spawn_programs(8, 150);
    for (unsigned i = 0; i < 12; i++) {
        unsigned touched = i / 2 % 2;
        std::string before = get(path(1 - touched) + "stats/reconnects");
        auto wait = [&] { world.run_for(world.random().below(150 * sim::kMillisecond)); };
        wait();
        EXPECT_EQ(put(path(touched) + (i % 2 ? "disconnect" : "remove_path"), "1"), 0);
        wait();
        EXPECT_NE(put(root + "add_path", path_name(1 - touched)), 0) << "it is there";
        EXPECT_EQ(i % 2 ? put(path(touched) + "reconnect", "1") : put(root + "add_path", path_name(touched)), 0);
        EXPECT_EQ(get(path(1 - touched) + "state"), "connected\n");
        EXPECT_EQ(get(path(1 - touched) + "stats/reconnects"), before) << "round " << i;
    }
    EXPECT_TRUE(wait_for_programs(100 * kSecond));
    EXPECT_TRUE(errors.empty());
    EXPECT_TRUE(links.empty());
}

TEST_P(RtrsPair, a_device_is_lost_under_requests)
{
    both(2);
    spawn_programs(8, 40);
    world.run_for(30 * sim::kMillisecond);
    run(a, [&] { sim::unplug_rdma(*devices[0]); }, 100 * kSecond);
    EXPECT_TRUE(wait_for_programs(100 * kSecond));
    EXPECT_TRUE(errors.empty());
}

/** A request that ended without an answer, because it took too long, leaves its chunk to the server until that is done. */
TEST_P(RtrsPair, what_the_server_still_works_on_is_not_overwritten)
{
    both(2);
    begin_late();
    overwrite_all();
    run(b, [&] { user.answer(user.calls[0]); });
    EXPECT_TRUE(world.run_until([&] { return user.links.size() == 1; }, kSecond)) << "the session was there all the time";
    world.run_for(10 * kSecond);
    EXPECT_EQ(get(path(0) + "state"), "connected\n");
    EXPECT_EQ(get(path(1) + "state"), "connected\n");
    EXPECT_TRUE(links.empty());
    EXPECT_TRUE(read("rlate", 61440) == contents(61440, 1));
}

/** The only attempt to reconnect waits at the server for the end of the request, as long as the server lets it. */
TEST_P(RtrsPair, nor_soon_after_its_path_was_stopped)
{
    both(2);
    EXPECT_EQ(put(root + "max_reconnect_attempts", "1"), 0);
    begin_late();
    world.run_for(42 * kSecond);
    overwrite_all();
    run(b, [&] { user.answer(user.calls[0]); });
    world.run_for(5 * kSecond);
    for (unsigned nth : {0u, 1u})
        EXPECT_EQ(put(path(nth) + "reconnect", "1"), 0);
}

TEST_P(RtrsPair, the_server_begins_anew)
{
    both(2);
    EXPECT_EQ(write("wblock", contents(4096, 1)), 0);
    stop_server();
    EXPECT_EQ(write("wblock", contents(4096, 1)), -KAPI_ECONNABORTED);
    std::uint64_t begun = world.now_ns();
    start_server();
    ASSERT_TRUE(world.run_until([&] { return links == std::vector<int>({0, 1}); }, 30 * kSecond));
    EXPECT_LT(world.now_ns() - begun, 5 * kSecond);
    EXPECT_TRUE(read("rblock", 4096) == contents(4096, 1));
}

INSTANTIATE_TEST_SUITE_P(Seeds, RtrsPair, ::testing::Range(1, 6));

} // namespace
