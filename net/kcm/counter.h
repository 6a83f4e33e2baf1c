// SPDX-License-Identifier: GPL-2.0
// Counters, readable in any context.
#pragma once

#include <hawser/atomic.h>

namespace kcm {

// One context adds at a time.
class Counter {
public:
    void add(hw::u64 n) { value_.store_relaxed(value_.load_relaxed() + n); }
    void sub(hw::u64 n) { value_.store_relaxed(value_.load_relaxed() - n); }
    operator hw::u64() const { return value_.load_relaxed(); }

private:
    hw::Atomic<hw::u64> value_{0};
};

// Any number of contexts add.
class SharedCounter {
public:
    void add(hw::u64 n) { value_.fetch_add(n); }
    operator hw::u64() const { return value_.load_relaxed(); }

private:
    hw::Atomic<hw::u64> value_{0};
};

} // namespace kcm
