// SPDX-License-Identifier: GPL-2.0
// The paths that are not read because a socket is full.
#include "connection.h"
#include "socket.h"

namespace rds {

namespace {

constexpr unsigned resumed_at_once = 16; // paths

} // namespace

bool Socket::stall(Path& path)
{
    Guard guard(lock_);
    if (closed_ || !is_full())
        return false;
    if (!static_cast<ListNode<Stalled>&>(path).linked()) {
        stalled_.push_back(Ref<Path>::share(path));
        net.stalled_paths.fetch_add(1);
        net.count(Stat::recv_stalled);
    }
    return true;
}

void Socket::unstall(Path& path)
{
    Ref<Path> removed;
    Guard guard(lock_);
    if (static_cast<ListNode<Stalled>&>(path).linked()) {
        removed = stalled_.remove(path);
        net.stalled_paths.fetch_sub(1);
    }
}

bool Socket::stalls(Path& path)
{
    Guard guard(lock_);
    return static_cast<ListNode<Stalled>&>(path).linked();
}

// A peer may have very many paths that wait, and the first ones fill the socket again. So a few are resumed, and the others if
// there is still room after those have had their turn in the same queue of works.
void Socket::room_made()
{
    for (unsigned resumed = 0; resumed < resumed_at_once; resumed++) {
        Ref<Path> path;
        {
            Guard guard(lock_);
            if (!closed_ && is_full())
                return;
            path = stalled_.pop_front();
            if (path)
                net.stalled_paths.fetch_sub(1);
        }
        if (!path)
            return;
        path->resumed(*this);
    }
    ref(); // the queued work's
    if (!resume_more_.queue(net.module.workqueue))
        unref();
}

void Socket::resume_more()
{
    room_made();
    unref();
}

} // namespace rds
