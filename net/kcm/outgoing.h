// SPDX-License-Identifier: GPL-2.0
// A message being sent, or built from several calls. Its bytes were copied from the user once, into pages that TCP gets
// by reference; of few bytes TCP makes a copy of its own, which costs less than a page's references.
#pragma once

#include "psock.h"

#include <hawser/user.h>

namespace kcm {

struct ToSend; // list tag: a socket's send queue

class Outgoing : public RefCounted<Outgoing>, public ListNode<ToSend> {
public:
    // With the next size bytes of msg, and the connection it has to take (null: any). Sleeps. ENOMEM, EFAULT.
    static Result<Ref<Outgoing>> create(kapi_msg* msg, u32 size, Ref<Psock> wanted);
    static void destroy(Outgoing* message);
    // As create() for any connection and always in pages: by reference they cost less than TCP's copy when the message goes
    // at once. In a message that nobody uses any more, when it has the room.
    static Result<Ref<Outgoing>> create_in(Ref<Outgoing> used, kapi_msg* msg, u32 size);
    // Is it of use to create_in()? Then its bytes are given back. For whoever has the only reference.
    bool retire();

    // The message goes on with what part has.
    void append(Ref<Outgoing> part);
    u32 length() const { return length_; }
    const Ref<Psock> wanted;

    // Of the transmitter: bytes that TCP has.
    u32 sent = 0;
    u32 left() const { return length_ - sent; }
    // Fills at most count segments with what is to be sent next, and says how many and how many bytes.
    struct Filled { unsigned segments; u32 bytes; };
    Filled fill(kapi_segment* segments, unsigned count) const;

private:
    HW_MADE_BY_CREATE;
    static Result<Ref<Outgoing>> create_in_pages(kapi_msg* msg, u32 size, Ref<Psock> wanted);
    static constexpr u32 inline_max = 256, kept_max = 64 * 1024;
    Outgoing(u32 size, Ref<Psock> to) : wanted(std::move(to)), own_length_(size), length_(size) {}
    ~Outgoing() = default;
    u8* inline_bytes() const { return reinterpret_cast<u8*>(const_cast<Outgoing*>(this) + 1); }
    unsigned fill_own(u32 skip, kapi_segment* segments, unsigned count) const;

    Pages pages_;    // null: the bytes stand behind us
    u32 own_length_; // of this part
    u32 length_;     // with all parts
    Ref<Outgoing> next_; // part
    Outgoing* last_ = this;
};

} // namespace kcm
