// SPDX-License-Identifier: GPL-2.0
// Threads that wait in recvmsg().
//
// If there is something, then none of a socket's threads sleeps, or one is awake and is going to look. What comes wakes one. Of
// what comes before that has looked each eighth wakes another one: it may not run soon (nice, cpu.max). It takes one message as a
// rule, or none (MSG_PEEK, a signal), and a path may have left others in its stream. So one that has waited, and leaves
// something, wakes the next one: before it copies, which takes as long as the program likes. Who has not waited was not woken in
// another one's place.
#include "socket.h"

namespace rds {

Result<> Socket::wait_for_input(bool peek, Input& input)
{
    {
        Guard guard(lock_);
        receiving_++;
    }
    u64 timeout = kapi_sk_rcvtimeo_ns(sk);
    u64 deadline = timeout == KAPI_FOREVER ? KAPI_FOREVER : kapi_now_ns() + timeout;
    auto result = waited(receivers.wait_to_take(deadline, [&] { return take_or_pull(peek, input); }), timeout);
    bool wakes;
    {
        Guard guard(lock_);
        receiving_--;
        came_unseen_ = 0; // it may have been woken behind its last look
        bool leaves = !received_.empty() || unread_ || freed_ports_ || !rdma_notices_.empty();
        wakes = leaves && wakes_receiver();
    }
    if (wakes)
        receivers.wake();
    return result;
}

} // namespace rds
