// SPDX-License-Identifier: GPL-2.0
// From what a device received to RDS messages: a ring of receives, each for a header and the buffers of a fragment. Buffers that
// a short fragment left alone are posted again.
//
// While a socket is full, what was received waits here and its place in the ring is not filled again, so that the peer has no
// receives left in the end and waits (its device asks again and again). So a path holds no more than its ring. What headers
// acknowledge is heeded at once.
#pragma once

#include "queue_ends.h"
#include "sender.h"

#include <hawser/user.h>

namespace rds_rdma {

class Receiver : Pinned {
public:
    static constexpr u32 most = 128; // receives in a ring
    static constexpr u32 least = 64; // buffers in a ring

    Receiver(QueueEnds& ends, Sender& sender) : ends_(ends), sender_(sender) {}
    // The queue is drained, or was never used.
    ~Receiver();
    // So many receives, each of so many buffers.
    Result<> build(u32 depth, u32 buffers);
    // The device did not end what was posted: what it may use is never freed.
    void abandon()
    {
        headers_.abandon();
        static_cast<void>(slots_.release());
    }

    // From the completion queue.
    void received(const kapi_wc* wcs, unsigned n);
    // Any context. Fills the ring as far as there is memory. by: which counter counts it.
    void refill(Stat by);
    // The path is up: from now on messages are given to it. Any context.
    void begin();
    // Goes on with what waits, and refills. Any context.
    void process(Stat by);

private:
    struct Slot {
        RxBuffer buffer[most_buffers];
        Mapping map[most_buffers]; // as long as the slot has the buffer: what is copied leaves it mapped
        kapi_sge sges[1 + most_buffers]; // the header, and what is mapped
        u32 length = 0; // received, with the header
    };
    struct Slots {
        Slot slot[most];
        u16 free[most];    // not posted, a stack
        u16 waiting[most]; // received and not handled, a ring
    };
    enum class Verdict { done, stalled, starved, garbage };
    enum class Step { handle, fill, end };

    bool arrived(u16 index, const kapi_wc& wc);
    bool arrived(const u16* indices, const bool* waits, unsigned n);
    bool has_places() const HW_REQUIRES(lock_);
    Step choose(u16& index, Step last, bool stuck) HW_REQUIRES(lock_);
    void stopped(Verdict verdict);
    void note_garbage(const char* what);
    void fill(Stat by);
    Verdict handle(Slot& slot, const Header& header);
    Verdict begin_message(const Header& header, u32 payload);
    Verdict take_payload(Slot& slot, u32 payload);
    void end_message();
    bool post_some();
    bool prepare(Slot& slot);
    unsigned take_free(u16* indices);
    void put_free(const u16* indices, unsigned n);

    QueueEnds& ends_;
    Sender& sender_;
    Headers headers_;
    Own<Slots> slots_;
    u32 depth_ = 0, buffers_ = 0;
    Spin<ReceivedLock> lock_;
    u32 free_ HW_GUARDED_BY(lock_) = 0, first_ HW_GUARDED_BY(lock_) = 0, waiting_ HW_GUARDED_BY(lock_) = 0;
    bool begun_ HW_GUARDED_BY(lock_) = false, busy_ HW_GUARDED_BY(lock_) = false;
    bool again_ HW_GUARDED_BY(lock_) = false; // another caller came while it was busy
    bool broken_ HW_GUARDED_BY(lock_) = false; // the peer sent what no RDS sends: nothing more is believed
    // Of the task that is busy:
    rds_inc* inc_ = nullptr; // owned
    Header header_{};        // of its first fragment
    u32 taken_ = 0;          // bytes of the fragment that is handled, which were taken before there was no memory
    bool reported_ = false; // that a fragment does not fit; what has arrived behind it brings us back to it
};

} // namespace rds_rdma
