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
class Socket;

class Incoming : public RefCounted<Incoming>, public ListNode<SocketQueue> {
public:
    // header has been classified. Any context. ENOMEM.
    static Result<Ref<Incoming>> create(const Header& header);
    // Loopback: the payload stays where the sender put it.
    static Result<Ref<Incoming>> from_message(Ref<Message> message);
    static void destroy(Incoming* incoming);
    // Charges its memory to the owner of the socket until it ends, which is before the socket does; unless the limit is reached.
    // False: senders should wait, because little is left below the limit.
    bool charge(kapi_sk* sk);
    bool charged() const { return payer_ != nullptr; }
    // It was not charged, and socket counts it until it ends, which is before the socket does (Socket::uncharged_ended()).
    void counts_for(Socket& socket) { counted_by_ = &socket; }

    Header header;
    Endpoint source;
    u64 received_real_ns = 0; // for SO_TIMESTAMP, 0: not requested
    u64 trace_ns[4] = {};     // header seen, header complete, delivered, handed to the user
    u64 place = 0;            // in the order of all that came for its socket
    bool overdraws = false;   // it was let in only because it would hold up a ring (PathReceiver::find_place())

    bool looped() const { return static_cast<bool>(looped_); }
    u32 length() const { return header.length; }
    u32 left() const { return header.length - filled_; }
    usize true_size() const { return true_size_ + large_.true_size(); }
    // The connection and path it came by, while it is being received.
    Connection* connection = nullptr;
    unsigned path = 0;

    // size of the missing bytes are offered. ENOMEM: not all of them, and there are too many incomplete messages. Also called for
    // the header alone, because the memory for a small payload is allocated with it.
    Result<> expect(usize size);
    // Takes size bytes at offset of the offer; size at most left(). ENOMEM: nothing was taken; or as expect().
    Result<> append(kapi_rx* rx, usize offset, u32 size);
    // The same with the first size bytes of buffer, which is empty afterwards if the message keeps it.
    Result<> attach(RxBuffer& buffer, u32 size);
    bool copies() const { return map_ || inlined_; } // the message keeps no buffer
    // The payload of a congestion map, which is in one piece; null when this is none.
    const std::byte* map_payload() const;
    // Copies the first size bytes of the payload to the user. Sleeps. EFAULT.
    Result<> copy_to_user(kapi_msg* msg, u32 size) const;

private:
    HW_MADE_BY_CREATE;
    Incoming() = default;
    ~Incoming();

    void filled(u32 size);
    u32 partial_size() const { return static_cast<u32>(sizeof(Incoming)) + length(); }
    u8* inline_payload() const { return reinterpret_cast<u8*>(const_cast<Incoming*>(this) + 1); }

    u32 filled_ = 0;
    bool inlined_ = false;
    bool partial_ = false; // only a part has arrived, and is counted
    bool all_offered_ = false; // the rest has arrived, whether it is taken at once or in parts
    usize true_size_ = 0; // without large_
    ReceivedBytes large_{Alloc::atomic}; // when not inlined
    kapi_sk* payer_ = nullptr;
    usize charged_ = 0;
    Socket* counted_by_ = nullptr;
    std::byte* map_ = nullptr; // a congestion map's payload, which is of two pages and not a byte more
    Ref<Message> looped_;
};

} // namespace rds
