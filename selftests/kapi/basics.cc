// SPDX-License-Identifier: GPL-2.0
// Memory, locks, work, waiting, messages, addresses.
#include "check.h"

#include <kapi/errno.h>
#include <kapi/lock.h>
#include <kapi/memory.h>
#include <kapi/socket.h>
#include <kapi/wait.h>

#include "kapi_test.h"

namespace test {

bool memory(Bench&)
{
    constexpr kapi_size sizes[] = {1, 16, 48, 4096, 100'000};
    for (kapi_size size : sizes) {
        auto* bytes = static_cast<unsigned char*>(kapi_zalloc(size, KAPI_SLEEP));
        CHECK(bytes);
        CHECK(bytes[0] == 0 && bytes[size - 1] == 0);
        CHECK(reinterpret_cast<unsigned long>(bytes) % 8 == 0);
        kapi_free(bytes);
    }
    kapi_free(nullptr);
    CHECK(kapi_alloc_true_size(1) >= 1 && kapi_alloc_true_size(4097) >= 4097);
    // Too large for physically contiguous memory, so it fails without a warning or uses other memory.
    kapi_free(kapi_alloc(64ul << 20, KAPI_ATOMIC));
    char from[] = "hawser", to[sizeof(from)];
    kapi_copy(to, from, sizeof(from));
    CHECK(kapi_compare(to, from, sizeof(from)) == 0);
    kapi_fill(to, 'x', 2);
    CHECK(to[1] == 'x' && to[2] == 'w');
    return true;
}

bool counters(Bench&)
{
    kapi_counters* set = kapi_counters_create(3);
    CHECK(set);
    kapi_counters_add(set, 1, 5);
    kapi_counters_add(set, 1, 1ull << 40);
    const bool right = kapi_counters_read(set, 0) == 0 && kapi_counters_read(set, 1) == (1ull << 40) + 5;
    kapi_counters_destroy(set);
    CHECK(right);
    return true;
}

namespace {

struct Mortal {
    kapi_rcu rcu;
    int* buried;
};

void bury(kapi_rcu* head)
{
    auto* mortal = reinterpret_cast<Mortal*>(head);
    ++*mortal->buried;
    kapi_free(mortal);
}

} // namespace

bool deferred_free(Bench&)
{
    int buried = 0;
    for (int i = 0; i < 10; i++) {
        auto* mortal = static_cast<Mortal*>(kapi_zalloc(sizeof(Mortal), KAPI_SLEEP));
        CHECK(mortal);
        mortal->buried = &buried;
        kapi_free_rcu(&mortal->rcu, bury);
    }
    kapi_rcu_barrier();
    CHECK(buried == 10);
    return true;
}

namespace {

constinit kapi_lock_class outer_class{"kapi_test outer", 1, {}}, inner_class{"kapi_test inner", 2, {}};

struct Adder {
    kapi_work work;
    kapi_spin* lock;
    long* sum;
};

void add(kapi_work* work)
{
    auto* adder = reinterpret_cast<Adder*>(work);
    for (int i = 0; i < 20'000; i++) {
        kapi_spin_lock(adder->lock);
        ++*adder->sum;
        kapi_spin_unlock(adder->lock);
    }
}

} // namespace

bool locks(Bench& bench)
{
    kapi_spin outer, inner;
    kapi_spin_init(&outer, &outer_class);
    kapi_spin_init(&inner, &inner_class);
    kapi_spin_lock(&outer);
    kapi_spin_lock(&inner);
    const bool held = kapi_spin_is_held(&inner) && kapi_spin_is_held(&outer);
    kapi_spin_unlock(&inner);
    kapi_spin_unlock(&outer);
    CHECK(held);

    long sum = 0;
    Boxed<Adder> box(kapi_work{}, &outer, &sum);
    CHECK(box);
    Adder& adder = *box;
    kapi_work_init(&adder.work, add);
    CHECK(kapi_work_queue(bench.queue, &adder.work, 0) == 1);
    for (int i = 0; i < 20'000; i++) {
        kapi_spin_lock(&outer);
        ++sum;
        kapi_spin_unlock(&outer);
    }
    kapi_work_cancel_sync(&adder.work);
    kapi_spin_lock(&outer);
    const long total = sum;
    kapi_spin_unlock(&outer);
    // The work ran whole or, cancelled before it began, not at all.
    CHECK(total == 40'000 || total == 20'000);
    return true;
}

namespace {

struct Runs {
    kapi_work work;
    volatile int count;
    kapi_u64 at;
};

void run(kapi_work* work)
{
    auto* runs = reinterpret_cast<Runs*>(work);
    runs->at = kapi_now_ns();
    runs->count = runs->count + 1;
}

constexpr kapi_u64 hour = 3600'000 * millisecond;

// Whether a work waits for its time. The clock of ticks may be late, and early when it makes up for that after an emulated
// processor stood still: so once in a few times.
bool run_in_time(Bench& bench, Runs& runs)
{
    bool in_time = false;
    for (int i = 0; i < 5 && !in_time; i++) {
        const int before = runs.count;
        const kapi_u64 start = kapi_now_ns();
        CHECK(kapi_work_queue(bench.queue, &runs.work, 20 * millisecond) == 1);
        CHECK(eventually([&] { return runs.count == before + 1; }));
        in_time = runs.at - start >= 10 * millisecond;
    }
    return in_time;
}

} // namespace

bool works(Bench& bench)
{
    Boxed<Runs> box;
    CHECK(box);
    Runs& runs = *box;
    kapi_work_init(&runs.work, run);
    CHECK(run_in_time(bench, runs));

    const int before = runs.count;
    CHECK(kapi_work_queue(bench.queue, &runs.work, hour) == 1);
    CHECK(kapi_work_queue(bench.queue, &runs.work, 0) == 0);
    kapi_work_mod(bench.queue, &runs.work, 0);
    CHECK(eventually([&] { return runs.count == before + 1; }));

    CHECK(kapi_work_queue(bench.queue, &runs.work, 300 * millisecond) == 1);
    CHECK(kapi_work_cancel_sync(&runs.work) == 1);
    CHECK(kapi_work_cancel_sync(&runs.work) == 0);
    pause(400 * millisecond);
    CHECK(runs.count == before + 1);
    return true;
}

namespace {

struct Held {
    kapi_work work;
    volatile int runs;
    volatile bool go_on;
};

void run_held(kapi_work* work)
{
    auto* held = reinterpret_cast<Held*>(work);
    held->runs = held->runs + 1;
    while (!held->go_on)
        pause(millisecond);
}

struct Canceller {
    kapi_work work;
    kapi_work* other;
    volatile bool began, ended;
    volatile int was_pending;
};

void cancel_other(kapi_work* work)
{
    auto* canceller = reinterpret_cast<Canceller*>(work);
    canceller->began = true;
    canceller->was_pending = kapi_work_cancel_sync(canceller->other);
    canceller->ended = true;
}

} // namespace

// The reference of a queued work is dropped once: by the work, by its canceller, or by a refused caller.
bool cancelled_works(Bench& bench)
{
    Boxed<Held> held;
    Boxed<Canceller> canceller;
    CHECK(held && canceller);
    kapi_work_init(&held->work, run_held);
    kapi_work_init(&canceller->work, cancel_other);
    canceller->other = &held->work;
    CHECK(kapi_work_queue(bench.queue, &held->work, 0) == 1);
    CHECK(eventually([&] { return held->runs == 1; }));
    CHECK(kapi_work_queue(bench.queue, &held->work, 0) == 1);
    CHECK(kapi_work_queue(bench.queue, &canceller->work, 0) == 1);
    CHECK(eventually([&] { return canceller->began; }));
    pause(20 * millisecond);
    const bool waits = !canceller->ended;
    const int refused = kapi_work_queue(bench.queue, &held->work, 0);
    kapi_work_mod(bench.queue, &held->work, 0);
    held->go_on = true;
    CHECK(eventually([&] { return canceller->ended; }));
    CHECK(waits);
    CHECK(refused == 0);
    CHECK(canceller->was_pending == 1);
    pause(20 * millisecond);
    CHECK(held->runs == 1);
    CHECK(kapi_work_queue(bench.queue, &held->work, 0) == 1);
    CHECK(eventually([&] { return held->runs == 2; }));
    kapi_work_cancel_sync(&held->work);
    kapi_work_cancel_sync(&canceller->work);
    return true;
}

namespace {

struct Waker {
    kapi_work work;
    kapi_waitq* queue;
    volatile bool done;
};

void wake(kapi_work* work)
{
    auto* waker = reinterpret_cast<Waker*>(work);
    waker->done = true;
    kapi_wake(waker->queue, KAPI_IN | KAPI_RDNORM);
}

} // namespace

bool waits(Bench& bench)
{
    kapi_waitq queue;
    kapi_waiter waiter, second;
    kapi_waitq_init(&queue);
    CHECK(!kapi_waitq_active(&queue));

    kapi_u64 deadline = kapi_now_ns() + 30 * millisecond;
    int error;
    kapi_wait_begin(&queue, &waiter);
    const bool active = kapi_waitq_active(&queue);
    while ((error = kapi_park(&waiter, deadline)) == 0) {
    }
    kapi_wait_end(&queue, &waiter);
    CHECK(active && error == -KAPI_ETIMEDOUT && kapi_now_ns() >= deadline);

    // A wake-up before the park is not lost, even when the deadline has passed.
    kapi_wait_begin(&queue, &waiter);
    kapi_wake(&queue, KAPI_IN);
    error = kapi_park(&waiter, 0);
    kapi_wait_end(&queue, &waiter);
    CHECK(error == 0);

    Boxed<Waker> box(kapi_work{}, &queue, false);
    CHECK(box);
    Waker& waker = *box;
    kapi_work_init(&waker.work, wake);
    kapi_work_queue(bench.queue, &waker.work, 100 * millisecond);
    kapi_wait_begin_exclusive(&queue, &waiter);
    kapi_wait_begin_exclusive(&queue, &second); // it stays asleep: of exclusive ones one is woken
    error = 0;
    while (!waker.done && (error = kapi_park(&waiter, KAPI_FOREVER)) == 0) {
    }
    kapi_wait_end(&queue, &waiter);
    kapi_work_cancel_sync(&waker.work);
    const int slept_on = kapi_park(&second, 0);
    kapi_wait_end(&queue, &second);
    CHECK(error == 0 && waker.done && slept_on == -KAPI_ETIMEDOUT);
    return true;
}

bool waits_despite_a_signal(Bench& bench)
{
    kapi_waitq queue;
    kapi_waiter waiter;
    kapi_waitq_init(&queue);
    Boxed<Waker> box(kapi_work{}, &queue, false);
    CHECK(box);
    Waker& waker = *box;
    kapi_work_init(&waker.work, wake);

    kapi_test_signal(1);
    const kapi_u64 deadline = kapi_now_ns() + 30 * millisecond;
    int parks = 0, error;
    kapi_wait_begin(&queue, &waiter);
    const int interrupted = kapi_park(&waiter, deadline);
    while ((error = kapi_park_uninterruptible(&waiter, deadline)) == 0)
        parks++;
    const kapi_u64 ended = kapi_now_ns();
    kapi_work_queue(bench.queue, &waker.work, 20 * millisecond);
    int woken = 0;
    while (!waker.done && (woken = kapi_park_uninterruptible(&waiter, KAPI_FOREVER)) == 0)
        parks++;
    kapi_wait_end(&queue, &waiter);
    kapi_test_signal(0);
    kapi_work_cancel_sync(&waker.work);
    CHECK(interrupted == -KAPI_EINTR && error == -KAPI_ETIMEDOUT && ended >= deadline);
    CHECK(woken == 0 && waker.done);
    CHECK(parks < 10); // it slept, and did not spin
    return true;
}

bool messages(Bench&)
{
    char text[] = "0123456789";
    const int got = kapi_test_with_msg(text, 10, 0, [](kapi_msg* msg, void*) {
        char bytes[10];
        kapi_msg_mark mark;
        if (kapi_msg_left(msg) != 10 || kapi_msg_copy_in(msg, bytes, 4) != 0 || bytes[3] != '3')
            return 1;
        kapi_msg_save(msg, &mark);
        if (kapi_msg_copy_in(msg, bytes, 6) != 0 || bytes[5] != '9' || kapi_msg_left(msg) != 0)
            return 2;
        if (kapi_msg_copy_in(msg, bytes, 1) != -KAPI_EFAULT)
            return 3;
        kapi_msg_restore(msg, &mark);
        return kapi_msg_left(msg) == 6 && kapi_msg_copy_in(msg, bytes, 1) == 0 && bytes[0] == '4' ? 0 : 4;
    }, nullptr);
    CHECK(got == 0);

    const int put = kapi_test_with_msg(text, 10, 1, [](kapi_msg* msg, void*) {
        return kapi_msg_copy_out(msg, "abc", 3) == 0 && kapi_msg_left(msg) == 7 ? 0 : 1;
    }, nullptr);
    CHECK(put == 0 && text[0] == 'a' && text[2] == 'c' && text[3] == '3');
    return true;
}

bool others_run(Bench&)
{
    CHECK(kapi_test_filter() == 0);
    CHECK(kapi_test_turn() == 0);
    return true;
}

bool addresses(Bench& bench)
{
    const kapi_addr loop4{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1}, 0, 0, 0};
    const kapi_addr other4{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1}, 0, 0, 0};
    const kapi_addr loop6{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 0, 0, 0};
    kapi_addr scoped = loop4;
    scoped.scope = 1; // the loopback interface
    CHECK(kapi_net_is_initial(bench.net));
    CHECK(kapi_net_is_local(bench.net, &loop4));
    CHECK(kapi_net_is_local(bench.net, &loop6));
    CHECK(kapi_net_is_local(bench.net, &scoped));
    CHECK(!kapi_net_is_local(bench.net, &other4));
    scoped.scope = 4711;
    CHECK(!kapi_net_is_local(bench.net, &scoped));
    kapi_u16 low, high;
    kapi_net_port_range(bench.net, &low, &high);
    CHECK(low >= 1024 && low < high);
    CHECK(kapi_net_addr_generation(bench.net) == kapi_net_addr_generation(bench.net));
    CHECK(*kapi_module_slot(KAPI_SLOT_RDS) == nullptr);
    CHECK(kapi_module_slot(KAPI_SLOT_RDS) != kapi_module_slot(KAPI_SLOT_KCM));
    return true;
}

} // namespace test
