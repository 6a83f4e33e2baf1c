// SPDX-License-Identifier: GPL-2.0
// Lists and the locks that guard them: each list's set of locks, smaller with each use (the lockset algorithm).
#include <hawser/list_watch.h>

#include <algorithm>

#include "lock.h"
#include "world.h"

using namespace sim;

void hw::ListWatch::used(const char *how, const char *list) const
{
    const Task &task = *World::current_task();
    // A list on the stack of its user is not shared, and the thread that runs the world runs beside no task.
    if (!World::current() || !task.id || task.fiber.holds(this))
        return;
    if (!user_)
        user_ = task.id;
    shared_ |= user_ != task.id;
    if (task.locks.empty()) {
        if (shared_) // until then it may be under construction
            broken("list %s is %s without a lock: it was used under %s before", list, how,
                   guard_name_ ? guard_name_ : "none, by another task");
        return;
    }
    if (!guard_name_) {
        if (task.locks.size() > max_guards)
            broken("%zu locks are held at once", task.locks.size());
        std::copy(task.locks.begin(), task.locks.end(), guards_);
        guard_name_ = lock_name(*task.locks.back());
        return;
    }
    bool guarded = false;
    for (const void *&guard : guards_) {
        if (guard && std::find(task.locks.begin(), task.locks.end(), guard) == task.locks.end())
            guard = nullptr;
        guarded |= guard != nullptr;
    }
    if (!guarded)
        broken("list %s is %s under %s, which does not guard it: it was used under another lock (%s) before", list, how,
               lock_name(*task.locks.back()), guard_name_);
}
