// SPDX-License-Identifier: GPL-2.0
// A message being sent, or built from several calls. Its bytes were copied from the user once, into pages that TCP gets
// by reference.
#pragma once

#include "psock.h"

#include <hawser/user.h>

namespace kcm {

struct ToSend; // list tag: a socket's send queue

class Outgoing : public RefCounted<Outgoing>, public ListNode<ToSend> {
public:
    // With the next size bytes of msg, and the connection it has to take (null: any). Made of used, which may be null, when
    // that has the room. Sleeps. ENOMEM, EFAULT.
    static Result<Ref<Outgoing>> create(Ref<Outgoing> used, kapi_msg* msg, u32 size, Ref<Psock> wanted);
    static void destroy(Outgoing* message);

    // The message goes on with what part has.
    void append(Ref<Outgoing> part);
    u32 length() const { return length_; }
    // What it takes of the send buffer beside its bytes: a program may send one at a time.
    u32 overhead() const { return overhead_; }
    Ref<Psock> wanted;

    // Of the transmitter: bytes that TCP has.
    u32 sent = 0;
    u32 left() const { return length_ - sent; }
    // Fills at most count segments with what is to be sent next, and says how many and how many bytes.
    struct Filled { unsigned segments; u32 bytes; };
    Filled fill(kapi_segment* segments, unsigned count) const;

private:
    HW_MADE_BY_CREATE;
    friend class UsedMessages;
    static constexpr u32 overhead_of_part = 256, kept_max = 64 * 1024;
    static Result<Ref<Outgoing>> create_new(kapi_msg* msg, u32 size);
    explicit Outgoing(u32 size) : own_length_(size), length_(size) {}
    ~Outgoing() = default;
    void begin_again(u32 size, Ref<Psock> to);
    bool retire();

    Pages pages_;
    u32 own_length_; // of this part
    u32 length_;     // with all parts
    u32 overhead_ = overhead_of_part;
    unsigned behind_ = 0; // among used messages: how many follow
    Ref<Outgoing> next_;   // part, or used message
    Outgoing* last_ = this;
};

// Messages that were sent, for the next ones: whoever sends does it again and again. Without a lock: who comes while another
// looks finds none, and makes a new one. Any context.
class UsedMessages : Pinned {
public:
    ~UsedMessages() { static_cast<void>(take_all()); }
    Ref<Outgoing> take();
    // The only reference to it.
    void keep(Ref<Outgoing> used);

private:
    static constexpr unsigned most = 32; // as a batch has
    Ref<Outgoing> take_all() { return Ref<Outgoing>::adopt(first_.exchange(nullptr)); }
    void put(Ref<Outgoing> all);

    Atomic<Outgoing*> first_{nullptr}; // a reference
};

} // namespace kcm
