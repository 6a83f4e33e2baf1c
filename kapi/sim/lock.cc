// SPDX-License-Identifier: GPL-2.0
// Locks: their holders, and the order in which they are taken.
#include "lock.h"

#include <hawser/steps.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>

#include "interrupt.h"
#include "node.h"
#include "slow.h"

namespace sim {

const char *lock_name(const Spin &lock)
{
    return lock.cls ? lock.cls->name : "(not initialised)";
}

namespace {

thread_local std::map<std::string_view, std::uint64_t> signals; // by the name of each lock that was held
thread_local std::map<std::string_view, std::uint64_t> most_steps; // by the name of the lock that was held longest
thread_local std::uint64_t most_without_pause;
thread_local std::uint64_t all;
const char *slow_lock;
std::uint64_t slow_ns;

Spin &inside(kapi_spin *lock)
{
    return *reinterpret_cast<Spin *>(lock->opaque);
}

void check_order(const Task &task, const Spin &lock, bool irqs_off)
{
    if (!lock.cls)
        broken("a lock is taken that was never initialised");
    if (!irqs_off && in_hard_interrupt(task))
        broken("lock %s, which is taken with interrupts on elsewhere, is taken from a hard interrupt", lock_name(lock));
    for (const Spin *held : task.locks) {
        if (held == &lock)
            broken("lock %s is taken twice", lock_name(lock));
        if (held->cls->rank >= lock.cls->rank)
            broken("lock %s (rank %u) is taken while %s (rank %u) is held", lock_name(lock), lock.cls->rank,
                   lock_name(*held), held->cls->rank);
        if (held->irqs_off && !irqs_off)
            broken("lock %s, which switches bottom halves on again, is taken while interrupts are off for %s", lock_name(lock),
                   lock_name(*held));
    }
}

} // namespace

void stand_still_after(const char *lock, std::uint64_t duration_ns)
{
    slow_lock = lock;
    slow_ns = duration_ns;
}

std::uint64_t most_steps_under(const char *name)
{
    return most_steps[name];
}

std::uint64_t signals_under(const char *name)
{
    return signals[name];
}

std::uint64_t most_steps_without_pause()
{
    return most_without_pause;
}

std::uint64_t all_steps()
{
    return all;
}

void note_signal()
{
    for (const Spin *lock : World::current_task()->locks)
        signals[lock_name(*lock)]++;
}

void forget_steps()
{
    if (Task *task = World::current_task())
        task->steps_since_pause = 0;
    signals.clear();
    most_steps.clear();
    most_without_pause = 0;
    all = 0;
}

} // namespace sim

using namespace sim;

void kapi_spin_init(kapi_spin *lock, kapi_lock_class *cls) noexcept
{
    inside(lock) = Spin{cls, nullptr, nullptr, false};
}

/** In any context, so not World::sleep(). */
static void stand_still()
{
    for (std::uint64_t end_ns = world().now_ns() + slow_ns; world().now_ns() < end_ns;) {
        WaitList list;
        TimerId timer = world().at(end_ns, [&] { world().wake(list); });
        world().wait(list, "its processor");
        world().cancel(timer);
    }
}

/** What both kinds have in common. */
static void take(kapi_spin *lock, bool irqs_off)
{
    Task &task = *World::current_task();
    Spin &spin = inside(lock);
    check_order(task, spin, irqs_off);
    enter_any("kapi_spin_lock");
    while (spin.holder) {
        if (!spin.waiters)
            spin.waiters = new WaitList;
        world().wait(*spin.waiters, lock_name(spin));
    }
    spin.holder = &task;
    spin.irqs_off = irqs_off;
    if (task.locks.empty())
        task.steps = 0;
    task.locks.push_back(&spin);
    if (task.node)
        task.node->held_locks.push_back(&spin);
}

void kapi_spin_lock(kapi_spin *lock) noexcept { take(lock, false); }

unsigned long kapi_spin_lock_irqs(kapi_spin *lock) noexcept
{
    take(lock, true);
    return 1;
}

void kapi_spin_unlock_irqs(kapi_spin *lock, unsigned long) noexcept { kapi_spin_unlock(lock); }

void kapi_spin_unlock(kapi_spin *lock) noexcept
{
    Task &task = *World::current_task();
    Spin &spin = inside(lock);
    if (spin.holder != &task)
        broken("lock %s is unlocked by a task that does not hold it", lock_name(spin));
    if (task.steps) { // seldom, and a look-up by name is not cheap
        std::uint64_t &most = most_steps[lock_name(spin)];
        most = std::max(most, task.steps);
    }
    std::erase(task.locks, &spin);
    if (task.node)
        std::erase(task.node->held_locks, &spin);
    spin.holder = nullptr;
    if (WaitList *waiters = spin.waiters) {
        spin.waiters = nullptr;
        world().wake(*waiters);
        delete waiters;
    }
    if (!task.is_atomic())
        task.quiet_states++;
    enter_any("kapi_spin_unlock");
    if (slow_lock && World::current() && !std::strcmp(slow_lock, lock_name(spin)))
        stand_still();
}

int kapi_spin_is_held(kapi_spin *lock) noexcept
{
    return inside(lock).holder == World::current_task();
}

void kapi_sim_step(void) noexcept
{
    Task &task = *World::current_task();
    task.steps++;
    all++;
    most_without_pause = std::max(most_without_pause, ++task.steps_since_pause);
}
