// SPDX-License-Identifier: GPL-2.0
// A test is a function that returns true; CHECK reports the failing line.
#pragma once

#include <kapi/host.h>
#include <kapi/memory.h>
#include <kapi/types.h>
#include <kapi/wait.h>
#include <kapi/work.h>

#include <new>
#include <utility>

#define CHECK(condition)                                                                             \
    do {                                                                                             \
        if (!(condition)) {                                                                          \
            kapi_log(KAPI_LOG_ERR, "kapi_test: %s:%d: %s", __FILE_NAME__, __LINE__, #condition);     \
            return false;                                                                            \
        }                                                                                            \
    } while (false)

namespace test {

inline constexpr kapi_u64 millisecond = 1'000'000;

// The environment of the tests.
struct Bench {
    kapi_net* net;
    kapi_workqueue* queue;
};

// Waits until condition() holds, at most ten seconds.
template <class Condition> bool eventually(Condition&& condition);
// Sleeps. Each object has its own: of an inline function's copies the link drops all but one, which kernels' tables still name.
static inline void pause(kapi_u64 ns)
{
    kapi_waitq queue;
    kapi_waiter waiter;
    const kapi_u64 deadline = kapi_now_ns() + ns;
    kapi_waitq_init(&queue);
    kapi_wait_begin(&queue, &waiter);
    while (kapi_park_uninterruptible(&waiter, deadline) == 0) {
    }
    kapi_wait_end(&queue, &waiter);
}

template <class Condition> bool eventually(Condition&& condition)
{
    const kapi_u64 deadline = kapi_now_ns() + 10'000 * millisecond;
    while (!condition()) {
        if (kapi_now_ns() > deadline)
            return false;
        pause(millisecond);
    }
    return true;
}

// A T that is not on the stack, where a debug kernel allows no work.
template <class T> class Boxed {
public:
    template <class... Args> explicit Boxed(Args&&... args)
    {
        if (void* memory = kapi_zalloc(sizeof(T), KAPI_SLEEP))
            object_ = ::new (memory) T{std::forward<Args>(args)...};
    }
    Boxed(const Boxed&) = delete;
    ~Boxed()
    {
        if (object_)
            object_->~T();
        kapi_free(object_);
    }
    explicit operator bool() const { return object_ != nullptr; }
    T& operator*() const { return *object_; }
    T* operator->() const { return object_; }

private:
    T* object_ = nullptr;
};

bool memory(Bench&);
bool objects(Bench&);
bool counters(Bench&);
bool deferred_free(Bench&);
bool locks(Bench&);
bool works(Bench&);
bool cancelled_works(Bench&);
bool waits(Bench&);
bool waits_despite_a_signal(Bench&);
bool messages(Bench&);
bool others_run(Bench&);
bool charges(Bench&);
bool pages(Bench&);
bool pages_count_what_they_hold(Bench&);
bool addresses(Bench&);
bool stream_echo_v4(Bench&);
bool stream_echo_v6(Bench&);
bool stream_pages(Bench&);
bool stream_backpressure(Bench&);
bool stream_end(Bench&);
bool stream_abort_keeps_acknowledged(Bench&);
bool stream_drain_and_reset(Bench&);
bool stream_refused(Bench&);
bool stream_late_attach(Bench&);
bool stream_listener_end(Bench&);
bool adopt_gives_back_all_sizes(Bench&);
bool adopt_gives_back_after_the_end(Bench&);
bool adopt_keeps_large_parts(Bench&);
bool adopt_notices_another_peer(Bench&);
bool adopt_notices_that_there_is_no_peer(Bench&);
bool adopt_notices_that_there_is_no_peer_for_what_waits(Bench&);
bool adopt_looks_ever_more_rarely(Bench&);
bool adopt_looks_no_more_after_the_end(Bench&);
bool adopt_without_a_descriptor(Bench&);
bool adopt_sends_without_scatter_gather(Bench&);
bool adopt_copies_under_the_lock(Bench&);
bool adopt_gives_back_in_few_pages(Bench&);
bool adopt_gives_back_no_more_than_tcp_can_count(Bench&);
bool adopt_gives_back_full_buffers(Bench&);
bool adopt_gives_back_what_tcp_leaves_alone(Bench&);
bool adopt_gives_back_nothing_behind_a_hole(Bench&);

} // namespace test
