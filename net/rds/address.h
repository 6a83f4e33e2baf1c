// SPDX-License-Identifier: GPL-2.0
// Addresses: IPv6, with IPv4 held v4-mapped, and what a user may pass as a sockaddr.
#pragma once

#include <hawser/endian.h>
#include <hawser/result.h>

#include <array>
#include <span>

namespace rds {

using namespace hw;

class Ip {
public:
    constexpr Ip() = default;
    static Ip from(const u8 (&bytes)[16])
    {
        Ip ip;
        kapi_copy(ip.bytes_, bytes, sizeof(ip.bytes_));
        return ip;
    }
    static Ip mapped(const u8* v4)
    {
        Ip ip;
        kapi_copy(ip.bytes_, v4_prefix, sizeof(v4_prefix));
        kapi_copy(ip.bytes_ + sizeof(v4_prefix), v4, 4);
        return ip;
    }

    const u8* bytes() const { return bytes_; }
    const u8* v4() const { return bytes_ + 12; }
    bool is_any() const { return (word(0) | word(1)) == 0; }
    bool is_v4() const { return kapi_compare(bytes_, v4_prefix, sizeof(v4_prefix)) == 0; }
    bool is_multicast() const { return is_v4() ? (bytes_[12] & 0xf0) == 0xe0 : bytes_[0] == 0xff; }
    bool is_link_local() const { return bytes_[0] == 0xfe && (bytes_[1] & 0xc0) == 0x80; }
    // May be one host's address: neither any, broadcast nor multicast.
    bool is_host() const
    {
        if (is_multicast())
            return false;
        if (!is_v4())
            return !is_any();
        u32 v4_bits = static_cast<u32>(bytes_[12]) << 24 | bytes_[13] << 16 | bytes_[14] << 8 | bytes_[15];
        return v4_bits != 0 && v4_bits != 0xffffffffu;
    }
    bool operator==(const Ip& other) const { return kapi_compare(bytes_, other.bytes_, sizeof(bytes_)) == 0; }
    // The order that decides which host connects: as numbers in network order.
    bool operator<(const Ip& other) const { return kapi_compare(bytes_, other.bytes_, sizeof(bytes_)) < 0; }
    u64 word(int index) const // for hashing, 0 or 1
    {
        u64 value;
        kapi_copy(&value, bytes_ + index * sizeof(value), sizeof(value));
        return value;
    }
    kapi_addr with(u16 port, u32 scope) const
    {
        kapi_addr addr{};
        kapi_copy(addr.ip, bytes_, sizeof(bytes_));
        addr.port = port;
        addr.scope = scope;
        return addr;
    }

private:
    static constexpr u8 v4_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    u8 bytes_[16] = {};
};

// An address with port and scope as a socket call names it.
struct Endpoint {
    Ip ip;
    u16 port = 0;
    u32 scope = 0; // the link of a link-local address. Always 0 for others, or the two ends would disagree on a key

    bool operator==(const Endpoint&) const = default;
    std::array<u64, 3> words() const { return {ip.word(0), ip.word(1), static_cast<u64>(scope) << 16 | port}; } // for hashing
};

// Reads a sockaddr_in or sockaddr_in6. Fails with EINVAL when too short, EAFNOSUPPORT for another family. Does not check
// whether the address is usable.
Result<Endpoint> parse_sockaddr(std::span<const std::byte> name);

// Writes the sockaddr of endpoint to name (28 bytes) and returns its length.
int format_sockaddr(const Endpoint& endpoint, void* name);

} // namespace rds
