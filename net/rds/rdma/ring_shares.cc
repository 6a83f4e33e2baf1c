// SPDX-License-Identifier: GPL-2.0
#include "ring_shares.h"

#include "receiver.h"

#include <hawser/queue_memory.h>
#include <kapi/memory.h>

namespace rds_rdma {

namespace {

constexpr u64 memory_part = 32;        // of the machine's, for each half
constexpr u64 least_limit = 11 << 20;  // a small machine, too, needs room for some connections
constexpr u64 buffer_bytes = 5 << 10; // a received buffer with its page and a header
constexpr u64 slots_bytes = 160 << 10; // of the sender and the receiver, whatever the rings have, and the sender's headers

u64 bytes_of(kapi_qp_caps caps, u32 buffers)
{
    caps.max_recv = buffers / (caps.max_recv_sge - 1);
    return slots_bytes + bytes_of_queue_pair(caps) + bytes_of_completions(caps.max_send + completions_besides) +
           bytes_of_completions(caps.max_recv + completions_besides) + buffers * buffer_bytes;
}

} // namespace

RingShares::RingShares()
{
    users_.limit = peers_.limit = max(kapi_memory_total() / memory_part, least_limit);
}

RingShares::Held& RingShares::held_by(u32 payer, const kapi_addr& remote)
{
    if (payer < KAPI_USERS)
        return of_user_[payer];
    u64 words[2];
    kapi_copy(words, remote.ip, sizeof(words));
    return of_address_[seed_.hash_of(words) % addresses];
}

bool RingShares::take(Atomic<u64>& held, Atomic<u64>& used, u64 limit, u64 amount, bool may_be_last)
{
    u64 before = held.fetch_add(amount);
    int share = kapi_share(0, before, limit - min(used.fetch_add(amount), limit), amount);
    if (share == 0 || (share > 0 && may_be_last))
        return true;
    give(held, used, amount);
    return false;
}

void RingShares::give(Atomic<u64>& held, Atomic<u64>& used, u64 amount)
{
    used.fetch_sub(amount);
    held.fetch_sub(amount);
}

// When half of what is allowed is used, a ring is small.
Ring RingShares::take(u32 payer, const kapi_addr& remote, u32 wanted, u64 allowed, const kapi_qp_caps& caps)
{
    Pool& pool = pool_of(payer);
    Held& held = held_by(payer, remote);
    u32 least = min(wanted, Receiver::least);
    for (bool small : {false, true}) {
        u32 buffers = small ? least : wanted;
        u64 bytes = bytes_of(caps, buffers);
        if (!take(held.buffers, pool.buffers, allowed / 2, buffers, small))
            continue;
        if (take(held.bytes, pool.used, pool.limit, bytes, small))
            return {buffers, payer, bytes};
        give(held.buffers, pool.buffers, buffers);
    }
    return {};
}

void RingShares::give(const Ring& ring, const kapi_addr& remote)
{
    Pool& pool = pool_of(ring.payer);
    Held& held = held_by(ring.payer, remote);
    give(held.buffers, pool.buffers, ring.buffers);
    give(held.bytes, pool.used, ring.bytes);
}

} // namespace rds_rdma
