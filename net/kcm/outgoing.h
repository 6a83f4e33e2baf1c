// SPDX-License-Identifier: GPL-2.0
// A message being sent, or built from several calls; or several small ones of one call. Its bytes were copied from the user
// once, into pages that TCP gets by reference. It consists of parts: at least one for each call, and none larger than
// part_max, so that what is to be sent next is found in few steps however long the message is.
#pragma once

#include <hawser/atomic.h>
#include <hawser/list.h>
#include <hawser/user.h>

#include <span>

namespace kcm {

using namespace hw;

struct ToSend; // list tag: a send queue

class Outgoing : public RefCounted<Outgoing>, public ListNode<ToSend> {
public:
    // With the next size bytes of msg. Made of used, which may be null, when that has the room. Sleeps. ENOMEM, EFAULT.
    static Result<Ref<Outgoing>> create(Ref<Outgoing> used, kapi_msg* msg, u32 size);
    static void destroy(Outgoing* message);

    // Appends the contents of part.
    void append(Ref<Outgoing> part);
    // It has messages of these lengths, of which the sum is its own. Sleeps. ENOMEM.
    Result<> divide(std::span<const u32> lengths);
    u32 length() const { return length_; }
    u32 count() const { return count_; } // of messages
    u32 length_of(u32 i) const { return lengths_ ? lengths_.get()[i] : length_; }
    // What it takes of the send buffer beside its bytes: a program may send one at a time, and each may hold a page.
    u32 overhead();
    u64 number = 0; // among the whole messages of its socket; one that was sent before has that of then

    // Of the transmitter: bytes and whole messages that TCP has, from the beginning on.
    u32 sent() const { return sent_; }
    u32 left() const { return length_ - sent_; }
    u32 done() const { return done_; }
    // TCP has a part of a message.
    bool is_cut() const { return sent_ != done_bytes_; }
    u32 left_of_cut() const { return length_of(done_) - (sent_ - done_bytes_); } // if it is
    void advance(u32 bytes); // TCP took so many more, at most left()
    u32 rewind();            // TCP has nothing of the one that is cut; the bytes that it had of it
    // Fills at most count segments with what is to be sent next, and returns their number and the number of bytes.
    struct Filled { unsigned segments; u32 bytes; };
    Filled fill(kapi_segment* segments, unsigned count) const;

private:
    HW_MADE_BY_CREATE;
    friend class UsedMessages;
    // What is smaller lies in a page of that size, among others; a message may be built from very many of those.
    static constexpr u32 small_part = 4096;
    static constexpr u32 overhead_of_part = small_part / 16, kept_max = 64 * 1024, part_max = 1u << 20;
    static Result<Ref<Outgoing>> create_part(Ref<Outgoing> used, kapi_msg* msg, u32 size);
    static Result<Ref<Outgoing>> create_new(kapi_msg* msg, u32 size);
    explicit Outgoing(u32 size) : own_length_(size), length_(size) {}
    ~Outgoing() = default;
    void begin_again(u32 size);
    bool retire();
    void skip_parts();
    static void free_lengths(u32* lengths) { kapi_free(lengths); }

    Pages pages_;
    u32 own_length_; // of this part
    u32 length_;     // with all parts
    u32 overhead_ = 0; // 0: not counted yet; a message that never waits is not
    u32 sent_ = 0, sent_before_ = 0; // of all parts; of those before at_, which are sent
    u32 count_ = 1, done_ = 0, done_bytes_ = 0;
    Own<u32, free_lengths> lengths_; // null: one message
    const Outgoing* at_ = this;      // the part to continue with
    unsigned behind_ = 0; // among used messages: how many follow
    Ref<Outgoing> next_;   // part, or used message
    Outgoing* last_ = this;
};

// Messages that were sent, kept for the next ones, because senders repeat. Without a lock: a caller that comes while another
// one looks finds none, and makes a new one. Any context.
class UsedMessages : Pinned {
public:
    ~UsedMessages() { static_cast<void>(take_all()); }
    Ref<Outgoing> take();
    // used is not needed any more; the only reference to it.
    void recycle(Ref<Outgoing> used);

private:
    static constexpr unsigned most = 32; // as a batch has
    Ref<Outgoing> take_all() { return Ref<Outgoing>::adopt(first_.exchange(nullptr)); }
    void put(Ref<Outgoing> all);

    Atomic<Outgoing*> first_{nullptr}; // a reference
};

} // namespace kcm
