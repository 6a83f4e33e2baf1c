// SPDX-License-Identifier: GPL-2.0
// Many threads at RLIMIT_MEMLOCK while pages are on their way back. A busy machine may hold up any thread, so it is tried again.
#include "link.h"

#include "user_memory.h"

namespace test {

namespace {

constexpr unsigned attempts = 20, waiters = VERBS_TEST_WAITERS;
constexpr unsigned longest_wait_ms = 1000; // of one call

// A page that was given back, and stays charged as long as this lives: as often as it is pinned.
struct Returning {
    UserMemory user{4096};
    bool busy = false;

    bool begin(unsigned pins = 1)
    {
        CHECK(user.at && verbs_test_make_busy(user.at) == 0);
        busy = true;
        for (unsigned i = 0; i < pins; i++) {
            kapi_pin* pin = nullptr;
            CHECK(kapi_pin_user(user.at, 1, 1, &pin) == 0);
            kapi_unpin(pin, 1);
        }
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
    bool add(unsigned number, const verbs_test_wants& wants)
    {
        CHECK(verbs_test_start_waiter(number, &wants) == 0);
        return true;
    }
    static verbs_test_waiters of_one(unsigned number)
    {
        verbs_test_waiters one;
        verbs_test_count_waiter(number, &one);
        return one;
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

namespace {

constexpr unsigned limit_pages = 16, many_pins = 1000;
constexpr unsigned large = 0, small = 1; // threads
constexpr unsigned soon_ms = longest_wait_ms / 2; // the large one's end, after a whole second, wakes the small one in any case

// A thread may have slept elsewhere before it waits for room.
bool settled()
{
    pause(100 * millisecond);
    return true;
}

// A large request waits, then a small one; there is room for that. How long did it take?
bool small_request(unsigned& ms)
{
    UserMemory user(4096);
    kapi_pin* one = nullptr;
    Waiters threads;
    Returning returning;
    CHECK(user.at && returning.begin() && kapi_pin_user(user.at, 1, 1, &one) == 0);
    const bool waiting = threads.add(large, {0, 2, 2}) && eventually([] { return Waiters::of_one(large).sleeps >= 2; }) &&
                         settled() &&
                         threads.add(small, {0, 2, 1}) && eventually([] { return Waiters::of_one(small).sleeps >= 2; }) &&
                         settled();
    kapi_unpin(one, 0);
    CHECK(waiting && eventually([] { return Waiters::of_one(small).allowed == 1; }));
    ms = Waiters::of_one(small).longest_ms;
    return true;
}

// A thread of another program of the same user, with room at its own limit for one page.
bool other_program(bool allowed)
{
    Waiters threads;
    CHECK(threads.add(small, {1, limit_pages, 1}) && eventually([&] {
        const verbs_test_waiters one = Waiters::of_one(small);
        return (allowed ? one.allowed : one.refused) == 1;
    }));
    return true;
}

} // namespace

bool pin_limit_small_before_large(VerbsBench&)
{
    unsigned ms = soon_ms;
    for (unsigned i = 0; i < attempts && ms >= soon_ms; i++)
        CHECK(small_request(ms));
    CHECK(ms < soon_ms);
    return true;
}

// Busy pins cost no timer each, and end when the page is not busy any more.
bool busy_pins_share_one_work(VerbsBench&)
{
    const long before = verbs_test_pinned();
    Returning returning;
    CHECK(returning.begin(many_pins));
    const int timed = verbs_test_count_timed_works(2000);
    CHECK(timed >= 0 && timed < static_cast<int>(many_pins) && verbs_test_pinned() == before + static_cast<long>(many_pins));
    returning.end();
    CHECK(eventually([before] { return verbs_test_pinned() == before; }));
    return true;
}

// Else a user had any number of them, by programs that end.
bool busy_pins_count_for_their_user(VerbsBench&)
{
    Returning returning;
    CHECK(other_program(true) && returning.begin(limit_pages) && other_program(false));
    returning.end();
    CHECK(eventually([] { return other_program(true); }));
    return true;
}

} // namespace test
