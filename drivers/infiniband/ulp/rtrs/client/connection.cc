// SPDX-License-Identifier: GPL-2.0
#include "connection.h"

#include "cm_options.h"
#include "link.h"
#include "session.h"

#include <hawser/queue_memory.h>

namespace rtrs_clt {

namespace {

constexpr u32 resolve_ms = 2000; // for the address, and again for the route

// Requests of an IO: those of a read register its region, ask for the data, and invalidate the region. A write with so many
// pieces that it takes more finds the queue full the sooner.
constexpr u32 requests_of_io = 3;
// Beside requests: heartbeats and their answers.
constexpr u32 others = 16;
constexpr u32 completions_besides = 2;

// Of a rejection by the one who listens, "consumer reject" (InfiniBand Architecture Specification, volume 1, chapter 12). Other
// reasons are those of a host on which nobody does (8), or whose connection manager refuses.
constexpr u32 by_listener = 28;

bool is_by_server(const kapi_cm_end& end)
{
    return end.why == KAPI_CM_DISCONNECTED || (end.why == KAPI_CM_REJECTED && end.reason == by_listener);
}

} // namespace

constinit const kapi_cm_ops Connection::cm_ops = {.resolved = on_resolved, .established = on_established, .ended = on_ended};

// ---- events

void Connection::heard(u32 what)
{
    seen_.fetch_or(what);
    link_.path.notify();
}

void Connection::on_resolved(void* context, kapi_rdma_dev* dev)
{
    Connection& self = *static_cast<Connection*>(context);
    self.dev_ = dev;
    self.heard(resolved);
}

void Connection::on_established(void* context, const void* data, kapi_size size)
{
    Connection& self = *static_cast<Connection*>(context);
    self.offer_ = rtrs::parse_acceptance({static_cast<const u8*>(data), data ? size : 0});
    self.heard(established);
}

void Connection::on_ended(void* context, const kapi_cm_end* end)
{
    Connection& self = *static_cast<Connection*>(context);
    bool by_server = is_by_server(*end); // else it has not been asked
    if (by_server)
        self.heard(over); // before the link is lost: its end looks at this
    self.link_.path.lost(end->data ? rtrs::parse_rejection({static_cast<const u8*>(end->data), end->size})
                                   : Errno::from_c(end->error));
    if (by_server)
        self.link_.connection_over();
}

// ---- beginning

Result<> Connection::resolve()
{
    kapi_cm_route route = link_.path.route();
    route.timeout_ms = resolve_ms;
    kapi_cm* cm = nullptr;
    TRY(check(kapi_cm_connect(link_.session.net(), &route, &cm_ops, this, &cm)));
    cm_.reset(cm);
    return {};
}

u32 Connection::sends_for(const kapi_rdma_attrs& attrs, u32 depth)
{
    return min(min(attrs.max_wr, attrs.max_cqe / 2 - 1), depth * requests_of_io + others);
}

u32 Connection::receives_for(const kapi_rdma_attrs& attrs, u32 depth)
{
    return min(min(attrs.max_wr, attrs.max_cqe / 2 - 1), depth * 2 + others); // an answer may be two messages
}

kapi_qp_caps Connection::caps_for(const kapi_rdma_attrs& attrs, u32 depth)
{
    return {sends_for(attrs, depth), receives_for(attrs, depth), min(attrs.max_sge, most_pieces), 1, 0};
}

u64 Connection::bytes_of_queues(const kapi_rdma_attrs& attrs, u32 depth)
{
    kapi_qp_caps caps = caps_for(attrs, depth);
    return bytes_of_queue_pair(caps) + bytes_of_completions(caps.max_send + caps.max_recv + completions_besides) +
           caps.max_recv * receive_bytes;
}

// The queue depth is known for all but the service connection, which is made before the peer offers it.
Result<> Connection::make_queues(Device& device, kapi_pd* pd)
{
    const kapi_rdma_attrs& attrs = device.attrs;
    u32 depth = number_ ? link_.session.geometry().queue_depth() : rtrs::service_queue_depth;
    kapi_qp_caps caps = caps_for(attrs, depth);
    max_send_ = caps.max_send;
    max_receive_ = caps.max_recv;
    max_pieces_ = caps.max_send_sge;
    TRY(receives_.make(device, pd, max_receive_ * receive_bytes, KAPI_MAP_FROM_DEVICE));
    kapi_cq* cq = nullptr;
    u32 vector = number_ ? number_ - 1 : 0;
    u32 completions = max_send_ + max_receive_ + completions_besides;
    TRY(check(kapi_cq_create(device.dev, completions, vector, KAPI_CQ_SOFTIRQ, on_done, this, &cq)));
    cq_.reset(cq);
    kapi_qp* qp = nullptr;
    TRY(check(kapi_qp_create(cm_.get(), pd, &caps, cq, cq, this, &qp)));
    qp_.reset(qp);
    room_.store_relaxed(max_send_);
    return {};
}

Result<> Connection::ask(Device& device, kapi_pd* pd)
{
    asked_ = true;
    TRY(make_queues(device, pd));
    if (number_)
        TRY(post_receives(nullptr));
    rtrs::wire::ConnectRequest request = link_.connect_request(number_);
    kapi_cm_options options = cm_options(request);
    return check(kapi_cm_request(cm_.get(), &options));
}

Result<> Connection::post_receive(u32 slot)
{
    kapi_sge sge = receives_.sge(slot * receive_bytes, receive_bytes);
    kapi_recv_wr wr{.next = nullptr, .cookie = cookie(Kind::receive, slot), .sges = &sge, .n_sges = 1, .pad = 0, .opaque = {}};
    kapi_recv_wr* bad = nullptr;
    return check(kapi_qp_recv(qp_.get(), &wr, &bad));
}

Result<> Connection::post_receives(Buffer* info)
{
    u32 first = 0;
    if (info) {
        kapi_sge sge = info->sge(0, link_.info_bytes());
        kapi_recv_wr wr{}, *bad = nullptr;
        wr.cookie = cookie(Kind::info_receive, 0);
        wr.sges = &sge;
        wr.n_sges = 1;
        TRY(check(kapi_qp_recv(qp_.get(), &wr, &bad)));
        first = 1; // its place in the queue
    }
    {
        Guard guard(lock_);
        receiving_ = true;
    }
    // Not under the lock, which keeps interrupts off: the worker of the path posts these, and it also drains the queue.
    for (u32 slot = first; slot < max_receive_; slot++)
        TRY(post_receive(slot));
    return {};
}

// Any context. False: the device does not take it.
bool Connection::receive_again(u32 slot)
{
    Guard guard(lock_);
    return !receiving_ || post_receive(slot);
}

Result<> Connection::send_info(const Buffer& message, u32 bytes)
{
    kapi_sge sge = message.sge(0, bytes);
    kapi_wr wr{}, *bad = nullptr;
    wr.op = KAPI_WR_SEND;
    wr.flags = KAPI_WR_SIGNALED;
    wr.cookie = cookie(Kind::plain, 0);
    wr.sges = &sge;
    wr.n_sges = 1;
    room_.fetch_sub(1);
    return check(kapi_qp_send(qp_.get(), &wr, &bad));
}

// A queue that is full of requests has enough to be answered.
void Connection::send_heartbeat()
{
    post_immediate(rtrs::ImmediateType::heartbeat);
}

void Connection::open()
{
    Guard guard(lock_);
    open_ = true;
    hint_open_.store_relaxed(true);
}

// ---- the end

void Connection::close()
{
    Guard guard(lock_);
    open_ = receiving_ = false;
    hint_open_.store_relaxed(false);
}

void Connection::disconnect()
{
    if (cm_ && asked_)
        kapi_cm_disconnect(cm_.get());
}

bool Connection::drain()
{
    if (!qp_ || kapi_qp_drain(qp_.get()) == 0)
        return true;
    // done() is called no more, so all but what the device may use for ever is freed.
    qp_.reset();
    receives_.abandon();
    return false;
}

// The queue pair was drained, and goes first.
Connection::~Connection() = default;

} // namespace rtrs_clt
