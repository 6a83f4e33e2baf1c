// SPDX-License-Identifier: GPL-2.0
// What is queued, and walks along it.
#include "send_queue.h"

namespace rds {

bool SendQueue::has_unsent()
{
    Guard guard(lock_);
    return !again_.empty() || !send_.empty();
}

bool SendQueue::has_pinned()
{
    Guard guard(lock_);
    return pinned_;
}

bool SendQueue::has_new()
{
    Guard guard(lock_);
    return !send_.empty();
}

bool SendQueue::has_sent_before()
{
    Guard guard(lock_);
    return !again_.empty();
}

bool SendQueue::is_empty()
{
    Guard guard(lock_);
    return send_.empty() && again_.empty() && retransmit_.empty() && end_with_stream_.empty();
}

bool SendQueue::has_only_answers()
{
    Guard guard(lock_);
    return others_ == 0;
}

bool SendQueue::has_answers()
{
    Guard guard(lock_);
    return pong_count_ != 0;
}

u64 SendQueue::next_number()
{
    Guard guard(lock_);
    return next_;
}

u32 SendQueue::length()
{
    Guard guard(lock_);
    return others_;
}

u64 SendQueue::sent_again()
{
    Guard guard(lock_);
    return sent_again_;
}

Latency::Counts SendQueue::latency()
{
    Guard guard(lock_);
    return latency_.counts();
}

// ---- walks in pieces

// The first message to look at, and its queue: all before it were visited. Null: that queue is at its end.
Message* SendQueue::begin_piece(bool retransmits, const Place& place, Message::On& on)
{
    auto is_there = [&](const Message* m) {
        return m && m->on != Message::On::none && (m->on == Message::On::retransmit) == retransmits;
    };
    if (Message* last = place.last.get(); place.moves == moves_ && is_there(last))
        return on = last->on, queue(on).next(*last);
    // When the last one is gone, so are those before it: the queue begins where the walk has come to, or nearly.
    if (is_there(piece_) && piece_->header().sequence <= place.next)
        return on = piece_->on, piece_;
    return on = retransmits ? Message::On::retransmit : Message::On::again, queue(on).front();
}

// For a part of a walk that begins anew, or that has to be made once more because it did not fit.
void SendQueue::note_piece(Message& first, Message::On on)
{
    if (piece_)
        piece_->first_of_piece = false;
    first.first_of_piece = true;
    first.on = on; // moves of several do not note it
    piece_ = &first;
}

// It leaves. The queues of a connection have one lock.
void SendQueue::forget_piece(Message& first) HW_NO_TSA
{
    first.first_of_piece = false;
    first.path_queue->piece_ = nullptr;
}

// Some of them may leave.
void SendQueue::several_move()
{
    moves_++;
    if (piece_)
        forget_piece(*piece_);
}

} // namespace rds
