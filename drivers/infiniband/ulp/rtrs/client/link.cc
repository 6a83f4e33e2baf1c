// SPDX-License-Identifier: GPL-2.0
#include "link.h"

#include "end_query.h"
#include "session.h"

namespace rtrs_clt {

namespace {

constexpr u64 patience_ns = 5'000'000'000; // for the next thing to happen while a path is made
constexpr u64 most_end_ns = 500'000'000;   // that requests wait for the end of a path at a server that does not end it

} // namespace

Link::Link(Path& of, u16 reconnects)
    : path(of), session(of.session()), reconnects_(reconnects), serials_(of.session().take_serials())
{
}

Result<Own<Link>> Link::begin(Path& path, u16 reconnects)
{
    Own<Link> link(make<Link>(Alloc::sleep, path, reconnects));
    if (!link)
        return fail(KAPI_ENOMEM);
    Result<> begun = link->make_connections();
    if (begun)
        begun = link->connection(0).resolve();
    if (!begun) {
        link->end(false);
        return fail(begun.error());
    }
    link->progress();
    return link;
}

Result<> Link::make_connections()
{
    u32 count = session.connections();
    connections_.reset(static_cast<Connection*>(kapi_zalloc(count * sizeof(Connection), KAPI_SLEEP)));
    if (!connections_)
        return fail(KAPI_ENOMEM);
    for (; made_ < count; made_++)
        ::new (&connection(made_)) Connection(*this, made_, serials_ + made_);
    return {};
}

void Link::progress()
{
    deadline_ns_ = kapi_now_ns() + patience_ns;
}

rtrs::wire::ConnectRequest Link::connect_request(u32 number, u16 reconnects, bool first) const
{
    rtrs::ConnectRequest request{};
    request.connection = static_cast<u16>(number);
    request.connections = static_cast<u16>(session.connections());
    request.reconnects = reconnects;
    request.path = path.uuid();
    request.session = session.uuid();
    request.first = first;
    request.whole_answers = true;
    return rtrs::write_connect_request(request);
}

u32 Link::request_immediate(u32 chunk, u32 offset) const
{
    return rtrs::write_immediate(rtrs::ImmediateType::request, session.geometry().payload_of({chunk, offset}));
}

u32 Link::info_bytes() const
{
    return static_cast<u32>(rtrs::info_response_bytes(depth_));
}

Result<> Link::enter_device(kapi_rdma_dev* dev)
{
    if (device_)
        return device_->dev == dev ? Result<>() : fail(KAPI_ENODEV);
    device_ = TRY(session.devices().enter(dev, path, user_));
    kapi_pd* pd = nullptr;
    TRY(check(kapi_pd_create(dev, &pd)));
    pd_.reset(pd);
    return {};
}

// ---- from step to step

Result<Link::Step> Link::step()
{
    Phase before;
    do {
        before = phase_;
        if (phase_ == Phase::service)
            TRY(step_service());
        else if (phase_ == Phase::others)
            TRY(step_others());
        else if (phase_ == Phase::information)
            TRY(read_information());
    } while (phase_ != before);
    if (phase_ == Phase::up)
        return Step::up;
    if (kapi_now_ns() >= deadline_ns_)
        return fail(KAPI_ETIMEDOUT);
    return Step::waits;
}

// Its acceptance has the server's geometry, which all else depends on.
Result<> Link::step_service()
{
    Connection& service = connection(0);
    if (service.is_resolved() && !service.is_asked()) {
        TRY(enter_device(service.dev()));
        // Only the first path may make a session at the server; the others belong to the one that is there.
        makes_session_ = !session.has_path_up();
        TRY(service.ask(*device_, pd_.get()));
        progress();
    }
    if (!service.is_established())
        return {};
    rtrs::Offer offer = TRY(Result<rtrs::Offer>(service.offer()));
    TRY(session.adopt(offer, device_->attrs));
    TRY(make_parts(offer));
    for (u32 i = 1; i < made_; i++)
        TRY(connection(i).resolve());
    phase_ = Phase::others;
    progress();
    return {};
}

Result<> Link::make_parts(const rtrs::Offer& offer)
{
    u32 depth = offer.geometry.queue_depth();
    whole_answers_ = offer.whole_answers;
    computes_keys_ = offer.whole_answers && offer.new_rkeys;
    info_.reset(make<Buffer>(Alloc::sleep));
    question_.reset(make<Buffer>(Alloc::sleep));
    if (!info_ || !question_)
        return fail(KAPI_ENOMEM);
    TRY(maps_.make(session.messages(), *device_, pd_.get()));
    TRY(make_regions(depth));
    TRY(info_->make(*device_, pd_.get(), info_bytes(), KAPI_MAP_FROM_DEVICE));
    TRY(question_->make(*device_, pd_.get(), sizeof(rtrs::wire::InfoRequest), KAPI_MAP_TO_DEVICE));
    chunks_.reset(static_cast<rtrs::RemoteChunk*>(kapi_zalloc(depth * sizeof(rtrs::RemoteChunk), KAPI_SLEEP)));
    if (!chunks_)
        return fail(KAPI_ENOMEM);
    return connection(0).post_receives(info_.get());
}

Result<> Link::make_regions(u32 depth)
{
    regions_.reset(static_cast<ReadRegion*>(kapi_zalloc(depth * sizeof(ReadRegion), KAPI_SLEEP)));
    if (!regions_)
        return fail(KAPI_ENOMEM);
    depth_ = depth;
    for (u32 i = 0; i < depth; i++) {
        TRY(check(kapi_mr_alloc(pd_.get(), session.region_pages(), 0, &region(i).mr)));
        region(i).last_key = kapi_mr_key(region(i).mr);
    }
    return {};
}

Result<> Link::step_others()
{
    u32 established = 0;
    for (u32 i = 1; i < made_; i++) {
        Connection& one = connection(i);
        if (one.is_resolved() && !one.is_asked()) {
            TRY(enter_device(one.dev()));
            TRY(one.ask(*device_, pd_.get()));
            progress();
        }
        if (!one.is_established())
            continue;
        if (!one.offer() || one.offer()->geometry != session.geometry())
            return fail(KAPI_ECONNRESET);
        established++;
    }
    if (std::exchange(established_, established) != established)
        progress();
    return established == made_ - 1 ? ask_for_information() : Result<>();
}

Result<> Link::ask_for_information()
{
    rtrs::wire::InfoRequest request = rtrs::write_info_request(session.session_name());
    kapi_copy(question_->bytes(), &request, sizeof(request));
    question_->sync(0, sizeof(request), KAPI_MAP_FOR_DEVICE);
    TRY(connection(0).send_info(*question_, sizeof(request)));
    phase_ = Phase::information;
    progress();
    return {};
}

void Link::informed(u32 length)
{
    informed_.store_release(length + 1);
    path.notify();
}

Result<> Link::read_information()
{
    u32 informed = informed_.load_acquire();
    if (!informed)
        return {};
    u32 length = informed - 1;
    info_->sync(0, info_bytes(), KAPI_MAP_FOR_CPU);
    TRY(rtrs::parse_info_response({info_->bytes(), length}, session.geometry(), {chunks_.get(), depth_}));
    phase_ = Phase::up;
    return {};
}

// The service connection is the first: answers may need it.
void Link::open()
{
    for (u32 i = 0; i < made_; i++) {
        connection(i).open();
        session.lanes().add(i, connection(i));
    }
}

// A request that ends meanwhile, or begins anew with the same permit, is taken for what it was or is.
u64 Link::oldest_ns(u64 now_ns) const
{
    u64 oldest = now_ns;
    for (u32 i = 0; i < depth_; i++)
        if (Io& io = session.io(i); io.owner.load_acquire() - serials_ < made_)
            oldest = min(oldest, io.began_ns.load_relaxed());
    return oldest;
}

// ---- the end

// A request goes to another path with the chunk that it has. What was sent of it over this one may still be on its way, and the
// kernel's own server reads a request's address and key in its chunk again when it has the data: it would use those of this path
// over the other one. So the queue pairs of the server fail first: it answers the request to disconnect after that.
void Link::wait_for_server()
{
    static_cast<void>(over_.wait_until(kapi_now_ns() + most_end_ns, [this] {
        for (u32 i = 0; i < made_; i++)
            if (!connection(i).is_over())
                return false;
        return true;
    }));
}

// Those whose time is over, or whose session is, are not sent again.
bool Link::has_to_move() const
{
    for (u32 i = 0; i < depth_; i++) {
        Io& io = session.io(i);
        bool has_it = io.owner.load_acquire() - serials_ < made_;
        if (has_it && !io.answered && io.generation == session.lanes().generation() && !session.is_late(io))
            return true;
    }
    return false;
}

// A request to disconnect may get lost, and so may the answer. What the server took over this path before it noticed may change
// what the client writes over another path after the repetition: see EndQuery. A server that does not answer over the other paths
// has not answered the repetitions either; one that answers, and has not ended this path, is the kernel's own. A path that takes
// requests may be about to come up or to go: there is one over which to ask in a moment, or there is none that takes them.
void Link::ask_for_end(u64 began_ns)
{
    constexpr u64 attempt_ns = 1'000'000'000, pause_ns = 50'000'000;
    const rtrs::wire::ConnectRequest request = connect_request(0, static_cast<u16>(reconnects_ + 1), false);
    u64 now = kapi_now_ns(), limit = now + patience_ns;
    u32 asked = path.index;
    kapi_cm_route route;
    while (now < limit && has_to_move() && session.can_move_requests()) {
        Errno answer(KAPI_ETIMEDOUT);
        if (session.route_beside(path, asked, route))
            answer = EndQuery::ask(path, route, request, min(now + attempt_ns, limit));
        if (answer == Errno(KAPI_EEXIST))
            return;
        if (answer != Errno(KAPI_ETIMEDOUT))
            limit = min(limit, began_ns + most_end_ns);
        static_cast<void>(over_.wait_until(kapi_now_ns() + pause_ns, [] { return false; }));
        now = kapi_now_ns();
    }
}

// Each connection ends before anything is freed that it uses.
void Link::drain()
{
    bool ended = true;
    for (u32 i = 0; i < made_; i++)
        ended &= connection(i).drain();
    if (ended)
        return;
    kapi_log(KAPI_LOG_ERR, "rtrs_client: %s: the device does not end what it was given", session.name());
    maps_.abandon();
    session.messages().abandon();
    if (info_)
        info_->abandon();
    if (question_)
        question_->abandon();
    for (u32 i = 0; i < depth_; i++)
        if (Io& io = session.io(i); io.owner.load_acquire() - serials_ < made_)
            io.data.leak();
}

// A region may still be valid. No connection of its protection domain is left, but its mapping must not end before it.
Io* Link::collect()
{
    Io* first = nullptr;
    for (u32 i = 0; i < depth_; i++) {
        Io& io = session.io(i);
        if (io.owner.load_acquire() - serials_ >= made_)
            continue;
        if (io.registered)
            kapi_mr_free(std::exchange(region(i).mr, nullptr));
        io.data.end();
        io.owner.store_release(0);
        path.ended(io);
        io.next = first;
        first = &io;
    }
    return first;
}

void Link::close()
{
    for (u32 i = 0; i < made_; i++) {
        session.lanes().remove(i, connection(i));
        connection(i).close();
    }
}

Io* Link::end(bool peer_answers)
{
    close();
    for (u32 i = 0; i < made_; i++)
        connection(i).disconnect();
    u64 now = kapi_now_ns();
    if (peer_answers && path.inflight())
        wait_for_server();
    drain();
    if (path.inflight())
        ask_for_end(now);
    return collect();
}

Link::~Link()
{
    for (u32 i = made_; i > 0; i--)
        connection(i - 1).~Connection();
    for (u32 i = 0; i < depth_; i++)
        kapi_mr_free(region(i).mr);
    connections_.reset();
    maps_.drop();
    question_.reset();
    info_.reset();
    pd_.reset();
    session.devices().leave(user_);
}

} // namespace rtrs_clt
