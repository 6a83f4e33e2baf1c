// SPDX-License-Identifier: GPL-2.0
#include "bind.h"

#include "socket.h"

namespace rds {

namespace {

Socket* find_in(RefList<Socket, Bound>& list, const Endpoint& endpoint)
{
    for (Socket* s = list.front(); s; s = list.next(*s))
        if (s->bound_key() == endpoint)
            return s;
    return nullptr;
}

} // namespace

Result<Endpoint> BindTable::add(Socket& socket, Endpoint endpoint)
{
    if (endpoint.port == probe_port)
        return fail(KAPI_EINVAL);
    u32 tries = endpoint.port ? 1 : 65536;
    u16 port = endpoint.port ? endpoint.port : static_cast<u16>(kapi_random_u32());
    for (; tries; tries--, port++) {
        if (port <= probe_port)
            continue;
        endpoint.port = port;
        bool added = bucket(endpoint).with([&](List& list) {
            if (find_in(list, endpoint))
                return false;
            socket.set_bound_key(endpoint);
            list.push_back(Ref<Socket>::share(socket));
            return true;
        });
        if (added)
            return endpoint;
    }
    return fail(KAPI_EADDRINUSE);
}

void BindTable::remove(Socket& socket, const Endpoint& endpoint)
{
    Ref<Socket> removed = bucket(endpoint).with([&](List& list) { return list.remove(socket); });
}

Ref<Socket> BindTable::find(const Endpoint& endpoint)
{
    return bucket(endpoint).with([&](List& list) {
        Socket* s = find_in(list, endpoint);
        return s ? Ref<Socket>::share(*s) : Ref<Socket>();
    });
}

} // namespace rds
