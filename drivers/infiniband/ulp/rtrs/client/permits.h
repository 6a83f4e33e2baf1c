// SPDX-License-Identifier: GPL-2.0
// Which chunks of a session are in use.
#pragma once

#include <hawser/atomic.h>
#include <hawser/memory.h>
#include <hawser/wait.h>

namespace rtrs_clt {

using namespace hw;

class Permits : Pinned {
public:
    // Sleeps. ENOMEM. count is at least 1.
    Result<> make(u32 count);
    // Any context. Takes one that is free, from those near hint first, which differs from CPU to CPU. -1: none is free.
    s32 take(u32 hint);
    // Sleeps until ready(), whatever signals come. It looks again when one becomes free, and five times in a second: one becomes
    // free when a request ends, which a dead path does not prevent, and its user gives it back, which may never happen.
    template <class Ready> void wait(Ready&& ready)
    {
        waiting_.fetch_add(1);
        free_.wait_for_one(ready, look_ns);
        waiting_.fetch_sub(1); // last: the session may end then
    }
    void wake() { free_.wake(); } // any context: one that waits looks again
    // Any context.
    void give(u32 permit);
    // Sleeps until all are free, and no thread waits for one.
    void wait_for_all();
    u32 taken() const { return taken_.load_relaxed(); }

private:
    static constexpr u32 bits = 64;
    static constexpr u64 look_ns = 200'000'000;
    // A cache line each, so that processors that take permits near their hints do not share one.
    struct Word {
        Atomic<u64> used{0};
        u64 rest[7] = {};
    };
    static void free_words(Word* words) { kapi_free(words); }
    Own<Word, free_words> words_;
    u32 count_ = 0, words_count_ = 0;
    Atomic<u32> taken_{0};
    Atomic<u32> waiting_{0}; // threads in wait()
    WaitQueue free_;
};

} // namespace rtrs_clt
