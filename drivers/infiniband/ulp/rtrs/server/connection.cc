// SPDX-License-Identifier: GPL-2.0
#include "connection.h"

#include "context.h"

#include <hawser/queue_memory.h>

namespace rtrs_srv {

namespace {

constexpr u8 for_ever = 7;        // while the client has no receive posted, it lives
constexpr u8 rnr_timer = 10;      // 0.32 ms
constexpr u8 ack_timeout = 17;    // 0.54 s; without it the client would choose
constexpr u32 service_requests = 2 * service_queue_depth + 2;
constexpr u32 requests_per_answer = 5, requests_per_short_answer = 3; // with an invalidation and a registration, and without
constexpr u32 least_requests = 64; // in a send queue, and in a receive queue
constexpr u32 info_bytes = sizeof(wire::InfoRequest);
constexpr u32 calls_at_once = 256; // of the user, and others get the processor

} // namespace

constexpr kapi_cm_ops Connection::cm_ops()
{
    // The path is up when the client asks for information, which it does when all its connections are established.
    return {.resolved = nullptr, .established = [](void*, const void*, kapi_size) {}, .ended = on_ended};
}

Own<Connection> Connection::asked(Context& context, kapi_cm* cm, kapi_cm_space space, const ConnectRequest& request,
                                  const kapi_cm_info& info)
{
    static constexpr kapi_cm_ops ops = cm_ops();
    Own<Connection> connection(make<Connection>(Alloc::atomic, context, space, request, info));
    if (connection) {
        kapi_cm_attach(cm, &ops, connection.get());
        connection->cm_.reset(cm);
    }
    return connection;
}

Connection::~Connection() = default;

bool Connection::join(Path& path)
{
    path_ = &path;
    joined_.exchange(true);
    return !has_ended();
}

void Connection::on_ended(void* context, const kapi_cm_end*)
{
    Connection& connection = *static_cast<Connection*>(context);
    connection.ended_.exchange(true);
    if (connection.joined_.load())
        connection.path().connection_ended();
    else
        connection.context_.notify();
}

void Connection::reject(Errno error)
{
    if (error == Errno(KAPI_ENOMEM))
        kapi_log(KAPI_LOG_WARN, "rtrs_server: a client is refused: there is no memory, or clients have all that they may have");
    wire::ConnectResponse response = write_rejection(error);
    kapi_cm_reject(cm_.get(), &response, sizeof(response));
}

Result<> Connection::open()
{
    if (has_ended())
        return fail(KAPI_ECONNRESET);
    u32 receives = TRY(make_queues());
    {
        Guard guard(lock_);
        open_ = true;
    }
    TRY(post_first_receives(receives));
    const Settings& settings = Module::get().settings;
    wire::ConnectResponse response = write_acceptance(settings.geometry, settings.always_invalidate, request_.whole_answers);
    kapi_cm_options options{};
    options.data = &response;
    options.size = sizeof(response);
    options.rnr_retry = for_ever;
    options.rnr_timer = rnr_timer;
    options.ack_timeout = ack_timeout;
    TRY(check(kapi_cm_accept(cm_.get(), &options)));
    accepted_ = true;
    return {};
}

// Returns how many receives may be posted at a time.
Result<u32> Connection::make_queues()
{
    const Settings& settings = Module::get().settings;
    const kapi_rdma_attrs& attrs = path_->device().attrs;
    u32 depth = settings.geometry.queue_depth();
    u32 per_request = settings.always_invalidate ? requests_per_answer : requests_per_short_answer;
    u32 receives = is_service() ? service_requests : depth + 1, sends = is_service() ? service_requests : depth * per_request + 1;
    // Both queues report to one; of each the drain takes an entry.
    if (attrs.max_wr < least_requests || attrs.max_cqe < 2 * least_requests + 2)
        return fail(KAPI_EOPNOTSUPP);
    u32 most = attrs.max_cqe - 2;
    receives = min(max(receives, least_requests), min(attrs.max_wr, most / 2));
    sends = min(max(sends, least_requests), min(attrs.max_wr, most - receives));
    kapi_qp_caps caps{sends, receives, 1, 1, 0};
    u32 completions = receives + sends + 2;
    share_ = TRY(Share::of(Module::get().budget, bytes_of_queue_pair(caps) + bytes_of_completions(completions)));
    kapi_cq* cq = nullptr;
    TRY(check(kapi_cq_create(path_->device().dev, completions, request_.connection, KAPI_CQ_SOFTIRQ, on_done, this, &cq)));
    cq_.reset(cq);
    kapi_qp* qp = nullptr;
    TRY(check(kapi_qp_create(cm_.get(), path_->regions().pd(), &caps, cq, cq, this, &qp)));
    qp_.reset(qp);
    Guard guard(lock_);
    capacity_ = sends;
    return receives;
}

Result<> Connection::post_first_receives(u32 count)
{
    if (is_service()) {
        info_message_ = TRY(Buffer::create(path_->device().dev, path_->regions().pd(), info_bytes, KAPI_MAP_FROM_DEVICE));
        kapi_sge sge = info_message_.sge(0, info_bytes);
        kapi_recv_wr wr{.next = nullptr, .cookie = cookie(Kind::receive_info), .sges = &sge, .n_sges = 1, .pad = 0, .opaque = {}};
        kapi_recv_wr* bad;
        TRY(check(kapi_qp_recv(qp_.get(), &wr, &bad)));
        count--;
    }
    for (u32 posted = 0; posted < count;) {
        u32 n = min(count - posted, u32{KAPI_CQ_BATCH});
        TRY(post_receives(n));
        posted += n;
    }
    return {};
}

// At most KAPI_CQ_BATCH, for immediate data alone.
Result<> Connection::post_receives(u32 count)
{
    HW_UNINITIALIZED kapi_recv_wr wrs[KAPI_CQ_BATCH];
    for (u32 i = 0; i < count; i++) {
        wrs[i].next = i + 1 < count ? &wrs[i + 1] : nullptr;
        wrs[i].cookie = cookie(Kind::receive);
        wrs[i].sges = nullptr;
        wrs[i].n_sges = 0;
    }
    kapi_recv_wr* bad;
    Guard guard(lock_);
    return open_ ? check(kapi_qp_recv(qp_.get(), wrs, &bad)) : Result<>();
}

void Connection::lost()
{
    path_->notify(Path::lost);
}

Bytes Connection::info_request() const
{
    return {info_message_.bytes(), info_bytes_};
}

// ---- completions

void Connection::on_done(void* context, const kapi_wc* wcs, unsigned n)
{
    static_cast<Connection*>(context)->done(wcs, n);
}

void Connection::done(const kapi_wc* wcs, unsigned n)
{
    path_->stats.completions(n);
    u32 receives = 0;
    for (unsigned i = 0; i < n; i++)
        receives += wcs[i].status == KAPI_WC_OK && static_cast<Kind>(wcs[i].cookie >> 56) <= Kind::receive_info;
    if (receives && !post_receives(receives))
        lost();
    for (unsigned i = 0; i < n; i++) {
        if (wcs[i].status != KAPI_WC_OK)
            failed(wcs[i]);
        else if (static_cast<Kind>(wcs[i].cookie >> 56) <= Kind::receive_info)
            received(wcs[i]);
        else
            sent(wcs[i]);
    }
    make_progress();
}

void Connection::failed(const kapi_wc& wc)
{
    if (const char* text = text_of(wc.status))
        kapi_log(KAPI_LOG_WARN, "rtrs_server: over %s a client %s", path_->device_name(), text);
    lost();
    if (static_cast<Kind>(wc.cookie >> 56) == Kind::invalidate)
        finish(path_->session().chunks[wc.cookie >> 32 & 0xffff].op);
}

void Connection::sent(const kapi_wc& wc)
{
    {
        Guard guard(lock_);
        completed_ = static_cast<u32>(wc.cookie);
    }
    Kind kind = static_cast<Kind>(wc.cookie >> 56);
    if (kind == Kind::invalidate)
        process(path_->session().chunks[wc.cookie >> 32 & 0xffff].op);
    else if (kind == Kind::registered)
        path_->notify(Path::registered);
    else if (kind == Kind::info_sent)
        path_->notify(Path::info_sent);
}

void Connection::received(const kapi_wc& wc)
{
    path_->heartbeat.received();
    if (wc.op == KAPI_WC_RECV && static_cast<Kind>(wc.cookie >> 56) == Kind::receive_info) {
        info_message_.sync(0, info_bytes, KAPI_MAP_FOR_CPU);
        info_bytes_ = min(wc.length, info_bytes);
        path_->notify(Path::info_asked);
        return;
    }
    if (wc.op != KAPI_WC_RECV_WRITE_IMM || !immediate_arrived(wc.imm))
        path_->notify(Path::violated);
}

bool Connection::immediate_arrived(u32 imm)
{
    auto immediate = parse_immediate(imm);
    if (!immediate)
        return false;
    switch (immediate->type) {
    case ImmediateType::request:
        return request_arrived(immediate->payload);
    case ImmediateType::heartbeat:
        send_heartbeat(ImmediateType::heartbeat_ack);
        return true;
    case ImmediateType::heartbeat_ack:
        path_->beat_answered();
        return true;
    default:
        return false;
    }
}

bool Connection::request_arrived(u32 payload)
{
    auto place = Module::get().settings.geometry.place_of(payload);
    if (!place || !path_->takes_requests())
        return false;
    Chunk& chunk = path_->session().chunks[place->chunk];
    Chunk::Arrival arrival = chunk.arrived(*this, place->offset, path_->held(place->chunk));
    if (arrival == Chunk::Arrival::begins)
        start(chunk.op);
    else if (arrival == Chunk::Arrival::waits)
        path_->ask_for_life();
    return arrival != Chunk::Arrival::refused;
}

// ---- the user

// The user's call may take as long as a disk does, and completions do not wait for it: heartbeats are answered, and each request
// has its chunk from its arrival on. Else one that the client sends again over another path, because it has lost this one, could
// be answered first, and this one begin when the client writes the next request into the chunk.
void Connection::process(Operation& op)
{
    {
        Guard guard(lock_);
        if (open_) {
            op.step = Operation::Step::with_user;
            op.next = nullptr;
            *calls_end_ = &op;
            calls_end_ = &op.next;
            queue_calls();
            return;
        }
    }
    finish(op);
}

// The path stays until the work has returned, which takes the lock first; so its end need not wait for a call.
void Connection::queue_calls()
{
    if (calls_.queue(path_->session().calls()))
        path_->operation_began();
}

// The regions are gone when the connection has been stopped.
Operation* Connection::next_call()
{
    Guard guard(lock_);
    if (!open_ || !first_call_)
        return nullptr;
    Operation* op = first_call_;
    first_call_ = op->next;
    if (!first_call_)
        calls_end_ = &first_call_;
    u32 size = Module::get().settings.geometry.chunk_bytes();
    path_->regions().sync(op->chunk, 0, min<u32>(size, op->offset + max_request_header), KAPI_MAP_FOR_CPU);
    return op;
}

void Connection::call_user()
{
    for (u32 i = 0; i < calls_at_once; i++) {
        Operation* op = next_call();
        if (!op)
            break;
        give_to_user(*op);
    }
    {
        Guard guard(lock_);
        if (open_ && first_call_)
            queue_calls();
    }
    path_->operation_ended(); // nothing of the path is used after this
}

void Connection::give_to_user(Operation& op)
{
    Session& session = path_->session();
    Chunk& chunk = session.chunks[op.chunk];
    if (!op.error && chunk.is_damaged()) {
        kapi_log(KAPI_LOG_WARN, "rtrs_server: over %s a request fails: what was read over a lost path lies over it",
                 path_->device_name());
        op.error = KAPI_EIO;
    }
    if (op.error)
        return op.connection->answer(op, op.error);
    const Request& request = op.request;
    auto message = op.message.copy(chunk.memory + request.data_bytes, request.user_bytes, Module::get().budget);
    if (!message)
        return op.connection->answer(op, message.error().code());
    path_->stats.request(request.is_read, u64{request.data_bytes} + request.user_bytes);
    if (kapi_traces(KAPI_TRACE_RTRS_SERVER_REQUEST))
        path_->trace(KAPI_TRACE_RTRS_SERVER_REQUEST, op);
    int err = session.context().call(session, op, chunk.memory, *message);
    if (err)
        op.connection->answer(op, err < 0 ? -err : err);
}

// ---- the end

void Connection::stop()
{
    Operation* op;
    {
        Guard guard(lock_);
        open_ = false;
        op = std::exchange(first_call_, nullptr);
        calls_end_ = &first_call_;
    }
    while (op) {
        Operation* next = op->next;
        finish(*op);
        op = next;
    }
    make_progress(); // what waited for room is given up
    if (accepted_)
        kapi_cm_disconnect(cm_.get());
}

bool Connection::end()
{
    if (calls_.cancel()) // a call that runs may last
        path_->operation_ended();
    bool drained = !qp_ || kapi_qp_drain(qp_.get()) == 0;
    qp_.reset();
    cm_.reset();
    cq_.reset();
    if (drained) {
        info_message_ = Buffer();
        share_ = Share();
        return true;
    }
    if (info_message_)
        info_message_.leak();
    share_.leak();
    return false;
}

} // namespace rtrs_srv
