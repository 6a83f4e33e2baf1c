// SPDX-License-Identifier: GPL-2.0
#include "wire.h"

#include <array>
#include <span>

namespace rds {

namespace {

enum ExtensionType : u8 {
    ext_none = 0,
    ext_version = 1,
    ext_rdma = 2,
    ext_rdma_dest = 3,
    ext_rdma_bytes = 4, // 7.x
    ext_paths = 5,
    ext_generation = 6,
    ext_source_port_index = 8, // 7.x
    // Of hawser: a byte with the index of the path, and the name of the receiver's memory (receiver_memory.h). Other peers
    // stop parsing at an unknown type, so it is the last one.
    ext_hawser = 15,
};

// Payload bytes of each type; 0: unknown, and what follows cannot be found.
constexpr std::array<u8, 16> extension_size = [] {
    std::array<u8, 16> size{};
    size[ext_version] = 4;
    size[ext_rdma] = 4;
    size[ext_rdma_dest] = 8;
    size[ext_rdma_bytes] = 8;
    size[ext_paths] = 2;
    size[ext_generation] = 4;
    size[ext_source_port_index] = 1;
    size[ext_hawser] = 5;
    return size;
}();

struct Extension {
    u8 type;
    std::span<const u8> payload;
};

// Takes the next extension off rest. Stops at the first type that is none or unknown, or does not fit.
std::optional<Extension> next_extension(std::span<const u8>& rest)
{
    if (rest.empty() || rest[0] >= extension_size.size())
        return std::nullopt;
    u8 type = rest[0];
    usize size = extension_size[type];
    if (size == 0 || rest.size() < 1 + size)
        return std::nullopt;
    Extension extension{type, rest.subspan(1, size)};
    rest = rest.subspan(1 + size);
    return extension;
}

u32 number(std::span<const u8> bytes)
{
    u32 value = 0;
    for (u8 byte : bytes)
        value = (value << 8) | byte;
    return value;
}

class ExtensionWriter {
public:
    explicit ExtensionWriter(Header& header) : rest_(header.extensions) {}
    void add(ExtensionType type, u64 value)
    {
        usize size = extension_size[type];
        if (!HW_ASSERT(rest_.size() >= 1 + size))
            return;
        rest_[0] = type;
        for (usize i = 0; i < size; i++)
            rest_[1 + i] = static_cast<u8>(value >> (8 * (size - 1 - i)));
        rest_ = rest_.subspan(1 + size);
    }

private:
    std::span<u8> rest_;
};

} // namespace

Result<MessageKind> classify(const Header& header)
{
    u32 length = header.length;
    if (length > max_message)
        return fail(KAPI_EPROTO);
    if (header.flags == flag_congestion_map) {
        if (length != map_bytes)
            return fail(KAPI_EPROTO);
        return MessageKind::congestion_map;
    }
    u16 sport = header.sport;
    u16 dport = header.dport;
    if (dport == 0) {
        if (sport == 0)
            return MessageKind::nothing;
        return sport == probe_port ? MessageKind::probe : MessageKind::ping;
    }
    if (dport == probe_port && sport == 0)
        return MessageKind::probe_reply;
    return MessageKind::data;
}

Handshake parse_handshake(const Header& header)
{
    Handshake handshake;
    std::span<const u8> rest(header.extensions);
    while (auto extension = next_extension(rest)) {
        switch (extension->type) {
        case ext_paths:
            handshake.paths = static_cast<u16>(number(extension->payload));
            break;
        case ext_generation:
            handshake.generation = number(extension->payload);
            break;
        case ext_source_port_index:
            handshake.source_port_index = true;
            break;
        case ext_hawser:
            handshake.hawser = true;
            handshake.path = extension->payload[0];
            handshake.memory = number(extension->payload.subspan(1));
            break;
        default: // of messages that carry data; without meaning here
            break;
        }
    }
    return handshake;
}

void write_foreign_handshake(Header& header, u32 generation, bool source_port_index)
{
    ExtensionWriter writer(header);
    writer.add(ext_paths, max_paths);
    writer.add(ext_generation, generation);
    if (source_port_index)
        writer.add(ext_source_port_index, 0);
}

void write_handshake(Header& header, u32 generation, u8 path, u32 memory)
{
    ExtensionWriter writer(header);
    writer.add(ext_paths, max_paths);
    writer.add(ext_generation, generation);
    writer.add(ext_source_port_index, 0);
    writer.add(ext_hawser, static_cast<u64>(path) << 32 | memory);
}

MemoryNames parse_memory_names(const Header& header)
{
    MemoryNames names;
    std::span<const u8> rest(header.extensions);
    while (auto extension = next_extension(rest)) {
        if (extension->type == ext_rdma)
            names.used = number(extension->payload);
        if (extension->type == ext_rdma_dest)
            names.cookie = make_cookie(number(extension->payload.first(4)), number(extension->payload.subspan(4)));
    }
    return names;
}

void write_used_key(Header& header, u32 key)
{
    ExtensionWriter(header).add(ext_rdma, key);
}

void write_cookie(Header& header, u64 cookie)
{
    ExtensionWriter(header).add(ext_rdma_dest, static_cast<u64>(key_of(cookie)) << 32 | offset_of(cookie));
}

} // namespace rds
