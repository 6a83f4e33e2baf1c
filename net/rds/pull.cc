// SPDX-License-Identifier: GPL-2.0
#include "pull.h"

#include "connection.h"
#include "socket.h"

namespace rds {

namespace {

constexpr u64 wait_ns = 4'000'000;
constexpr u32 pushed_when_late = 256; // messages

} // namespace

Pull::Pull(Path& path, Spin<PathLock>& lock) : path_(path), lock_(lock) {}
Pull::~Pull() = default;

bool Pull::leave_to(Socket& socket)
{
    if (reads_.load_relaxed() || !path_.is_up())
        return false;
    bool notifies = false;
    {
        Guard guard(lock_);
        if (awaited_)
            return awaited_.get() == &socket;
        if (!socket.await_program(path_, notifies))
            return false;
        awaited_ = Ref<Socket>::share(socket);
        since_ns_ = kapi_now_ns();
    }
    path_.connection().net.count(Stat::recv_left);
    path_.retry_later(RDS_PATH_RESUME, wait_ns);
    if (notifies)
        socket.waiters.wake(KAPI_IN | KAPI_RDNORM);
    return true;
}

Ref<Socket> Pull::take_awaited(u64& since_ns)
{
    Guard guard(lock_);
    since_ns = since_ns_;
    return std::move(awaited_);
}

void Pull::end()
{
    u64 since_ns;
    if (Ref<Socket> socket = take_awaited(since_ns))
        socket->await_no_more(path_, 0);
}

// A timer that an earlier wait has set says nothing of this one.
void Pull::read()
{
    u64 since_ns;
    if (Ref<Socket> socket = take_awaited(since_ns))
        socket->await_no_more(path_, kapi_now_ns() - since_ns >= wait_ns / 2 ? pushed_when_late : 0);
    Connection& connection = path_.connection();
    reads_.store_relaxed(1);
    connection.transport.resume(connection.state(), path_.index());
    reads_.store_relaxed(0);
}

// ---- the socket's side

// One that receives nothing for long, or has much before this, would hold up the path. And the times of a message are those of
// when it came.
bool Socket::await_program(Path& path, bool& notifies)
{
    Guard guard(lock_);
    if (closed_ || pushed_ || unread_ || congested_ || trace_count_ || kapi_sk_timestamps(sk))
        return false;
    notifies = received_.empty();
    if (notifies && !waiters.has_waiters())
        return false;
    unread_ = Ref<Path>::share(path);
    return true;
}

void Socket::await_no_more(Path& path, u32 pushed)
{
    Ref<Path> old;
    Guard guard(lock_);
    if (unread_.get() == &path)
        old = std::move(unread_);
    if (pushed)
        pushed_ = pushed;
}

// Takes what comes next, from a stream if there is nothing else. False: there is nothing. Sleeps.
bool Socket::take_or_pull(bool peek, Input& input)
{
    while (!take_input(peek, input)) {
        if (!input.unread) [[likely]]
            return false;
        std::exchange(input.unread, {})->pull();
    }
    return true;
}

} // namespace rds
