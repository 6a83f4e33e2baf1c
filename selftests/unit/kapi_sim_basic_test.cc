// SPDX-License-Identifier: GPL-2.0
// The simulator keeps its promises and notices when core breaks a rule: memory, locks, works, waiting.
#include "kapi_sim_test.h"

#include <kapi/errno.h>
#include <kapi/filter.h>
#include <kapi/host.h>
#include <kapi/lock.h>
#include <kapi/memory.h>
#include <kapi/wait.h>
#include <kapi/work.h>
#include <kapi_sim_point.h>

namespace {

using Sim = SimTest;
using SimDeath = SimTest;

kapi_lock_class outer_class{"outer", 10, {}};
kapi_lock_class inner_class{"inner", 20, {}};

TEST_F(Sim, memory__is_zeroed_and_owned)
{
    run(a, [&] {
        auto *bytes = static_cast<unsigned char *>(kapi_zalloc(100, KAPI_SLEEP));
        ASSERT_NE(bytes, nullptr);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(bytes) % 16, 0u);
        for (int i = 0; i < 100; i++)
            EXPECT_EQ(bytes[i], 0);
        EXPECT_EQ(a.memory().blocks(), 1u);
        EXPECT_EQ(b.memory().blocks(), 0u);
        kapi_free(bytes);
        EXPECT_EQ(a.memory().blocks(), 0u);
    });
}

TEST_F(Sim, memory__fails_where_told)
{
    a.faults().fail_at = 2;
    run(a, [] {
        void *first = kapi_alloc(8, KAPI_ATOMIC);
        EXPECT_NE(first, nullptr);
        EXPECT_EQ(kapi_alloc(8, KAPI_ATOMIC), nullptr);
        void *third = kapi_alloc(8, KAPI_ATOMIC);
        EXPECT_NE(third, nullptr);
        kapi_free(first);
        kapi_free(third);
    });
    EXPECT_EQ(a.faults().failed, 1u);
}

TEST_F(SimDeath, memory__leak_is_reported)
{
    EXPECT_DEATH(
        {
            {
                sim::NodeScope scope(a);
                (void)kapi_alloc(8, KAPI_ATOMIC);
            }
            world.~World();
        },
        "a leaks 1 allocations");
}

TEST_F(SimDeath, memory__double_free_is_reported)
{
    sim::NodeScope scope(a);
    void *memory = kapi_alloc(8, KAPI_ATOMIC);
    kapi_free(memory);
    EXPECT_DEATH(kapi_free(memory), "freed twice");
}

TEST_F(SimDeath, memory__freed_with_pending_work)
{
    sim::NodeScope scope(a);
    kapi_workqueue *queue = kapi_workqueue_create("q", 0);
    auto *work = static_cast<kapi_work *>(kapi_zalloc(sizeof(kapi_work), KAPI_SLEEP));
    kapi_work_init(work, [](kapi_work *) {});
    kapi_work_queue(queue, work, sim::kSecond);
    EXPECT_DEATH(kapi_free(work), "pending work");
    kapi_work_cancel_sync(work);
    kapi_free(work);
    kapi_workqueue_destroy(queue);
}

TEST_F(SimDeath, lock__order_is_checked)
{
    kapi_spin outer, inner;
    kapi_spin_init(&outer, &outer_class);
    kapi_spin_init(&inner, &inner_class);
    kapi_spin_lock(&outer);
    kapi_spin_lock(&inner);
    EXPECT_TRUE(kapi_spin_is_held(&inner));
    kapi_spin_unlock(&inner);
    kapi_spin_unlock(&outer);
    kapi_spin_lock(&inner);
    EXPECT_DEATH(kapi_spin_lock(&outer), "lock outer .rank 10. is taken while inner");
    EXPECT_DEATH(kapi_spin_lock(&inner), "taken twice");
    EXPECT_DEATH(kapi_zalloc(8, KAPI_SLEEP), "may sleep, but lock inner is held");
    kapi_spin_unlock(&inner);
    EXPECT_DEATH(kapi_spin_unlock(&inner), "does not hold");
}

TEST_F(SimDeath, interrupts_off__keep_bottom_halves_off)
{
    run(a, [] {
        kapi_spin lock;
        kapi_spin_init(&lock, &outer_class);
        unsigned long state = kapi_spin_lock_irqs(&lock);
        EXPECT_DEATH(kapi_filter_run(nullptr, nullptr, 0), "switches bottom halves on again.*interrupts are off for outer");
        kapi_spin_unlock_irqs(&lock, state);
    });
}

TEST_F(SimDeath, lock__held_by_another_task)
{
    EXPECT_DEATH(
        {
            static kapi_spin lock;
            kapi_spin_init(&lock, &outer_class);
            world.spawn(a, "holder", [&] {
                kapi_spin_lock(&lock);
                for (;;)
                    kapi_sim_point();
            });
            world.spawn(a, "other", [&] { kapi_spin_unlock(&lock); });
            world.run_for(sim::kMillisecond);
        },
        "unlocked by a task that does not hold it");
}

