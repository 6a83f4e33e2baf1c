// SPDX-License-Identifier: GPL-2.0
#include "net.h"

#include "connection.h"

#include <kapi/errno.h>

namespace rds_rdma {

const char* const stat_names[] = {
    "ib_connect_raced", "ib_listen_closed_stale", "ib_tasklet_call", "ib_tx_cq_event", "ib_tx_ring_full",
    "ib_tx_sg_mapping_failure", "ib_rx_cq_event", "ib_rx_ring_empty", "ib_rx_refill_from_cq", "ib_rx_refill_from_thread",
    "ib_rx_alloc_limit", "ib_rx_total_frags", "ib_rx_total_incs", "ib_ack_sent", "ib_ack_send_failure", "ib_ack_send_delayed",
    "ib_ack_send_piggybacked", "ib_ack_received", "ib_rdma_mr_8k_alloc", "ib_rdma_mr_8k_free", "ib_rdma_mr_8k_used",
    "ib_rdma_mr_1m_alloc", "ib_rdma_mr_1m_free", "ib_rdma_mr_1m_used", "ib_atomic_cswp", "ib_atomic_fadd",
};
static_assert(sizeof(stat_names) / sizeof(stat_names[0]) == static_cast<unsigned>(Stat::count));

namespace {

constexpr unsigned listen_backlog = 128;

// The connection manager gives those to any device.
bool is_loopback(const kapi_addr& addr)
{
    constexpr u8 v6[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    return is_v4(addr) ? addr.ip[12] == 127 : kapi_compare(addr.ip, v6, sizeof(v6)) == 0;
}

bool is_link_local(const kapi_addr& addr)
{
    return addr.ip[0] == 0xfe && (addr.ip[1] & 0xc0) == 0x80;
}

} // namespace

// ---- the module's list of namespaces

Module& Module::get()
{
    return *static_cast<Module*>(*kapi_module_slot(KAPI_SLOT_RDS_RDMA));
}

void Module::add(RdmaNet& net)
{
    nets_.with([&](Nets& nets) {
        nets.all.add(net);
        if (kapi_net_is_initial(net.host))
            nets.initial = &net;
    });
}

void Module::remove(RdmaNet& net)
{
    nets_.with([&](Nets& nets) {
        nets.all.remove(net);
        if (nets.initial == &net)
            nets.initial = nullptr;
    });
}

RdmaNet* Module::find(kapi_net* host)
{
    return nets_.with([&](Nets& nets) { return nets.all.find(host); });
}

u64 Module::most_buffers(const RdmaNet& net)
{
    u64 own = net.sysctl.max_recv_allocation;
    return nets_.with([&](Nets& nets) { return nets.initial ? min<u64>(own, nets.initial->sysctl.max_recv_allocation) : own; });
}

// ---- a namespace

RdmaNet::RdmaNet(kapi_net* h)
    : host(h), sysctl{.max_send_wr = 256,
                      .max_recv_wr = 1024,
                      .max_unsignaled_wr = 16,
                      .max_recv_allocation = kapi_memory_total() / 3 / fragment_size,
                      .flow_control = 0}
{
}

Result<RdmaNet*> RdmaNet::create(kapi_net* host)
{
    Own<RdmaNet> net(make<RdmaNet>(Alloc::charged, host));
    if (!net)
        return fail(KAPI_ENOMEM);
    TRY(net->counters.make());
    Module::get().add(*net);
    int err = kapi_net_is_initial(host) ? net->open() : 0;
    if (err) {
        destroy(net.release());
        return fail(Errno::from_c(err));
    }
    return net.release();
}

int RdmaNet::listen_on(const kapi_addr& any, CmListener& listener)
{
    static constexpr kapi_cm_listener_ops ops{.request = on_request};
    kapi_cm_listener* made = nullptr;
    int err = kapi_cm_listen(host, KAPI_CM_IP, &any, listen_backlog, &ops, this, &made);
    if (!err)
        listener.reset(made);
    return err;
}

int RdmaNet::open()
{
    open_.store_release(1);
    int err = listen();
    if (err)
        shut();
    return err;
}

void RdmaNet::shut()
{
    open_.store_release(0);
    v4_.reset();
    v6_.reset();
    place_work_.cancel_sync();
    while (Link* link = asked_.with([](Asked& asked) { return asked.take(); }))
        dispose(link);
    rds_transport_end_streams(&Module::get().transport, host);
}

void RdmaNet::take_turn()
{
    turns_.wait_for_one([&] { return turn_.exchange(1) == 0; });
}

void RdmaNet::end_turn()
{
    turn_.exchange(0);
    turns_.wake();
}

int RdmaNet::socket_bound()
{
    if (kapi_net_is_initial(host))
        return 0;
    take_turn();
    int err = sockets_ ? 0 : open();
    if (!err)
        sockets_++;
    end_turn();
    return err;
}

void RdmaNet::socket_closed()
{
    if (kapi_net_is_initial(host))
        return;
    take_turn();
    if (--sockets_ == 0)
        shut();
    end_turn();
}

// Peers in namespaces of a user are that user, who can make any number of them.
u32 RdmaNet::payer_of(u32 user) const
{
    u32 owner = kapi_net_owner(host);
    return user < KAPI_USERS || !owner ? user : kapi_user_number(owner);
}

int RdmaNet::listen()
{
    kapi_addr any{};
    any.port = port_v6;
    int err = listen_on(any, v6_);
    if (err && err != -KAPI_EAFNOSUPPORT) // a host without IPv6
        return err;
    any.port = port_v4;
    any.ip[10] = any.ip[11] = 0xff;
    return listen_on(any, v4_);
}

void RdmaNet::destroy(RdmaNet* net)
{
    net->shut();
    Module::get().remove(*net); // no new connection begins
    rds_transport_leave_net(&Module::get().transport, net->host);
    dispose(net);
}

int RdmaNet::check_local(const kapi_addr& addr)
{
    kapi_rdma_dev* dev = nullptr;
    int err = is_loopback(addr) ? -KAPI_EADDRNOTAVAIL : kapi_rdma_dev_of(host, &addr, &dev);
    if (err == -KAPI_ENOMEM)
        return err;
    return err || !Module::get().devices.has(dev, host) ? -KAPI_EADDRNOTAVAIL : 0;
}

u32 RdmaNet::send_ring() const
{
    return static_cast<u32>(min<u64>(max<u64>(sysctl.max_send_wr, Sender::least), Sender::most));
}

Ring RdmaNet::take_ring(rds_conn* conn, const kapi_addr& remote, u32 least, const kapi_qp_caps& caps)
{
    RingShares& rings = Module::get().rings;
    u64 allowed = Module::get().most_buffers(*this);
    u32 wanted = static_cast<u32>(min<u64>(sysctl.max_recv_wr, Receiver::most)) * least;
    Ring ring;
    for (u32 user : {rds_conn_payer(conn), rds_conn_other_user(conn)}) {
        ring = rings.take(payer_of(user), remote, wanted, allowed, caps);
        if (ring.buffers >= least)
            break;
        if (ring.buffers)
            rings.give(std::exchange(ring, {}), remote);
    }
    if (ring.buffers < wanted)
        note_limit(conn, ring.buffers);
    return ring;
}

void RdmaNet::note_limit(rds_conn* conn, u32 buffers)
{
    counters.count(Stat::rx_alloc_limit);
    if (!buffers && Module::get().no_rings.is_due())
        rds_conn_note(conn, "is not connected over RDMA: connections have all memory that queues may have");
    if (buffers && Module::get().short_rings.is_due())
        rds_conn_note(conn, "has a short receive queue over RDMA: connections have much of the memory that queues may have");
}

// ---- what peers ask for

Link* RdmaNet::Asked::take()
{
    Link* link = first;
    if (!link)
        return nullptr;
    first = link->next;
    if (!first)
        end = &first;
    count--;
    return link;
}

int RdmaNet::on_request(void* context, kapi_cm* cm, const kapi_cm_offer* offer, void* answer, kapi_size* size)
{
    return static_cast<RdmaNet*>(context)->asked(cm, *offer, answer, size);
}

int RdmaNet::asked(kapi_cm* cm, const kapi_cm_offer& offer, void* answer, kapi_size* size)
{
    kapi_cm_info info;
    kapi_cm_describe(cm, &info);
    if (is_link_local(info.local) && !info.local.scope) // of which link is not known
        return 0;
    auto data = read_private(offer.data, offer.size, info.local, info.remote);
    if (!data || kapi_net_is_local(host, &info.remote)) // our own addresses talk over loopback
        return 0;
    auto version = negotiate(*data);
    if (!version) {
        kapi_copy(answer, &rejected_incompatible, sizeof(rejected_incompatible));
        *size = sizeof(rejected_incompatible);
        return 0;
    }
    if (asked_.with([](Asked& asked) { return asked.count; }) >= max_asked)
        return 0; // it asks again
    Link* link = Link::asked(*this, cm, *data, *version, info, offer).release();
    if (!link)
        return 0;
    asked_.with([&](Asked& asked) {
        *asked.end = link;
        asked.end = &link->next;
        asked.count++;
    });
    place_work_.queue(Module::get().workqueue);
    return 1;
}

void RdmaNet::place_all()
{
    while (Link* link = asked_.with([](Asked& asked) { return asked.take(); }))
        place(Own<Link>(link));
}

void RdmaNet::place(Own<Link> link)
{
    rds_conn* conn = nullptr;
    void* state = nullptr;
    kapi_addr local = link->local(), remote = link->remote();
    if (rds_conn_get(host, &Module::get().transport, &local, &remote, link->tos(), &conn, &state) != 0)
        return;
    static_cast<RdmaConnection*>(state)->offer(std::move(link));
    rds_conn_put(conn);
}

} // namespace rds_rdma
