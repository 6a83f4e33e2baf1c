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
    // Of a call's pages, with the connection it has to take (null: any). Sleeps. ENOMEM.
    static Result<Ref<Outgoing>> create(Pages pages, Ref<Psock> wanted);
    static void destroy(Outgoing* message);

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
    Outgoing(Pages pages, Ref<Psock> to);
    ~Outgoing() = default;

    Pages pages_;
    u32 own_length_;     // of pages_
    u32 length_;         // with all parts
    Ref<Outgoing> next_; // part
    Outgoing* last_ = this;
};

} // namespace kcm
