// SPDX-License-Identifier: GPL-2.0
// What comes in on a path: its order, to whom it goes, and when the path must not be read because a socket is full.
#pragma once

#include "incoming.h"
#include "pull.h"
#include "receiver_memory.h"
#include "send_queue.h"

namespace rds {

class Path;
class Socket;
struct Stalled; // list tag: paths that a full socket keeps from being read

class PathReceiver : Pinned {
public:
    PathReceiver(Path& path, Spin<PathLock>& lock);
    ~PathReceiver();

    // Any context. A complete message came in.
    void receive(Ref<Incoming> incoming);

    // As in ReceiverMemory. Any context.
    bool note_sender(u32 sender, bool hawser);
    bool note_answer(u32 peers_id);
    void note_unnamed();
    bool has_name();
    u32 sender();
    u32 receiver_id();
    u64 next_number();
    u64 received(); // bytes of messages that have a number, with their headers

    // A message of so many bytes has brought a socket's queue to its limit: true when the path must not be read until resumed().
    // Any context.
    bool stall_on(Socket& socket, usize bytes);
    // A header came: false when its message must wait, because the socket that stalled an earlier stream of this path
    // is still full. Any context.
    bool may_read(MessageKind kind);
    // The header of a message for a socket came, which must wait if nobody can be charged for it and there are such messages. Any
    // context. EAGAIN: until resumed(); ENOMEM: for the time that the partial message's take_retry_delay() returns. True: it does
    // not wait, though there is no memory, because it is in a ring.
    Result<bool> find_place(const Header& header);
    // A part of the message has come: true when it stays in the stream until its program comes. Any context.
    bool leaves_to_program(const Header& header);
    Pull& pull() { return pull_; }
    // A message waits as find_place() said; after overdraw_memory() none of this stream does, up to a limit.
    bool lacks_memory() const { return memory_lack_.load_relaxed() == lacks; }
    void overdraw_memory() { memory_lack_.store_relaxed(does_not_matter); }
    // The stream was read to its end.
    void stream_ended();
    // Something came over the present stream.
    bool has_heard() const { return heard_.load_relaxed() != 0; }
    // The socket has room. Any context.
    void resumed(Socket& socket);
    // Forgets the socket, if there is one.
    void release_stall();
    // The stream waits for the socket for long, and is lost, or brings acknowledgements: what comes goes to the socket all the
    // same, lest the path wait as long as a program does not read. False: the socket has too much for that.
    // For the stream itself it takes so many bytes beyond that.
    bool overdraw(usize beyond);
    bool stalled() const { return stalled_.load_acquire() == stalled_now; }

private:
    // A stall outlasts its stream. On the next one all is read that is not for a socket, so that a full socket holds up
    // one direction only; the first message waits.
    enum : u32 { not_stalled, stalled_now, stalled_before, overdrawn };
    enum : u32 { lacks_none, lacks, does_not_matter };

    void end_lack();
    bool is_posted() const; // by the transport to a ring, for which all messages of the path wait
    bool in_sequence(const Header& header);
    void answer_ping(const Header& header);
    void deliver(Ref<Incoming> incoming);
    Ref<Socket> find_socket(const Endpoint& to);

    Path& path_;
    Spin<PathLock>& lock_;
    Pull pull_;
    ReceiverMemory memory_ HW_GUARDED_BY(lock_);
    u64 received_ HW_GUARDED_BY(lock_) = 0;
    Ref<Socket> stalled_on_ HW_GUARDED_BY(lock_);
    usize beyond_ HW_GUARDED_BY(lock_) = 0; // if overdrawn, what the socket takes of this stream beyond the limit for all
    Atomic<u32> stalled_{not_stalled}; // else stalled_on_ is set
    Atomic<u32> memory_lack_{lacks_none};
    Atomic<u32> heard_{0};
    Atomic<u64> last_hash_{0}; // in the bind table, of the port that the last message was for, which is in the upper half
};

} // namespace rds
