// SPDX-License-Identifier: GPL-2.0
// The state of a path for the sequence numbers of its messages: of those that it receives, and of those that it sent.
//
// Why each message arrives exactly once, between two hosts that run this code:
// - A stream is read to its end, and only then is the next one of its path begun. What was given to a stream and not
//   acknowledged is sent again on the next, in order, and the receiver drops numbers below the one it expects.
// - That holds as long as the receiver remembers the sender's numbers. Its memory has a name (receiver_id()), which
//   changes whenever it forgets, that is when another sender (one life of a connection) names itself on this path, or
//   the memory is new.
// - On each new stream nothing with a number is sent before the receiver has answered a probe on it, so the sender
//   has the name of the memory that will check its messages. If that is not the memory they were first sent to (sent_to_),
//   it gives up those that it has sent: it is unknown whether they arrived.
// - Probes and answers have no number, and are sent before all messages with one: a receiver that stops reading because a
//   socket is full has read them. This also holds for the next stream, on which it reads no message before there is room.
// - Any user of the peer's host can connect to this host. Numbers that come over a stream without a name do not touch the
//   memory of a sender that has one: they are counted separately, from its present position, until it names itself again.
//
// Pure logic: the owner has the lock.
#pragma once

#include <hawser/base.h>

namespace rds {

using namespace hw;

class ReceiverMemory {
public:
    // id is random and not 0.
    explicit ReceiverMemory(u32 id) : receiver_id_(id) {}

    // The numbers received from now on are this sender's (0: unknown). True when they were another's before. hawser: it has
    // named itself over the present stream. If the memory was not this one's, it has forgotten, and is called new_id from
    // now on; numbers that came without a name were another's, of a peer that does not name itself.
    bool note_sender(u32 sender, bool hawser, u32 new_id)
    {
        u32 old = std::exchange(sender_, sender);
        bool is_new = old != sender && (old != 0 || (hawser && next() != 1));
        if (hawser)
            note_hawser(sender, new_id);
        else if (is_new)
            unnamed_next_ = 1;
        return is_new;
    }
    u32 sender() const { return sender_; }
    u32 receiver_id() const { return receiver_id_; }
    void stream_ended() { named_ = counted_ = false; }

    // False: this message was received before. The peer sends again, marked, messages that may have arrived; a
    // smaller number without the mark is from a peer that restarted. Numbers may skip: messages can be cancelled before
    // they are sent.
    bool accept(u64 number, bool retransmitted)
    {
        if (number < next() && retransmitted)
            return false;
        if (named_) {
            next_ = number + 1;
        } else {
            unnamed_next_ = number + 1;
            counted_ = true;
        }
        return true;
    }
    u64 next() const { return named_ || !unnamed_next_ ? next_ : unnamed_next_; }

    // The peer answered a probe over the present stream: peers_id is what its memory is called (0: it has no name).
    // True: messages that were sent before went to another memory, and are to be given up.
    bool note_answer(u32 peers_id) { return std::exchange(sent_to_, peers_id) != peers_id; }
    // The last answer was a hawser peer's.
    bool has_name() const { return sent_to_ != 0; }
    // Numbers are sent over a stream without our name: a hawser peer cannot assign them to a sender.
    void note_unnamed() { sent_to_ = 0; }

private:
    void note_hawser(u32 sender, u32 new_id)
    {
        if (hawser_ != sender) {
            if (hawser_ != 0 || next() != 1)
                receiver_id_ = new_id;
            next_ = 1;
        } else if (counted_) { // it treated this host as a foreign peer at first: a stream has one sender
            next_ = max(next_, unnamed_next_);
        }
        hawser_ = sender;
        named_ = true;
        unnamed_next_ = 0;
        counted_ = false;
    }

    u32 sender_ = 0;        // the last sender
    u32 hawser_ = 0;        // the last sender that named itself: next_ counts its numbers
    u32 receiver_id_;       // names next_ from one forgetting to the next
    bool named_ = false;    // hawser_ has named itself over the present stream
    bool counted_ = false;  // numbers without a name arrived over the present stream
    u64 next_ = 1;
    u64 unnamed_next_ = 0;  // of numbers without a name since hawser_ named itself; 0: there were none
    u32 sent_to_ = 0; // the peer's memory that the messages marked as sent were sent to
};

} // namespace rds
