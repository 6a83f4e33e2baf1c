// SPDX-License-Identifier: GPL-2.0
// From whole messages to requests of a send queue: each fragment is a header and a part of it. A message is held until its last
// request has completed, whatever the peer acknowledged meanwhile. A small one is copied into its request where the device can:
// it is neither mapped nor held. Few bytes are held until a later request reports its completion, or an acknowledgement does.
#pragma once

#include "operation.h"

namespace rds_rdma {

class Sender : Pinned {
public:
    static constexpr u32 least = Fragments{true, 1}.count(RDS_MAX_MESSAGE), most = send_requests; // requests in the queue
    static constexpr u32 max_pieces = 8; // of a request, where the device has as many
    // What a request carries itself at most, with the header. With so many pieces its place in the queue has as many bytes.
    static constexpr u32 max_carried = max_pieces * sizeof(kapi_sge);

    explicit Sender(QueueEnds& ends) : ends_(ends) {}
    // The queue is drained, or was never used.
    ~Sender();
    Result<> build(u32 capacity, u32 max_unsignaled);
    // The device did not end what was posted: what it may use is never freed.
    void abandon();
    // Before anything is posted: what a request can carry at this queue pair.
    void may_carry(u32 bytes) { carried_ = min(bytes, max_carried); }

    // The path's owner's, as rds_transport's post().
    int post(rds_out* const* messages, unsigned count);
    // From the completion queue.
    void completed(const kapi_wc& wc);
    // The same queue's, when something was received. False: so much was never sent.
    bool acknowledged(u64 number);
    // Any context. The peer is to know soon what was received.
    void want_ack() { ack_wanted_.store_release(1); }
    void send_ack() { send_ack(1); }
    // The peer can receive.
    void begin();
    // The path's owner's. Sleeps. Frees the regions of operations that have ended.
    void free_retired();
    // The path's owner's, from time to time: what is not acknowledged is asked for.
    void tick();

    // From build() on. Requests that one message or operation may take; all in the queue, beside that of an acknowledgement;
    // pieces of a request at this device.
    u32 capacity() const { return capacity_; }
    // The last max_unsignaled_ may complete unseen, for ever: what waits for room never needs theirs.
    u32 places() const { return capacity_ + max_unsignaled_; }
    u32 pieces() const { return pieces_; }

private:
    struct Slot {
        Mapping payload;
        Header* whole = nullptr; // until it is posted: the message's own, directly in front of its payload; mapped with it
        bool carries = false; // its request has the bytes, those of whole: neither payload nor out
        rds_out* out = nullptr; // held
        Operation* operation = nullptr; // that the request is a part of. Owned where out is
    };
    struct Slots {
        Slot slot[most + most_unsignaled];
    };
    struct Chain {
        static constexpr unsigned most = 16;
        kapi_wr wr[most];
        kapi_sge sge[most][max_pieces];
        unsigned count;
    };
    static constexpr u64 ack_cookie = 1ull << 62;

    Slot& slot(u64 number) { return slots_->slot[number % places()]; }
    u32 ack_slot() const { return places(); } // of headers_
    bool has_room(u64 head) { return head - tail_.load() <= places(); }
    // For a condition of tail_, which may have been met just before the flag was up.
    template <class Condition> bool waits_for(Condition&& met) { return !met() && (full_.exchange(1) || !met()); }
    bool waits_for_room(u64 head);
    bool waits_for_fence(rds_rdma_kind kind);
    unsigned prepare(rds_out* const* messages, unsigned count);
    bool may_map_later();
    bool map_later(); // is tried again, unless that has been so for too long: false
    u32 fragments(const rds_out* out) const { return ends_.fragments.count(rds_out_length(out)); }
    Result<> map_payload(rds_out* out, u64 at, u32 fragments);
    enum class Operated { done, later, alone }; // alone: its message is not sent
    Operated post_operation(rds_out* out, const rds_rdma_op& op);
    void add_operation(rds_out* out, Own<Operation> operation);
    unsigned post_messages(rds_out* const* messages, unsigned count);
    kapi_wr& next_request();
    Result<> map_fragment(Slot& slot, struct Pieces& pieces);
    Result<> map_whole(Slot& slot, u32 length);
    bool asks(const Header& header, bool last);
    u64 fill_header(Header& header, u8 flags);
    u64 write_header(u32 index, const Header& from, u8 flags);
    void add_fence(kapi_wr& wr);
    unsigned add_pieces(Slot& slot, const Header& header, u8 flags, u32 length);
    unsigned add_mapped(Slot& slot, kapi_sge* sges, unsigned most);
    bool reports(bool must, bool is_last);
    void release_before(u64 end, kapi_wc_status status);
    void note_failure(Slot& slot, kapi_wc_status status);
    void add(rds_out* out, u32 fragments, bool last);
    void flush(bool ends = true);
    void release(Slot& slot, bool completed);
    void retire(Own<Operation> operation);
    void send_ack(u32 most);

    QueueEnds& ends_;
    Headers headers_;
    Own<Slots> slots_;
    Own<Chain> chain_;
    u32 capacity_ = 0, max_unsignaled_ = 0, pieces_ = 0;
    u32 carried_ = 0; // bytes, with the header
    bool began_ HW_GUARDED_BY(ends_.lock) = false;
    u32 acks_out_ HW_GUARDED_BY(ends_.lock) = 0;
    Atomic<u32> ack_wanted_{0}, question_wanted_{0};
    // The path's owner's:
    u64 head_ = 0;
    u32 unsignaled_ = 0; // requests since one reports its completion
    u32 held_ = 0; // bytes of memory that they have
    bool fence_ = false; // an operation that reads was posted, and neither a write nor a message since
    u64 fenced_ = 0; // a device whose fences hang: no such operation is posted before all up to there has completed
    u64 read_ = 0;   // the end of the last one that is no atomic operation
    u64 asked_ = 0; // up to there acknowledgements were asked for
    u64 unmapped_since_ns_ = 0; // 0: the last mapping was made
    u64 unmapped_at_ns_ = 0;    // tried the last time
    bool broken_ = false;
    u64 chain_ack_ = ~u64{0}; // that the last header in chain_ says, if it has one
    Atomic<u64> ack_said_{0}; // by the last acknowledgement of its own
    Atomic<u64> posted_{0};   // head_ of what was posted, without a part of an operation
    Atomic<u64> ack_covers_{0}; // posted before all acknowledgements of its own that are out, and complete with any
    bool out_of_order_ = false; // the completion queue's: those that are left end in any order
    // The same, and read by the owner:
    Atomic<u64> tail_{0};
    Atomic<Operation*> retired_{nullptr}; // owned. At most as many as had room in the queue since they were freed last
    Atomic<u32> full_{0}; // the owner waits for completions
    Atomic<u64> acked_{0}; // by the peer
    Atomic<u64> last_sent_{0};
};

} // namespace rds_rdma
