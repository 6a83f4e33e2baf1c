// SPDX-License-Identifier: GPL-2.0
// What of an opened server has ended, and connections that wait for that.
#include "context.h"

namespace rtrs_srv {

namespace {

constexpr u32 max_parked = 256;      // connections that wait for the end of a path
constexpr u64 look_ns = 500'000'000; // at those whose time may be over
constexpr u64 returns_ns = 60'000'000'000; // in which a client that was turned down tries again

} // namespace

// ---- what waits

// Those who wait for the session's name need not: it stays in use.
Result<> Context::await(Session& session, Own<Connection>& connection, u64 limit_ns)
{
    Connection& waits = *connection;
    Guard guard(lock_);
    TRY(park(connection, limit_ns));
    waits.awaited_until_ns = kapi_now_ns() + limit_ns + returns_ns;
    const Uuid& path = waits.request().path;
    session.awaited(path) = {path, waits.awaited_until_ns};
    claim_again(session);
    return {};
}

// Also once more, when a path has ended that was another one. A session has half of the places that others leave, so that there
// is one for the next.
Result<> Context::park(Own<Connection>& connection, u64 limit_ns)
{
    u32 same = 0;
    for (const Connection* other = parked_; other; other = other->next)
        same += other->request().session == connection->request().session;
    if (2 * same >= max_parked - (parked_count_ - same))
        return fail(KAPI_ENOMEM);
    u64 now = kapi_now_ns();
    if (now >= connection->rejected_ns)
        return fail(KAPI_ECONNRESET);
    connection->rejected_ns = min(connection->rejected_ns, now + limit_ns);
    look_.queue(Module::get().workqueue, look_ns);
    parked_count_++;
    connection->next = std::exchange(parked_, connection.get());
    static_cast<void>(connection.release());
    return {};
}

// Those whose client has given up are ended, because their device may wait for that, those whose time is over, and all when the
// server closes. retry: the others are asked for again.
void Context::look_at_parked(bool retry)
{
    Connection* ended = nullptr;
    u64 now = kapi_now_ns();
    {
        Guard guard(lock_);
        for (Connection** at = &parked_; *at;) {
            Connection* connection = *at;
            bool ends = connection->has_ended() || closing_ || (!retry && now >= connection->rejected_ns);
            if (!retry && !ends) {
                at = &connection->next;
                continue;
            }
            *at = connection->next;
            parked_count_--;
            if (ends) {
                connection->next = std::exchange(ended, connection);
                continue;
            }
            connection->next = nullptr;
            *asked_end_ = connection;
            asked_end_ = &connection->next;
            asked_count_++;
        }
        if (parked_)
            look_.queue(Module::get().workqueue, look_ns);
    }
    while (ended) {
        Own<Connection> one(ended);
        ended = ended->next;
        give_up(std::move(one));
    }
}

// A client that is rejected may try again, and waits once more then: so it keeps its name meanwhile. What others have set, for
// other paths of the session or for this one, stays.
void Context::give_up(Own<Connection> parked)
{
    bool ended = parked->has_ended();
    Session::Awaited own{parked->request().path, parked->awaited_until_ns};
    Ref<Session> session = own.until_ns ? find(parked->request().session) : Ref<Session>();
    if (session) {
        if (Ref<Path> path = session->find(own.path))
            path->forget_successor(parked->request());
        Guard guard(lock_);
        if (Session::Awaited& awaited = session->awaited(own.path); ended && awaited == own)
            awaited = {};
    }
    if (!ended)
        parked->reject(Errno(KAPI_ECONNRESET));
}

// ---- what has ended

void Context::bury(Path& path)
{
    Guard guard(lock_);
    buried_.push_back(Ref<Path>::share(path));
    work_.queue(Module::get().workqueue);
}

void Context::path_is_quiet()
{
    quiet_.exchange(true);
    notify();
}

void Context::notify()
{
    work_.queue(Module::get().workqueue);
}

// True: there were some.
bool Context::remove_buried()
{
    bool any = false;
    for (;;) {
        Ref<Path> path;
        {
            Guard guard(lock_);
            path = buried_.pop_front();
        }
        if (!path)
            return any;
        any = true;
        auto session = Ref<Session>::share(path->session());
        session->remove(*path);
        path->stop();
        path = {};
        remove_if_empty(*session);
    }
}

void Context::remove_if_empty(Session& session)
{
    Ref<Session> removed; // dropped without the lock
    Guard guard(lock_);
    if (!session.is_empty())
        return;
    removed = sessions_.remove(session);
    count_--;
    claim_again(session);
}

void Context::claim_again(Session& session)
{
    bool wanted = std::exchange(session.name_wanted, false);
    for (Session* other = wanted ? sessions_.front() : nullptr; other; other = sessions_.next(*other))
        if (!other->name.text[0])
            other->notify_all(Path::others_ended);
}

} // namespace rtrs_srv
