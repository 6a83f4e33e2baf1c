// SPDX-License-Identifier: GPL-2.0
// Big-endian and little-endian integers as in wire formats: no alignment, no padding.
#pragma once

#include <hawser/base.h>

namespace hw {

template <class T, bool Big> class WireInteger {
public:
    constexpr WireInteger() = default;
    constexpr WireInteger(T value) : bytes_(__builtin_bit_cast(Bytes, swapped(value))) {}
    constexpr operator T() const { return swapped(__builtin_bit_cast(T, bytes_)); }
    constexpr bool operator==(const WireInteger&) const = default;

private:
    // An array of bytes that a register holds: compilers make one load and one swap of it, which they do not of a loop.
    struct Bytes {
        u8 byte[sizeof(T)] = {};
        constexpr bool operator==(const Bytes&) const = default;
    };
    static constexpr T swapped(T value)
    {
        if constexpr (Big == (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__))
            return value;
        else if constexpr (sizeof(T) == 2)
            return __builtin_bswap16(value);
        else if constexpr (sizeof(T) == 4)
            return __builtin_bswap32(value);
        else
            return __builtin_bswap64(value);
    }
    Bytes bytes_;
};

template <class T> using BigEndian = WireInteger<T, true>;
template <class T> using LittleEndian = WireInteger<T, false>;

using Be16 = BigEndian<u16>;
using Be32 = BigEndian<u32>;
using Be64 = BigEndian<u64>;
using Le16 = LittleEndian<u16>;
using Le32 = LittleEndian<u32>;
using Le64 = LittleEndian<u64>;
static_assert(sizeof(Be64) == 8 && alignof(Be64) == 1 && sizeof(Le64) == 8 && alignof(Le64) == 1);

} // namespace hw
