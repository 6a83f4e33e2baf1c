// SPDX-License-Identifier: GPL-2.0
// Making and owning objects: make<T>, Own<T>.
#pragma once

#include <hawser/result.h>

namespace hw {

// charged: to the program in whose call it is, or whose stream it is of (kapi/memory.h).
enum class Alloc {
    atomic = KAPI_ATOMIC,
    sleep = KAPI_SLEEP,
    atomic_charged = KAPI_ATOMIC_CHARGED,
    charged = KAPI_SLEEP_CHARGED,
};

// A new T in zeroed memory with extra bytes behind it, or null. Constructors cannot fail.
template <class T, class... Args> [[nodiscard]] T* make_with_tail(Alloc mode, usize tail, Args&&... args)
{
    void* memory = kapi_zalloc(sizeof(T) + tail, static_cast<kapi_alloc_mode>(mode));
    return memory ? ::new (memory) T(std::forward<Args>(args)...) : nullptr;
}
template <class T, class... Args> [[nodiscard]] T* make(Alloc mode, Args&&... args)
{
    return make_with_tail<T>(mode, 0, std::forward<Args>(args)...);
}

// Ends an object that make() returned.
template <class T> void dispose(T* object)
{
    if (object) {
        object->~T();
        kapi_free(object);
    }
}

// Stands in a class whose constructor is private, so that objects are made by its create() alone and live in our
// memory.
#define HW_MADE_BY_CREATE                                                                                              \
    template <class HwT, class... HwArgs> friend HwT* ::hw::make_with_tail(::hw::Alloc, ::hw::usize, HwArgs&&...);     \
    template <class HwT> friend void ::hw::dispose(HwT*)

// The one owner of an object or C handle. Free(T*) ends it.
template <class T, void (*Free)(T*) = dispose<T>> class Own {
public:
    constexpr Own() = default;
    constexpr explicit Own(T* object) : object_(object) {}
    Own(Own&& other) noexcept : object_(other.release()) {}
    Own& operator=(Own&& other) noexcept
    {
        reset(other.release());
        return *this;
    }
    ~Own() { reset(); }

    T* get() const { return object_; }
    T* operator->() const { return object_; }
    T& operator*() const { return *object_; }
    explicit operator bool() const { return object_ != nullptr; }
    [[nodiscard]] T* release() { return std::exchange(object_, nullptr); }
    void reset(T* object = nullptr)
    {
        if (T* old = std::exchange(object_, object))
            Free(old);
    }

private:
    T* object_ = nullptr;
};

} // namespace hw
