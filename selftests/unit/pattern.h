// SPDX-License-Identifier: GPL-2.0
// Contents of messages and blocks that differ from place to place.
#pragma once

#include <cstddef>
#include <string>

/** So many bytes, each what byte_at(its place) returns. Tests make megabytes of them, and sanitizers slow down each call. */
template <class ByteAt> std::string patterned(std::size_t size, ByteAt byte_at)
{
    std::string bytes;
    bytes.resize_and_overwrite(size, [&](char *to, std::size_t) { // GCC 12 may offer more
        for (std::size_t i = 0; i < size; i++)
            to[i] = static_cast<char>(byte_at(i));
        return size;
    });
    return bytes;
}

/** So many letters. */
inline std::string text(std::size_t size, unsigned start = 0)
{
    return patterned(size, [=](std::size_t i) { return 'a' + (start + i * 7 + i / 251) % 26; });
}
