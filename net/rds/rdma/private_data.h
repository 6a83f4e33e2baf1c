// SPDX-License-Identifier: GPL-2.0
// What goes with a request for a connection and with its answer: addresses, versions, and the mark of a hawser.
#pragma once

#include <hawser/endian.h>
#include <hawser/result.h>

#include <optional>

namespace rds_rdma {

using namespace hw;

inline constexpr u16 port_v4 = 18634, port_v6 = 16385; // of RDMA's connection manager, as the kernel's own
inline constexpr s32 rejected_incompatible = 1;          // goes with a rejection, in the host's order

// The protocols are the same in all that is sent; kernels differ in what they propose.
struct Version {
    u8 major, minor;
    bool operator==(const Version&) const = default;
};
inline constexpr Version proposed{3, 1}; // as the kernel's own. Every peer that accepts 4.x accepts it, too

struct PrivateData {
    u8 major, minor;
    Be16 minor_mask; // of 4.x
    u8 tos;
    u8 mark[3];      // reserved elsewhere, and 0
    Be64 ack;        // 0: says nothing. A peer that has restarted would take numbers of its former life for its own
    Be32 credit;     // 0: no flow control. The kernel's own has 0, too: it posts its receives later
    u8 buffers;      // of 4096 bytes, which a fragment fills at most (queue_ends.h). Padding elsewhere
    u8 padding[3];

    bool is_hawser() const;
};
static_assert(sizeof(PrivateData) == 24 && alignof(PrivateData) == 1);

struct PrivateV4 {
    u8 source[4], destination[4];
    PrivateData data;
};
struct PrivateV6 {
    u8 source[16], destination[16];
    PrivateData data;
};
static_assert(sizeof(PrivateV4) == 32 && sizeof(PrivateV6) == 56);

struct AnyPrivate {
    u8 bytes[sizeof(PrivateV6)];
    usize size;
};

bool is_v4(const kapi_addr& addr);
// What we say, local being our address, and buffers what our device takes.
AnyPrivate write_private(const kapi_addr& local, const kapi_addr& remote, Version version, u8 tos, u32 buffers);
// What the peer says, whose address is remote. Nothing: it is too short, or names other addresses than those it comes by.
std::optional<PrivateData> read_private(const void* bytes, usize size, const kapi_addr& local, const kapi_addr& remote);
// The same of an answer, where addresses are not looked at: it comes from whom we asked.
std::optional<PrivateData> read_answer(const void* bytes, usize size, const kapi_addr& local);
// The version to answer a request with. Nothing: there is none in common.
std::optional<Version> negotiate(const PrivateData& request);
// Whether an answer is one that we can go on with.
bool is_acceptable(const PrivateData& answer);

} // namespace rds_rdma
