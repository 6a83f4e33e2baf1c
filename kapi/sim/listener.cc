// SPDX-License-Identifier: GPL-2.0
// kapi's listeners over the simulated TCP.
#include <kapi/errno.h>
#include <kapi/stream.h>

#include <cstring>
#include <utility>

#include "program_socket.h"
#include "stream.h"

using namespace sim;

static void destroy_listener(void *listener)
{
    delete static_cast<kapi_listener *>(listener);
}

/** Poison for a result that is undefined after an error: its use crashes. */
constexpr std::uintptr_t kPoison = 0xdead'0000'0000;

int kapi_listen(struct kapi_net *net, const struct kapi_addr *addr, unsigned int backlog,
                void (*ready)(void *context), void *context, struct kapi_listener **listener) noexcept
{
    enter_stream("kapi_listen");
    *listener = reinterpret_cast<kapi_listener *>(kPoison);
    if (fault("kapi_listen"))
        return -KAPI_ENOMEM;
    static constexpr kapi_u8 kV4[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    if (!net->ipv6 && std::memcmp(addr->ip, kV4, sizeof(kV4)) != 0)
        return -KAPI_EAFNOSUPPORT;
    Network &network = world().network();
    for (const kapi_listener *other : network.listeners)
        if (other->net == net && other->addr.port == addr->port &&
            (same_ip(other->addr, *addr) || other->matches(net, *addr)))
            return -KAPI_EADDRINUSE;
    static constexpr kapi_u8 kAny[16] = {};
    static constexpr kapi_u8 kAny4[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    if (std::memcmp(addr->ip, kAny, 16) && std::memcmp(addr->ip, kAny4, 16) && !net->holds(*addr))
        return -KAPI_EADDRNOTAVAIL;
    auto *made = new kapi_listener{
        .net = net, .addr = *addr, .backlog = backlog, .ready = ready, .context = context, .queue = {}, .idle = {}};
    net->node->live_listeners++;
    net->node->adopt(made, destroy_listener);
    *listener = made;
    network.listeners.push_back(made);
    enter_any("kapi_listen"); // a peer may connect before the caller continues
    return 0;
}

void kapi_listener_stop(struct kapi_listener *listener) noexcept
{
    enter_stream("kapi_listener_stop");
    World &w = world();
    listener->stopped = true;
    w.network().listeners.remove(listener);
    while (listener->calls)
        w.wait(listener->idle, "a listener's callback");
}

static void abandon(kapi_listener &listener)
{
    for (const auto &tcb : world().network().tcbs()) {
        if (tcb->listener != &listener)
            continue;
        tcb->listener = nullptr;
        tcb->orphan = true; // no call of core will ever end what is still being opened
    }
    for (const auto &tcb : std::exchange(listener.queue, {})) {
        Locked locked(*tcb);
        let_go(*tcb, true);
    }
}

void sim::destroy_listeners(kapi_net &net)
{
    for (kapi_listener *listener : std::exchange(world().network().listeners, {})) {
        if (listener->net != &net) {
            world().network().listeners.push_back(listener);
            continue;
        }
        listener->calls++; // it stays
        abandon(*listener);
        listener->destroyed = true;
        listener->notify(nullptr);
        listener->calls--;
        world().wake(listener->idle);
    }
}

void kapi_listener::notify(const Tcb *child)
{
    calls++;
    if (!stopped) {
        AtomicScope atomic(child);
        ready(context);
    }
    calls--;
    world().wake(idle);
}

void kapi_listener_close(struct kapi_listener *listener) noexcept
{
    enter_stream("kapi_listener_close");
    Node &node = *listener->net->node;
    if (!listener->stopped)
        broken("a listener is closed that was not stopped");
    if (listener->accepting)
        broken("a listener is closed while a task accepts from it");
    abandon(*listener);
    node.live_listeners--;
    node.disown(listener);
    delete listener;
}

int kapi_accept(struct kapi_listener *listener, struct kapi_stream **stream) noexcept
{
    listener->accepting++;
    enter_stream("kapi_accept");
    listener->accepting--;
    if (listener->queue.empty())
        return listener->destroyed ? -KAPI_ESHUTDOWN : -KAPI_EAGAIN;
    TcbRef tcb = std::move(listener->queue.front());
    listener->queue.pop_front();
    tcb->listener = nullptr;
    bool kept_out = fault("kapi_accept"), in_sockmap = fault("kapi_accept (a sockmap)");
    if (kept_out || in_sockmap) {
        Locked locked(*tcb);
        let_go(*tcb, true);
        return kept_out ? -KAPI_ENOMEM : -KAPI_ECONNABORTED;
    }
    *stream = make_stream(tcb);
    enter_any("kapi_accept");
    return 0;
}

bool kapi_listener::matches(const kapi_net *packet_net, const kapi_addr &to) const
{
    static constexpr kapi_u8 kAny6[16] = {};
    static constexpr kapi_u8 kAny4[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    bool is4 = std::memcmp(to.ip, kAny4, 12) == 0;
    return packet_net == net && to.port == addr.port && !stopped &&
           (std::memcmp(addr.ip, kAny6, 16) == 0 || (is4 && std::memcmp(addr.ip, kAny4, 16) == 0) ||
            sim::same_ip(addr, to));
}
