// SPDX-License-Identifier: GPL-2.0
#include "link.h"

#include "net.h"

namespace rds_rdma {

namespace {

constexpr u32 resolve_ms = 2000;
// Soft-RoCE takes 7 for ever.
constexpr u8 our_retries = 6;
constexpr u8 for_ever = 7;   // while the peer has no receive posted, it lives; but see Sender::tick()
constexpr u8 rnr_timer = 10; // 0.32 ms, as the kernel's own

// Of a rejection (InfiniBand Architecture Specification, volume 1, chapter 12). The kernel's own refuses a request while it has a
// connection, which it ends then, or is making one. Others come from a connection manager that its RDS hears nothing from.
constexpr u32 nobody_listens = 8, by_listener = 28;

bool is_by_peer(const kapi_cm_end& end)
{
    return end.why == KAPI_CM_DISCONNECTED ||
           (end.why == KAPI_CM_REJECTED && (end.reason == nobody_listens || end.reason == by_listener));
}

// A peer that does not answer for some two seconds is gone. How often a packet is sent again is the choice of the one who asked
// for the connection (the kernel's own: once), so what we choose is the time between: 4.096 us times 2 to this power.
constexpr u8 ack_timeout(u8 retries)
{
    constexpr u32 silence = 7 << 16;
    u8 timeout = 1;
    while ((u32{retries} + 1) << timeout < silence)
        timeout++;
    return timeout;
}

} // namespace

constinit const kapi_cm_ops Link::cm_ops = {.resolved = on_resolved, .established = on_established, .ended = on_ended};

// ---- events

void Link::heard(u32 what, u32 events)
{
    seen_.fetch_or(what);
    u32 role = role_.load();
    if (role == owned)
        rds_path_notify(conn_, 0, events);
    else if (role == waits && (what & ended))
        rds_path_notify(conn_, 0, RDS_PATH_ACCEPTED);
}

void Link::on_resolved(void* context, kapi_rdma_dev* dev)
{
    Link& link = *static_cast<Link*>(context);
    link.dev_ = dev;
    link.heard(resolved, RDS_PATH_ESTABLISHED);
}

// Of a connection that the peer asked for, it says nothing that we need.
void Link::on_established(void* context, const void* data, kapi_size size)
{
    Link& link = *static_cast<Link*>(context);
    if (!data)
        return;
    if (auto answer = read_answer(data, size, link.local_))
        link.peer_ = *answer;
    link.heard(established, RDS_PATH_ESTABLISHED);
}

void Link::on_ended(void* context, const kapi_cm_end* end)
{
    static_cast<Link*>(context)->heard(is_by_peer(*end) ? ended | ended_by_peer : ended, RDS_PATH_LOST);
}

void Link::on_sent(void* context, const kapi_wc* wcs, unsigned n)
{
    Link& link = *static_cast<Link*>(context);
    link.net_.counters.count(Stat::tasklet_call);
    link.net_.counters.count(Stat::tx_cq_event, n);
    for (unsigned i = 0; i < n; i++) {
        if (wcs[i].cookie != Registrar::cookie) {
            link.queues_->sender.completed(wcs[i]);
            continue;
        }
        if (wcs[i].status != KAPI_WC_OK)
            link.queues_->ends.failed(wcs[i].status);
        link.registrar_->completed(wcs[i]);
    }
}

void Link::on_received(void* context, const kapi_wc* wcs, unsigned n)
{
    Link& link = *static_cast<Link*>(context);
    link.net_.counters.count(Stat::tasklet_call);
    link.net_.counters.count(Stat::rx_cq_event, n);
    link.queues_->receiver.received(wcs, n);
}

// ---- beginning

Result<Own<Link>> Link::connect(RdmaNet& net, rds_conn* conn, const kapi_addr& local, const kapi_addr& remote, u8 tos)
{
    Own<Link> link(make<Link>(Alloc::sleep, net, local, remote, tos, our_retries));
    if (!link)
        return fail(KAPI_ENOMEM);
    link->conn_ = conn;
    link->role_.store_release(owned);
    kapi_cm_route route{KAPI_CM_IP, local, remote, resolve_ms, tos, /*peer_registers=*/1};
    route.remote.port = is_v4(remote) ? port_v4 : port_v6;
    kapi_cm* cm = nullptr;
    TRY(check(kapi_cm_connect(net.host, &route, &cm_ops, link.get(), &cm)));
    link->cm_.reset(cm);
    return link;
}

Own<Link> Link::asked(RdmaNet& net, kapi_cm* cm, const PrivateData& data, Version version, const kapi_cm_info& info,
                      const kapi_cm_offer& offer)
{
    kapi_addr local = info.local, remote = info.remote;
    local.port = remote.port = 0;
    Own<Link> link(make<Link>(Alloc::atomic, net, local, remote, data.tos, offer.retry));
    if (!link)
        return link;
    link->peer_ = data;
    link->version_ = version;
    link->dev_ = info.dev;
    link->reads_in_ = min<u32>(most_reads, offer.reads_in);
    link->reads_out_ = min<u32>(most_reads, offer.reads_out);
    kapi_cm_attach(cm, &cm_ops, link.get());
    link->cm_.reset(cm);
    return link;
}

void Link::wait_for(rds_conn* conn)
{
    conn_ = conn;
    role_.exchange(waits);
}

Result<> Link::make_parts(Queues& queues)
{
    Device& device = queues.ends.device;
    registrar_ = Ref<Registrar>::adopt(make<Registrar>(Alloc::sleep, queues.ends));
    if (!registrar_)
        return fail(KAPI_ENOMEM);
    TRY(queues.sender.build(net_.send_ring(), static_cast<u32>(net_.sysctl.max_unsignaled_wr)));
    buffers_ = buffers_at(device.attrs);
    kapi_qp_caps caps{queues.sender.places() + requests_besides, 0, queues.sender.pieces(), 1 + buffers_, Sender::max_carried};
    ring_ = net_.take_ring(conn_, remote_, buffers_, caps);
    caps.max_recv = ring_.buffers / buffers_;
    if (!caps.max_recv)
        return fail(KAPI_ENOMEM);
    TRY(queues.receiver.build(caps.max_recv, buffers_));
    kapi_cq *send = nullptr, *receive = nullptr;
    u32 vector = kapi_cpu();
    TRY(check(kapi_cq_create(device.dev, caps.max_send + completions_besides, vector, KAPI_CQ_SOFTIRQ, on_sent, this, &send)));
    queues.ends.send_cq.reset(send);
    TRY(check(kapi_cq_create(device.dev, caps.max_recv + completions_besides, vector, KAPI_CQ_SOFTIRQ, on_received, this,
                             &receive)));
    queues.ends.recv_cq.reset(receive);
    kapi_qp* qp = nullptr;
    TRY(check(kapi_qp_create(cm_.get(), queues.ends.domain.pd.get(), &caps, send, receive, this, &qp)));
    queues.ends.qp.reset(qp);
    queues.sender.may_carry(caps.max_inline);
    return {};
}

Result<> Link::make_queues()
{
    Domain* domain = TRY(Module::get().devices.enter(dev_, net_.host, conn_, user_));
    queues_.reset(make<Queues>(Alloc::sleep, net_.counters, conn_, *domain));
    if (!queues_)
        return fail(KAPI_ENOMEM);
    TRY(make_parts(*queues_));
    {
        Guard guard(queues_->ends.lock);
        queues_->ends.open = true;
    }
    queues_->receiver.refill(Stat::rx_refill_from_thread);
    return {};
}

kapi_cm_options Link::options(const AnyPrivate& data)
{
    const kapi_rdma_attrs& attrs = queues_->ends.device.attrs;
    kapi_cm_options options{};
    options.data = data.bytes;
    options.size = data.size;
    options.reads_in = static_cast<u8>(min(reads_in_, attrs.max_reads_in));
    options.reads_out = static_cast<u8>(min(reads_out_, attrs.max_reads_out));
    queues_->ends.may_read = options.reads_out != 0;
    options.retry = retries_;
    options.rnr_retry = for_ever;
    options.rnr_timer = rnr_timer;
    options.ack_timeout = ack_timeout(retries_);
    return options;
}

Result<> Link::ask()
{
    TRY(make_queues());
    AnyPrivate data = write_private(local_, remote_, version_, tos_, buffers_);
    kapi_cm_options with = options(data);
    TRY(check(kapi_cm_request(cm_.get(), &with)));
    asked_ = true;
    return {};
}

Result<> Link::accept()
{
    role_.exchange(owned);
    if (has_ended())
        return fail(KAPI_ECONNRESET);
    TRY(make_queues());
    AnyPrivate data = write_private(local_, remote_, version_, tos_, buffers_);
    kapi_cm_options with = options(data);
    TRY(check(kapi_cm_accept(cm_.get(), &with)));
    accepted_ = true;
    return {};
}

Link::Step Link::step()
{
    u32 seen = seen_.load_acquire();
    if (seen & ended)
        return Step::failed;
    if ((seen & resolved) && !asked_)
        return ask() ? Step::waits : Step::failed;
    if (!(seen & established))
        return Step::waits;
    return is_acceptable(peer_) ? Step::up : Step::failed;
}

void Link::began()
{
    if (is_hawser())
        queues_->ends.fragments = {.to_hawser = true, .buffers = min<u32>(buffers_, max<u32>(peer_.buffers, 1))};
    queues_->sender.begin();
    queues_->receiver.begin();
}

rds_rdma_row Link::row() const
{
    kapi_cm_info info;
    kapi_cm_describe(cm_.get(), &info);
    rds_rdma_row row{};
    kapi_copy(row.local_gid, info.local_gid, sizeof(row.local_gid));
    kapi_copy(row.remote_gid, info.remote_gid, sizeof(row.remote_gid));
    row.max_send_wr = queues_->sender.capacity();
    row.max_recv_wr = ring_.buffers / buffers_;
    row.max_send_sge = queues_->sender.pieces();
    const Device& device = queues_->ends.device;
    row.mr_max = device.most_regions();
    row.mr_pages = device.pages_of_region();
    return row;
}

void Link::resume()
{
    if (!queues_)
        return;
    queues_->sender.free_retired();
    queues_->receiver.refill(Stat::rx_refill_from_thread);
    queues_->receiver.process(Stat::rx_refill_from_thread);
}

// ---- the end

void Link::end_queues()
{
    QueueEnds& ends = queues_->ends;
    ends.close();
    if (registrar_)
        registrar_->close();
    if (ends.qp && kapi_qp_drain(ends.qp.get()) < 0) {
        kapi_log(KAPI_LOG_ERR, "rds_rdma: device %s does not end what it was given", ends.device.attrs.name);
        // We are called no more, so all but what it may use for ever is freed. That stays counted.
        ends.qp.reset();
        if (registrar_)
            registrar_->lose_posted();
        queues_->sender.abandon();
        queues_->receiver.abandon();
        ring_.buffers = 0;
    }
    queues_.reset();
}

Link::~Link()
{
    if (cm_ && (asked_ || accepted_))
        kapi_cm_disconnect(cm_.get());
    if (queues_)
        end_queues();
    cm_.reset();
    if (ring_.buffers)
        Module::get().rings.give(ring_, remote_);
    Module::get().devices.leave(user_);
}

} // namespace rds_rdma
