// SPDX-License-Identifier: GPL-2.0
// Control data of sendmsg: a span of foreign bytes, parsed without trust.
#pragma once

#include "uapi.h"

#include <hawser/result.h>

#include <optional>
#include <span>

namespace rds {

using namespace hw;

struct AtomicRequest {
    int type; // of the control message
    rds_abi_atomic_args args;
};

// What a sender requests with control messages of level SOL_RDS.
struct SendControls {
    std::optional<rds_abi_rdma_args> rdma_args; // an RDMA operation to go with the message
    std::optional<u64> rdma_dest; // the peer may access a local region: an existing one, by its cookie
    std::optional<rds_abi_get_mr_args> rdma_map; // the same, registered for this message
    std::optional<AtomicRequest> atomic; // instead of rdma_args
    std::optional<u32> zerocopy_cookie;
    std::span<const std::byte> lengths; // of several messages, u32 each; empty: it is one

    usize count() const { return lengths.size() / sizeof(u32); }
    u32 length(usize i) const;

    bool rdma() const { return rdma_args || rdma_dest || rdma_map || atomic; }
};

// What is returned refers to control. Fails with EINVAL for a malformed chain, an unknown type, a wrong size, or two operations
// that exclude each other. Messages of other levels are passed over.
Result<SendControls> parse_controls(std::span<const std::byte> control);

// None is 0, and size is their sum. EINVAL.
Result<> check_lengths(const SendControls& controls, usize size);

inline constexpr kapi_u64 max_rdma_vectors = 1024; // UIO_MAXIOV

// EMSGSIZE, EINVAL.
Result<> check_rdma_size(const rds_abi_rdma_args& args);
// Where no transport can execute it: checks an RDMA operation's sizes and reads its vector from the program. Sleeps. EMSGSIZE,
// EINVAL, EFAULT.
Result<> check_rdma_args(const rds_abi_rdma_args& args);

} // namespace rds
