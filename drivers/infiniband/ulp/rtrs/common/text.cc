// SPDX-License-Identifier: GPL-2.0
#include "text.h"

namespace rtrs {

Text& Text::number(s64 value)
{
    char digits[20];
    usize n = sizeof(digits);
    u64 left = value < 0 ? -static_cast<u64>(value) : static_cast<u64>(value);
    do {
        digits[--n] = static_cast<char>('0' + left % 10);
        left /= 10;
    } while (left);
    if (value < 0)
        add("-");
    return add({digits + n, sizeof(digits) - n});
}

Text& Text::hex(u32 value, unsigned least_digits)
{
    bool begun = false;
    for (unsigned digit = 8; digit > 0; digit--) {
        u32 nibble = value >> (digit - 1) * 4 & 15;
        begun |= nibble || digit <= least_digits;
        if (begun)
            add({&"0123456789abcdef"[nibble], 1});
    }
    return *this;
}

TextView line_of(const char* text, usize length)
{
    return {text, length && text[length - 1] == '\n' ? length - 1 : length};
}

Result<s64> parse_number(TextView text, s64 least, s64 most)
{
    bool negative = text.starts_with('-');
    if (negative || text.starts_with('+'))
        text.remove_prefix(1);
    if (text.empty())
        return fail(KAPI_EINVAL);
    const s64 bound = negative ? -least : most; // far from what an s64 holds
    s64 value = 0;
    for (char c : text) {
        if (c < '0' || c > '9')
            return fail(KAPI_EINVAL);
        value = value * 10 + (c - '0');
        if (value > bound)
            return fail(KAPI_EINVAL);
    }
    if (negative)
        value = -value;
    if (value < least || value > most)
        return fail(KAPI_EINVAL);
    return value;
}

} // namespace rtrs
