// SPDX-License-Identifier: GPL-2.0
#include "connection.h"

#include "net.h"

namespace rds_rdma {

namespace {

constexpr u64 longest_wait_ns = 10'000'000'000; // for a path: the peer has given up by then

} // namespace

RdmaConnection* RdmaConnection::create(rds_conn* conn, RdmaNet& net, const kapi_addr& local, const kapi_addr& remote, u8 tos,
                                       Alloc mode)
{
    return make<RdmaConnection>(mode, conn, net, local, remote, tos);
}

int RdmaConnection::connect()
{
    if (!HW_ASSERT(!link_))
        return -KAPI_EALREADY;
    if (!net_.is_open()) // a path may be wanted for some seconds longer than there is a socket
        return -KAPI_ENETUNREACH;
    phase_.store_release(connecting);
    auto link = Link::connect(net_, conn_, local_, remote_, tos_);
    if (!link)
        return link.error().to_c();
    link_ = std::move(*link);
    return 0;
}

int RdmaConnection::came_up()
{
    phase_.store_release(up);
    rds_conn_peer_is(conn_, link_->is_hawser());
    row_.with([row = link_->row()](rds_rdma_row& shown) { shown = row; });
    link_->began();
    registrar_.with([&](Ref<Registrar>& registrar) { registrar = link_->registrar(); });
    return 1;
}

int RdmaConnection::established()
{
    Link::Step step = link_ ? link_->step() : Link::Step::waits;
    if (step == Link::Step::up)
        return came_up();
    if (step == Link::Step::failed)
        rds_path_notify(conn_, 0, RDS_PATH_LOST);
    return 2;
}

int RdmaConnection::adopt()
{
    if (!HW_ASSERT(!link_))
        return 0;
    Own<Link> link = waiting_.with([](Own<Link>& waiting) { return std::move(waiting); });
    if (!link || !net_.is_open() || !link->accept())
        return 0;
    link_ = std::move(link);
    return came_up();
}

rds_stream_waits RdmaConnection::has_accepted()
{
    bool waits = false;
    Own<Link> useless = waiting_.with([&](Own<Link>& waiting) {
        if (!waiting)
            return Own<Link>();
        if (waiting->has_ended() || waiting->age_ns() >= longest_wait_ns)
            return std::move(waiting);
        waits = !(phase_.load_relaxed() == connecting && waiting->is_hawser() && is_smaller());
        return Own<Link>();
    });
    return waits ? RDS_STREAM_WAITS : RDS_NO_STREAM_WAITS;
}

// What was sent and not acknowledged is sent again, and so does the peer: there is nothing to wait for.
rds_closing RdmaConnection::close()
{
    phase_.store_release(down);
    row_.with([](rds_rdma_row& shown) { shown = {}; });
    Ref<Registrar> old = registrar_.with([](Ref<Registrar>& registrar) { return std::move(registrar); });
    bool known = !net_.is_open() || (link_ && link_->has_ended_by_peer()); // without a socket nobody here wants its messages
    link_.reset();
    return known ? RDS_CLOSED_KNOWN : RDS_CLOSED;
}

Ref<Registrar> RdmaConnection::hold()
{
    return registrar_.with([](Ref<Registrar>& registrar) {
        return registrar && registrar->is_open() ? registrar : Ref<Registrar>(); // a second attempt waits for the next one
    });
}

// Without a connection it is the device that it would be made of now.
int RdmaConnection::check_atomic(rds_rdma_kind kind)
{
    Ref<Registrar> held = hold();
    kapi_rdma_dev* found = nullptr;
    if (!held && kapi_rdma_dev_of(net_.host, &local_, &found))
        return 0; // the next one may have them
    const kapi_rdma_dev* dev = held ? held->device() : found;
    return Module::get().devices.lacks(dev, kind) ? -KAPI_EOPNOTSUPP : 0;
}

int RdmaConnection::post(rds_out* const* messages, unsigned count)
{
    Sender* sender = link_ ? link_->sender() : nullptr;
    return sender ? sender->post(messages, count) : -KAPI_ENOTCONN;
}

void RdmaConnection::resume()
{
    if (link_)
        link_->resume();
}

void RdmaConnection::tick()
{
    if (Sender* sender = link_ ? link_->sender() : nullptr)
        sender->tick();
}

void RdmaConnection::offer(Own<Link> link)
{
    link->wait_for(conn_);
    Own<Link> replaced = waiting_.with([&](Own<Link>& waiting) { return std::exchange(waiting, std::move(link)); });
    u32 phase = phase_.load_acquire();
    if (phase == connecting)
        net_.counters.count(Stat::connect_raced);
    if (phase == up || replaced)
        net_.counters.count(Stat::listen_closed_stale);
    rds_path_notify(conn_, 0, RDS_PATH_ACCEPTED);
}

} // namespace rds_rdma
