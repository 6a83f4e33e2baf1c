// SPDX-License-Identifier: GPL-2.0
// Shared ownership by an intrusive count: Ref<T>, RefCounted<T>.
//
// An object is born with one reference, which is adopted once. A count that would overflow, or that was 0, saturates: the
// object leaks, as with refcount_t, instead of being freed while in use or twice.
#pragma once

#include <hawser/atomic.h>
#include <hawser/memory.h>

namespace hw {

template <class T> class RefCounted : Pinned {
public:
    void ref() const
    {
        if (is_broken(count_.fetch_add(1))) [[unlikely]]
            count_.store_relaxed(saturated);
    }
    // How many there are at this moment: of use only where none can be taken meanwhile, or an estimate is enough.
    u32 references() const { return count_.load_acquire(); }
    // For look-ups of objects whose last reference may be dropped at the same time: false when the last reference is gone.
    [[nodiscard]] bool ref_unless_dead() const
    {
        u32 old = count_.load_relaxed();
        do {
            if (old == 0)
                return false;
            if (old >= saturated)
                return true;
        } while (!count_.compare_exchange(old, old + 1));
        return true;
    }
    // Inlined always: a copy that several objects share is one more function for the tracer, whose table the linker
    // cannot thin out when it drops the doubles.
    [[gnu::always_inline]] void unref() const
    {
        u32 old = count_.fetch_sub(1);
        if (old == 1)
            T::destroy(const_cast<T*>(static_cast<const T*>(this)));
        else if (is_broken(old)) [[unlikely]]
            count_.store_relaxed(saturated);
    }

protected:
    ~RefCounted() = default;

private:
    static constexpr u32 saturated = 0x80000000u;
    static bool is_broken(u32 old)
    {
        if (old - 1 < saturated - 1) [[likely]]
            return false;
        HW_ASSERT(old != 0);
        return true;
    }
    mutable Atomic<u32> count_{1};
};

template <class T> class [[nodiscard]] Ref {
public:
    constexpr Ref() = default;
    constexpr Ref(std::nullptr_t) {}
    Ref(const Ref& other) : object_(other.object_)
    {
        if (object_)
            object_->ref();
    }
    Ref(Ref&& other) noexcept : object_(other.leak()) {}
    Ref& operator=(Ref other) noexcept
    {
        std::swap(object_, other.object_);
        return *this;
    }
    ~Ref()
    {
        if (object_)
            object_->unref();
    }

    // Takes over a reference that the caller owns.
    static Ref adopt(T* object) { return Ref(object); }
    // Takes a further reference to an object that the caller has one to.
    static Ref share(T& object) { return object.ref(), Ref(&object); }
    // Null when object is dying.
    static Ref upgrade(T& object) { return object.ref_unless_dead() ? Ref(&object) : Ref(); }

    // Gives the reference away, to a C interface or a list.
    [[nodiscard]] T* leak() { return std::exchange(object_, nullptr); }
    T* get() const { return object_; }
    T* operator->() const { return object_; }
    T& operator*() const { return *object_; }
    explicit operator bool() const { return object_ != nullptr; }

private:
    constexpr explicit Ref(T* object) : object_(object) {}
    T* object_ = nullptr;
};

} // namespace hw
