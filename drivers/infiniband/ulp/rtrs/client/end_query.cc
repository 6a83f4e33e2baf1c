// SPDX-License-Identifier: GPL-2.0
#include "end_query.h"

#include "cm_options.h"
#include "session.h"

namespace rtrs_clt {

namespace {

constexpr u32 resolve_ms = 500; // for the address, and again for the route

} // namespace

constinit const kapi_cm_ops EndQuery::cm_ops = {.resolved = on_resolved, .established = on_established, .ended = on_ended};

// ---- events

void EndQuery::heard(Errno answer)
{
    int none = 0;
    answer_.compare_exchange(none, answer.code());
    heard_.wake();
}

void EndQuery::on_resolved(void* context, kapi_rdma_dev* dev)
{
    EndQuery& self = *static_cast<EndQuery*>(context);
    self.resolved_.store_release(dev);
    self.heard_.wake();
}

// The server has neither of the two paths any more, and takes this for the lost one, which is to come back.
void EndQuery::on_established(void* context, const void*, kapi_size)
{
    static_cast<EndQuery*>(context)->heard(Errno(KAPI_EEXIST));
}

// Without data it is not the server that has answered; and one that has no memory or no room for the question does not answer it.
void EndQuery::on_ended(void* context, const kapi_cm_end* end)
{
    Errno answer(KAPI_ETIMEDOUT);
    if (end->why == KAPI_CM_REJECTED && end->data)
        answer = rtrs::parse_rejection({static_cast<const u8*>(end->data), end->size});
    static_cast<EndQuery*>(context)->heard(answer == Errno(KAPI_ENOMEM) ? Errno(KAPI_ETIMEDOUT) : answer);
}

// ---- the question

Errno EndQuery::ask(Path& lost, const kapi_cm_route& route, const rtrs::wire::ConnectRequest& request, u64 deadline_ns)
{
    EndQuery query(lost);
    return query.ask(route, request, deadline_ns);
}

Errno EndQuery::ask(const kapi_cm_route& route, const rtrs::wire::ConnectRequest& request, u64 deadline_ns)
{
    Result<> going = resolve(route, deadline_ns);
    if (going)
        going = make_queue();
    if (going)
        going = send(request);
    if (going)
        static_cast<void>(heard_.wait_until(deadline_ns, [this] { return answer() != 0; }));
    return answer() ? Errno(answer()) : Errno(KAPI_ETIMEDOUT);
}

Result<> EndQuery::resolve(const kapi_cm_route& route, u64 deadline_ns)
{
    kapi_cm_route to = route;
    to.timeout_ms = resolve_ms;
    kapi_cm* cm = nullptr;
    TRY(check(kapi_cm_connect(lost_.session().net(), &to, &cm_ops, this, &cm)));
    cm_.reset(cm);
    return heard_.wait_until(deadline_ns, [this] { return resolved_.load_acquire() || answer(); });
}

// A connection has a queue pair, over which nothing is sent here.
Result<> EndQuery::make_queue()
{
    kapi_qp_caps caps{1, 1, 1, 1, 0};
    Device* device = TRY(lost_.session().devices().enter(resolved_.load_acquire(), lost_, user_));
    kapi_pd* pd = nullptr;
    TRY(check(kapi_pd_create(device->dev, &pd)));
    pd_.reset(pd);
    kapi_cq* cq = nullptr;
    auto done = [](void*, const kapi_wc*, unsigned) {};
    TRY(check(kapi_cq_create(device->dev, caps.max_send + caps.max_recv + 2, 0, KAPI_CQ_SOFTIRQ, done, this, &cq)));
    cq_.reset(cq);
    kapi_qp* qp = nullptr;
    TRY(check(kapi_qp_create(cm_.get(), pd, &caps, cq, cq, this, &qp)));
    qp_.reset(qp);
    return {};
}

Result<> EndQuery::send(const rtrs::wire::ConnectRequest& request)
{
    kapi_cm_options options = cm_options(request); // as of any connection of a path: by chance it may become one
    return check(kapi_cm_request(cm_.get(), &options));
}

EndQuery::~EndQuery()
{
    if (qp_) {
        kapi_cm_disconnect(cm_.get());
        static_cast<void>(kapi_qp_drain(qp_.get())); // it was given nothing that it might use for ever
    }
    qp_.reset();
    cm_.reset();
    cq_.reset();
    pd_.reset();
    lost_.session().devices().leave(user_);
}

} // namespace rtrs_clt
