// SPDX-License-Identifier: GPL-2.0
// An outgoing message: its header, its payload and the socket that waits for its acknowledgement.
//
// Header and small payload share one allocation; a large payload is in pages, which the network gets by reference.
#pragma once

#include "../lock_order.h"
#include "address.h"
#include "rdma_operation.h"
#include "wire.h"

#include <hawser/list.h>
#include <hawser/lock.h>
#include <hawser/user.h>

#include <span>

namespace rds {

class Connection;
class Socket;
class SendQueue;

// Cookies of finished MSG_ZEROCOPY sends, as one control message carries them.
struct ZerocopyBatch : RefCounted<ZerocopyBatch>, ListNode<ZerocopyBatch> {
    static constexpr u32 max_cookies = 8;
    static void destroy(ZerocopyBatch* batch) { dispose(batch); }
    u32 count = 0;
    u32 cookies[max_cookies] = {};
};

// Where notices of finished zerocopy sends go, as long as the socket is open. A stream may have a part of a message
// long after the socket was closed: that must not hold the socket, and with it the module and the namespace.
class NoticeBox : public RefCounted<NoticeBox> {
public:
    static void destroy(NoticeBox* box) { dispose(box); }
    explicit NoticeBox(Socket& socket);
    void close(); // by the socket, which is still alive
    // A notice is due from when its message is made until the program takes it, or the message ends without one. Any
    // context. False: as many are due as one socket may have.
    bool reserve();
    void taken(u32 count) { due_.fetch_sub(count); }
    void put(Ref<ZerocopyBatch> batch); // any context
    void put(Ref<RdmaNotice> notice);   // any context

private:
    Ref<Socket> socket();
    static constexpr u32 max_due = 4096; // of a program that takes none: 32 KiB of cookies
    Guarded<Socket*, NoticeLock> socket_; // null: closed
    Atomic<u32> due_{0};
};

struct PathQueue;   // list tag: the queues of a path
struct OwnerQueue;  // list tag: all messages of a socket, or all answers of a path
struct SocketQueue; // list tag: what a socket has received

// Messages of a path itself rather than of a socket. It is never retransmitted, and has no number.
enum Control : u32 { control_probe = 1, control_reply = 2, control_map = 4 };

class Message : public RefCounted<Message>, public ListNode<PathQueue>, public ListNode<OwnerQueue> {
public:
    // A message with the user's next length bytes. Sleeps. Fails with ENOMEM, EFAULT. For a path that loops it has room for what
    // is received of it (Incoming::from_message()), which saves an allocation, unless both need more than a page.
    static Result<Ref<Message>> from_user(kapi_msg* msg, u32 length, bool loops = false);
    // As above, but with the user's own pages. ENOMEM also: memlock, or notices that the program does not take.
    static Result<Ref<Message>> from_user_pages(kapi_msg* msg, u32 length, u32 cookie, Ref<NoticeBox> notices);
    // From when it is sent on: the cookie goes to the box when the pages are free again. After a failed call
    // there is no notice.
    void promise_notice() { note_promise(true); }
    void withdraw_notice() { note_promise(false); }
    // A message without a user: a handshake, an answer, a congestion map, whose payload the caller fills. In a context that
    // mode allows.
    static Result<Ref<Message>> internal(u32 length = 0, Alloc mode = Alloc::atomic);
    std::byte* internal_payload() { return inline_payload(); }
    static void destroy(Message* message);

    Header& header() { return *reinterpret_cast<Header*>(this + 1); }
    u32 length() const { return length_; }                    // of the payload
    u32 wire_length() const { return sizeof(Header) + length_; }
    usize true_size() const { return true_size_; }            // memory held
    bool in_pages() const { return static_cast<bool>(pages_); } // else the payload follows the header
    bool zerocopy() const { return static_cast<bool>(zerocopy_); }

    // Fills segments with the wire bytes from offset on; returns how many segments were used and the bytes they hold.
    struct Gathered { unsigned count; u32 bytes; };
    Gathered gather(u32 offset, std::span<kapi_segment> segments);
    // Copies payload bytes to the user's message (loopback). Sleeps. EFAULT.
    Result<> copy_payload(u32 offset, u32 size, kapi_msg* msg);

    // The sending socket, as long as it waits for the acknowledgement. The caller that takes it does the socket's accounting.
    void set_owner(Ref<Socket> socket);
    Ref<Socket> take_owner();
    bool has_owner() const { return owner_.load_acquire() != nullptr; }

    // The operation that is executed before it is sent. Null: none.
    void set_operation(Own<RdmaOperation> operation);
    RdmaOperation* operation() const { return operation_.get(); }
    // Any context. It has ended; without success the message is not sent again.
    void operation_done(rds_rdma_status status);
    // Its operation was posted to a stream, and is not known to have been executed there: neither is sent over another one.
    bool is_spent() const { return given_up || (operation_ && operation_->has_begun() && !operation_->has_succeeded()); }

    // Null: there is none.
    void* room_for_incoming() { return room_ ? reinterpret_cast<std::byte*>(this) + room_ : nullptr; }

    // A device may use its memory for ever, so that is never freed. What else it holds ends with it as usual. Any context.
    void keep_memory();

    // Where it goes; set before it has an owner, and null when only a stream has it still. The connection lets go of its
    // messages before it ends.
    Ref<Connection> connection;
    Endpoint destination;

    // Under the connection's path_lock():
    enum class On : u8 { none, send, again, retransmit, leaving }; // leaving: none, but the stream has memory of its program
    On on = On::none;         // which queue of its path (send_queue.h)
    u32* counter = nullptr;   // of the queue that counts it
    u32 stream = 0;           // the one of its path that has it, if it is on retransmit
    SendQueue* path_queue = nullptr; // the last that it was queued on
    u32 ack_position = 0;     // acknowledged when the peer's transport has everything before this, or its RDS has
    bool position_known = false;
    u32 control = 0;          // not 0: a Control
    bool was_owned = false;   // a socket sent it (set before it is queued)
    bool first_of_piece = false; // path_queue has noted it (SendQueue::note_piece())
    bool given_up = false;    // cancelled, but its stream has it, and with it pages of the program
    bool pong = false;        // an answer, which a peer can cause at any rate: their number is limited

private:
    HW_MADE_BY_CREATE;
    Message() = default;
    void note_promise(bool promised);
    static Result<Ref<Message>> create(u32 length, u32 inline_bytes, Alloc mode, bool loops = false);
    std::byte* inline_payload() { return reinterpret_cast<std::byte*>(this + 1) + sizeof(Header); }

    u32 length_ = 0;
    u32 room_ = 0; // where in its memory room for an Incoming begins, 0: there is none
    usize true_size_ = 0;
    Pages pages_;
    Atomic<Socket*> owner_{nullptr}; // holds a reference
    Atomic<u32> memory_is_kept_{0};
    bool noticed_ = false;
    Ref<NoticeBox> notices_;
    Ref<ZerocopyBatch> zerocopy_;
    Own<RdmaOperation> operation_;
};

} // namespace rds
