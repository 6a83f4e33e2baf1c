// SPDX-License-Identifier: GPL-2.0
// A number that one context adds to at a time and that anybody reads.
#pragma once

#include <hawser/atomic.h>

namespace kcm {

class Counter {
public:
    void add(hw::u64 n) { value_.store_relaxed(value_.load_relaxed() + n); }
    void sub(hw::u64 n) { value_.store_relaxed(value_.load_relaxed() - n); }
    operator hw::u64() const { return value_.load_relaxed(); }

private:
    hw::Atomic<hw::u64> value_{0};
};

} // namespace kcm
