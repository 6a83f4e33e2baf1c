// SPDX-License-Identifier: GPL-2.0
// From whole messages to requests of a send queue: each fragment is a header and up to 4096 bytes. A message is held until its
// last request has completed, whatever the peer acknowledged meanwhile.
#pragma once

#include "queue_ends.h"

namespace rds_rdma {

class Sender : Pinned {
public:
    static constexpr u32 capacity = send_requests;
    static constexpr u32 max_pieces = 8; // of a request, where the device has as many

    explicit Sender(QueueEnds& ends) : ends_(ends) {}
    // The queue is drained, or was never used.
    ~Sender();
    Result<> build();
    // The device did not end what was posted: what it may use is never freed.
    void abandon();

    // The path's owner's, as rds_transport's post().
    int post(rds_out* const* messages, unsigned count);
    // From the completion queue.
    void completed(const kapi_wc& wc);
    // The same queue's, when something was received. False: so much was never sent.
    bool acknowledged(u64 number);
    // Any context. The peer is to know soon what was received.
    void want_ack() { ack_wanted_.store_release(1); }
    void send_ack();
    // The peer can receive.
    void begin();

    Atomic<u32> ring_full{0}, acks_sent{0}; // how often

private:
    struct Slot {
        Mapping payload;
        rds_out* out = nullptr; // held
    };
    struct Slots {
        Slot slot[capacity];
    };
    struct Chain {
        static constexpr unsigned most = 16;
        kapi_wr wr[most];
        kapi_sge sge[most][max_pieces];
        unsigned count;
    };
    static constexpr u64 ack_cookie = 1ull << 62;
    static constexpr u32 ack_slot = capacity; // of headers_

    Slot& slot(u64 number) { return slots_->slot[number % capacity]; }
    bool has_room(u64 head) { return head - tail_.load() <= capacity; }
    unsigned prepare(rds_out* const* messages, unsigned count);
    bool may_map_later();
    Result<> map_payload(rds_out* out, u64 at, u32 fragments);
    Result<> map_fragment(Slot& slot, struct Pieces& pieces);
    void write_header(u32 index, const Header& from, u8 flags);
    void add(rds_out* out, u32 fragments, bool last);
    void flush();
    void release(Slot& slot);

    QueueEnds& ends_;
    Headers headers_;
    Own<Slots> slots_;
    Own<Chain> chain_;
    unsigned pieces_ = 0; // of a request at this device
    bool began_ HW_GUARDED_BY(ends_.lock) = false;
    bool ack_out_ HW_GUARDED_BY(ends_.lock) = false;
    Atomic<u32> ack_wanted_{0};
    // The path's owner's:
    u64 head_ = 0;
    u32 unrequested_ = 0; // messages since one asked for an acknowledgement
    u64 unmapped_since_ns_ = 0; // 0: the last mapping was made
    bool broken_ = false;
    // The completion queue's, and read by the owner:
    Atomic<u64> tail_{0};
    Atomic<u32> full_{0};
    u64 acked_ = 0; // by the peer
    Atomic<u64> last_sent_{0};
};

} // namespace rds_rdma
