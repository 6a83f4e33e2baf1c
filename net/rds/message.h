// SPDX-License-Identifier: GPL-2.0
// An outgoing message: its header, its payload and who waits for its acknowledgement.
//
// Header and small payload share one allocation; a large payload is in pages, which the network gets by reference.
#pragma once

#include "address.h"
#include "wire.h"

#include <hawser/list.h>
#include <hawser/lock.h>
#include <hawser/user.h>

#include <span>

namespace rds {

class Path;
class Socket;

// Cookies of finished MSG_ZEROCOPY sends, as one control message carries them.
struct ZerocopyBatch : RefCounted<ZerocopyBatch>, ListNode<ZerocopyBatch> {
    static constexpr u32 max_cookies = 8;
    static void destroy(ZerocopyBatch* batch) { dispose(batch); }
    u32 count = 0;
    u32 cookies[max_cookies] = {};
};

struct NoticeLock { static constexpr const char* name = "rds notices"; static constexpr unsigned rank = 39; };

// Where notices of finished zerocopy sends go, as long as the socket is open. A stream may have a part of a message long
// after the socket was closed: that must not hold the socket, and with it the module and the namespace.
class NoticeBox : public RefCounted<NoticeBox> {
public:
    static void destroy(NoticeBox* box) { dispose(box); }
    explicit NoticeBox(Socket& socket);
    void close(); // by the socket, which is still alive
    void put(Ref<ZerocopyBatch> batch); // any context

private:
    Guarded<Socket*, NoticeLock> socket_; // null: closed
};

struct PathQueue;   // list tag: the queues of a path
struct SocketQueue; // list tag: the queues of a socket

class Message : public RefCounted<Message>, public ListNode<PathQueue>, public ListNode<SocketQueue> {
public:
    // A message with the user's next length bytes. Sleeps. Fails with ENOMEM, EFAULT.
    static Result<Ref<Message>> from_user(kapi_msg* msg, u32 length);
    // As above, but with the user's own pages. ENOBUFS: memlock.
    static Result<Ref<Message>> from_user_pages(kapi_msg* msg, u32 length, u32 cookie, Ref<NoticeBox> notices);
    // From when it is sent on: the cookie goes to the box when the pages are free again. Of a call that failed the user
    // knows that itself.
    void promise_notice() { noticed_ = true; }
    void withdraw_notice() { noticed_ = false; }
    // A message without a user: a handshake, an answer, a congestion map, whose payload the caller fills. Any context.
    static Result<Ref<Message>> internal(u32 length = 0);
    std::byte* internal_payload() { return inline_payload(); }
    static void destroy(Message* message);

    Header& header() { return *reinterpret_cast<Header*>(this + 1); }
    u32 length() const { return length_; }                    // of the payload
    u32 wire_length() const { return sizeof(Header) + length_; }
    usize true_size() const { return true_size_; }            // memory held
    bool zerocopy() const { return static_cast<bool>(zerocopy_); }

    // Fills segments with the wire bytes from offset on; returns how many segments were used and the bytes they hold.
    struct Gathered { unsigned count; u32 bytes; };
    Gathered gather(u32 offset, std::span<kapi_segment> segments);
    // Copies payload bytes to the user's message (loopback). Sleeps. EFAULT.
    Result<> copy_payload(u32 offset, u32 size, kapi_msg* msg);

    // The sending socket, as long as it waits for the acknowledgement. Whoever takes it does the socket's accounting.
    void set_owner(Ref<Socket> socket);
    Ref<Socket> take_owner();
    bool has_owner() const { return owner_.load_acquire() != nullptr; }

    // Where it goes; set before it has an owner. The path lets go of its messages before it ends.
    Ref<Path> path;
    Endpoint destination;

    // Under the lock of the path it is queued on:
    u32 ack_position = 0;     // acknowledged when the peer's transport has everything before this
    bool position_known = false;
    bool sent = false;        // some byte may have reached the wire
    u32 told = 0;             // not 0: a handshake or map (Path::Told), never retransmitted and without a number
    bool was_owned = false;   // a socket sent it (set before it is queued)
    bool pong = false;        // something that a peer can ask for as often as it likes: their number is bounded

private:
    HW_MADE_BY_CREATE;
    Message() = default;
    static Result<Ref<Message>> create(u32 length, u32 inline_bytes, Alloc mode);
    std::byte* inline_payload() { return reinterpret_cast<std::byte*>(this + 1) + sizeof(Header); }

    u32 length_ = 0;
    usize true_size_ = 0;
    Pages pages_;
    Atomic<Socket*> owner_{nullptr}; // holds a reference
    bool noticed_ = false;
    Ref<NoticeBox> notices_;
    Ref<ZerocopyBatch> zerocopy_;
};

} // namespace rds
