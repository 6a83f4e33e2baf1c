// SPDX-License-Identifier: GPL-2.0
// A message being received, or waiting in a socket's queue.
//
// A small payload is copied once into the object's own buffer; a large one stays in the network's (ReceivedBytes).
#pragma once

#include "address.h"
#include "message.h"
#include "wire.h"

#include <hawser/received.h>

namespace rds {

class Connection;

class Incoming : public RefCounted<Incoming>, public ListNode<SocketQueue> {
public:
    // header has been classified. Any context. ENOMEM.
    static Result<Ref<Incoming>> create(const Header& header);
    // Loopback: the payload stays where the sender put it.
    static Result<Ref<Incoming>> from_message(Ref<Message> message);
    static void destroy(Incoming* incoming) { dispose(incoming); }

    Header header;
    Endpoint source;
    u64 received_real_ns = 0; // for SO_TIMESTAMP, 0: not asked for
    u64 trace_ns[4] = {};     // header seen, header complete, delivered, handed to the user
    bool counted = false;     // on its socket's accounts (set by the socket)

    u32 length() const { return header.length; }
    u32 left() const { return header.length - filled_; }
    usize true_size() const { return true_size_ + large_.true_size(); }
    // The connection and path it came by, while it is being received.
    Connection* connection = nullptr;
    unsigned path = 0;

    // Takes size bytes at offset of the offer; size at most left(). ENOMEM: nothing was taken.
    Result<> append(kapi_rx* rx, usize offset, u32 size);
    // The payload of a congestion map, which is in one piece.
    const std::byte* map_payload() const;
    // Copies the first size bytes of the payload to the user. Sleeps. EFAULT.
    Result<> copy_to_user(kapi_msg* msg, u32 size) const;

private:
    HW_MADE_BY_CREATE;
    Incoming() = default;

    u8* inline_payload() const { return reinterpret_cast<u8*>(const_cast<Incoming*>(this) + 1); }

    u32 filled_ = 0;
    bool inlined_ = false;
    usize true_size_ = 0; // without large_
    ReceivedBytes large_; // when not inlined
    Ref<Message> looped_;
};

} // namespace rds
