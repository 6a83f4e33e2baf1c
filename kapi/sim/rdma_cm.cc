// SPDX-License-Identifier: GPL-2.0
// Connections as core sees them: its calls.
#include "rdma_cm.h"

#include <kapi/errno.h>

#include <algorithm>
#include <cstring>

namespace sim {

namespace {

kapi_rdma_dev *find_device(const kapi_net *net, const kapi_addr &addr)
{
    for (const auto &dev : fabric().devices)
        if (!dev->going && dev->is_usable(net) && dev->holds(net, addr)) // no call: devices come and go
            return dev.get();
    return nullptr;
}

bool is_any(const kapi_addr &addr)
{
    return same_ip(addr, address("::")) || same_ip(addr, address("0.0.0.0"));
}

bool is_v4(const kapi_addr &addr)
{
    const kapi_addr mapped = address("0.0.0.0");
    return std::memcmp(addr.ip, mapped.ip, 12) == 0;
}

/** The device for a route, and its local address where the host chooses that. */
kapi_rdma_dev *choose_device(const kapi_net *net, const kapi_addr &remote, kapi_addr &local)
{
    if (!is_any(local))
        return find_device(net, local);
    for (const kapi_net::Address &own : net->addresses) {
        if (is_v4(own.addr) != is_v4(remote) || (net->holds(remote) && !same_ip(own.addr, remote)))
            continue;
        kapi_u16 port = local.port;
        kapi_rdma_dev *dev = find_device(net, own.addr);
        if (!dev)
            continue;
        local = own.addr;
        local.port = port;
        return dev;
    }
    return nullptr;
}

void resolve(kapi_cm &cm, std::uint64_t timeout_ns)
{
    Network &network = world().network();
    kapi_net *target = network.owner_of(cm.remote, cm.net);
    // A neighbour may be remembered that does not answer any more.
    bool reachable = target && (!network.link(*cm.node, *target->node).cut || world().host_random().one_in(2));
    std::uint64_t when = reachable ? some_time(2 * kMillisecond, 200 * kMillisecond) : timeout_ns;
    hardware_after(*cm.node, std::min(when, timeout_ns), [id = cm.id, reachable] {
        kapi_cm *again = fabric().cm(id);
        if (!again || again->state != CmState::resolving || again->is_over())
            return;
        if (int error = again->dev->route_error)
            return cm_end(*again, KAPI_CM_UNRESOLVED, -error);
        if (!reachable)
            return cm_end(*again, KAPI_CM_UNRESOLVED, -KAPI_ETIMEDOUT);
        again->state = CmState::resolved;
        cm_report(*again, {.kind = CmEvent::resolved});
    });
}

int check_options(const kapi_cm &cm, const kapi_cm_options &options, std::size_t most)
{
    bool good = options.size <= most && options.reads_in <= cm.dev->attrs.max_reads_in &&
                options.reads_out <= cm.dev->attrs.max_reads_out && options.retry <= 7 && options.rnr_retry <= 7 &&
                options.rnr_timer <= 31 && options.ack_timeout <= 31;
    return good ? 0 : -KAPI_EINVAL;
}

} // namespace
} // namespace sim

using namespace sim;

bool kapi_cm_listener::matches(const kapi_net *of, kapi_cm_space by, const kapi_addr &to) const
{
    return of == net && by == space && to.port == addr.port && (!is_v4(addr) || is_v4(to));
}

int kapi_cm_listen(struct kapi_net *net, enum kapi_cm_space space, const struct kapi_addr *addr, unsigned int backlog,
                   const struct kapi_cm_listener_ops *ops, void *context, struct kapi_cm_listener **result) noexcept
{
    enter_sleep("kapi_cm_listen");
    if (net->going)
        return -KAPI_ENETUNREACH;
    if (!is_any(*addr))
        return -KAPI_EINVAL;
    if (!net->ipv6 && !is_v4(*addr) && space == KAPI_CM_IP)
        return -KAPI_EAFNOSUPPORT;
    for (const auto &[id, other] : fabric().listeners)
        if (other->net == net && other->space == space && other->addr.port == addr->port &&
            (is_v4(other->addr) == is_v4(*addr) || !is_v4(*addr) || !is_v4(other->addr)))
            return -KAPI_EADDRINUSE;
    if (fault("kapi_cm_listen"))
        return -KAPI_ENOMEM;
    auto *listener = new kapi_cm_listener{fabric().next_id++, net->node, net, space, *addr, backlog, *ops, context};
    *result = listener;
    fabric().listeners[listener->id] = listener;
    net->sockets += !net->initial;
    account(*listener->node, "connection listener", listener,
            [](void *object) { delete static_cast<kapi_cm_listener *>(object); });
    enter_any("kapi_cm_listen");
    return 0;
}

void kapi_cm_listener_close(struct kapi_cm_listener *listener) noexcept
{
    if (!listener)
        return;
    enter_sleep("kapi_cm_listener_close");
    listener->closed = true;
    while (listener->delivering)
        world().wait(listener->idle, "a listener's request()");
    fabric().listeners.erase(listener->id);
    for (kapi_u64 id : listener->waiting)
        if (kapi_cm *cm = fabric().cm(id))
            free_cm(*cm);
    listener->net->sockets -= !listener->net->initial;
    settle(*listener->node, "connection listener", listener);
    delete listener;
}

