// SPDX-License-Identifier: GPL-2.0
// The simulator keeps its promises: works, waiting, crashes, clocks.
#include "kapi_sim_test.h"

#include <kapi/errno.h>
#include <kapi/lock.h>
#include <kapi/memory.h>
#include <kapi/sim/wake.h>
#include <kapi/wait.h>
#include <kapi/work.h>

namespace {

using Sim = SimTest;
using SimDeath = SimTest;

kapi_lock_class outer_class{"outer", 10, {}};

TEST_F(Sim, work__runs_once_per_queueing_and_again_when_queued_while_running)
{
    struct Job {
        kapi_work work;
        kapi_workqueue *queue;
        int runs;
    };
    static Job job;
    run(a, [&] {
        job.queue = kapi_workqueue_create("q", 0);
        job.runs = 0;
        kapi_work_init(&job.work, [](kapi_work *) {
            if (++job.runs == 1) {
                EXPECT_EQ(kapi_work_queue(job.queue, &job.work, 0), 1);
                EXPECT_EQ(kapi_work_queue(job.queue, &job.work, 0), 0);
            }
        });
        EXPECT_EQ(kapi_work_queue(job.queue, &job.work, sim::kMillisecond), 1);
        EXPECT_EQ(kapi_work_queue(job.queue, &job.work, 0), 0);
        world.sleep(10 * sim::kMillisecond);
        EXPECT_EQ(job.runs, 2);
        kapi_work_mod(job.queue, &job.work, sim::kSecond);
        kapi_work_mod(job.queue, &job.work, 2 * sim::kSecond);
        world.sleep(1500 * sim::kMillisecond);
        EXPECT_EQ(job.runs, 2);
        kapi_work_cancel_sync(&job.work);
        world.sleep(sim::kSecond);
        EXPECT_EQ(job.runs, 2);
        kapi_workqueue_destroy(job.queue);
    });
}

TEST_F(Sim, work__is_not_queued_while_it_is_cancelled)
{
    static struct Job {
        kapi_work work; // first, so that the work is the job
        unsigned runs = 0;
        bool go_on = false;
    } job;
    job = {};
    kapi_workqueue *queue = nullptr;
    auto canceller = world.spawn(a, "canceller", [&] {
        queue = kapi_workqueue_create("q", 0);
        kapi_work_init(&job.work, [](kapi_work *) {
            job.runs++;
            while (!job.go_on)
                sim::world().sleep(sim::kMillisecond);
        });
        EXPECT_EQ(kapi_work_queue(queue, &job.work, 0), 1);
        sim::world().sleep(5 * sim::kMillisecond); // it runs
        EXPECT_EQ(kapi_work_queue(queue, &job.work, 0), 1);
        EXPECT_EQ(kapi_work_cancel_sync(&job.work), 1);
        EXPECT_EQ(kapi_work_queue(queue, &job.work, sim::kSecond), 1); // as before
        EXPECT_EQ(kapi_work_cancel_sync(&job.work), 1);
        kapi_workqueue_destroy(queue);
    });
    auto other = world.spawn(a, "other", [&] {
        sim::world().sleep(20 * sim::kMillisecond); // the canceller waits
        EXPECT_EQ(kapi_work_queue(queue, &job.work, 0), 0);
        kapi_work_mod(queue, &job.work, 0);
        job.go_on = true;
    });
    world.run_for(sim::kSecond);
    EXPECT_TRUE(canceller->is_done() && other->is_done());
    EXPECT_EQ(job.runs, 1u);
}

TEST_F(SimDeath, work__cancelling_itself_is_a_deadlock)
{
    EXPECT_DEATH(run(a,
                     [&] {
                         static kapi_work work;
                         kapi_workqueue *queue = kapi_workqueue_create("q", 0);
                         kapi_work_init(&work, [](kapi_work *self) { kapi_work_cancel_sync(self); });
                         kapi_work_queue(queue, &work, 0);
                         world.sleep(sim::kSecond);
                     }),
                 "cancels itself");
}

TEST_F(Sim, rcu__waits_for_readers)
{
    struct Object {
        kapi_rcu rcu;
        bool *gone;
    };
    bool gone = false, reader_done = false;
    static kapi_spin lock;
    kapi_spin_init(&lock, &outer_class);
    auto reader = world.spawn(a, "reader", [&] {
        kapi_spin_lock(&lock);
        for (int i = 0; i < 20; i++) {
            world.point("reading");
            EXPECT_FALSE(gone);
        }
        kapi_spin_unlock(&lock);
        reader_done = true;
    });
    run(a, [&] {
        auto *object = static_cast<Object *>(kapi_zalloc(sizeof(Object), KAPI_SLEEP));
        object->gone = &gone;
        kapi_free_rcu(&object->rcu, [](kapi_rcu *head) {
            auto *self = reinterpret_cast<Object *>(head);
            *self->gone = true;
            kapi_free(self);
        });
        kapi_rcu_barrier();
        EXPECT_TRUE(gone);
    });
    EXPECT_TRUE(reader_done || reader->is_done() || gone);
}

/** Waits on queue until flag is set, in the way of park. Its result, 0 when the flag was set. */
int wait_for(kapi_waitq &queue, const bool &flag, int (*park)(kapi_waiter *, kapi_u64), kapi_u64 deadline)
{
    kapi_waiter waiter;
    kapi_wait_begin(&queue, &waiter);
    int err = 0;
    while (!flag && (err = park(&waiter, deadline)) == 0)
        ;
    kapi_wait_end(&queue, &waiter);
    return err;
}

TEST_F(Sim, park__wakes_times_out_and_is_interrupted)
{
    static kapi_waitq queue;
    kapi_waitq_init(&queue);
    bool flag = false;
    auto wait = [&](kapi_u64 deadline) { return wait_for(queue, flag, kapi_park, deadline); };
    run(a, [&] {
        kapi_u64 before = kapi_now_ns();
        EXPECT_EQ(wait(before + sim::kSecond), -KAPI_ETIMEDOUT);
        EXPECT_GE(kapi_now_ns(), before + sim::kSecond);
        EXPECT_FALSE(kapi_waitq_active(&queue));
    });
    auto waiting = world.spawn(a, "waiter", [&] { EXPECT_EQ(wait(KAPI_FOREVER), 0); });
    run(a, [&] {
        world.sleep(sim::kMillisecond);
        flag = true;
        kapi_wake(&queue, KAPI_IN);
    });
    world.run_for(sim::kMillisecond);
    EXPECT_TRUE(waiting->is_done());
    flag = false;
    auto interrupted = world.spawn(a, "waiter", [&] { EXPECT_EQ(wait(KAPI_FOREVER), -KAPI_EINTR); });
    world.run_for(sim::kMillisecond);
    world.signal(*interrupted);
    world.run_for(sim::kMillisecond);
    EXPECT_TRUE(interrupted->is_done());
}

TEST_F(Sim, park_uninterruptible__is_not_ended_by_a_signal)
{
    static kapi_waitq queue;
    kapi_waitq_init(&queue);
    bool flag = false;
    auto wait = [&](kapi_u64 deadline) { return wait_for(queue, flag, kapi_park_uninterruptible, deadline); };
    auto waiting = world.spawn(a, "waiter", [&] {
        world.signal(*sim::World::current_task()); // one before the wait
        kapi_u64 before = kapi_now_ns();
        EXPECT_EQ(wait(before + sim::kSecond), -KAPI_ETIMEDOUT);
        EXPECT_GE(kapi_now_ns(), before + sim::kSecond);
        EXPECT_EQ(wait(KAPI_FOREVER), 0);
    });
    world.run_for(2 * sim::kSecond);
    world.signal(*waiting); // and one in it
    world.run_for(sim::kSecond);
    EXPECT_FALSE(waiting->is_done());
    run(a, [&] {
        flag = true;
        kapi_wake(&queue, KAPI_IN);
    });
    world.run_for(sim::kMillisecond);
    EXPECT_TRUE(waiting->is_done());
}

TEST_F(Sim, park__again_and_again_with_a_signal_pending_fails_the_run)
{
    static kapi_waitq queue;
    EXPECT_DEATH(run(a, [&] {
        kapi_waiter waiter;
        kapi_waitq_init(&queue);
        world.signal(*sim::World::current_task());
        for (;;) {
            kapi_wait_begin(&queue, &waiter);
            (void)kapi_park(&waiter, KAPI_FOREVER);
            kapi_wait_end(&queue, &waiter);
        }
    }), "spins: a signal is pending");
}

/** Waits a second for `there`, of which only `is_due` of the queue tells the simulator. */
static void look_after_a_second(kapi_waitq &queue, const bool &there)
{
    sim::ExpectWakeups expect([&](kapi_waitq &asked) { return &asked == &queue && there; });
    kapi_waiter waiter;
    kapi_wait_begin(&queue, &waiter);
    kapi_u64 end = kapi_now_ns() + sim::kSecond;
    while (!there && kapi_park(&waiter, end) == 0)
        ;
    kapi_wait_end(&queue, &waiter);
}

TEST_F(Sim, wait__that_ends_by_time_though_its_condition_is_true_fails_the_run)
{
    static kapi_waitq queue;
    kapi_waitq_init(&queue);
    bool there = false;
    auto waits = [&] {
        auto task = world.spawn(a, "waits", [&] { look_after_a_second(queue, there); });
        world.sleep(900 * sim::kMillisecond);
        return task;
    };
    run(a, [&] {
        auto nothing = waits();
        world.sleep(sim::kSecond);
        EXPECT_TRUE(nothing->is_done()) << "a time-out like others";
        auto late = waits();
        world.sleep(99 * sim::kMillisecond);
        there = true;
        world.sleep(5 * sim::kMillisecond); // as if the waker had been interrupted
        kapi_wake(&queue, KAPI_IN);
        world.sleep(sim::kMillisecond);
        EXPECT_TRUE(late->is_done());
        there = false;
    });
    EXPECT_DEATH(run(a, [&] {
        auto forgotten = waits();
        there = true;
        world.sleep(sim::kSecond);
    }), "no wake-up came");
}

TEST_F(Sim, most_woken__is_of_one_queue)
{
    run(a, [&] {
        kapi_waitq queue;
        kapi_waiter waiters[3];
        kapi_waitq_init(&queue);
        sim::most_woken_at_once();
        for (kapi_waiter &waiter : waiters)
            kapi_wait_begin(&queue, &waiter);
        kapi_wake(&queue, KAPI_IN);
        for (kapi_waiter &waiter : waiters)
            kapi_wait_end(&queue, &waiter);
        EXPECT_EQ(sim::most_woken_at_once(), 3u);
        EXPECT_EQ(sim::most_woken_at_once(), 0u);
    });
}

// The longest waiting one that sleeps; beside it all that are not exclusive.
TEST_F(Sim, exclusive_waiters__are_woken_one_by_one)
{
    run(a, [&] {
        kapi_waitq queue;
        kapi_waitq_init(&queue);
        std::string woken;
        auto wait = [&](char name, auto *begin) {
            world.spawn(a, "waits", [&, name, begin] {
                kapi_waiter waiter;
                begin(&queue, &waiter);
                EXPECT_EQ(kapi_park(&waiter, KAPI_FOREVER), 0);
                kapi_wait_end(&queue, &waiter);
                woken += name;
            });
            world.sleep(sim::kMillisecond);
        };
        auto wake = [&](unsigned events) {
            kapi_wake(&queue, events);
            world.sleep(sim::kMillisecond);
            return std::exchange(woken, "");
        };
        for (char name : {'1', '2', '3', '4'})
            wait(name, kapi_wait_begin_exclusive);
        wait('a', kapi_wait_begin);
        sim::threads_woken();
        std::string first = wake(KAPI_OUT);
        EXPECT_TRUE(first == "1a" || first == "a1") << first;
        EXPECT_EQ(wake(KAPI_OUT), "2");
        EXPECT_EQ(wake(KAPI_HUP).size(), 2u);
        EXPECT_EQ(sim::threads_woken(), 5u);
    });
}

TEST_F(Sim, crash__takes_everything_along)
{
    static kapi_waitq queue;
    world.spawn(a, "program", [&] {
        kapi_waitq_init(&queue);
        (void)kapi_alloc(1000, KAPI_SLEEP);
        (void)kapi_workqueue_create("q", 0);
        kapi_waiter waiter;
        kapi_wait_begin(&queue, &waiter);
        for (;;)
            (void)kapi_park(&waiter, KAPI_FOREVER);
    });
    world.run_for(sim::kSecond);
    EXPECT_EQ(a.memory().blocks(), 1u);
    a.crash();
    EXPECT_EQ(a.memory().blocks(), 0u);
    world.run_for(sim::kSecond);
}

/** A work that notes when it ran. */
struct LateWork {
    kapi_work work{}; // first, so that the address of the work is that of the object
    std::uint64_t ran_world_ns = 0, ran_local_ns = 0;

