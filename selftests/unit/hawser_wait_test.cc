// SPDX-License-Identifier: GPL-2.0
// include/hawser/wait.h and work.h: no wake-up is lost, whatever the interleaving; works call members.
#include "kapi_sim_test.h"

#include <hawser/atomic.h>
#include <hawser/lock.h>
#include <hawser/wait.h>
#include <hawser/work.h>

namespace {

class Wait : public SimTest, public ::testing::WithParamInterface<int> {
protected:
    Wait() : SimTest(static_cast<std::uint64_t>(GetParam())) {}
};

TEST_P(Wait, wait_until__never_misses_a_wake_up)
{
    hw::WaitQueue queue;
    hw::Atomic<int> tokens(0);
    int taken = 0;
    for (int i = 0; i < 3; i++)
        world.spawn(a, "consumer", [&] {
            for (int n = 0; n < 10; n++) {
                int have = 0;
                EXPECT_TRUE(queue.wait_until(KAPI_FOREVER, [&] {
                    have = tokens.load_acquire();
                    while (have > 0 && !tokens.compare_exchange(have, have - 1))
                        ;
                    return have > 0;
                }));
                taken++;
            }
        });
    world.spawn(a, "producer", [&] {
        for (int n = 0; n < 30; n++) {
            tokens.fetch_add(1);
            queue.wake();
        }
    });
    world.run_idle();
    EXPECT_EQ(taken, 30);
}

struct TokensLock { static constexpr const char *name = "tokens"; static constexpr unsigned rank = 10; };

// Tokens for threads that wait in turn, each for one.
struct Tokens {
    bool take()
    {
        return left.with([](int &count) { return count > 0 && count--; });
    }
    void add(int more)
    {
        left.with([&](int &count) { count += more; });
        queue.wake();
    }
    bool wait(hw::u64 deadline)
    {
        bool has = false;
        bool waited = queue.wait_in_turn(deadline, [&] { return has = take(); }).has_value();
        EXPECT_EQ(has, waited);
        return has;
    }
    hw::Guarded<int, TokensLock> left;
    hw::WaitQueue queue;
};

TEST_P(Wait, wait_in_turn__many_tokens_by_one_wake_up_are_all_taken)
{
    Tokens tokens;
    int taken = 0;
    for (int i = 0; i < 8; i++)
        world.spawn(a, "consumer", [&] { taken += tokens.wait(KAPI_FOREVER); });
    run(a, [&] {
        for (int count : {3, 5}) {
            world.sleep(sim::kMillisecond);
            tokens.add(count);
        }
        world.sleep(sim::kMillisecond);
    });
    EXPECT_EQ(taken, 8);
}

TEST_P(Wait, wait_for_one__a_piece_wakes_one_that_no_signal_ends)
{
    Tokens tokens;
    int taken = 0, looks = 0;
    auto wait = [&] { tokens.queue.wait_for_one([&] { return looks++, tokens.take(); }), taken++; };
    for (int i = 0; i < 8; i++)
        world.signal(*world.spawn(a, "consumer", wait));
    world.run_for(sim::kSecond);
    EXPECT_EQ(taken, 0);
    for (int i = 1; i <= 8; i++) {
        looks = 0;
        run(a, [&] { tokens.add(1); });
        world.run_for(sim::kMillisecond);
        EXPECT_EQ(taken, i);
        EXPECT_EQ(looks, 1) << "the others sleep on";
    }
}

// Between its last look and its end it does not sleep: the other one is woken.
TEST_P(Wait, wait_in_turn__who_gives_up_takes_no_wake_up_away)
{
    Tokens tokens;
    run(a, [&] {
        for (int round = 0; round < 200; round++) {
            int taken = 0;
            hw::u64 now = kapi_now_ns(), deadline = now + 5 * sim::kMicrosecond;
            world.spawn(a, "impatient", [&] { taken += tokens.wait(deadline); });
            world.sleep(sim::kMicrosecond);
            auto patient = world.spawn(a, "patient", [&] { taken += tokens.wait(KAPI_FOREVER); });
            world.sleep(3 * sim::kMicrosecond + world.random().below(3 * sim::kMicrosecond));
            tokens.add(1);
            world.sleep(sim::kMillisecond);
            EXPECT_EQ(taken, 1) << round;
            if (!patient->is_done())
                tokens.add(1);
            world.sleep(sim::kMillisecond);
            EXPECT_TRUE(patient->is_done());
        }
    });
}

TEST_P(Wait, wait_until__ends_by_deadline_or_signal)
{
    hw::WaitQueue queue;
    run(a, [&] {
        hw::u64 deadline = kapi_now_ns() + sim::kSecond;
        EXPECT_EQ(queue.wait_until(deadline, [] { return false; }).error(), hw::Errno(KAPI_ETIMEDOUT));
        EXPECT_GE(kapi_now_ns(), deadline);
        EXPECT_TRUE(queue.wait_until(kapi_now_ns(), [] { return true; }));
    });
    auto task = world.spawn(a, "program", [&] {
        EXPECT_EQ(queue.wait_until(KAPI_FOREVER, [] { return false; }).error(), hw::Errno(KAPI_EINTR));
    });
    world.run_for(sim::kMillisecond);
    world.signal(*task);
    world.run_for(sim::kMillisecond);
    EXPECT_TRUE(task->is_done());
}

TEST_P(Wait, wait_for__ends_by_its_condition_alone)
{
    hw::WaitQueue queue;
    hw::Atomic<int> ready(0);
    auto task = world.spawn(a, "teardown", [&] {
        world.signal(*sim::World::current_task());
        queue.wait_for([&] { return ready.load_acquire() != 0; });
    });
    world.run_for(sim::kSecond);
    world.signal(*task);
    world.run_for(sim::kSecond);
    EXPECT_FALSE(task->is_done());
    run(a, [&] {
        ready.store_release(1);
        queue.wake();
    });
    world.run_for(sim::kSecond);
    EXPECT_TRUE(task->is_done());
}

TEST_P(Wait, wait_until__success_beats_a_late_deadline)
{
    hw::WaitQueue queue;
    bool ready = false;
    auto task = world.spawn(a, "program", [&] {
        EXPECT_TRUE(queue.wait_until(kapi_now_ns() + sim::kMillisecond, [&] { return ready; }));
    });
    world.at(world.now_ns() + sim::kMillisecond / 2, [&] { ready = true; }); // without a wake-up
    world.run_until([&] { return task->is_done(); }, sim::kSecond);
    EXPECT_TRUE(task->is_done());
}

struct Clock {
    void tick()
    {
        ticks++;
        if (ticks < 5)
            work.queue(queue, sim::kMillisecond);
    }
    kapi_workqueue *queue = kapi_workqueue_create("clock", 0);
    int ticks = 0;
    hw::Work<Clock, &Clock::tick> work{*this};
};

TEST_P(Wait, work__calls_its_member_and_tells_whether_it_was_pending)
{
    run(a, [&] {
        Clock clock;
        EXPECT_TRUE(clock.work.queue(clock.queue));
        world.sleep(100 * sim::kMillisecond);
        EXPECT_EQ(clock.ticks, 5);
        EXPECT_FALSE(clock.work.cancel_sync());
        clock.work.mod(clock.queue, sim::kSecond);
        EXPECT_TRUE(clock.work.cancel_sync());
        world.sleep(2 * sim::kSecond);
        EXPECT_EQ(clock.ticks, 5);
        kapi_workqueue_destroy(clock.queue);
    });
}

INSTANTIATE_TEST_SUITE_P(Seeds, Wait, ::testing::Range(1, 40));

} // namespace
