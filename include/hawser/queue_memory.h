// SPDX-License-Identifier: GPL-2.0
// Memory that the queues of a device take, for limits. Counted as Soft-RoCE takes it: adapters take less.
//
// It has rings with a power of two entries of a power of two bytes, one entry more than it is asked for. Because it may repeat
// registrations (verbs.md), kapi asks it for send queues and completion queues that are twice as long, with a few entries for
// the drain, and has a list of as many requests itself.
#pragma once

#include <hawser/base.h>
#include <kapi/verbs_queue.h>

namespace hw {

// A power of two that is at least n, which is not 0.
constexpr u64 power_of_two(u64 n)
{
    return n > 1 ? u64{1} << (64 - __builtin_clzll(n - 1)) : 1;
}

constexpr u64 bytes_of_ring(u64 entries, u64 entry)
{
    return power_of_two(entries + 1) * power_of_two(entry);
}

// As of kapi_cq_create(). Any context.
constexpr u64 bytes_of_completions(u32 entries)
{
    constexpr u32 completion = 128;
    return bytes_of_ring(u64{2} * entries, completion);
}

// As of kapi_qp_create(). Any context.
constexpr u64 bytes_of_queue_pair(const kapi_qp_caps& caps)
{
    constexpr u32 send = 208, receive = 40, held = 88; // beside the pieces
    u64 pieces = max<u64>(max(caps.max_send_sge, 1u) * sizeof(kapi_sge), caps.max_inline);
    return bytes_of_ring(u64{2} * caps.max_send + 2, send + pieces) + caps.max_send * (held + pieces) +
           bytes_of_ring(u64{caps.max_recv} + 1, receive + max(caps.max_recv_sge, 1u) * sizeof(kapi_sge));
}

} // namespace hw
