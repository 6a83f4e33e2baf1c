// SPDX-License-Identifier: GPL-2.0
// Messages that a socket cannot be charged for, and has all the same because their peers have them no more.
#include "connection.h"
#include "socket.h"

namespace rds {

// What a ring brought beyond the limit does not count against it: others, and other messages, would wait for that.
PeersAccount& Socket::account_of(const Incoming& incoming) const
{
    return net.module.peers_share.of_socket(sk, incoming.overdraws ? PeersShare::overdrawn : PeersShare::uncharged);
}

// What came over loopback is charged to its sender.
void Socket::note_uncharged(Incoming& incoming)
{
    incoming.counts_for(*this);
    uncharged_ += incoming.true_size();
    if (!incoming.looped())
        account_of(incoming).add(incoming.true_size());
}

// Only now is there room: a program has any number of threads, and each may take as long as it likes to copy a message.
void Socket::uncharged_ended(const Incoming& incoming)
{
    CongestionChange change;
    {
        Guard guard(lock_);
        uncharged_ -= incoming.true_size();
        change = update_congestion(false);
    }
    if (!incoming.looped())
        account_of(incoming).give(incoming.true_size());
    report_congestion(change);
    room_made();
}

// What can be charged now may not be when the message has arrived: it takes more memory than its bytes, and others come before.
// So for what a user gets in this way there is a limit, too; a user without any such memory waits for no other.
bool Socket::has_memory_for(usize bytes)
{
    if (uncharged().share(bytes) >= 0)
        return true;
    if (uncharged().has_all() || kapi_sk_charge(sk, bytes) < 0)
        return false;
    kapi_sk_uncharge(sk, bytes);
    return true;
}

bool Socket::has_room_for_answer(usize bytes)
{
    {
        Guard guard(lock_);
        if (is_full() || poor_)
            return false;
    }
    return has_memory_for(bytes);
}

// A lost stream holds at most one TCP receive buffer of bytes. In our memory its messages take more: an empty one ten times its
// bytes. So when the first message of a stream is taken, the rest of the stream is taken too. Another stream may be lost each
// minute, so their bytes are limited together.
bool Socket::takes_overdraft(usize bytes, usize beyond, bool posted)
{
    Guard guard(lock_);
    if (closed_ || !is_full())
        return true;
    bool within = overdrawn_ < hard_limit(initial_hard_limit()) + beyond;
    overdrawn_ += bytes;
    return within && (!uncharged_ || uncharged().share(bytes) >= 0 || (posted && may_overdraw_memory()));
}

} // namespace rds
