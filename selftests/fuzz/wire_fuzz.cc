// SPDX-License-Identifier: GPL-2.0
// An untrusted header: its kind and its extension headers.
#include <cstdint>
#include <cstring>

#include "net/rds/wire.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    rds::Header header{};
    std::memcpy(&header, data, size < sizeof(header) ? size : sizeof(header));
    auto kind = rds::classify(header);
    if (kind && *kind == rds::MessageKind::congestion_map && static_cast<unsigned>(header.length) != rds::map_bytes)
        __builtin_trap();
    if (kind && static_cast<unsigned>(header.length) > rds::max_message)
        __builtin_trap();
    rds::Handshake handshake = rds::parse_handshake(header);
    rds::Header own{};
    rds::write_handshake(own, handshake.generation.value_or(1), handshake.path, handshake.memory);
    rds::Handshake again = rds::parse_handshake(own);
    if (again.generation != handshake.generation.value_or(1) || again.path != handshake.path || again.memory != handshake.memory)
        __builtin_trap();
    return 0;
}