TEST_F(SimDeath, lock__freed_while_somebody_holds_it)
{
    EXPECT_DEATH(
        {
            static kapi_spin *lock;
            world.spawn(a, "holder", [&] {
                lock = static_cast<kapi_spin *>(kapi_zalloc(sizeof(kapi_spin), KAPI_SLEEP));
                kapi_spin_init(lock, &outer_class);
                kapi_spin_lock(lock);
                for (;;)
                    kapi_sim_point();
            });
            world.run_for(10 * sim::kMicrosecond);
            world.spawn(a, "other", [&] { kapi_free(lock); });
            world.run_for(sim::kMillisecond);
        },
        "freed with a held lock in it");
}

TEST_F(SimDeath, lock__kept_by_a_task_that_ends)
{
    EXPECT_DEATH(
        {
            static kapi_spin lock;
            kapi_spin_init(&lock, &outer_class);
            world.spawn(a, "t", [&] { kapi_spin_lock(&lock); });
            world.run_for(sim::kMillisecond);
        },
        "ends with a lock held");
}

/** Dies of what body does as a task of this kind. */
void run_as(sim::World &world, sim::Node &node, sim::TaskKind kind, std::function<void()> body)
{
    world.spawn(node, "t", std::move(body), kind);
    world.run_for(sim::kMillisecond);
}

TEST_F(SimDeath, context__says_what_may_be_called)
{
    static kapi_spin lock;
    static kapi_waitq queue;
    static kapi_waiter waiter;
    static char byte;
    kapi_spin_init(&lock, &outer_class);
    kapi_waitq_init(&queue);
    auto copy = [] {
        kapi_msg msg{};
        static_cast<void>(kapi_msg_copy_in(&msg, &byte, 1));
    };
    EXPECT_DEATH(run_as(world, a, sim::TaskKind::softirq, [] { kapi_alloc(8, KAPI_SLEEP); }), "from a softirq");
    EXPECT_DEATH(run_as(world, a, sim::TaskKind::process, [] {
                     sim::AtomicScope callback;
                     kapi_alloc(8, KAPI_SLEEP);
                 }),
                 "from a callback");
    EXPECT_DEATH(run_as(world, a, sim::TaskKind::process, [] {
                     kapi_spin_lock(&lock);
                     kapi_wait_begin(&queue, &waiter);
                 }),
                 "may sleep, but lock outer is held");
    EXPECT_DEATH(run_as(world, a, sim::TaskKind::process, [this] {
                     kapi_spin_lock(&lock);
                     world.sleep(1);
                 }),
                 "may sleep, but lock outer is held");
    EXPECT_DEATH(run_as(world, a, sim::TaskKind::work, copy), "belongs to a system call");
}

TEST_F(Sim, lock__excludes)
{
    static kapi_spin lock;
    kapi_spin_init(&lock, &outer_class);
    int inside = 0, most = 0, total = 0;
    for (int i = 0; i < 8; i++)
        world.spawn(a, "t", [&] {
            for (int n = 0; n < 50; n++) {
                kapi_spin_lock(&lock);
                most = std::max(most, ++inside);
                kapi_sim_point();
                inside--;
                total++;
                kapi_spin_unlock(&lock);
            }
        });
    world.run_idle();
    EXPECT_EQ(most, 1);
    EXPECT_EQ(total, 400);
}

/** A counter that is read and written in two steps: lost updates show that tasks really are interleaved. */
int racing_sum(std::uint64_t seed, std::uint64_t *hash)
{
    sim::World world(seed);
    sim::Node &node = world.add_node("n");
    int value = 0;
    for (int i = 0; i < 4; i++)
        world.spawn(node, "t", [&] {
            for (int n = 0; n < 20; n++) {
                int seen = value;
                kapi_sim_point();
                value = seen + 1;
            }
        });
    world.run_idle();
    *hash = world.trace().hash();
    return value;
}

TEST(SimWorld, seed__decides_everything)
{
    unsigned lossy = 0;
    for (std::uint64_t seed = 1; seed < 30; seed++) {
        std::uint64_t first, second, other;
        int sum = racing_sum(seed, &first);
        EXPECT_EQ(sum, racing_sum(seed, &second));
        EXPECT_EQ(first, second);
        racing_sum(seed + 1000, &other);
        EXPECT_NE(first, other);
        lossy += sum != 80;
    }
    EXPECT_GT(lossy, 10u);
}

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

TEST_F(Sim, module__unloads_only_unreferenced)
{
    kapi_module &module = a.load_module("m");
    EXPECT_EQ(kapi_module_get(&module), 1);
    EXPECT_FALSE(a.start_unload(module));
    kapi_module_put(&module);
    EXPECT_TRUE(a.start_unload(module));
    EXPECT_EQ(kapi_module_get(&module), 0);
    a.unload_done(module);
}

TEST_F(Sim, net__knows_its_addresses)
{
    kapi_net &net = a.initial_net();
    kapi_addr own = sim::address("10.0.0.1", 77), other = sim::address("10.0.0.2");
    EXPECT_TRUE(kapi_net_is_local(&net, &own));
    EXPECT_FALSE(kapi_net_is_local(&net, &other));
    kapi_u32 generation = kapi_net_addr_generation(&net);
    net.add(sim::address("fe80::1"), 3);
    EXPECT_NE(kapi_net_addr_generation(&net), generation);
    kapi_addr scoped = sim::address("fe80::1", 0, 3), wrong = sim::address("fe80::1", 0, 4);
    EXPECT_TRUE(kapi_net_is_local(&net, &scoped));
    EXPECT_FALSE(kapi_net_is_local(&net, &wrong));
}

} // namespace
