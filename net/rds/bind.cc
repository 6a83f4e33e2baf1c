// SPDX-License-Identifier: GPL-2.0
#include "bind.h"

#include "socket.h"

namespace rds {

namespace {

constexpr u32 tries_at_once = 1024; // all ports of an address may be in use

} // namespace

Result<Endpoint> BindTable::add(Socket& socket, Endpoint endpoint)
{
    u32 tries = endpoint.port ? 1 : 65536;
    u16 port = endpoint.port ? endpoint.port : static_cast<u16>(kapi_random_u32());
    socket.ref(); // the table's
    for (; tries; tries--, port++) {
        if (port <= probe_port)
            continue;
        if (tries % tries_at_once == 0)
            kapi_resched();
        endpoint.port = port;
        socket.set_bound_key(endpoint); // the socket cannot be found by it before it is entered
        Ref<Socket> owner;
        auto entered = table_.insert(
            hash_of(endpoint), socket, Alloc::sleep, [&](const Socket& s) { return s.bound_key() == endpoint; },
            [] { return true; }, owner);
        if (entered == decltype(table_)::Insert::done)
            return endpoint;
    }
    socket.unref();
    return fail(KAPI_EADDRINUSE);
}

void BindTable::remove(Socket& socket)
{
    if (table_.remove(socket))
        socket.unref();
}

Ref<Socket> BindTable::next(Cursor& cursor)
{
    return table_.next(cursor);
}

Ref<Socket> BindTable::find(const Endpoint& endpoint)
{
    return find(endpoint, hash_of(endpoint));
}

Ref<Socket> BindTable::find(const Endpoint& endpoint, u32 hash)
{
    return table_.find(hash, [&](const Socket& s) { return s.bound_key() == endpoint; });
}

} // namespace rds
