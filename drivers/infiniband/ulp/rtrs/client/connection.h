// SPDX-License-Identifier: GPL-2.0
// One connection of a path, with its queue pair: the service connection, or that of a CPU. Events of the connection manager only
// set bits and notify the path, whose worker makes and ends it; requests are posted, and handled when they complete, in any
// context.
#pragma once

#include "buffer.h"
#include "io.h"

#include "../common/connect.h"
#include "../common/immediate.h"

namespace rtrs_clt {

class Link;

class Connection : Pinned {
public:
    Connection(Link& link, u32 number, u64 serial) : link_(link), number_(number), serial_(serial) {}
    ~Connection();

    // How long its queues are for so many requests at a time. Any context.
    static u32 sends_for(const kapi_rdma_attrs& attrs, u32 depth);
    static u32 receives_for(const kapi_rdma_attrs& attrs, u32 depth);
    static kapi_qp_caps caps_for(const kapi_rdma_attrs& attrs, u32 depth);
    static u64 bytes_of_queues(const kapi_rdma_attrs& attrs, u32 depth); // with completions, and what is received

    // ---- The worker's. All sleep.

    // Begins to resolve the peer.
    Result<> resolve();
    // When it is resolved: makes the queue pair and asks the peer for the connection.
    Result<> ask(Device& device, kapi_pd* pd);
    // When the session's geometry is known, and the connection has a queue pair: posts the receives. Of the service connection
    // the first one is for the answer with the information, in info.
    Result<> post_receives(Buffer* info);
    Result<> send_info(const Buffer& message, u32 bytes);
    void send_heartbeat();
    // From here on requests are posted.
    void open();
    // None is, when this returns.
    void close();
    // Ends the queue: all that was posted has completed when this returns. False: the device does not end it; then the memory
    // that it may use was made to stay.
    bool drain();
    void disconnect();

    bool is_resolved() const { return seen_.load_acquire() & resolved; }
    bool is_asked() const { return asked_; }
    bool is_established() const { return seen_.load_acquire() & established; }
    bool is_over() const { return seen_.load_acquire() & over; } // for the server, too, or its host does not answer
    kapi_rdma_dev* dev() const { return dev_; }                     // when it is resolved
    const Result<rtrs::Offer>& offer() const { return offer_; }     // when it is established
    const kapi_cm* cm() const { return cm_.get(); }

    // ---- Any context.

    // Does it take requests? A hint, since that changes.
    bool is_open() const { return hint_open_.load_relaxed(); }
    // Sends the request of io, whose message is in its slot. ECONNABORTED: not over this connection; EAGAIN: its send queue is
    // full; EIO, ENOMEM: the data cannot be mapped, maybe for the moment; EINVAL, EMSGSIZE: it cannot be sent. The caller's lock
    // keeps the connection.
    Result<> post(Io& io);
    Link& link() const { return link_; }
    u64 serial() const { return serial_; }

private:
    enum Seen : u32 { resolved = 1, established = 2, over = 4 };
    enum class Kind : u8 { io, invalidate, receive, info_receive, plain };
    static constexpr unsigned kind_bits = 3;
    static constexpr u32 most_pieces = 16;          // of one request; each takes memory of the queue
    static constexpr u32 receive_bytes = 8;         // of a message that is not the information

    static u64 cookie(Kind kind, u32 index) { return static_cast<u64>(index) << kind_bits | static_cast<u64>(kind); }

    static void on_resolved(void* context, kapi_rdma_dev* dev);
    static void on_established(void* context, const void* data, kapi_size size);
    static void on_ended(void* context, const kapi_cm_end* end);
    static void on_done(void* context, const kapi_wc* wcs, unsigned n);
    static const kapi_cm_ops cm_ops;
    void heard(u32 what);

    Result<> make_queues(Device& device, kapi_pd* pd);
    // connection_post.cc
    Result<> map_data(Io& io);
    Result<> post_mapped(Io& io);
    bool take_read_key(Io& io) HW_REQUIRES(lock_);
    u32 write_message(Io& io) HW_REQUIRES(lock_);
    Result<> reserve(Io& io) HW_REQUIRES(lock_);
    Result<> send(kapi_wr& wr) HW_REQUIRES(lock_);
    Result<> send_write(Io& io, u32 message) HW_REQUIRES(lock_);
    Result<> send_read(Io& io, u32 message) HW_REQUIRES(lock_);
    void post_immediate(rtrs::ImmediateType type);
    Result<> post_receive(u32 slot);
    bool receive_again(u32 slot);
    // connection_done.cc
    void done(const kapi_wc& wc);
    void received(const kapi_wc& wc);
    bool answered(const kapi_wc& wc, rtrs::Immediate immediate);
    bool take_key(const kapi_wc& wc, u32 chunk);
    void progress(Io& io);
    void invalidate(Io& io);
    void finish(Io& io);
    void failed(kapi_wc_status status);
    void broken(const char* why);

    Link& link_;
    const u32 number_;
    const u64 serial_;
    Atomic<u32> seen_{0};
    kapi_rdma_dev* dev_ = nullptr;                        // set before `resolved`
    Result<rtrs::Offer> offer_ = fail(KAPI_ECONNRESET);   // set before `established`
    bool asked_ = false;

    Buffer receives_;
    CompletionQueue cq_;
    CmEnd cm_;
    QueuePair qp_;
    u32 max_send_ = 0, max_receive_ = 0, max_pieces_ = 0;

    // What is posted from other contexts than the path's worker is posted under this lock, while the connection is open.
    Spin<PostLock> lock_;
    bool open_ HW_GUARDED_BY(lock_) = false;      // for requests
    bool receiving_ HW_GUARDED_BY(lock_) = false; // and receives
    Atomic<bool> hint_open_{false};
    Atomic<u32> room_{0}; // in the send queue
    // done()'s:
    u32 invalidated_ = 0;
    bool has_invalidated_ = false; // the last receive invalidated that key
};

} // namespace rtrs_clt
