// SPDX-License-Identifier: GPL-2.0
#include "permits.h"

#include <bit>

namespace rtrs_clt {

// Permits are spread over the words in turn, so that CPUs which begin at different words have different permits.
Result<> Permits::make(u32 count)
{
    u32 words = (count + bits - 1) / bits;
    words_.reset(static_cast<Word*>(kapi_zalloc(words * sizeof(Word), KAPI_SLEEP)));
    if (!words_)
        return fail(KAPI_ENOMEM);
    for (u32 i = 0; i < words; i++)
        ::new (&words_.get()[i]) Word;
    count_ = count;
    words_count_ = words;
    // What is behind the last permit is never free.
    if (u32 rest = count % bits)
        words_.get()[words - 1].used.store_relaxed(~u64{0} << rest);
    return {};
}

s32 Permits::take(u32 hint)
{
    for (u32 i = 0; i < words_count_; i++) {
        u32 index = (hint + i) % words_count_;
        Atomic<u64>& used = words_.get()[index].used;
        u64 old = used.load_relaxed();
        while (~old) {
            u32 bit = static_cast<u32>(std::countr_one(old));
            if (used.compare_exchange(old, old | u64{1} << bit)) {
                taken_.fetch_add(1);
                return static_cast<s32>(index * bits + bit);
            }
        }
    }
    return -1;
}

void Permits::give(u32 permit)
{
    u64 bit = u64{1} << permit % bits;
    u64 old = words_.get()[permit / bits].used.fetch_and(~bit);
    if (!HW_ASSERT(old & bit))
        return;
    free_.wake();
    taken_.fetch_sub(1); // last: the session may end then
}

// Not woken by the last one, which may not touch the queue when it has given its permit.
void Permits::wait_for_all()
{
    constexpr u64 pause_ns = 10'000'000;
    kapi_waiter waiter;
    kapi_wait_begin(free_.c(), &waiter);
    while (waiting_.load() || taken_.load()) // in this order: one that waits may have taken one by the time it does not
        kapi_park_uninterruptible(&waiter, kapi_now_ns() + pause_ns);
    kapi_wait_end(free_.c(), &waiter);
}

} // namespace rtrs_clt
