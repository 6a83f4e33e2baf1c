// SPDX-License-Identifier: GPL-2.0
// Locks as types: Spin<Class>, Guard, Guarded<T, Class>.
//
// Class is a struct with a name and a rank; locks are taken in the order of their ranks. They are taken with bottom halves off,
// or, if Class has `irqs_off`, with interrupts off: see kapi/lock.h.
#pragma once

#include <hawser/base.h>
#include <kapi/lock.h>

namespace hw {

// Used as: struct FooLock { static constexpr const char* name = "foo"; static constexpr unsigned rank = 30; };
template <class Class> class HW_CAPABILITY("spinlock") Spin : Pinned {
public:
    Spin() { kapi_spin_init(&lock_, &lock_class_); }
    void lock() HW_ACQUIRE() HW_NO_TSA
    {
        if constexpr (irqs_off)
            irqs_.state = kapi_spin_lock_irqs(&lock_);
        else
            kapi_spin_lock(&lock_);
    }
    void unlock() HW_RELEASE() HW_NO_TSA
    {
        if constexpr (irqs_off)
            kapi_spin_unlock_irqs(&lock_, irqs_.state);
        else
            kapi_spin_unlock(&lock_);
    }
    bool is_held() { return kapi_spin_is_held(&lock_) != 0; }

private:
    static constexpr bool irqs_off = requires { requires Class::irqs_off; };
    struct Irqs { unsigned long state = 0; }; // of the holder, before it
    struct None {};
    [[no_unique_address]] std::conditional_t<irqs_off, Irqs, None> irqs_;
    static inline constinit kapi_lock_class lock_class_{Class::name, Class::rank, {}};
    kapi_spin lock_;
};

template <class Lock> class HW_SCOPED_CAPABILITY [[nodiscard]] Guard : Pinned {
public:
    explicit Guard(Lock& lock) HW_ACQUIRE(lock) : lock_(lock) { lock.lock(); }
    ~Guard() HW_RELEASE() { lock_.unlock(); }

private:
    Lock& lock_;
};

// Data that can only be reached while its lock is held.
template <class T, class Class> class Guarded : Pinned {
public:
    Guarded() = default;
    // Calls use(data) under the lock and returns what it returned; the data must not escape.
    template <class Use> decltype(auto) with(Use&& use)
    {
        Guard guard(lock_);
        return std::forward<Use>(use)(data_);
    }

private:
    Spin<Class> lock_;
    T data_{};
};

} // namespace hw
