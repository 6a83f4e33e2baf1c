// SPDX-License-Identifier: GPL-2.0
// Messages that stay in a path's stream until the program that they are for comes to receive them.
//
// What a softirq reads at once the transport acknowledges at once: so each small message of a stream becomes a packet of its
// own, with an acknowledgement and a wake-up. When the next message has begun to come and its program is waiting, or still
// receives earlier ones, it is only notified. It then reads all that has come meanwhile, as a program reads a TCP socket, and
// its host's transport acknowledges that together. The program may be late, or another one's messages may be behind: after a
// few milliseconds the path's worker reads, and when that has happened often, all that comes is read at once for a while.
#pragma once

#include "../lock_order.h"

#include <hawser/lock.h>
#include <hawser/ref.h>

namespace rds {

using namespace hw;

class Path;
class Socket;

class Pull : Pinned {
public:
    Pull(Path& path, Spin<PathLock>& lock);
    ~Pull();

    // Any context. The next message of the stream is for socket, and has begun to come: true when it stays there.
    bool leave_to(Socket& socket);
    // The owner's, of a path that is up. Sleeps. Reads what has come.
    void read();
    // Any context. The socket's program comes, or the stream ends.
    void end();

private:
    Path& path_;
    Spin<PathLock>& lock_;
    Ref<Socket> awaited_ HW_GUARDED_BY(lock_); // which refers to the path until it has come
    u64 since_ns_ HW_GUARDED_BY(lock_) = 0;
    u64 in_vain_until_ns_ HW_GUARDED_BY(lock_) = 0; // when what it has waited in vain is paid for
    bool reads_ HW_GUARDED_BY(lock_) = false;
};

} // namespace rds
