// SPDX-License-Identifier: GPL-2.0
// The table of bound sockets of a namespace, by address and port.
#pragma once

#include "../lock_order.h"
#include "address.h"

#include <hawser/hash_table.h>

namespace rds {

class Socket;
struct Bound; // hash tag

class BindTable : Pinned {
public:
    // Gives socket the endpoint, choosing a port when it is 0 (never 0 or the probe port). The table holds a reference.
    // Sleeps. Fails with EADDRINUSE. Returns the endpoint with its port.
    Result<Endpoint> add(Socket& socket, Endpoint endpoint);
    void remove(Socket& socket);
    Ref<Socket> find(const Endpoint& endpoint);
    // hash: that of endpoint, if the caller has it: to compute it costs as much as the rest.
    Ref<Socket> find(const Endpoint& endpoint, u32 hash);
    u32 hash_of(const Endpoint& e) const { return table_.hash_of(e.words()); }
    // Calls visit(Socket&) for each bound socket, under no lock. Sockets that come or go meanwhile may be missed.
    template <class Visit> void for_each(Visit&& visit) { table_.for_each(visit); }
    // The same one by one.
    using Sockets = HashTable<Socket, Bound, BindLock, 64>;
    using Cursor = Sockets::Cursor;
    Ref<Socket> next(Cursor& cursor);

private:
    Sockets table_;
};

} // namespace rds
