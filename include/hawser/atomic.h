// SPDX-License-Identifier: GPL-2.0
// Atomics over the compiler's builtins; <atomic> is not freestanding here. In the host build each operation is a point
// where the simulator may switch tasks. Orders are named in the operation, so that a reader sees what was meant.
#pragma once

#include <hawser/base.h>

#ifndef __KERNEL__
extern "C" void kapi_sim_point(void) noexcept;
#define HW_POINT() kapi_sim_point()
#else
#define HW_POINT() static_cast<void>(0)
#endif

namespace hw {

template <class T> class Atomic {
public:
    constexpr Atomic(T value = T{}) : value_(value) {}
    Atomic(const Atomic&) = delete;
    Atomic& operator=(const Atomic&) = delete;

    T load_relaxed() const { return HW_POINT(), __atomic_load_n(&value_, __ATOMIC_RELAXED); }
    T load_acquire() const { return HW_POINT(), __atomic_load_n(&value_, __ATOMIC_ACQUIRE); }
    void store_relaxed(T value) { HW_POINT(), __atomic_store_n(&value_, value, __ATOMIC_RELAXED); }
    void store_release(T value) { HW_POINT(), __atomic_store_n(&value_, value, __ATOMIC_RELEASE); }
    // The operations below are sequentially consistent: they are rare enough that weaker orders would buy nothing. They are no
    // barriers for those above: after one, a look at what another thread does the other way round is a load()
    // (Documentation/memory-order.md).
    T load() const { return HW_POINT(), __atomic_load_n(&value_, __ATOMIC_SEQ_CST); }
    T exchange(T value) { return HW_POINT(), __atomic_exchange_n(&value_, value, __ATOMIC_SEQ_CST); }
    bool compare_exchange(T& expected, T desired)
    {
        HW_POINT();
        return __atomic_compare_exchange_n(&value_, &expected, desired, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    }
    T fetch_add(T n) { return HW_POINT(), __atomic_fetch_add(&value_, n, __ATOMIC_SEQ_CST); }
    T fetch_sub(T n) { return HW_POINT(), __atomic_fetch_sub(&value_, n, __ATOMIC_SEQ_CST); }
    T fetch_or(T bits) { return HW_POINT(), __atomic_fetch_or(&value_, bits, __ATOMIC_SEQ_CST); }
    T fetch_and(T bits) { return HW_POINT(), __atomic_fetch_and(&value_, bits, __ATOMIC_SEQ_CST); }

private:
    T value_;
};

} // namespace hw