    static void run(kapi_work *work)
    {
        auto &self = *reinterpret_cast<LateWork *>(work);
        self.ran_world_ns = sim::world().now_ns();
        self.ran_local_ns = kapi_now_ns();
    }
};

/** Runs a work that is due in a second on a machine that is paused for ten. */
LateWork run_late(sim::World &world, sim::Node &node, bool sleeps)
{
    static LateWork late;
    late = {};
    kapi_workqueue *queue = nullptr;
    world.spawn(node, "setup", [&] {
        queue = kapi_workqueue_create("q", 0);
        kapi_work_init(&late.work, &LateWork::run);
        kapi_work_queue(queue, &late.work, sim::kSecond);
    });
    world.run_for(500 * sim::kMillisecond);
    node.pause(10 * sim::kSecond, sleeps);
    world.run_for(9 * sim::kSecond);
    EXPECT_EQ(late.ran_world_ns, 0u);
    world.run_for(3 * sim::kSecond);
    world.spawn(node, "end", [&] { kapi_workqueue_destroy(queue); });
    world.run_for(sim::kMillisecond);
    return late;
}

TEST_F(Sim, pause__makes_timers_late)
{
    std::uint64_t began = world.now_ns();
    LateWork late = run_late(world, a, false);
    EXPECT_NEAR(static_cast<double>(late.ran_world_ns - began), 10.5e9, 1e7);
    EXPECT_EQ(late.ran_local_ns, late.ran_world_ns);
}

TEST_F(Sim, pause__asleep_is_no_time)
{
    std::uint64_t began = world.now_ns();
    LateWork late = run_late(world, a, true);
    EXPECT_NEAR(static_cast<double>(late.ran_world_ns - began), 11e9, 1e7);
    EXPECT_NEAR(static_cast<double>(late.ran_local_ns - began), 1e9, 1e7);
}

TEST_F(Sim, clock__real_one_jumps_and_monotonic_one_does_not)
{
    run(a, [&] {
        kapi_u64 real = kapi_real_ns(), now = kapi_now_ns();
        a.real_offset_ns = -static_cast<std::int64_t>(1000 * sim::kSecond);
        EXPECT_NEAR(static_cast<double>(real) - static_cast<double>(kapi_real_ns()), 1e12, 1e6);
        EXPECT_GE(kapi_now_ns(), now);
    });
}

} // namespace
