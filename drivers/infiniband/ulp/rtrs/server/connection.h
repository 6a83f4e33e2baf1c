// SPDX-License-Identifier: GPL-2.0
// One connection of a path: from the client's request for it to its end. Its events only set bits and notify the path.
#pragma once

#include "buffer.h"
#include "chunk.h"

#include "../common/connect.h"
#include "../common/immediate.h"

#include <hawser/work.h>
#include <kapi/wait.h>

namespace rtrs_srv {

class Context;
class Path;

class Connection : Pinned {
public:
    // Event. Null: no memory; then cm is not taken.
    static Own<Connection> asked(Context& context, kapi_cm* cm, kapi_cm_space space, const ConnectRequest& request,
                                 const kapi_cm_info& info);
    // Sleeps. end() came before, or open() did not.
    ~Connection();

    const ConnectRequest& request() const { return request_; }
    const kapi_cm_info& info() const { return info_; }
    kapi_cm_space space() const { return space_; }
    Path& path() const { return *path_; }
    bool has_ended() const { return ended_.load(); }
    // Any context. It belongs to path, which is notified of what happens from now on. False: it has ended before.
    [[nodiscard]] bool join(Path& path);
    // Sleeps. Makes the queues and accepts. After an error reject() may report it to the client.
    Result<> open();
    void reject(Errno error);
    // Sleeps. Nothing more is posted or given to the user, and the client is notified. What waited for either is given up.
    void stop();
    // Sleeps, after stop(). Nothing is posted or received any more when this returns, and the device has nothing of it. A call of
    // the user may still run: it counts as an operation of the path. False: the device is broken and may use for ever what was
    // posted.
    bool end();

    // Done, or the path's worker. The first step of an operation that has begun over it.
    void start(Operation& op);
    // Any context. The operation has begun; its path's worker starts it.
    static void defer(Operation& op);
    // Any context. The operation ends without an answer.
    static void finish(Operation& op);
    // Done, or the path's worker. An operation of the path, maybe of another connection, is to be given to the user, by a work;
    // it is not if this connection ends.
    void process(Operation& op);
    // Any context. The operation is not the user's any more; error is positive.
    void answer(Operation& op, int error);

    // Any context. A heartbeat, or the answer to one: at the latest when there is room.
    void send_heartbeat(ImmediateType type);
    // Sleeps, the path's worker: of the service connection, before there are requests. Validates as many regions from first on as
    // the queue takes and returns how many; the path is notified when they are valid.
    Result<u32> register_regions(u32 first);
    Result<> send_info(const Buffer& response, u32 length);
    // The request for information, when the path was notified of it.
    Bytes info_request() const;

    Connection* next = nullptr; // in a list of those that are asked for
    bool refused = false;       // its path ended before it was opened
    u64 rejected_ns = KAPI_FOREVER; // when it is, if it waits for the end of a path until then
    u64 awaited_until_ns = 0;       // what it has set in its session; 0: it asks about the end of a path, and comes in no place

private:
    HW_MADE_BY_CREATE;
    Connection(Context& context, kapi_cm_space space, const ConnectRequest& request, const kapi_cm_info& info)
        : context_(context), space_(space), request_(request), info_(info)
    {
    }

    enum class Kind : u8 { receive, receive_info, send, invalidate, registered, info_sent };
    static u64 cookie(Kind kind, u32 position = 0, u32 chunk = 0)
    {
        return u64{static_cast<u8>(kind)} << 56 | u64{chunk} << 32 | position;
    }
    static constexpr kapi_cm_ops cm_ops();
    static void on_ended(void* context, const kapi_cm_end* end);
    static void on_done(void* context, const kapi_wc* wcs, unsigned n);
    bool is_service() const { return request_.connection == 0; }

    Result<u32> make_queues();
    Result<> post_first_receives(u32 count);
    Result<> post_receives(u32 count);
    void done(const kapi_wc* wcs, unsigned n);
    void sent(const kapi_wc& wc);
    void failed(const kapi_wc& wc);
    void received(const kapi_wc& wc);
    void queue_calls() HW_REQUIRES(lock_);
    void call_user(); // the work
    Operation* next_call();
    void give_to_user(Operation& op);
    bool immediate_arrived(u32 imm); // false: the protocol forbids it
    bool request_arrived(u32 payload);
    void lost();

    // The send queue, answer.cc.
    void read_header(Operation& op);
    enum class Next { waits, frees, frees_and_begins, gives_up };
    bool submit(Operation& op);
    void after_step(Operation& op, Next next, bool broke);
    void make_progress();
    Connection& registrar(u32 chunk);
    bool has_completed(u32 position);
    bool has_room(u32 requests) HW_REQUIRES(lock_);
    Result<> post(kapi_wr* wrs, u32 count, Kind kind, bool signal, u32 chunk = 0) HW_REQUIRES(lock_);
    Result<> post_if_open(kapi_wr* wrs, u32 count, Kind kind);
    Next post_step(Operation& op) HW_REQUIRES(lock_);
    bool post_answer(Operation& op) HW_REQUIRES(lock_);
    void post_heartbeats() HW_REQUIRES(lock_);
    Operation* pop_waiting() HW_REQUIRES(lock_);
    u32 capacity_of_queue();

    Context& context_;
    const kapi_cm_space space_; // of the addresses
    const ConnectRequest request_;
    const kapi_cm_info info_;
    Path* path_ = nullptr;
    Atomic<bool> joined_{false};
    Atomic<bool> ended_{false};
    bool accepted_ = false;
    u32 info_bytes_ = 0; // of the request that was received
    Buffer info_message_;

    CmEnd cm_;
    CompletionQueue cq_;
    QueuePair qp_;
    Share share_;

    Spin<SendLock> lock_;
    bool open_ HW_GUARDED_BY(lock_) = false;
    u32 capacity_ HW_GUARDED_BY(lock_) = 0;
    // Positions in the send queue, of what was posted, of the last that reports its completion, and of the last that completed.
    u32 posted_ HW_GUARDED_BY(lock_) = 0, signalled_ HW_GUARDED_BY(lock_) = 0, completed_ HW_GUARDED_BY(lock_) = 0;
    Operation* first_ HW_GUARDED_BY(lock_) = nullptr; // that wait for room
    Operation** end_ HW_GUARDED_BY(lock_) = &first_;
    bool heartbeat_due_ HW_GUARDED_BY(lock_) = false, ack_due_ HW_GUARDED_BY(lock_) = false;
    Operation* first_call_ HW_GUARDED_BY(lock_) = nullptr; // that the user is to get
    Operation** calls_end_ HW_GUARDED_BY(lock_) = &first_call_;
    Work<Connection, &Connection::call_user> calls_{*this};
};

} // namespace rtrs_srv
