// SPDX-License-Identifier: GPL-2.0
#include "check.h"

#include <kapi/errno.h>
#include <kapi/memory.h>
#include <kapi/wait.h>

#include "kapi_test.h"

namespace test {

namespace {

struct Test {
    const char* name;
    bool (*run)(Bench&);
};

#define TEST(function) {#function, function}
constexpr Test tests[] = {
    TEST(memory), TEST(objects), TEST(counters), TEST(deferred_free), TEST(locks), TEST(works),
    TEST(cancelled_works), TEST(waits), TEST(waits_despite_a_signal), TEST(messages), TEST(others_run),
    TEST(charges), TEST(pages), TEST(pages_count_what_they_hold), TEST(addresses), TEST(stream_echo_v4), TEST(stream_echo_v6),
    TEST(stream_pages), TEST(stream_backpressure), TEST(stream_end), TEST(stream_abort_keeps_acknowledged),
    TEST(stream_drain_and_reset), TEST(stream_refused), TEST(stream_late_attach), TEST(stream_listener_end),
    TEST(adopt_gives_back_all_sizes), TEST(adopt_gives_back_after_the_end), TEST(adopt_keeps_large_parts),
    TEST(adopt_notices_another_peer), TEST(adopt_notices_that_there_is_no_peer), TEST(adopt_without_a_descriptor),
    TEST(adopt_sends_without_scatter_gather), TEST(adopt_copies_under_the_lock), TEST(adopt_gives_back_in_few_pages),
    TEST(adopt_gives_back_no_more_than_tcp_can_count), TEST(adopt_gives_back_nothing_behind_a_hole),
    TEST(adopt_gives_back_full_buffers), TEST(adopt_gives_back_what_tcp_leaves_alone),
    TEST(adopt_notices_that_there_is_no_peer_for_what_waits), TEST(adopt_looks_no_more_after_the_end),
    TEST(adopt_looks_ever_more_rarely),
};
#undef TEST

} // namespace
} // namespace test

int kapi_test_run(kapi_net* net) noexcept
{
    test::Bench bench{net, kapi_workqueue_create("kapi_test", 0)};
    int number = 0, failed = 0;

    if (!bench.queue)
        return -KAPI_ENOMEM;
    kapi_test_plan(sizeof(test::tests) / sizeof(test::tests[0]));
    for (const test::Test& test : test::tests) {
        const bool ok = test.run(bench);
        kapi_test_report(ok, ++number, test.name);
        failed += !ok;
    }
    kapi_workqueue_destroy(bench.queue);
    kapi_rcu_barrier();
    return failed ? -KAPI_EIO : 0;
}

int kapi_test_out_of_bounds() noexcept
{
    volatile char* memory = static_cast<char*>(kapi_alloc(40, KAPI_SLEEP));
    if (!memory)
        return -KAPI_ENOMEM;
    // Two longs behind the end: inside the allocator's block, so that no other object is hurt, and poisoned by
    // KASAN.
    const char seen = memory[48];
    kapi_log(KAPI_LOG_INFO, "kapi_test: read %d behind an allocation", seen);
    kapi_free(const_cast<char*>(memory));
    return 0;
}

namespace {

struct Racer {
    kapi_work work;
    long count;
};

void count_up(long& count)
{
    for (int i = 0; i < 500'000; i++) {
        ++count;
        asm volatile("" ::: "memory");
    }
}

void count_up_too(kapi_work* work)
{
    count_up(reinterpret_cast<Racer*>(work)->count);
}

} // namespace

int kapi_test_race() noexcept
{
    kapi_workqueue* queue = kapi_workqueue_create("kapi_test", 0);
    auto* racer = static_cast<Racer*>(kapi_zalloc(sizeof(Racer), KAPI_SLEEP));
    const bool made = queue && racer;
    if (made) {
        kapi_work_init(&racer->work, count_up_too);
        kapi_work_queue(queue, &racer->work, 0);
        // While the worker has this CPU, a woken task gets another.
        test::pause(test::millisecond);
        count_up(racer->count);
        kapi_work_cancel_sync(&racer->work);
    }
    kapi_workqueue_destroy(queue);
    kapi_free(racer);
    return made ? 0 : -KAPI_ENOMEM;
}

namespace {

int add_one(int value)
{
    return value + 1;
}

} // namespace

int kapi_test_wrong_type() noexcept
{
    // As a union, so that neither the compiler nor the style check objects.
    union {
        int (*right)(int);
        long (*wrong)(void*);
    } function = {add_one};
    asm volatile("" : "+m"(function)); // hides the function from the compiler
    auto called = function.wrong;
    kapi_log(KAPI_LOG_INFO, "kapi_test: a function of another type returned %ld", called(nullptr));
    return 0;
}
