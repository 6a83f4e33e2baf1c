// SPDX-License-Identifier: GPL-2.0
// A message being received, or waiting in a socket's queue.
//
// A small payload is copied once into the object's own buffer; of a large one, pieces of the network's buffers are kept
// by reference, except for small pieces, which are copied so that a peer cannot make a byte cost a page.
#pragma once

#include "address.h"
#include "message.h"
#include "wire.h"

namespace rds {

class Connection;

class Incoming : public RefCounted<Incoming>, public ListNode<SocketQueue> {
public:
    // header has been classified. Any context. ENOMEM.
    static Result<Ref<Incoming>> create(const Header& header);
    // Loopback: the payload stays where the sender put it.
    static Result<Ref<Incoming>> from_message(Ref<Message> message);
    static void destroy(Incoming* incoming);

    Header header;
    Endpoint source;
    u64 received_real_ns = 0; // for SO_TIMESTAMP, 0: not asked for
    u64 trace_ns[4] = {};     // header seen, header complete, delivered, handed to the user
    bool counted = false;     // on its socket's accounts (set by the socket)

    u32 length() const { return header.length; }
    u32 left() const { return header.length - filled_; }
    usize true_size() const { return true_size_; }
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

    // A piece of a large payload: either a network buffer, or bytes copied behind it.
    struct Chunk {
        Chunk* next = nullptr;
        RxBuffer network;
        u32 size = 0;     // payload bytes in it
        u32 capacity = 0; // of the bytes behind it; 0 with a network buffer
        u8* bytes() { return reinterpret_cast<u8*>(this + 1); }
    };
    Result<> append_chunk(Own<Chunk> chunk, usize cost);
    Result<> append_copy(kapi_rx* rx, usize offset, u32 size);
    u8* inline_payload() const { return reinterpret_cast<u8*>(const_cast<Incoming*>(this) + 1); }

    u32 filled_ = 0;
    bool inlined_ = false;
    usize true_size_ = 0;
    Chunk* first_ = nullptr; // owned
    Chunk* last_ = nullptr;
    Ref<Message> looped_;
};

} // namespace rds
