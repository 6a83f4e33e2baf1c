// SPDX-License-Identifier: GPL-2.0
#include "pull.h"

#include "connection.h"
#include "socket.h"

namespace rds {

namespace {

constexpr u64 wait_ns = 4'000'000;
// A path waits in vain for this part of the time at most, and a sixteenth of burst_ns at once: a user may have any number of
// sockets whose programs do not come.
constexpr u64 vain_part = 16;
constexpr u64 burst_ns = 1'000'000'000;
// A program that comes after this time was not about to come: what it is late by is waited in vain, too. Else one that comes
// every 3 ms would hold up the others all the time.
constexpr u64 prompt_ns = 1'000'000;

// When a path that has waited in vain until now has paid for it.
u64 paid_until(u64 before_ns, u64 now, u64 waited_ns)
{
    return max(before_ns, now) + vain_part * waited_ns;
}

} // namespace

Pull::Pull(Path& path, Spin<PathLock>& lock) : path_(path), lock_(lock) {}
Pull::~Pull() = default;

// A stream that was left something offers no more before read(), so there is no other message that waits.
bool Pull::leave_to(Socket& socket)
{
    if (!path_.is_up())
        return false;
    bool notifies = false;
    u64 now = kapi_now_ns();
    {
        Guard guard(lock_);
        if (reads_ || now + burst_ns < in_vain_until_ns_ || !socket.await_program(path_, notifies))
            return false;
        awaited_ = Ref<Socket>::share(socket);
        since_ns_ = now;
    }
    path_.connection().net.count(Stat::recv_left);
    path_.retry_later(RDS_PATH_RESUME, wait_ns);
    if (notifies)
        socket.notify_input();
    return true;
}

void Pull::end()
{
    Ref<Socket> socket;
    u64 now = kapi_now_ns();
    {
        Guard guard(lock_);
        socket = std::move(awaited_);
        if (socket && now > since_ns_ + prompt_ns)
            in_vain_until_ns_ = paid_until(in_vain_until_ns_, now, now - since_ns_ - prompt_ns);
    }
    if (socket)
        socket->await_no_more(path_);
}

// A timer that an earlier wait has set may end this one early: only the time that was waited counts.
void Pull::read()
{
    Ref<Socket> late;
    {
        Guard guard(lock_);
        late = std::move(awaited_);
        if (late) {
            u64 now = kapi_now_ns();
            in_vain_until_ns_ = paid_until(in_vain_until_ns_, now, now - since_ns_);
        }
        reads_ = true;
    }
    if (late)
        late->await_no_more(path_);
    Connection& connection = path_.connection();
    connection.transport.resume(connection.state(), path_.index());
    Guard guard(lock_);
    reads_ = false;
}

// ---- the socket's side

// One that receives nothing for long, or has much before this, would hold up the path. And the times of a message are those of
// when it came.
bool Socket::await_program(Path& path, bool& notifies)
{
    Guard guard(lock_);
    if (closed_ || unread_ || congested_ || trace_count_ || kapi_sk_timestamps(sk))
        return false;
    notifies = received_.empty();
    if (notifies && !receiving_ && !pollers.has_waiters())
        return false;
    unread_ = Ref<Path>::share(path);
    return true;
}

void Socket::await_no_more(Path& path)
{
    Ref<Path> old;
    Guard guard(lock_);
    if (unread_.get() == &path)
        old = std::move(unread_);
}

Ref<Path> Socket::take_unread()
{
    Guard guard(lock_);
    return std::move(unread_);
}

// Once: if more is left meanwhile, the caller is woken, and sees signals and the end of its time before it comes again.
bool Socket::pull_input(bool peek, Input& input)
{
    if (Ref<Path> path = take_unread())
        path->pull();
    return take_input(peek, input);
}

} // namespace rds
