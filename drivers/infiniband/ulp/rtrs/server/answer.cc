// SPDX-License-Identifier: GPL-2.0
// The send queue of a connection. What a request needs of it (an invalidation, then its answer) is posted at once or waits for
// room, in order. A chunk is free from before its answer is posted, because then the client may use it again.
#include "connection.h"

#include "context.h"

namespace rtrs_srv {

namespace {

constexpr u32 longest_answer = 4; // requests: the data, the registration, the invalidation, the answer itself
constexpr u32 kept_free = 8;      // for heartbeats, which nothing else may delay
constexpr u32 signal_interval = 32;
constexpr u32 registrations = 64; // at a time

} // namespace

bool Connection::has_room(u32 requests)
{
    return capacity_ - (posted_ - completed_) >= requests + kept_free;
}

// Whether an error leaves some of them posted does not matter: the path is lost.
Result<> Connection::post(kapi_wr* wrs, u32 count, Kind kind, bool signal, u32 chunk)
{
    for (u32 i = 0; i < count; i++) {
        wrs[i].next = i + 1 < count ? &wrs[i + 1] : nullptr;
        wrs[i].cookie = cookie(Kind::send);
    }
    kapi_wr& last = wrs[count - 1];
    posted_ += count;
    last.cookie = cookie(kind, posted_, chunk);
    if (signal || posted_ - signalled_ >= min(signal_interval, capacity_ / 4)) {
        last.flags |= KAPI_WR_SIGNALED;
        signalled_ = posted_;
    }
    kapi_wr* bad;
    auto posted = check(kapi_qp_send(qp_.get(), wrs, &bad));
    if (!posted)
        open_ = false;
    return posted;
}

void Connection::post_heartbeats()
{
    for (ImmediateType type : {ImmediateType::heartbeat, ImmediateType::heartbeat_ack}) {
        bool& due = type == ImmediateType::heartbeat ? heartbeat_due_ : ack_due_;
        if (!due || !open_ || capacity_ - (posted_ - completed_) < 1)
            continue;
        due = false;
        if (type == ImmediateType::heartbeat)
            path_->beat_sent();
        kapi_wr wr{};
        wr.op = KAPI_WR_WRITE_IMM;
        wr.imm = write_immediate(type);
        static_cast<void>(post(&wr, 1, Kind::send, true)); // open_ says whether it was
    }
}

void Connection::send_heartbeat(ImmediateType type)
{
    {
        Guard guard(lock_);
        (type == ImmediateType::heartbeat ? heartbeat_due_ : ack_due_) = true;
    }
    make_progress();
}

// ---- operations

void Connection::defer(Operation& op)
{
    op.connection->path().defer(op);
}

// The operation ends without an answer, or after it: the next one in its chunk begins.
void Connection::finish(Operation& op)
{
    Path& path = op.connection->path();
    if (path.session().chunks[op.chunk].release())
        defer(op);
    path.operation_ended();
}

// Once, and at once. A client that has lost a path sends its requests again over another one, with other keys to its memory: what
// it sent before, and is late, may lie over this header soon. Else the two are the same.
void Connection::read_header(Operation& op)
{
    const u32 size = Module::get().settings.geometry.chunk_bytes();
    path_->regions().sync(op.chunk, op.offset, min<u32>(size - op.offset, max_request_header), KAPI_MAP_FOR_CPU);
    auto read = parse_request({path_->session().chunks[op.chunk].memory, size}, op.offset, op.request);
    // Users do not look at how long a message is (RNBD): there are as many bytes behind the data as the longest may have.
    if (read && op.request.data_bytes > size - header_bytes)
        read = fail(KAPI_EINVAL);
    op.error = read ? 0 : read.error().code();
}

void Connection::start(Operation& op)
{
    read_header(op);
    if (!Module::get().settings.always_invalidate)
        process(op);
    else if (!registrar(op.chunk).submit(op))
        finish(op);
}

// A client need not have waited for the answer before: the registration that came with it may still be in the send queue of the
// connection of that answer. There the invalidation is executed after it; over another connection it might be executed first, and
// the key would be valid while the user has the chunk.
Connection& Connection::registrar(u32 chunk)
{
    const Regions::Posted& last = path_->regions().last_registration(chunk);
    return last.by && last.by != this && !last.by->has_completed(last.position) ? *last.by : *this;
}

bool Connection::has_completed(u32 position)
{
    Guard guard(lock_);
    return static_cast<int>(completed_ - position) >= 0;
}

void Connection::answer(Operation& op, int error)
{
    op.error = error;
    if (op.given)
        path_->stats.answered();
    if (kapi_traces(KAPI_TRACE_RTRS_SERVER_ANSWER))
        path_->trace(KAPI_TRACE_RTRS_SERVER_ANSWER, op);
    op.step = Operation::Step::answering;
    if (!submit(op))
        finish(op);
}

// False: the connection is over, and the operation still the caller's. Else it may be answered by now, and with the last one the
// path and its connections end: a user's thread uses neither after this.
bool Connection::submit(Operation& op)
{
    Next next = Next::waits;
    bool broke;
    {
        Guard guard(lock_);
        if (!open_)
            return false;
        if (!first_ && has_room(longest_answer)) {
            next = post_step(op);
        } else { // completions that are still to come make room, and progress
            op.next = nullptr;
            *end_ = &op;
            end_ = &op.next;
        }
        broke = !open_;
    }
    after_step(op, next, broke);
    return true;
}

// The path may be gone when this returns, unless the caller is its work or its completions.
void Connection::after_step(Operation& op, Next next, bool broke)
{
    if (broke)
        lost();
    if (next == Next::gives_up) {
        finish(op);
    } else if (next != Next::waits) {
        Path& path = *path_;
        if (next == Next::frees_and_begins)
            defer(op);
        path.operation_ended();
    }
}

Operation* Connection::pop_waiting()
{
    Operation* op = first_;
    first_ = op->next;
    if (!first_)
        end_ = &first_;
    return op;
}

// Done, or the path's worker.
void Connection::make_progress()
{
    Operation* op;
    do {
        Next next = Next::waits;
        bool broke;
        {
            Guard guard(lock_);
            bool was_open = open_;
            op = nullptr;
            if (open_)
                post_heartbeats();
            if (first_ && (!open_ || has_room(longest_answer))) {
                op = pop_waiting();
                next = open_ ? post_step(*op) : Next::gives_up;
            }
            broke = was_open && !open_;
        }
        if (op)
            after_step(*op, next, broke);
        else if (broke)
            lost();
    } while (op);
}

Connection::Next Connection::post_step(Operation& op)
{
    if (op.step == Operation::Step::answering)
        return post_answer(op) ? Next::frees_and_begins : Next::frees;
    op.step = Operation::Step::invalidating;
    kapi_wr wr{};
    wr.op = KAPI_WR_INVALIDATE;
    wr.key = kapi_mr_key(path_->regions().region_of_chunk(op.chunk));
    return post(&wr, 1, Kind::invalidate, true, op.chunk) ? Next::waits : Next::gives_up;
}

// True: the next operation of the chunk begins, and op is that one. The registration is first, because it may wait for all before
// it (kapi/linux/verbs_hold.c): a client that writes with the new key before its answer has arrived writes over that.
bool Connection::post_answer(Operation& op)
{
    Regions& regions = path_->regions();
    const Request request = op.request;
    const u32 chunk = op.chunk;
    const bool has_data = !op.error && request.is_read && request.has_target;
    const bool invalidates = request.has_target && request.invalidate;
    kapi_wr wrs[longest_answer] = {};
    kapi_sge data = regions.data(chunk, request.target.length), key_message;
    u32 n = 0;
    kapi_wr& last = wrs[longest_answer - 1];
    last.op = KAPI_WR_WRITE_IMM;
    if (Module::get().settings.always_invalidate) {
        kapi_wr& valid = wrs[n++];
        valid.op = KAPI_WR_REGISTER;
        valid.flags = KAPI_WR_EARLY;
        valid.mr = regions.region_of_chunk(chunk);
        valid.access = KAPI_ACCESS_LOCAL_WRITE | KAPI_ACCESS_REMOTE_WRITE;
        const u32 key = kapi_mr_next_key(valid.mr);
        if (!request_.whole_answers) {
            key_message = regions.write_key_message(chunk, key);
            last.op = KAPI_WR_SEND_IMM;
            last.sges = &key_message;
            last.n_sges = 1;
        }
    }
    if (has_data) {
        regions.sync(chunk, 0, request.target.length, KAPI_MAP_FOR_DEVICE);
        const bool whole = request_.whole_answers && !invalidates;
        kapi_wr& write = whole ? last : wrs[n++];
        if (!whole)
            write.op = KAPI_WR_WRITE;
        write.sges = &data;
        write.n_sges = 1;
        write.remote = request.target.address;
        write.key = request.target.key;
    }
    if (invalidates) {
        kapi_wr& invalidate = wrs[n++];
        invalidate.op = KAPI_WR_SEND_INV;
        invalidate.key = request.target.key;
    }
    last.imm = write_immediate(invalidates ? ImmediateType::response_invalidated : ImmediateType::response,
                               answer_payload({chunk, op.error}));
    if (n < longest_answer - 1)
        wrs[n] = last;
    regions.last_registration(chunk) = {this, posted_ + n + 1};
    bool again = path_->session().chunks[chunk].release();
    static_cast<void>(post(wrs, n + 1, Kind::send, false)); // open_ says whether they were
    return again;
}

// ---- the service connection

Result<u32> Connection::register_regions(u32 first)
{
    Regions& regions = path_->regions();
    u32 n = min(min(regions.count() - first, registrations), capacity_of_queue() / 2);
    auto* wrs = static_cast<kapi_wr*>(kapi_zalloc(n * sizeof(kapi_wr), KAPI_SLEEP));
    if (!wrs)
        return fail(KAPI_ENOMEM);
    for (u32 i = 0; i < n; i++) {
        wrs[i].op = KAPI_WR_REGISTER;
        wrs[i].mr = regions.region(first + i);
        wrs[i].access = KAPI_ACCESS_LOCAL_WRITE | KAPI_ACCESS_REMOTE_WRITE;
    }
    Result<> posted = post_if_open(wrs, n, Kind::registered);
    kapi_free(wrs);
    TRY(posted);
    return n;
}

Result<> Connection::send_info(const Buffer& response, u32 length)
{
    kapi_sge sge = response.sge(0, length);
    kapi_wr wr{};
    wr.op = KAPI_WR_SEND;
    wr.sges = &sge;
    wr.n_sges = 1;
    return post_if_open(&wr, 1, Kind::info_sent);
}

Result<> Connection::post_if_open(kapi_wr* wrs, u32 count, Kind kind)
{
    Guard guard(lock_);
    return open_ ? post(wrs, count, kind, true) : fail(KAPI_ECONNRESET);
}

u32 Connection::capacity_of_queue()
{
    Guard guard(lock_);
    return capacity_;
}

} // namespace rtrs_srv
