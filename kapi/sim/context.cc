// SPDX-License-Identifier: GPL-2.0
// Where the running task is: on which host, in a callback, with which locks; and what it may call there.
#include <kapi_sim_point.h>

#include <algorithm>
#include <vector>

#include "interrupt.h"
#include "lock.h"
#include "network.h"
#include "node.h"
#include "reclaim.h"
#include "world.h"

namespace sim {

NodeScope::NodeScope(Node &node) : before_(World::current_task()->node)
{
    World::current_task()->node = &node;
}

NodeScope::~NodeScope()
{
    World::current_task()->node = before_;
}

AtomicScope::AtomicScope(const Tcb *stream) : before_(World::current_task()->callback_of)
{
    World::current_task()->atomic_depth++;
    if (stream)
        World::current_task()->callback_of = stream;
}

AtomicScope::~AtomicScope()
{
    World::current_task()->callback_of = before_;
    World::current_task()->atomic_depth--;
    if (!World::current_task()->is_atomic())
        World::current_task()->quiet_states++;
}

namespace {

thread_local std::vector<std::weak_ptr<const Task>> interrupts; // tasks in hard interrupts; those of a crash are gone

} // namespace

HardInterrupt::HardInterrupt()
{
    std::erase_if(interrupts, [](const auto &task) { return task.expired(); });
    interrupts.push_back(World::current_task()->weak_from_this());
}

HardInterrupt::~HardInterrupt()
{
    std::erase_if(interrupts, [](const auto &task) { return task.lock().get() == World::current_task(); });
}

bool in_hard_interrupt(const Task &task)
{
    return std::any_of(interrupts.begin(), interrupts.end(), [&](const auto &other) { return other.lock().get() == &task; });
}

void HostMutex::lock(const char *why)
{
    if (World::current_task()->is_atomic())
        broken("%s is waited for where nothing may sleep", why);
    while (owner_)
        world().wait(waiters_, why);
    owner_ = World::current_task();
}

void HostMutex::unlock()
{
    owner_ = nullptr;
    if (World::current())
        world().wake(waiters_);
}

void enter_any(const char *call)
{
    if (World::current())
        World::current()->point(call);
}

void enter_bottom_halves(const char *call)
{
    for (const Spin *held : World::current_task()->locks)
        if (held->irqs_off)
            broken("%s switches bottom halves on again, and is called while interrupts are off for %s", call, lock_name(*held));
    if (in_hard_interrupt(*World::current_task()))
        broken("%s switches bottom halves on again, and is called from a hard interrupt", call);
    enter_any(call);
}

void expect_sleepable(const char *call)
{
    const Task &task = *World::current_task();
    if (!task.locks.empty())
        broken("%s may sleep, but lock %s is held", call, lock_name(*task.locks.back()));
    if (task.atomic_depth)
        broken("%s may sleep, but is called from a callback", call);
    if (task.kind == TaskKind::softirq)
        broken("%s may sleep, but is called from a softirq", call);
}

void enter_sleep(const char *call)
{
    expect_sleepable(call);
    if (const Task *task = World::current_task(); task && task->kind == TaskKind::work)
        note_sleep(task->name, task->id);
    enter_any(call);
}

void enter_task(const char *call)
{
    if (World::current_task()->kind != TaskKind::process)
        broken("%s belongs to a system call, but %s is none", call, World::current_task()->name.c_str());
    enter_sleep(call);
}

void enter_init(const char *call)
{
    enter_sleep(call); // a namespace is torn down in a work of the host, so the kind of task does not matter
}

} // namespace sim

void kapi_sim_point(void) noexcept
{
    sim::enter_any("atomic");
}
