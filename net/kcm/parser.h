// SPDX-License-Identifier: GPL-2.0
// Cuts a stream into messages, at the lengths that a user's program returns.
//
// The program sees a message from its first byte, and as much of it as has arrived, up to 4096 bytes. A message that
// is complete in the offered bytes is left there until it is delivered; of an incomplete one all bytes are taken, so
// a message may be larger than TCP's window.
#pragma once

#include "bundle.h"

#include <kapi/filter.h>

namespace kcm {

using namespace hw;

inline void put_filter(kapi_filter* filter) { kapi_filter_put(filter); }
inline void free_view(u8* view) { kapi_free(view); }
using Filter = Own<kapi_filter, put_filter>;

class Psock;

class Parser : Pinned {
public:
    explicit Parser(Filter filter) : filter_(std::move(filter)) {}

    enum class Stop {
        none,    // all was used
        blocked, // no socket has room; resumed when one has
        memory,  // try again later
        enough,  // others get the processor first; to be resumed in a work
        error,   // the stream cannot be cut any further
    };
    struct Outcome {
        usize used = 0;
        Stop stop = Stop::none;
        int error = 0;
    };
    // Cuts the offered bytes and delivers messages through owner. In rx() of its stream.
    Outcome feed(kapi_rx* rx, usize length, Psock& owner);

    // Bytes of the message that is not whole.
    u32 partial() const { return head_size_ + (partial_ ? partial_->total() - partial_->left() : 0); }
    u32 needed() const { return partial_ ? partial_->left() : 0; } // bytes that are missing; 0: unknown
    u64 sequence() const { return sequence_; } // messages that were whole
    // Those bytes, to be given back to the stream, as Bundle::pieces() returns them. While feed() is not running.
    const kapi_piece* pieces(kapi_piece& first) const;
    // Forgets those bytes. In rx().
    void drop();
    bool was_dropped() const { return dropped_; } // while feed() is not running
    u64 needed_more() const { return needed_more_.load_relaxed(); }

private:
    struct Run {
        u32 lengths[Bundle::max_messages];
        unsigned count = 0;
        usize end = 0;        // of the last
        u32 next = 0;         // length of the message behind, which is not whole; 0: unknown
        int error = 0;        // or the error of the message
    };
    Outcome deliver_run(kapi_rx* rx, usize at, usize length, Psock& owner);
    void find_run(kapi_rx* rx, usize at, usize length, Psock& owner, Run& run);
    Outcome begin(kapi_rx* rx, usize at, usize length, u32 total, Psock& owner);
    Outcome grow_head(kapi_rx* rx, usize at, usize length, Psock& owner);
    Outcome fill(kapi_rx* rx, usize at, usize length, Psock& owner);
    Result<u32> measure(s32 said, kapi_rx* rx, usize at, usize available, u32 limit);
    Result<u32> check_result(s32 said, usize shown, u32 limit);
    Result<> need_view(kapi_rx* rx);
    void drop_view();

    Filter filter_;
    Charge view_charge_;
    Own<u8, free_view> view_;  // KAPI_FILTER_VIEW bytes, only while there is a beginning: connections may be very many
    u32 head_size_ = 0;        // bytes in view_ of a message of unknown length
    Ref<Bundle> partial_;      // a message of known length
    u64 sequence_ = 0;
    bool dropped_ = false;
    Atomic<u64> needed_more_{0};
};

} // namespace kcm
