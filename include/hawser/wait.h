// SPDX-License-Identifier: GPL-2.0
// Waiting for a condition, free of lost wake-ups.
#pragma once

#include <hawser/result.h>
#include <kapi/wait.h>

namespace hw {

class WaitQueue : Pinned {
public:
    WaitQueue() { kapi_waitq_init(&queue_); }
    // Wakes all waiters and pollers; the condition was changed before.
    void wake(unsigned events = KAPI_IN | KAPI_OUT)
    {
        if (kapi_waitq_active(&queue_))
            kapi_wake(&queue_, events);
    }
    // Whether a task waits or polls. The caller has changed what they look at, or holds the lock under which they do.
    bool has_waiters() { return kapi_waitq_active(&queue_); }
    kapi_waitq* c() { return &queue_; }

    // Sleeps until condition() is true, whatever signals come: see kapi_park_uninterruptible.
    template <class Condition> void wait_for(Condition&& condition)
    {
        kapi_waiter waiter;
        kapi_wait_begin(&queue_, &waiter);
        park_for(waiter, condition);
    }

    // The same for any number of threads that take what they wait for, one piece each: wake() wakes one that sleeps, so there is
    // one wake() for each piece. Each also looks once in look_ns; one that ends without a piece may take a wake() with it.
    template <class Condition> void wait_for_one(Condition&& condition, u64 look_ns = KAPI_FOREVER)
    {
        kapi_waiter waiter;
        kapi_wait_begin_exclusive(&queue_, &waiter);
        park_for(waiter, condition, look_ns);
    }

    // Sleeps until condition() is true. Fails with ETIMEDOUT or EINTR, and only when the last condition() was false: it
    // may take what was waited for.
    template <class Condition> Result<> wait_until(u64 deadline_ns, Condition&& condition)
    {
        kapi_waiter waiter;
        kapi_wait_begin(&queue_, &waiter);
        return park_until(waiter, deadline_ns, condition);
    }

    // The same for any number of threads that take what they wait for: wake() wakes one that sleeps. One that has waited and
    // leaves something for others wakes the next one then, however its call ends. KAPI_HUP wakes all.
    template <class Condition> Result<> wait_to_take(u64 deadline_ns, Condition&& condition)
    {
        kapi_waiter waiter;
        kapi_wait_begin_exclusive(&queue_, &waiter);
        return park_until(waiter, deadline_ns, condition);
    }

    // The same for any number of threads, if what is true for one of them is so for all: wake() wakes one that sleeps, and each
    // that need not wait any longer wakes the next one. All at once would be woken with interrupts off, and most of them in vain
    // if there is room for few.
    template <class Condition> Result<> wait_in_turn(u64 deadline_ns, Condition&& condition)
    {
        auto result = wait_to_take(deadline_ns, condition);
        if (result)
            wake();
        return result;
    }

private:
    template <class Condition> void park_for(kapi_waiter& waiter, Condition& condition, u64 look_ns = KAPI_FOREVER)
    {
        while (!condition())
            kapi_park_uninterruptible(&waiter, look_ns == KAPI_FOREVER ? KAPI_FOREVER : kapi_now_ns() + look_ns);
        kapi_wait_end(&queue_, &waiter);
    }

    template <class Condition> Result<> park_until(kapi_waiter& waiter, u64 deadline_ns, Condition& condition)
    {
        bool met;
        int err = 0;
        while (!(met = condition()) && err == 0)
            err = kapi_park(&waiter, deadline_ns);
        kapi_wait_end(&queue_, &waiter);
        return check(met ? 0 : err);
    }

    kapi_waitq queue_;
};

} // namespace hw