int kapi_cm_connect(struct kapi_net *net, const struct kapi_cm_route *route, const struct kapi_cm_ops *ops, void *context,
                    struct kapi_cm **result) noexcept
{
    enter_sleep("kapi_cm_connect");
    if (net->going)
        return -KAPI_ENETUNREACH;
    if (fault("kapi_cm_connect"))
        return -KAPI_ENOMEM;
    kapi_addr local = route->local;
    if (!is_any(local) && !net->holds(local))
        return -KAPI_EADDRNOTAVAIL;
    kapi_rdma_dev *dev = choose_device(net, route->remote, local);
    if (!dev)
        return -KAPI_ENODEV;
    kapi_cm *cm = make_cm(*net, *dev, route->space, CmState::resolving);
    cm->taken = true;
    cm->local = local;
    if (!cm->local.port)
        cm->local.port = static_cast<kapi_u16>(world().host_random().between(net->port_low, net->port_high));
    cm->remote = route->remote;
    cm->tos = route->tos;
    cm->ops = *ops;
    cm->context = context;
    *result = cm;
    resolve(*cm, std::max<std::uint64_t>(1, route->timeout_ms) * kMillisecond);
    enter_any("kapi_cm_connect");
    return 0;
}

void kapi_cm_attach(struct kapi_cm *cm, const struct kapi_cm_ops *ops, void *context) noexcept
{
    enter_any("kapi_cm_attach");
    if (cm->taken)
        broken("a connection is attached twice");
    cm->taken = true;
    cm->ops = *ops;
    cm->context = context;
}

int kapi_cm_request(struct kapi_cm *cm, const struct kapi_cm_options *options) noexcept
{
    enter_sleep("kapi_cm_request");
    if (!cm->qp || cm->listener)
        broken("a connection is requested %s", cm->qp ? "that a peer asked for" : "without a queue pair");
    if (int err = check_options(*cm, *options, KAPI_CM_REQUEST_BYTES))
        return err;
    if (cm->state != CmState::resolved || cm->is_over())
        return -KAPI_EINVAL;
    if (fault("kapi_cm_request"))
        return -KAPI_ENOMEM;
    cm->state = CmState::request_sent;
    cm->options = *options;
    cm_send_until_answered(*cm, CmMessage::request, options->data, options->size, KAPI_CM_REQUEST_BYTES);
    enter_any("kapi_cm_request");
    return 0;
}

int kapi_cm_accept(struct kapi_cm *cm, const struct kapi_cm_options *options) noexcept
{
    enter_sleep("kapi_cm_accept");
    if (!cm->qp || !cm->listener)
        broken("a connection is accepted %s", cm->qp ? "that no peer asked for" : "without a queue pair");
    if (options->reads_in > cm->request.reads_out || options->reads_out > cm->request.reads_in)
        broken("a connection is accepted with more reads at a time than its peer has");
    if (int err = check_options(*cm, *options, KAPI_CM_ACCEPT_BYTES))
        return err;
    if (cm->state != CmState::request_received || cm->is_over())
        return -KAPI_EINVAL;
    if (fault("kapi_cm_accept"))
        return -KAPI_ENOMEM;
    cm->state = CmState::answered;
    cm->options = *options;
    cm_use_options(*cm, *options, cm->request);
    cm_send_until_answered(*cm, CmMessage::reply, options->data, options->size, KAPI_CM_ACCEPT_BYTES);
    enter_any("kapi_cm_accept");
    return 0;
}

void kapi_cm_reject(struct kapi_cm *cm, const void *data, kapi_size size) noexcept
{
    enter_sleep("kapi_cm_reject");
    if (size > KAPI_CM_REJECT_BYTES)
        broken("a rejection of %zu bytes", static_cast<std::size_t>(size));
    if (cm->state == CmState::request_received)
        cm_send(*cm, CmMessage::reject, data, size, KAPI_CM_REJECT_BYTES, kConsumer);
    cm->state = CmState::over;
    cm->timer_serial++;
}

void kapi_cm_disconnect(struct kapi_cm *cm) noexcept
{
    enter_sleep("kapi_cm_disconnect");
    if (cm->qp)
        fail_qp(*cm->qp);
    if (cm->ended) { // the peer asked for it, or the connection is broken
        if (cm->peer && cm->state == CmState::established)
            cm_send(*cm, CmMessage::disconnected, nullptr, 0, 0);
        cm->state = CmState::over;
    } else if (cm->state == CmState::established || cm->state == CmState::answered) {
        cm->state = CmState::disconnecting;
        cm_send_until_answered(*cm, CmMessage::disconnect, nullptr, 0, 0);
    }
    enter_any("kapi_cm_disconnect");
}

void kapi_cm_destroy(struct kapi_cm *cm) noexcept
{
    if (!cm)
        return;
    enter_sleep("kapi_cm_destroy");
    if (cm->qp)
        broken("a connection is destroyed before its queue pair");
    cm->destroyed = true;
    while (cm->delivering)
        world().wait(cm->idle, "a connection's callback");
    if (cm->state == CmState::request_received || cm->state == CmState::request_sent)
        cm_send(*cm, CmMessage::reject, nullptr, 0, 0, kStale);
    else if (cm->state == CmState::established || cm->state == CmState::answered)
        cm_send(*cm, CmMessage::disconnect, nullptr, 0, 0); // once: it may be lost
    free_cm(*cm);
}

void kapi_cm_describe(const struct kapi_cm *cm, struct kapi_cm_info *info) noexcept
{
    enter_bottom_halves("kapi_cm_describe");
    *info = {};
    info->local = cm->local;
    info->remote = cm->remote;
    if (cm->state == CmState::resolving)
        return;
    std::copy_n(cm->local.ip, sizeof(info->local_gid), info->local_gid);
    std::copy_n(cm->remote.ip, sizeof(info->remote_gid), info->remote_gid);
    if (cm->dev && cm->dev->hides_links)
        info->local.scope = info->remote.scope = 0;
    info->dev = cm->dev;
    info->port = 1;
}
