// SPDX-License-Identifier: GPL-2.0
// Which socket has which address and port, in one namespace.
#pragma once

#include "address.h"

#include <hawser/list.h>
#include <hawser/lock.h>

namespace rds {

class Socket;
struct Bound; // list tag

struct BindLock { static constexpr const char* name = "rds bind"; static constexpr unsigned rank = 10; };

class BindTable : Pinned {
public:
    // Gives socket the endpoint, choosing a port when it is 0 (never 0 or the probe port). The table holds a reference.
    // Fails with EADDRINUSE, or EINVAL for the probe port. Returns the endpoint with its port.
    Result<Endpoint> add(Socket& socket, Endpoint endpoint);
    void remove(Socket& socket, const Endpoint& endpoint);
    Ref<Socket> find(const Endpoint& endpoint);
    // Calls visit(Socket&) for each bound socket, under the lock of its bucket.
    template <class Visit> void for_each(Visit&& visit)
    {
        for (auto& bucket : buckets_)
            bucket.with([&](List& list) {
                for (Socket* s = list.front(); s; s = list.next(*s))
                    visit(*s);
            });
    }

private:
    using List = RefList<Socket, Bound>;
    static constexpr unsigned count = 256;
    Guarded<List, BindLock>& bucket(const Endpoint& e) { return buckets_[(e.ip.hash() ^ (e.port * 40503u)) % count]; }
    Guarded<List, BindLock> buckets_[count];
};

} // namespace rds
