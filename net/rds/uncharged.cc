// SPDX-License-Identifier: GPL-2.0
// Messages that a socket cannot be charged for, and has all the same because their peers have them no more.
#include "connection.h"
#include "socket.h"

namespace rds {

namespace {

// More than what TCP's buffers have: the end of a stream that a peer goes on to fill while there is no memory to read it.
constexpr u64 most_of_stream = 64 << 20;

} // namespace

void Socket::note_uncharged(Incoming& incoming)
{
    incoming.counts_for(*this);
    uncharged_ += incoming.true_size();
    uncharged().add(incoming.true_size());
}

// Only now is there room: a program has any number of threads, and each may take as long as it likes to copy a message.
void Socket::uncharged_ended(usize size)
{
    CongestionChange change;
    {
        Guard guard(lock_);
        uncharged_ -= size;
        change = update_congestion(false);
    }
    uncharged().give(size);
    report_congestion(change);
    room_made();
}

bool Socket::has_memory_for(usize bytes)
{
    if (uncharged().share(bytes) >= 0)
        return true;
    if (kapi_sk_charge(sk, bytes) < 0)
        return false;
    kapi_sk_uncharge(sk, bytes);
    return true;
}

// A lost stream holds at most one TCP receive buffer of bytes. In our memory its messages take more: an empty one ten times its
// bytes. So when the first message of a stream is taken, the rest of the stream is taken too. Another stream may be lost each
// minute, so their bytes are limited together.
bool Socket::takes_overdraft(usize bytes, bool begun)
{
    usize limit = hard_limit();
    Guard guard(lock_);
    if (closed_ || !is_full(limit))
        return true;
    bool within = overdrawn_ < limit + (begun ? most_of_stream : 0);
    overdrawn_ += bytes;
    return within && (!uncharged_ || uncharged().share(bytes) >= 0);
}

} // namespace rds
