// SPDX-License-Identifier: GPL-2.0
// From the queue of a path to the transport's stream, or, on loopback, to the receiver.
#pragma once

#include "send_queue.h"

namespace rds {

class Incoming;
class Path;

class Transmitter : Pinned {
public:
    Transmitter(Path& path, SendQueue& queue) : path_(path), queue_(queue) {}
    ~Transmitter();

    // Any context. The caller notifies. A control message is made when its turn comes: once however often it was
    // queued, and always the truth of that moment. It goes before all messages.
    void queue_control(Control what) { control_.fetch_or(what); }
    // Any context. The stream took less than it was offered: an acknowledgement makes room.
    bool is_blocked() const { return blocked_.load_relaxed() != 0; }

    // The following functions are for the owner (owner.h). Sends the queued messages. True when there is more to send at once.
    bool pump();
    bool pass(const Ref<Message>& message); // as Path::pass()
    void stream_began()
    {
        blocked_.store_relaxed(0);
        held_back_ = false;
        named_ = false;
    }
    void stream_ended();
    bool is_named() const { return named_; }
    // Any context. Bytes that the transport has taken.
    u64 taken() const { return taken_.load_relaxed(); }
    // Of the last probe that the stream took whole, if it is named: its end in the sequence space of the stream.
    u32 probe_end() const { return probe_end_; }

private:
    static constexpr unsigned max_rounds = 8;
    static constexpr unsigned max_looped = 64;

    bool pump_stream();
    bool pump_loop();
    void hand_over(Ref<Incoming> incoming);
    bool may_send_numbered() const;
    void collect(Batch& batch);
    bool collect_control(Batch& batch);
    Ref<Message> make_control(Control what);
    s64 offer(Batch& batch, u32& end_seq);
    bool account(Batch& batch, u32 taken, u32 end_seq);
    void report_taken(Batch& batch, u32 taken);
    void push();

    Path& path_;
    SendQueue& queue_;
    Atomic<u32> control_{0}; // of the present stream
    Atomic<u32> blocked_{0};
    Atomic<u64> taken_{0}; // which the owner alone changes
    // The owner's:
    Ref<Message> partial_; // the stream has its beginning
    u32 partial_begin_ = 0;
    u32 probe_end_ = 0;
    bool named_ = false;     // the stream has a probe
    bool held_back_ = false; // the stream expects more, and may delay the end of its data
    bool hurries_ = false;   // that end may have a message that is not to wait for an acknowledgement
};

} // namespace rds
