// SPDX-License-Identifier: GPL-2.0
#include "path.h"

#include "context.h"
#include "sysfs.h"

#include "../common/path_name.h"

namespace rtrs_srv {

namespace {

constexpr u64 half_open_ns = 30'000'000'000; // in which a path is to have all its connections and its information
constexpr u32 half_open_tick_ms = 5000;
// In which another one of the client's between the same addresses is refused: an older request may arrive late.
constexpr u64 half_open_stays_ns = 3'000'000'000;
constexpr u64 ms = 1'000'000;

kapi_addr without_port(kapi_addr addr)
{
    addr.port = 0;
    return addr;
}

} // namespace

Path::Path(Session& session, const Connection& first)
    : session_(Ref<Session>::share(session)), uuid_(first.request().path), client_(without_port(first.info().remote)),
      server_(without_port(first.info().local)), space_(first.space()), dev_(first.info().dev), device_port_(first.info().port),
      count_(first.request().connections), reconnects_(first.request().reconnects), may_begin_(first.request().first)
{
}

Path::~Path()
{
    for (u32 i = 0; connections_ && i < count_; i++)
        dispose(connections_[i]);
    kapi_free(static_cast<void*>(connections_));
    kapi_free(held_);
}

void Path::destroy(Path* path) { dispose(path); }

Result<Ref<Path>> Path::create(Session& session, const Connection& first)
{
    auto path = Ref<Path>::adopt(make<Path>(Alloc::sleep, session, first));
    if (!path)
        return fail(KAPI_ENOMEM);
    TRY(path->stats.make());
    path->connections_ = static_cast<Connection**>(kapi_zalloc(path->count_ * sizeof(Connection*), KAPI_SLEEP));
    if (!path->connections_)
        return fail(KAPI_ENOMEM);
    return path;
}

Result<> Path::begin()
{
    device_ = TRY(Module::get().devices.enter(dev_, *this, user_)); // it may be gone by now, with the path's end
    arm_timer();
    return {};
}

// ---- events

void Path::notify(u32 events)
{
    Guard guard(lock_);
    events_ |= events;
    work_.queue(Module::get().workqueue);
}

void Path::connection_ended()
{
    over_.exchange(true);
    notify(lost);
}

u32 Path::take_events()
{
    Guard guard(lock_);
    return std::exchange(events_, 0);
}

void Path::on_timer() { notify(ticked); }

void Path::arm_timer()
{
    u32 interval = session_->heartbeat_interval_ms.load_relaxed();
    timer_.mod(Module::get().workqueue, u64{info_ == Info::given ? interval : min(interval, half_open_tick_ms)} * ms);
}

bool Path::is_closing()
{
    Guard guard(lock_);
    return state_.is(PathState::closing);
}

bool Path::is_over()
{
    Guard guard(lock_);
    return over_.load() || state_.is(PathState::closing) || state_.is(PathState::ended);
}

bool Path::gives_way()
{
    {
        Guard guard(lock_);
        if (!state_.is(PathState::connecting))
            return !state_.is(PathState::connected) || over_.load();
        if (!over_.load() && kapi_now_ns() - made_ns_ < half_open_stays_ns)
            return false;
    }
    connection_ended();
    return true;
}

void Path::operation_ended()
{
    if (operations_.fetch_sub(1) == 1)
        notify(idle); // the work ends the path as soon as the lock is free
}

void Path::defer(Operation& op)
{
    Guard guard(lock_);
    op.next = nullptr;
    *deferred_end_ = &op;
    deferred_end_ = &op.next;
    events_ |= deferred;
    work_.queue(Module::get().workqueue);
}

void Path::run_deferred(bool open)
{
    Operation* op;
    {
        Guard guard(lock_);
        op = std::exchange(deferred_, nullptr);
        deferred_end_ = &deferred_;
    }
    while (op) {
        Operation* next = op->next;
        if (open)
            op->connection->start(*op);
        else
            Connection::finish(*op);
        op = next;
    }
}

// A client counts its attempts at a path, modulo 2^16. A request of an earlier one that arrives late says nothing about this one.
bool Path::is_of_later_attempt(const ConnectRequest& request) const
{
    return static_cast<short>(request.reconnects - reconnects_) > 0;
}

bool Path::make_way(const ConnectRequest& request)
{
    if (!is_of_later_attempt(request) || (has_successor_ && request.reconnects != successor_))
        return false;
    has_successor_ = true;
    successor_ = request.reconnects;
    notify(lost);
    return true;
}

bool Path::end_for(const ConnectRequest& request)
{
    if (!is_of_later_attempt(request))
        return false;
    notify(lost);
    return true;
}

void Path::forget_successor(const ConnectRequest& request)
{
    if (has_successor_ && request.reconnects == successor_)
        has_successor_ = false;
}

// Between the same addresses, over the same device.
bool Path::is_of(const kapi_cm_info& info) const
{
    return info.dev == dev_ && same_host(info.remote, client_) && same_host(info.local, server_);
}

Result<> Path::offer(Own<Connection>& connection)
{
    const ConnectRequest& request = connection->request();
    if (!is_of(connection->info()) || request.reconnects != reconnects_) // a late one of an earlier attempt has no client
        return fail(KAPI_ECONNRESET);
    u32 events = 0;
    {
        Guard guard(lock_);
        if (!state_.is(PathState::connecting) || request.connections != count_)
            return fail(KAPI_ECONNRESET);
        Connection*& place = connections_[request.connection]; // less than connections: parse_connect_request()
        if (place)
            return fail(KAPI_ECONNRESET);
        // Before the worker sees it, which may end and free it at once.
        if (!connection->join(*this)) {
            over_.exchange(true);
            events = lost;
        }
        place = connection.get();
        place->next = std::exchange(arrivals_, place);
        static_cast<void>(connection.release());
    }
    notify(events | arrived);
    return {};
}

// ---- the work

void Path::work()
{
    u32 events = take_events();
    PathState state;
    {
        Guard guard(lock_);
        state = state_.state();
    }
    bool open = state == PathState::connecting || state == PathState::connected;
    run_deferred(open);
    if (open) {
        auto advanced = events & (lost | violated) ? Result<>(fail(KAPI_ECONNRESET)) : advance(events);
        if (events & violated)
            kapi_log(KAPI_LOG_WARN, "rtrs_server: a client violates the protocol, its path ends");
        if (!advanced)
            close();
    }
    if (events & idle)
        queue_end();
}

Result<> Path::advance(u32 events)
{
    if (events & arrived)
        TRY(open_arrivals());
    TRY(give_info(events));
    if (events & ticked)
        TRY(tick());
    if (events & (ticked | changed))
        arm_timer();
    if (events & lives)
        begin_held();
    return {};
}

Result<> Path::open_arrivals()
{
    for (;;) {
        Connection* connection;
        {
            Guard guard(lock_);
            connection = arrivals_;
            if (connection)
                arrivals_ = connection->next;
        }
        if (!connection)
            return {};
        if (auto opened = open_one(*connection); !opened) {
            connection->reject(opened.error());
            return opened;
        }
        opened_++;
    }
}

Result<> Path::open_one(Connection& connection)
{
    if (!regions_)
        TRY(prepare());
    return connection.open();
}

// ---- time

Result<> Path::tick()
{
    if (info_ != Info::given)
        return kapi_now_ns() - made_ns_ < half_open_ns ? Result<>() : fail(KAPI_ETIMEDOUT);
    switch (heartbeat.tick(session_->heartbeat_missed.load_relaxed())) {
    case Heartbeat::Action::send:
        service().send_heartbeat(ImmediateType::heartbeat);
        return {};
    case Heartbeat::Action::wait:
        return {};
    case Heartbeat::Action::dead:
        kapi_log(KAPI_LOG_WARN, "rtrs_server: over %s a client is silent, its path ends", device_name());
        return fail(KAPI_ETIMEDOUT);
    }
    return {};
}

// ---- which path the client has lost

// One at a time, however many requests wait: the peer has room for few.
void Path::ask_for_life()
{
    if (!life_wanted_.exchange(true))
        service().send_heartbeat(ImmediateType::heartbeat);
}

void Path::beat_answered()
{
    beats_answered_.fetch_add(1);
    if (life_wanted_.load())
        notify(lives);
}

void Path::begin_held()
{
    life_wanted_.exchange(false);
    bool unknown = false;
    for (u32 i = 0; i < session_->chunks.count(); i++)
        if (session_->chunks[i].path_lives(held_[i], unknown))
            Connection::defer(session_->chunks[i].op);
    if (unknown)
        ask_for_life();
}

// ---- folders

Result<> Path::make_folders(kapi_sysfs_dir* parent)
{
    char name[max_path_name + 1];
    Text text(name, max_path_name);
    write_path_name(text, space_, client_, server_);
    name[text.length()] = '\0';
    auto files = path_files(), stats = stats_files();
    TRY(check(kapi_sysfs_dir_create(parent, name, files.data(), static_cast<u32>(files.size()), this, &folder_)));
    u32 count = static_cast<u32>(stats.size());
    auto made = check(kapi_sysfs_dir_create(folder_, "stats", stats.data(), count, this, &stats_folder_));
    if (!made)
        kapi_sysfs_remove(std::exchange(folder_, nullptr));
    return made;
}

bool Path::remove_folders()
{
    if (!folder_)
        return false;
    kapi_sysfs_remove(std::exchange(stats_folder_, nullptr));
    kapi_sysfs_remove(std::exchange(folder_, nullptr));
    return true;
}

// ---- tracepoints

namespace {

const char* name_of(PathState state)
{
    switch (state) {
    case PathState::connecting:
        return "connecting";
    case PathState::connected:
        return "connected";
    case PathState::closing:
        return "closing";
    case PathState::ended:
        return "ended";
    }
    return "";
}

} // namespace

void Path::change(PathEvent event)
{
    PathState before = state_.state();
    state_.must(event);
    if (kapi_traces(KAPI_TRACE_RTRS_SERVER_PATH)) {
        kapi_trace_rtrs_ends ends{server_.ip, client_.ip};
        kapi_trace_rtrs_path(KAPI_TRACE_RTRS_SERVER_PATH, &ends, name_of(before), name_of(state_.state()), 0);
    }
    kapi_log(state_.is(PathState::connected) ? KAPI_LOG_INFO : KAPI_LOG_DEBUG,
             "rtrs_server: over %s a client's path is %s, after %s", device_name(), name_of(state_.state()), name_of(before));
}

void Path::trace(kapi_trace event, const Operation& op) const
{
    kapi_trace_rtrs_ends ends{server_.ip, client_.ip};
    u32 length = op.request.data_bytes + op.request.user_bytes;
    int error = event == KAPI_TRACE_RTRS_SERVER_ANSWER ? op.error : 0;
    kapi_trace_rtrs_io request{op.chunk, length, op.request.is_read, error, 0};
    kapi_trace_rtrs_request(event, &ends, &request);
}

} // namespace rtrs_srv
