// SPDX-License-Identifier: GPL-2.0
#include "send_queue.h"

#include "connection.h"
#include "socket.h"

namespace rds {

namespace {

constexpr u32 max_pongs = 1024;
constexpr u32 own_pongs = 4; // that a path may have however many other peers cause
// One packet of the largest size, and one batch.
constexpr u32 most_waiting_kbytes = 64;
constexpr u32 most_waiting = Batch::max_messages;

} // namespace

bool SendQueue::enqueue(Ref<Message> message)
{
    Guard guard(lock_);
    return append(std::move(message));
}

bool SendQueue::enqueue(Ref<Message> message, bool& waits)
{
    u32 bytes = message->wire_length();
    Guard guard(lock_);
    if (!append(std::move(message)))
        return false;
    waits = waits && waits_for_others(bytes);
    return true;
}

// Each would be a packet of its own. What two packets that are on their way take to be acknowledged costs less.
bool SendQueue::waits_for_others(u32 bytes)
{
    u32 kbytes = waiting_kbytes_ + bytes / 1024;
    waiting_kbytes_ = static_cast<u8>(min(kbytes, most_waiting_kbytes));
    waiting_ = static_cast<u8>(min(waiting_ + 1u, most_waiting));
    waits_ = waiting_ < most_waiting && kbytes < most_waiting_kbytes && !moved_to_ && has_two_under_way();
    return waits_;
}

bool SendQueue::end_wait()
{
    Guard guard(lock_);
    return waits_ && !has_two_under_way() && std::exchange(waits_, false);
}

// The queues of a connection have one lock.
bool SendQueue::append(Ref<Message> message, bool timed) HW_NO_TSA
{
    if (moved_to_ && !message->pong) // an answer is for its own stream
        return moved_to_->append(std::move(message), timed);
    if (closed_)
        return false;
    // Cancelled between reserving room and now. What had no owner from the start is always queued.
    if (message->was_owned && !message->has_owner())
        return true;
    u64 number = next_++;
    message->header().sequence = number;
    if (message->was_owned && timed)
        latency_.queued(number);
    has_joined(*message);
    message->on = Message::On::send;
    message->path_queue = this;
    send_.push_back(std::move(message));
    return true;
}

// The stream took nothing of it.
void SendQueue::put_back(Ref<Message> message)
{
    bool again = (message->header().flags & flag_retransmitted) != 0;
    sent_again_ -= again;
    message->on = again ? Message::On::again : Message::On::send;
    queue(message->on).push_front(std::move(message));
}

bool SendQueue::enqueue_bounded(Ref<Message> message)
{
    {
        Guard guard(lock_);
        if (pong_count_ >= max_pongs || (peers_ && !peers_->has_room_for_answer(pong_count_ < own_pongs)))
            return false;
    }
    message->pong = true;
    return enqueue(std::move(message));
}

void SendQueue::cancel(Message& message)
{
    Ref<Message> removed;
    Guard guard(lock_);
    if (message.on == Message::On::leaving)
        return;
    // The program's memory is free when TCP has done with it: when it is acknowledged, or the stream ends. It is nobody's use of
    // the connection.
    if (message.zerocopy() && stream_has(message)) {
        message.given_up = true;
        given_up_with(message).push_back(Ref<Message>::share(message));
        if (u32* counter = std::exchange(message.counter, nullptr))
            --*counter;
        return;
    }
    if (message.on != Message::On::none) // else it is on none, or on the list of a thread that notifies its sender
        removed = send_.remove(message); // from whichever queue it is on
    has_left(message);
}

void SendQueue::has_joined(Message& message)
{
    if (message.pong)
        return add_pong(message);
    message.counter = &others_;
    others_++;
}

// It is on no queue of a path any more. The queue that counts it may be another path's.
void SendQueue::has_left(Message& message)
{
    message.on = Message::On::none;
    if (message.first_of_piece) [[unlikely]]
        forget_piece(message);
    if (message.given_up && is_on<OwnerQueue>(message))
        static_cast<void>(given_up_with(message).remove(message)); // the caller has a reference, too
    if (message.pong)
        drop_pong(message);
    if (u32* counter = std::exchange(message.counter, nullptr))
        --*counter;
}

void SendQueue::add_pong(Message& pong)
{
    pongs_.push_back(Ref<Message>::share(pong));
    count_pongs(1, 0);
}

// The caller has a reference, too.
void SendQueue::drop_pong(Message& pong)
{
    if (!is_on<OwnerQueue>(pong))
        return; // given up, while a batch that has it was on its way
    Ref<Message> dropped = pongs_.remove(pong);
    count_pongs(0, 1);
}

void SendQueue::count_pongs(u32 added, u32 gone)
{
    pong_count_ += added - gone;
    if (peers_ && added)
        peers_->answers_added(added);
    if (peers_ && gone)
        peers_->answers_gone(gone);
}

// Sleeps. Ends messages that wait on no queue of a path any more, and notifies their senders. What cancel() finds there it takes
// off done. How many.
u32 SendQueue::complete(Queue& done, bool stream_goes_on)
{
    for (u32 count = 0;; count++) {
        Ref<Message> message;
        {
            Guard guard(lock_);
            message = done.pop_front();
            if (!message)
                return count;
            stream_goes_on ? keep_for_stream(*message) : has_left(*message);
        }
        notify_sender(*message, stream_goes_on);
        if (count % at_once == at_once - 1)
            kapi_resched();
    }
}

// The same for messages that have left, which cancel() does not look for on a list: no lock is needed.
void SendQueue::complete_left(Queue& done)
{
    while (Ref<Message> message = done.pop_front())
        notify_sender(*message, false);
}

void SendQueue::notify_sender(Message& message, bool stream_goes_on)
{
    Ref<Socket> owner = message.take_owner();
    if (!owner)
        return;
    owner->send_done(message);
    if (stream_goes_on && !message.connection->transport.post) // as Socket::cancel_sends()
        message.connection = nullptr;
}

// ---- acknowledgement

// True: there may be more.
bool SendQueue::reap(Queue& done, unsigned most)
{
    return (!end_with_stream_.empty() && reap(end_with_stream_, done, most)) || reap(retransmit_, done, most);
}

bool SendQueue::reap(Queue& from, Queue& done, unsigned most)
{
    for (unsigned i = 0; i < most; i++) {
        Message* m = from.front();
        if (!m || !is_acked(*m))
            return false;
        has_left(*m);
        latency_.acked(m->header().sequence);
        done.push_back(from.pop_front());
    }
    return true;
}

bool SendQueue::is_acked(const Message& message)
{
    return una_known_ && message.position_known && static_cast<s32>(una_ - message.ack_position) >= 0;
}

// True: there may be more.
bool SendQueue::reap_some(unsigned most)
{
    Queue done;
    bool more;
    {
        Guard guard(lock_);
        more = reap(done, most);
    }
    complete_left(done);
    return more;
}

void SendQueue::end_acked()
{
    while (reap_some(at_once))
        kapi_resched();
}

bool SendQueue::acked(u32 una)
{
    bool over = kapi_turn_is_over(), more = true, waits;
    Queue done;
    {
        Guard guard(lock_);
        if (!una_known_ || static_cast<s32>(una - una_) > 0)
            una_ = una;
        una_known_ = true;
        if (!over)
            more = reap(done, acked_of_each);
        waits = waits_;
    }
    complete_left(done);
    for (unsigned ended = acked_of_each; more && ended < acked_at_once && !kapi_turn_is_over(); ended += acked_of_each)
        more = reap_some(acked_of_each);
    return (waits && end_wait()) || more;
}

bool SendQueue::is_acked(u32 position)
{
    Guard guard(lock_);
    return una_known_ && static_cast<s32>(una_ - position) >= 0;
}

// ---- to the transport

void SendQueue::fill(Batch& batch)
{
    for (bool more = true; more;) {
        Queue spent;
        more = fill(batch, spent);
        complete_left(spent);
    }
}

// True: there may be more.
bool SendQueue::fill(Batch& batch, Queue& spent)
{
    unsigned given_up = 0;
    Guard guard(lock_);
    waiting_ = waiting_kbytes_ = 0;
    waits_ = false;
    while (!batch.full()) {
        Ref<Message> message = again_.pop_front();
        bool again = message.get() != nullptr;
        if (again)
            message->header().flags |= flag_retransmitted;
        else
            message = send_.pop_front();
        if (!message)
            return false;
        if (again && message->is_spent()) {
            has_left(*message);
            spent.push_back(std::move(message));
            if (++given_up == at_once)
                return true;
            continue;
        }
        sent_again_ += again;
        message->on = Message::On::retransmit;
        message->stream = stream_;
        pinned_ |= message->zerocopy();
        message->position_known = false;
        retransmit_.push_back(message);
        batch.add(std::move(message), 0);
    }
    batch.more = !again_.empty() || !send_.empty();
    return false;
}

void SendQueue::account(Batch& batch, u32 taken, u32 end_seq)
{
    Queue done;
    {
        Guard guard(lock_);
        u32 left = taken;
        unsigned whole = 0; // items that were taken to their end
        for (; whole < batch.count; whole++) {
            auto& item = batch.item(whole);
            u32 part = min(left, item.bytes);
            left -= part;
            item.begin += part;
            if (item.begin < item.message->wire_length())
                break;
            item.message->ack_position =
                batch.whole ? static_cast<u32>(item.message->header().sequence) + 1 : end_seq - left;
            item.message->position_known = true;
            if (item.message->control == control_probe) {
                batch.probe_sent = true;
                batch.probe_end = item.message->ack_position;
            }
        }
        for (unsigned i = batch.count; i-- > whole;) {
            auto& item = batch.item(i);
            if (item.begin > 0) { // the stream has its beginning, so it must get the rest, cancelled or not
                batch.partial_begin = item.begin;
                batch.partial = std::move(item.message);
                continue;
            }
            Message& m = *item.message;
            batch.control_left |= m.control;
            bool leaves = m.on == Message::On::leaving && is_on<PathQueue>(m);
            if (m.on != Message::On::retransmit && !leaves)
                continue; // a control message, cancelled, or given up
            Ref<Message> message = retransmit_.remove(m);
            if (!m.given_up && !leaves) {
                put_back(std::move(message));
                continue;
            }
            has_left(m);
            done.push_back(std::move(message));
        }
        batch.more_acked = reap(done, at_once);
        batch.more = batch.partial || batch.control_left || !again_.empty() || !send_.empty();
    }
    complete_left(done);
}

Ref<Message> SendQueue::take()
{
    Guard guard(lock_);
    Ref<Message> message = send_.pop_front();
    if (message)
        has_left(*message);
    return message;
}

bool SendQueue::pass(Message& message)
{
    Guard guard(lock_);
    if (closed_ || !send_.empty())
        return false;
    message.header().sequence = next_++;
    return true;
}

void SendQueue::give_back(Ref<Message> message)
{
    Guard guard(lock_);
    if (message->was_owned && !message->has_owner()) // cancelled meanwhile
        return;
    has_joined(*message);
    put_back(std::move(message));
}

} // namespace rds
