// SPDX-License-Identifier: GPL-2.0
// The memory of a session, chunk by chunk, and whose each chunk is. Chunks belong to the session: after the loss of a path a user
// may still work on a request that came over it, and until that has ended no request in the chunk begins over another path.
//
// A client that has requests in one chunk over two paths has lost one of these, and has sent the request again over the other.
// The one over the lost path may be the first here, or the second, if it was late on its way. Which it is shows when the path
// ends, when the client uses the chunk again, or when it answers a heartbeat over the path that was sent after the request had
// come: then it has not lost that path, and those that came before over others are the lost ones. So the second one begins then,
// or when nothing arrives any more over the path of the first. A late one that began sooner would change what the client writes
// into the chunk next.
#pragma once

#include "../common/request.h"
#include "budget.h"
#include "message.h"

#include <hawser/atomic.h>

namespace rtrs_srv {

using namespace rtrs;

class Connection;
class Path;

// A request, from its arrival to its answer. It lies in its chunk; who has the chunk has it.
struct Operation {
    enum class Step : u8 {
        begins,       // nothing was done yet
        invalidating, // the client's key to the chunk ends
        with_user,
        answering,    // error is that of the answer
    };
    u32 direction = 0; // first: users may read it (include/rtrs-srv.h). 0: a read, 1: a write, as Linux numbers them
    u32 chunk = 0;
    Connection* connection = nullptr; // that it came over
    u32 offset = 0; // of the header
    Request request{}; // as its header says, which is read when it begins
    int error = 0; // of that, then of the answer, positive
    Step step = Step::begins;
    bool given = false;           // to the user, at least once
    bool follows_read = false;    // what was read for the request before it may have changed its message
    Operation* next = nullptr;    // in a queue of its connection or its path
    UserMessage message{}; // while the user has it
};

// A request that waits for its chunk, or for the end of the path of the one before. A path has one for each chunk.
struct Held {
    Connection* connection = nullptr; // null: none waits
    u32 offset = 0;
    u32 beats = 0; // heartbeats that its path had sent when it came
    bool lay_there = false; // while another one was in the chunk
    Held* next = nullptr;
};

class Chunk : Pinned {
public:
    enum class Arrival { begins, waits, refused };
    // Any context. A request: it begins as op; or it waits in held, which is its path's for this chunk; or it is refused, because
    // one of that path waits already.
    Arrival arrived(Connection& connection, u32 offset, Held& held);
    // Any context. The operation has ended. True: op is the next one, which begins.
    bool release();
    // Any context. The path of held is over.
    void forget(Held& held);
    // Any context. Nothing arrives over this path any more. True: op has waited for that, and begins.
    bool path_ended(const Path& path);
    // Any context. A heartbeat over the path of held was answered. True: op has waited for that, and begins. unknown is set
    // if held waits, and it takes another heartbeat to know whether its path lives.
    bool path_lives(const Held& held, bool& unknown);
    // Any context. An operation of that path which waits for an invalidation.
    bool is_invalidating(const Path& path);
    // What was read before overlaps op's message, or op is a write whose data it overlaps.
    bool is_damaged() const;

    u8* memory = nullptr;
    Operation op;

private:
    void begin(Connection& connection, u32 offset) HW_REQUIRES(lock_);
    void begin_first() HW_REQUIRES(lock_);
    void forget_all() HW_REQUIRES(lock_);
    bool forget_before_live() HW_REQUIRES(lock_);
    Spin<ChunkLock> lock_;
    bool busy_ HW_GUARDED_BY(lock_) = false;
    Held* first_ HW_GUARDED_BY(lock_) = nullptr;
    Held** end_ HW_GUARDED_BY(lock_) = &first_;
    const Path* after_ HW_GUARDED_BY(lock_) = nullptr; // whose end they wait for, if the chunk is not busy
    u32 last_data_bytes_ = 0; // of the request before, the owner's of op
};

// All chunks of a session.
class Chunks : Pinned {
public:
    ~Chunks();
    // Sleeps. ENOMEM. After an error nothing is left.
    Result<> make(const Geometry& geometry, Budget& budget);
    explicit operator bool() const { return chunks_ != nullptr; }
    Chunk& operator[](u32 index) { return chunks_[index]; }
    u32 count() const { return count_; }
    // The memory stays for ever: a device may use it.
    void leak() { leaked_.store_relaxed(true); }

private:
    void free();
    Chunk* chunks_ = nullptr;
    u32 count_ = 0;
    Atomic<bool> leaked_{false};
    Share share_;
};

} // namespace rtrs_srv
