// SPDX-License-Identifier: GPL-2.0
#include "ring_shares.h"

#include "receiver.h"

#include <kapi/memory.h>

namespace rds_rdma {

namespace {

constexpr u64 memory_part = 64;        // of the machine's, for each half
constexpr u64 least_limit = 2 << 20;   // a small machine, too, needs room for some connections
constexpr u64 buffer_bytes = 5 << 10; // a received buffer with its page, a header, and what the device has for a receive
// The slots and headers of the sender and of the receiver, the device's queues, and what kapi holds for Soft-RoCE.
constexpr u64 connection_bytes = 360 << 10;

u64 bytes_of(u32 buffers)
{
    return connection_bytes + buffers * buffer_bytes;
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
u32 RingShares::take(u32 payer, const kapi_addr& remote, u32 wanted, u64 allowed)
{
    Pool& pool = pool_of(payer);
    Held& held = held_by(payer, remote);
    u32 least = min(wanted, Receiver::least);
    for (bool small : {false, true}) {
        u32 buffers = small ? least : wanted;
        if (!take(held.buffers, pool.buffers, allowed / 2, buffers, small))
            continue;
        if (take(held.bytes, pool.used, pool.limit, bytes_of(buffers), small))
            return buffers;
        give(held.buffers, pool.buffers, buffers);
    }
    return 0;
}

void RingShares::give(u32 payer, const kapi_addr& remote, u32 buffers)
{
    Pool& pool = pool_of(payer);
    Held& held = held_by(payer, remote);
    give(held.buffers, pool.buffers, buffers);
    give(held.bytes, pool.used, bytes_of(buffers));
}

} // namespace rds_rdma
