// SPDX-License-Identifier: GPL-2.0
#include "context.h"

namespace rtrs_srv {

namespace {

constexpr unsigned listen_backlog = 128;
constexpr u32 max_asked = 256;     // connections that wait for the work
constexpr u32 asked_at_once = 16;  // and then it looks again at what has ended
constexpr u32 max_sessions = 4096; // of an opened server
// A client that reconnects waits for the end of its old path so long, and is rejected then. hawser's takes a server that has not
// answered within five seconds for one that is not reached.
constexpr u64 most_parked_ns = 3'000'000'000;
// So long one waits that adds a path where one is about to end, as one that asks for the name of a session does.
constexpr u64 most_added_ns = 30'000'000'000;

} // namespace

// ---- opening and closing

Result<> Context::listen(kapi_cm_space space, CmListener& listener)
{
    static constexpr kapi_cm_listener_ops ip_ops{.request = on_request<KAPI_CM_IP>}, gid_ops{.request = on_request<KAPI_CM_GID>};
    const kapi_cm_listener_ops& ops = space == KAPI_CM_GID ? gid_ops : ip_ops;
    kapi_addr any{};
    any.port = port_;
    kapi_cm_listener* made = nullptr;
    int err = kapi_cm_listen(net_, space, &any, listen_backlog, &ops, this, &made);
    if (err == -KAPI_EAFNOSUPPORT && space == KAPI_CM_IP) { // a host without IPv6
        any.ip[10] = any.ip[11] = 0xff;
        err = kapi_cm_listen(net_, space, &any, listen_backlog, &ops, this, &made);
    }
    if (!err)
        listener.reset(made);
    return check(err);
}

Result<Context*> Context::open(kapi_net* net, const rtrs_srv_core_ops& ops, void* user, u16 port)
{
    Own<Context> context(make<Context>(Alloc::sleep, net, ops, user, port));
    if (!context)
        return fail(KAPI_ENOMEM);
    Context* opened = context.get();
    if (auto listens = opened->listen(KAPI_CM_IP, opened->ip_); !listens)
        return fail(listens.error());
    Module::get().add(*context.release());
    return opened;
}

// Without a device that has GIDs there is nothing to listen on.
void Context::listen_on_gids()
{
    if (gid_)
        return;
    if (auto listens = listen(KAPI_CM_GID, gid_); !listens && listens.error().code() != KAPI_EAFNOSUPPORT)
        kapi_log(KAPI_LOG_WARN, "rtrs_server: no listening on GIDs: error %d", listens.error().code());
}

void Context::close(Context* context)
{
    Module::get().remove(*context);
    context->ip_.reset();
    context->gid_.reset();
    {
        Guard guard(context->lock_);
        context->closing_ = true;
    }
    context->work_.queue(Module::get().workqueue);
    context->emptied_.wait_for([&] { return context->is_empty(); });
    context->look_.cancel_sync();
    context->work_.cancel_sync();
    dispose(context);
}

bool Context::is_empty()
{
    Guard guard(lock_);
    return sessions_.empty() && !asked_ && !parked_ && buried_.empty();
}

// ---- what clients ask for

template <kapi_cm_space Space>
int Context::on_request(void* context, kapi_cm* cm, const kapi_cm_offer* offer, void* answer, kapi_size* size)
{
    auto taken = static_cast<Context*>(context)->asked(cm, Space, *offer);
    if (taken)
        return 1;
    wire::ConnectResponse response = write_rejection(taken.error());
    kapi_copy(answer, &response, sizeof(response));
    *size = sizeof(response);
    return 0;
}

Result<> Context::asked(kapi_cm* cm, kapi_cm_space space, const kapi_cm_offer& offer)
{
    ConnectRequest request = TRY(parse_connect_request({static_cast<const u8*>(offer.data), offer.size}));
    {
        Guard guard(lock_);
        if (asked_count_ >= max_asked)
            return fail(KAPI_ENOMEM);
        asked_count_++;
    }
    kapi_cm_info info;
    kapi_cm_describe(cm, &info);
    Connection* connection = Connection::asked(*this, cm, space, request, info).release();
    Guard guard(lock_);
    if (!connection) {
        asked_count_--;
        return fail(KAPI_ENOMEM);
    }
    *asked_end_ = connection;
    asked_end_ = &connection->next;
    work_.queue(Module::get().workqueue);
    return {};
}

Own<Connection> Context::pop_asked()
{
    Guard guard(lock_);
    Own<Connection> connection(asked_);
    if (connection) {
        asked_ = connection->next;
        if (!asked_)
            asked_end_ = &asked_;
        asked_count_--;
    }
    return connection;
}

void Context::work()
{
    bool quiet = quiet_.exchange(false);
    look_at_parked(remove_buried() || quiet);
    for (u32 i = 0; i < asked_at_once; i++) {
        Own<Connection> connection = pop_asked();
        if (!connection)
            break;
        if (auto placed = place(connection); !placed && connection)
            connection->reject(placed.error());
    }
    bool closing;
    {
        Guard guard(lock_);
        if (asked_)
            work_.queue(Module::get().workqueue);
        closing = closing_;
        for (Session* session = closing ? sessions_.front() : nullptr; session; session = sessions_.next(*session))
            session->notify_all(Path::lost);
    }
    if (closing)
        emptied_.wake();
}

Result<> Context::place(Own<Connection>& connection)
{
    const ConnectRequest& request = connection->request();
    Ref<Session> session = TRY(find_or_create(request));
    Ref<Path> path = session->find(request.path);
    if (path && session->has_other(*path, connection->info().remote, connection->info().local))
        return place_query(*path, connection);
    // A client that has removed a path may add it again before this host is done with the old one.
    Ref<Path> before = session->find_before(*connection);
    if (before && (path ? path->make_way(request) : before->gives_way())) {
        auto awaits = await(*session, connection, path ? most_parked_ns : most_added_ns);
        if (!awaits && path)
            path->forget_successor(request);
        return awaits;
    }
    if (!path) {
        auto made = make_path(*session, *connection);
        remove_if_empty(*session);
        path = TRY(made);
    }
    TRY(path->offer(connection));
    Guard guard(lock_);
    if (Session::Awaited& awaited = session->awaited(path->uuid()); awaited.path == path->uuid())
        awaited = {};
    claim_again(*session);
    return {};
}

// It is in its session before anything can end it, which removes it from there.
Result<Ref<Path>> Context::make_path(Session& session, const Connection& first)
{
    Ref<Path> path = TRY(Path::create(session, first));
    TRY(session.add(path));
    if (auto begun = path->begin(); !begun) {
        session.remove(*path);
        path->abandon();
        path->stop();
        return fail(begun.error());
    }
    return path;
}

// From the addresses of one path a client asks for another, which it has lost (client/end_query.h). The answer EEXIST, a path
// has these addresses, means that nothing arrives over the lost one any more.
Result<> Context::place_query(Path& lost, Own<Connection>& connection)
{
    if (lost.is_quiet())
        return fail(KAPI_EEXIST);
    if (!lost.end_for(connection->request()))
        return fail(KAPI_ECONNRESET);
    Guard guard(lock_);
    return park(connection, most_parked_ns);
}

Ref<Session> Context::find(const Uuid& uuid)
{
    Guard guard(lock_);
    for (Session* session = sessions_.front(); session; session = sessions_.next(*session))
        if (session->uuid() == uuid)
            return Ref<Session>::share(*session);
    return {};
}

Result<Ref<Session>> Context::find_or_create(const ConnectRequest& request)
{
    if (Ref<Session> session = find(request.session))
        return session;
    if (!request.first)
        return fail(KAPI_ECONNRESET);
    Ref<Session> session = TRY(Session::create(*this, request.session));
    Guard guard(lock_);
    if (closing_ || count_ >= max_sessions)
        return fail(closing_ ? KAPI_ECONNRESET : KAPI_ENOMEM);
    count_++;
    sessions_.push_back(session);
    return session;
}

// ---- the user

int Context::call(const Session& session, Operation& op, u8* memory, const void* message)
{
    static_assert(offsetof(Operation, direction) == 0);
    const Request& request = op.request;
    op.given = true;
    op.direction = request.is_read ? 0 : 1;
    return ops_.rdma_ev(user_, session.priv(), reinterpret_cast<rtrs_srv_op*>(&op), memory, request.data_bytes, message,
                        request.user_bytes);
}

int Context::link_event(Session& session, rtrs_srv_core_event event)
{
    return ops_.link_ev(user_, reinterpret_cast<rtrs_srv_sess*>(&session), event, session.priv());
}

Result<bool> Context::claim_name(Session& session, const SessionName& name)
{
    Guard guard(lock_);
    if (session.name.text[0]) {
        if (session.name == name)
            return true;
        return fail(KAPI_EINVAL);
    }
    for (Session* other = sessions_.front(); other; other = sessions_.next(*other)) {
        if (other->name != name)
            continue;
        if (!other->is_given_up())
            return fail(KAPI_EEXIST);
        other->name_wanted = true;
        return false;
    }
    session.name = name;
    return true;
}

Result<SessionName> Context::name_of(const Session& session)
{
    return session.is_connected() ? claimed_name(session) : fail(KAPI_ENOTCONN);
}

Result<SessionName> Context::claimed_name(const Session& session)
{
    Guard guard(lock_);
    return session.name;
}

} // namespace rtrs_srv
