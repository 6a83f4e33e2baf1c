// SPDX-License-Identifier: GPL-2.0
// Sockets that are to be notified of the next change of a remote congestion map, each once.
//
// Any port can be full and free again many thousand times in a second, and a peer's map can change as often as it comes. Each
// time all programs that wait for other ports try again, and are refused again: at most 50,000 of a group in a second. A user may
// have any number of sockets, which make the pauses long: users are in groups, each with a pause of its own.
#pragma once

#include "../lock_order.h"

#include <hawser/atomic.h>
#include <hawser/list.h>
#include <hawser/lock.h>
#include <hawser/work.h>

namespace rds {

using namespace hw;

class Socket;
struct Watching; // list tag: sockets to be notified

class Watchers : Pinned {
public:
    // Any context.
    void add(Socket& socket);
    void remove(Socket& socket);
    // Works of queue notify those that are there, after the pause of the last time.
    void changed(kapi_workqueue* queue);
    // No work is pending or running any more. Sleeps.
    void stop();

private:
    class Group : Pinned {
    public:
        void add(Socket& socket);
        void remove(Socket& socket);
        void changed(kapi_workqueue* queue);
        void stop() { work_.cancel_sync(); }

    private:
        using List = RefList<Socket, Watching>;
        void notify();

        Guarded<List, MonitorLock> list_;
        Atomic<u32> count_{0}; // changes under the lock of the list
        Atomic<u64> next_ns_{0}; // not before this time
        Work<Group, &Group::notify> work_{*this};
    };
    Group& group_of(Socket& socket);

    static constexpr unsigned groups = 16;
    Group groups_[groups];
};

} // namespace rds
