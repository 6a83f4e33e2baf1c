// SPDX-License-Identifier: GPL-2.0
// Messages that were received together and go to one socket together: up to 64 that lie one behind the other in a
// stream, or one that came in pieces. So a softirq makes one object, not one a message.
//
// Which of them are still to be read is written by whoever holds the distributor's lock; the bytes never change once
// the bundle is whole.
#pragma once

#include <hawser/list.h>
#include <hawser/received.h>

#include <span>

namespace kcm {

using namespace hw;

struct Queued; // list tag: a socket's queue, or that of the distributor

class Socket;

class Bundle : public RefCounted<Bundle>, public ListNode<Queued> {
public:
    static constexpr unsigned max_messages = 64;
    // Up to here the bytes of a bundle are copied into it.
    static constexpr u32 inline_run = 1024;
    static constexpr u32 inline_single = 4096;

    // One object for messages of these lengths, to be filled by append(). connection and sequence say where in which
    // stream they stand. Any context. ENOMEM.
    static Result<Ref<Bundle>> create(u64 connection, u64 sequence, std::span<const u32> lengths);
    static void destroy(Bundle* bundle) { dispose(bundle); }

    const u64 connection;
    const u64 sequence;
    u32 left() const { return total_ - filled_; }
    u32 total() const { return total_; }
    // Take the next size bytes, at most left(). ENOMEM: nothing was taken.
    Result<> append(kapi_rx* rx, usize offset, u32 size);
    Result<> append(const u8* bytes, u32 size);
    // Fills first with what was appended so far and returns the chain, null when it is empty.
    const kapi_piece* pieces(kapi_piece& first) const;
    usize true_size() const { return true_size_ + large_.true_size(); }
    Result<> copy_to_user(kapi_msg* msg, u32 start, u32 size) const;

    struct Entry { u32 start, length; }; // of what is not read yet
    Entry& entry(unsigned i) { return entries()[i]; }
    unsigned count() const { return count_; }
    u64 unread = 0;           // a bit for each message
    unsigned unread_count() const
    {
        unsigned n = 0;
        for (u64 bits = unread; bits; bits &= bits - 1)
            n++;
        return n;
    }
    Socket* holder = nullptr; // whose queue it is on; null: the distributor's, or none

private:
    HW_MADE_BY_CREATE;
    Bundle(u64 of, u64 at, unsigned messages) : connection(of), sequence(at), count_(messages) {}
    Entry* entries() const { return reinterpret_cast<Entry*>(const_cast<Bundle*>(this) + 1); }
    u8* inline_bytes() const { return reinterpret_cast<u8*>(entries() + count_); }

    const unsigned count_;
    u32 total_ = 0, filled_ = 0;
    bool inlined_ = false;
    usize true_size_ = 0; // without large_
    ReceivedBytes large_;  // when not inlined
};

} // namespace kcm
