// SPDX-License-Identifier: GPL-2.0
// Many threads at RLIMIT_MEMLOCK while pages are on their way back. A busy machine may hold up any thread, so it is tried again.
#include "link.h"

#include "user_memory.h"

namespace test {

namespace {

constexpr unsigned attempts = 20, waiters = VERBS_TEST_WAITERS;
constexpr unsigned longest_wait_ms = 1000; // of one call

// A page that was given back, and stays charged as long as this lives.
struct Returning {
    UserMemory user{4096};
    bool busy = false;

    bool begin()
    {
        kapi_pin* pin = nullptr;
        CHECK(user.at && verbs_test_make_busy(user.at) == 0);
        busy = true;
        CHECK(kapi_pin_user(user.at, 1, 1, &pin) == 0);
        kapi_unpin(pin, 1);
        return true;
    }
    void end()
    {
        if (busy)
            verbs_test_make_idle();
        busy = false;
    }
    ~Returning() { end(); }
};

struct Waiters {
    verbs_test_waiters counted{};
    bool running = true;

    bool begin(bool other)
    {
        CHECK(verbs_test_start_waiters(other) == 0);
        return true;
    }
    const verbs_test_waiters& count()
    {
        verbs_test_count_waiters(&counted);
        return counted;
    }
    bool all_sleep()
    {
        return eventually([&] { return count().sleeps >= 2 * waiters; }); // once before they begin
    }
    bool all_refused()
    {
        return eventually([&] { return count().refused == waiters; });
    }
    void stop()
    {
        if (running)
            verbs_test_stop_waiters(&counted);
        running = false;
    }
    ~Waiters() { stop(); }
};

// Threads that sleep again after a page was unpinned without a work; 0: it was not.
unsigned long woken_by_unpin(Waiters& threads, kapi_u64 at)
{
    kapi_pin* pin = nullptr;
    if (kapi_pin_user(at, 1, 1, &pin) != 0)
        return 0;
    const unsigned long before = threads.count().sleeps;
    kapi_unpin(pin, 0);
    pause(20 * millisecond);
    return threads.count().sleeps - before;
}

} // namespace

bool pin_limit_wakes_one(VerbsBench&)
{
    UserMemory user(4096);
    Waiters threads;
    Returning returning; // ends before they are stopped, so that none waits any longer
    CHECK(user.at && returning.begin() && threads.begin(false) && threads.all_sleep());
    unsigned long fewest = waiters;
    for (unsigned i = 0; i < attempts; i++) {
        const unsigned long woken = woken_by_unpin(threads, user.at);
        fewest = woken && woken < fewest ? woken : fewest;
    }
    CHECK(fewest <= waiters / 10);
    return true;
}

// When nothing is on its way back any more, none waits for its deadline.
bool pin_limit_wakes_all_at_last(VerbsBench&)
{
    unsigned longest_ms = longest_wait_ms;
    for (unsigned i = 0; i < attempts && longest_ms >= longest_wait_ms; i++) {
        Waiters threads;
        Returning returning;
        CHECK(returning.begin() && threads.begin(false) && threads.all_sleep());
        returning.end();
        CHECK(threads.all_refused());
        threads.stop();
        longest_ms = threads.counted.longest_ms;
    }
    CHECK(longest_ms < longest_wait_ms);
    return true;
}

bool pin_limit_awaits_nothing_of_others(VerbsBench&)
{
    unsigned longest_ms = longest_wait_ms;
    for (unsigned i = 0; i < attempts && longest_ms >= longest_wait_ms; i++) {
        Waiters threads;
        Returning returning;
        CHECK(returning.begin() && threads.begin(true) && threads.all_refused());
        threads.stop();
        longest_ms = threads.counted.longest_ms;
    }
    CHECK(longest_ms < longest_wait_ms);
    return true;
}

} // namespace test
