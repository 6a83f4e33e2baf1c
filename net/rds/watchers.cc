// SPDX-License-Identifier: GPL-2.0
#include "watchers.h"

#include "socket.h"

namespace rds {

namespace {

constexpr u64 notice_ns = 20'000; // for each socket that is notified: the next notices of its group are that much later

} // namespace

// ---- a group

void Watchers::Group::add(Socket& socket)
{
    list_.with([&](List& list) {
        if (is_on<Watching>(socket))
            return;
        list.push_back(Ref<Socket>::share(socket));
        count_.fetch_add(1);
    });
}

void Watchers::Group::remove(Socket& socket)
{
    Ref<Socket> removed = list_.with([&](List& list) -> Ref<Socket> {
        if (!is_on<Watching>(socket))
            return {};
        count_.fetch_sub(1);
        return list.remove(socket);
    });
}

// A socket is added before its port is looked at again: one that is not seen here finds room.
void Watchers::Group::changed(kapi_workqueue* queue)
{
    if (!count_.load())
        return;
    u64 next = next_ns_.load_relaxed(), now = kapi_now_ns();
    work_.queue(queue, next > now ? next - now : 0);
}

// One at a time, so that the lock is held briefly for any number; a socket that is added again meanwhile waits for the next
// change.
void Watchers::Group::notify()
{
    u32 all = count_.load();
    next_ns_.store_relaxed(kapi_now_ns() + all * notice_ns);
    for (u32 left = all; left; left--, kapi_resched()) {
        Ref<Socket> socket = list_.with([&](List& list) {
            Ref<Socket> first = list.pop_front();
            if (first)
                count_.fetch_sub(1);
            return first;
        });
        if (!socket)
            return;
        socket->congestion_changed(~0ull);
    }
}

// ---- all

Watchers::Group& Watchers::group_of(Socket& socket) { return groups_[kapi_sk_user(socket.sk) % groups]; }

void Watchers::add(Socket& socket) { group_of(socket).add(socket); }

void Watchers::remove(Socket& socket) { group_of(socket).remove(socket); }

void Watchers::changed(kapi_workqueue* queue)
{
    for (Group& group : groups_)
        group.changed(queue);
}

void Watchers::stop()
{
    for (Group& group : groups_)
        group.stop();
}

} // namespace rds
