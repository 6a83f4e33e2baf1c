// SPDX-License-Identifier: GPL-2.0
#include "ring_shares.h"

#include "receiver.h"

#include <kapi/memory.h>

namespace rds_rdma {

namespace {

constexpr u64 memory_part = 64;        // of the machine's, for each half
constexpr u64 least_limit = 2 << 20;   // a small machine, too, needs room for some connections
constexpr u64 buffer_bytes = 5 << 10; // a received buffer with its page, a header, and what the device has for a receive
// The slots and headers of the sender and of the receiver, and the device's queues.
constexpr u64 connection_bytes = 320 << 10;

u64 bytes_of(u32 buffers)
{
    return connection_bytes + buffers * buffer_bytes;
}

} // namespace

RingShares::RingShares()
{
    users_.limit = peers_.limit = max(kapi_memory_total() / memory_part, least_limit);
}

Atomic<u64>& RingShares::held_by(u32 payer, const kapi_addr& remote)
{
    if (payer < KAPI_USERS)
        return of_user_[payer];
    u64 words[2];
    kapi_copy(words, remote.ip, sizeof(words));
    return of_address_[seed_.hash_of(words) % addresses];
}

bool RingShares::take(Pool& pool, Atomic<u64>& held, u64 bytes, bool may_be_last)
{
    u64 before = held.fetch_add(bytes), used = pool.used.fetch_add(bytes);
    int share = kapi_share(0, before, pool.limit - min(used, pool.limit), bytes);
    if (share == 0 || (share > 0 && may_be_last))
        return true;
    give(pool, held, bytes);
    return false;
}

void RingShares::give(Pool& pool, Atomic<u64>& held, u64 bytes)
{
    pool.used.fetch_sub(bytes);
    held.fetch_sub(bytes);
}

bool RingShares::take_buffers(u32 count, u64 limit)
{
    if (buffers_.fetch_add(count) + count <= limit)
        return true;
    buffers_.fetch_sub(count);
    return false;
}

// When half of what is allowed is used, a ring is small.
u32 RingShares::take(u32 payer, const kapi_addr& remote, u32 wanted, u64 allowed)
{
    Pool& pool = pool_of(payer);
    Atomic<u64>& held = held_by(payer, remote);
    u32 least = min(wanted, Receiver::least);
    for (bool small : {false, true}) {
        u32 buffers = small ? least : wanted;
        if (!take_buffers(buffers, small ? allowed : allowed / 2))
            continue;
        if (take(pool, held, bytes_of(buffers), small))
            return buffers;
        buffers_.fetch_sub(buffers);
    }
    return 0;
}

void RingShares::give(u32 payer, const kapi_addr& remote, u32 buffers)
{
    buffers_.fetch_sub(buffers);
    give(pool_of(payer), held_by(payer, remote), bytes_of(buffers));
}

} // namespace rds_rdma
