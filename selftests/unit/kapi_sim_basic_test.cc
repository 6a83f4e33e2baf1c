// SPDX-License-Identifier: GPL-2.0
// The simulator keeps its promises and notices when core breaks a rule: memory, locks, works, waiting.
#include "kapi/sim/interrupt.h"
#include "kapi_sim_test.h"

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

TEST_F(SimDeath, locks__in_a_hard_interrupt)
{
    run(a, [] {
        kapi_spin usual, lock;
        kapi_spin_init(&usual, &outer_class);
        kapi_spin_init(&lock, &inner_class);
        {
            sim::HardInterrupt interrupt;
            kapi_spin_unlock_irqs(&lock, kapi_spin_lock_irqs(&lock));
            EXPECT_DEATH(kapi_spin_lock(&usual), "lock outer, which is taken with interrupts on elsewhere, .*hard interrupt");
            EXPECT_DEATH(kapi_filter_run(nullptr, nullptr, 0), "switches bottom halves on again.*from a hard interrupt");
            EXPECT_DEATH(kapi_zalloc(8, KAPI_SLEEP), "may sleep");
        }
        kapi_spin_lock(&usual); // and no more
        kapi_spin_unlock(&usual);
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
