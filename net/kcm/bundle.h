// SPDX-License-Identifier: GPL-2.0
// Messages that were received together and go to one socket together: up to 64 that lie one behind the other in a
// stream, or one that arrived in pieces. So a softirq makes one object, not one for each message.
//
// The marks of those still to be read are written under the distributor's lock; the bytes never change once
// the bundle is whole.
#pragma once

#include "charge.h"
#include "shortage.h"

#include <hawser/received.h>
#include <hawser/ref.h>

#include <span>

namespace kcm {

using namespace hw;

class Bundle : public RefCounted<Bundle> {
public:
    static constexpr unsigned max_messages = 64;
    // Up to here the bytes of a bundle are copied into it.
    static constexpr u32 inline_run = 1024;
    static constexpr u32 inline_single = 4096;

    // One object for messages of these lengths, in total so many bytes, to be filled by append(), that came from this connection.
    // In rx(): its memory is charged to who attached that. ENOMEM.
    static Result<Ref<Bundle>> create(kapi_rx* rx, u64 connection, std::span<const u32> lengths, u32 total);
    static void destroy(Bundle* bundle) { dispose(bundle); }
    // It is whole, and counts as unread there until it ends.
    void count_in(Shortage& shortage);

    const u64 connection;
    u64 arrival = 0; // its number among all bundles of the distributor; a connection's are in the order of its stream
    u32 left() const { return total_ - filled_; }
    u32 total() const { return total_; }
    // Take the next size bytes, at most left(). In rx(). ENOMEM: nothing was taken.
    Result<> append(kapi_rx* rx, usize offset, u32 size);
    Result<> append(kapi_rx* rx, const u8* bytes, u32 size);
    // Fills first with what was appended so far and returns the chain, null when it is empty.
    const kapi_piece* pieces(kapi_piece& first) const;
    usize true_size() const { return true_size_ + large_.true_size(); }
    Result<> copy_to_user(kapi_msg* msg, u32 start, u32 size) const;

    // The bytes of a message, or of a part of one.
    struct Entry {
        u32 start, length;
        u32 end() const { return start + length; }
    };
    const Entry& entry(unsigned i) const { return entries()[i]; }
    unsigned count() const { return count_; }
    u64 unread = 0;           // a bit for each message
    unsigned unread_count() const
    {
        // The compiler's own would be a call to a library that the kernel does not have. Sums of 2, 4, 8 bits each.
        u64 n = unread - (unread >> 1 & 0x5555555555555555);
        n = (n & 0x3333333333333333) + (n >> 2 & 0x3333333333333333);
        n = (n + (n >> 4)) & 0x0f0f0f0f0f0f0f0f;
        return static_cast<unsigned>(n * 0x0101010101010101 >> 56);
    }
    u32 uncounted = 0; // of the unread ones, those put back while it was queued elsewhere: its socket's count is without them

private:
    HW_MADE_BY_CREATE;
    friend class BundleQueue;
    Bundle(u64 of, unsigned messages) : connection(of), count_(messages) {}
    ~Bundle();
    Entry* entries() const { return reinterpret_cast<Entry*>(const_cast<Bundle*>(this) + 1); }
    u8* inline_bytes() const { return reinterpret_cast<u8*>(entries() + count_); }

    Bundle* left_ = nullptr; // in a BundleQueue
    Bundle* right_ = nullptr;
    u32 rank_ = 0;
    const unsigned count_;
    u32 total_ = 0, filled_ = 0;
    bool inlined_ = false;
    usize true_size_ = 0; // without large_
    Charge charge_;                      // for all but the network's buffers
    ReceivedBytes large_{Alloc::atomic}; // when not inlined
    Ref<Shortage> counted_in_;
};

} // namespace kcm
