// SPDX-License-Identifier: GPL-2.0
// Big-endian integers as in wire formats: no alignment, no padding.
#pragma once

#include <hawser/base.h>

namespace hw {

template <class T> class BigEndian {
public:
    constexpr BigEndian() = default;
    constexpr BigEndian(T value) : bytes_(__builtin_bit_cast(Bytes, swapped(value))) {}
    constexpr operator T() const { return swapped(__builtin_bit_cast(T, bytes_)); }
    constexpr bool operator==(const BigEndian&) const = default;

private:
    // An array of bytes that a register holds: compilers make one load and one swap of it, which they do not of a loop.
    struct Bytes {
        u8 byte[sizeof(T)] = {};
        constexpr bool operator==(const Bytes&) const = default;
    };
    static constexpr T swapped(T value)
    {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        if constexpr (sizeof(T) == 2)
            return __builtin_bswap16(value);
        else if constexpr (sizeof(T) == 4)
            return __builtin_bswap32(value);
        else
            return __builtin_bswap64(value);
#else
        return value;
#endif
    }
    Bytes bytes_;
};

using Be16 = BigEndian<u16>;
using Be32 = BigEndian<u32>;
using Be64 = BigEndian<u64>;
static_assert(sizeof(Be64) == 8 && alignof(Be64) == 1);

} // namespace hw
