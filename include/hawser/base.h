// SPDX-License-Identifier: GPL-2.0
// Included by every core file: integer names, assertions, thread-safety annotations.
#pragma once

#include <kapi/errno.h>
#include <kapi/host.h>
#include <kapi/memory.h>
#include <kapi/types.h>

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace hw {

using u8 = kapi_u8;
using u16 = kapi_u16;
using u32 = kapi_u32;
using u64 = kapi_u64;
using s32 = kapi_s32;
using s64 = kapi_s64;
using usize = kapi_size;

template <class T> constexpr T min(T a, T b) { return b < a ? b : a; }
template <class T> constexpr T max(T a, T b) { return a < b ? b : a; }

// An object that is neither copied nor moved: what locks, lists and works point at.
struct Pinned {
    Pinned() = default;
    Pinned(const Pinned&) = delete;
    Pinned& operator=(const Pinned&) = delete;
};

// For HW_ASSERT.
[[gnu::always_inline]] inline bool holds(bool condition, const char* expression, const char* file, int line)
{
    if (!condition) [[unlikely]]
        kapi_bug(expression, file, line);
    return condition;
}

} // namespace hw

// What must hold whatever users and peers do. Unlike bad input, a failure is a defect of this code: the simulator stops, the
// kernel logs it and continues. Where continuing would corrupt memory, test the result, which is true if it holds:
// if (!HW_ASSERT(size <= room)) return ...
#define HW_ASSERT(expression) ::hw::holds(static_cast<bool>(expression), #expression, __FILE__, __LINE__)

// For a large variable whose unused part is never read: the kernel's flags would have it zeroed at each call.
#if defined(__clang__)
#define HW_UNINITIALIZED __attribute__((uninitialized))
#else
#define HW_UNINITIALIZED [[gnu::uninitialized]]
#endif

// Clang's thread-safety analysis checks these in the host build; g++ does not have them.
#if defined(__clang__)
#define HW_TSA(attribute) __attribute__((attribute))
#else
#define HW_TSA(attribute)
#endif
#define HW_CAPABILITY(name) HW_TSA(capability(name))
#define HW_SCOPED_CAPABILITY HW_TSA(scoped_lockable)
#define HW_GUARDED_BY(lock) HW_TSA(guarded_by(lock))
#define HW_REQUIRES(...) HW_TSA(requires_capability(__VA_ARGS__))
#define HW_EXCLUDES(...) HW_TSA(locks_excluded(__VA_ARGS__))
#define HW_ACQUIRE(...) HW_TSA(acquire_capability(__VA_ARGS__))
#define HW_RELEASE(...) HW_TSA(release_capability(__VA_ARGS__))
#define HW_NO_TSA HW_TSA(no_thread_safety_analysis)
