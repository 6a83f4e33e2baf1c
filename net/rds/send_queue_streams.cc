// SPDX-License-Identifier: GPL-2.0
// Streams come and go: what is sent again, what is given up, and what goes to another path.
#include "send_queue.h"

#include "socket.h"

namespace rds {

void SendQueue::stream_began()
{
    Guard guard(lock_);
    una_known_ = pinned_ = false;
}

// After every attempt to connect, also after one that failed: nothing here may depend on how much is queued, but for what was
// acknowledged, which is ended once.
void SendQueue::stream_ended()
{
    end_acked(); // else these are sent again
    Queue done;
    {
        Guard guard(lock_);
        una_known_ = false;
        several_move();
        stream_++;
        done.splice_front(end_with_stream_);
        again_.splice_front(retransmit_);
        if (Message* next = send_.front(); next && next->is_spent()) { // it had to wait behind its operation
            next->on = Message::On::again;
            again_.push_back(send_.pop_front());
        }
        // Answers are not needed any more: the peer repeats its pings and probes over the next stream, if it does not know that
        // they have arrived (PathReceiver::receive()). No socket owns an
        // answer and could cancel it, so for a peer that is gone it would keep the connection, and attempts to connect,
        // without end.
        while (Ref<Message> pong = pongs_.pop_front()) {
            pong->on = Message::On::none;
            done.push_back(send_.remove(*pong));
        }
        count_pongs(0, pong_count_);
    }
    complete(done);
    end_given_up();
}

// ---- what was cancelled while a stream had it

// Message::on may be of an earlier stream. The queues of a connection have one lock.
bool SendQueue::stream_has(const Message& message) HW_NO_TSA
{
    return message.on == Message::On::retransmit && message.stream == message.path_queue->stream_;
}

// Of the queue whose stream has message, which may be another one.
RefList<Message, OwnerQueue>& SendQueue::given_up_with(Message& message) HW_NO_TSA
{
    return message.path_queue->given_up_;
}

// TCP has nothing of them any more.
void SendQueue::end_given_up()
{
    for (bool more = true; more;) {
        Queue done;
        {
            Guard guard(lock_);
            for (unsigned i = 0; i < at_once && more; i++) {
                Ref<Message> message = given_up_.pop_front();
                more = static_cast<bool>(message);
                if (!more || !is_on<PathQueue>(*message))
                    continue;
                done.push_back(again_.remove(*message));
                has_left(*message); // a walk that has come to it must not go on along done
            }
        }
        complete_left(done);
        kapi_resched();
    }
}

// ---- what must not be sent any more

// Messages of an earlier stream that are being given to this one, or were: they are not returned if the stream takes nothing.
void SendQueue::take_resent(Queue& taken)
{
    Message* next = retransmit_.back();
    for (unsigned i = 0; next && i < Batch::max_messages; i++) {
        Message& m = *next;
        next = retransmit_.previous(m);
        if (!(m.header().flags & flag_retransmitted))
            continue;
        m.on = m.zerocopy() ? Message::On::leaving : Message::On::none;
        taken.push_front(retransmit_.remove(m));
    }
}

// The owner may send at any moment: all that must not be sent again leaves the queues in one step.
void SendQueue::give_up_sent(bool with_present)
{
    Guard guard(lock_);
    several_move();
    dropped_.splice_front(again_);
    take_resent(dropped_);
    if (with_present)
        dropped_.splice_front(retransmit_);
}

u32 SendQueue::end_dropped() HW_NO_TSA // complete() has the lock when it touches the list
{
    return complete(dropped_, true);
}

// A message that is given up, and that the stream has with memory of the program, which so is not free before. Since it was
// taken off its queue the stream may have ended, or sent it.
void SendQueue::keep_for_stream(Message& message)
{
    bool was_given = message.on == Message::On::leaving || message.on == Message::On::retransmit;
    if (!message.zerocopy() || closed_ || !was_given || message.stream != stream_ || is_acked(message))
        return has_left(message);
    has_left(message);
    message.on = Message::On::leaving;
    end_with_stream_.push_back(Ref<Message>::share(message));
}

// False: all have moved.
bool SendQueue::move_some(SendQueue& other) HW_NO_TSA
{
    for (unsigned i = 0; i < at_once; i++) {
        Ref<Message> message = other.closed_ ? Ref<Message>() : send_.pop_front();
        if (!message)
            return false;
        has_left(*message);
        static_cast<void>(other.append(std::move(message), false));
    }
    return true;
}

// What is enqueued meanwhile comes behind those that have yet to move.
void SendQueue::move_to(SendQueue& other)
{
    for (bool more = true; more;) {
        {
            Guard guard(lock_);
            several_move();
            more = move_some(other);
            if (!more)
                moved_to_ = &other;
        }
        kapi_resched();
    }
}

void SendQueue::close()
{
    Queue done;
    {
        Guard guard(lock_);
        closed_ = true;
        several_move();
        done.splice_front(send_);
        done.splice_front(again_);
        done.splice_front(retransmit_);
        done.splice_front(end_with_stream_);
        done.splice_front(dropped_);
    }
    complete(done);
}

} // namespace rds
