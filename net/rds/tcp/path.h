// SPDX-License-Identifier: GPL-2.0
// The TCP stream of one path: opening, sending, looking after it, closing. The operations of rds_transport, whose contract
// says from where and when they are called (net/rds/transport.h).
#pragma once

#include "../../lock_order.h"
#include "assemble.h"
#include "net.h"
#include "waiting.h"

namespace rds_tcp {

class TcpConnection;

class TcpPath : Pinned {
public:
    TcpPath(TcpConnection& connection, unsigned index);

    int connect();
    int established();
    int adopt();
    rds_stream_waits has_accepted();
    rds_closing close(rds_close_mode mode);
    s64 send(const kapi_segment* segments, unsigned count, u32 flags, u32* end_seq);
    void resume();
    rds_tick tick();
    bool row(rds_tcp_socket_row& row);

    // The namespace's buffer sizes changed.
    void buffers_changed(const kapi_stream_options& options);
    bool has_stream();
    // Takes over a stream that the peer opened for this path.
    void offer(kapi_stream* stream, u16 peer_port);
    void discard_waiting();

private:
    static kapi_size on_rx(void* context, kapi_rx* rx, kapi_size length);
    static void on_acked(void* context, u32 una);
    static void on_event(void* context, kapi_stream_event event, int error);
    static const kapi_stream_ops stream_ops;

    // The ports of a stream.
    struct Ports {
        u16 local, remote;
    };
    int open(Ports ports, bool shared = false);
    kapi_stream_options take_options();
    void close_stream(bool abort);
    void set_row(bool up);
    void forget_received();
    void note_lost();
    void notify(u32 events);
    void limit_pause(const struct kapi_stream_health& health);
    bool misplaced();
    bool has_unsent_pinned(u32 una);

    TcpConnection& connection_;
    const unsigned index_;
    // The path's owner's (see net/rds/owner.h):
    kapi_stream* stream_ = nullptr;
    bool up_ = false;
    bool accepted_ = false;
    u64 closing_since_ns_ = 0;
    u64 unanswered_since_ns_ = 0;
    Ports lost_{}; // of the last stream, if the peer may not know that it is gone
    bool recovering_ = false; // from an outage, until what had been sent by its end, recovered_at_, is acknowledged
    u32 recovered_at_ = 0;
    // Under the stream's lock:
    Assembler assembler_;
    Atomic<u32> garbage_{0};
    Atomic<u32> new_buffers_{0}; // maybe, since these were taken for the stream:
    Atomic<u64> buffers_{0};
    Atomic<u32> una_{0};
    Atomic<u32> begin_seq_{0}, end_seq_{0}; // of what the stream took last
    Atomic<u32> full_{0};                   // the stream took nothing, and nothing was acknowledged since

    Waiting waiting_;
    Spin<StreamsLock> lock_;
    bool row_valid_ HW_GUARDED_BY(lock_) = false;
    kapi_addr local_ HW_GUARDED_BY(lock_){}, remote_ HW_GUARDED_BY(lock_){};
};

} // namespace rds_tcp
