// SPDX-License-Identifier: GPL-2.0
// From the socket's receive queue to recvmsg; poll.
#include "net.h"
#include "socket.h"

namespace kcm {

// deadline_ns: of the call, 0 before it has waited for the first time.
Result<> Socket::wait_for_message(bool may_wait, u64& deadline_ns)
{
    if (error_is_next())
        TRY(check(kapi_sk_take_error(sk)));
    else if (Distributor::readable(*this))
        return {};
    if (!may_wait)
        return fail(KAPI_EAGAIN);
    if (!deadline_ns)
        deadline_ns = deadline_after(kapi_sk_rcvtimeo_ns(sk));
    return waited(readers_.wait_to_take(deadline_ns,
                                        [&] { return Distributor::readable(*this) || error_is_next(); }), deadline_ns);
}

// A connection's messages come before its error, also those that TCP holds; but none come to a socket that is to receive none.
bool Socket::error_is_next()
{
    if (!has_error() || Distributor::readable(*this))
        return false;
    // Again behind the look for a rest: who reads the last one delivers it first.
    return (mux->distributor.disabled(*this) || !mux->holds_back()) && !Distributor::readable(*this);
}

// What is not read of a message stays, unless it is a datagram's rest.
bool Socket::keeps_rest(const kcm_receive& receive) const
{
    return receive.spliced || !datagram;
}

// Nothing is taken. A call without room for a byte takes only a datagram.
bool Socket::peeks(const kcm_receive& receive) const
{
    return (receive.flags & KCM_ABI_MSG_PEEK) || (!receive.size && keeps_rest(receive));
}

// What was not read of it.
void Socket::put_back(Taken& taken, u32 read)
{
    taken.entry = {taken.entry.start + read, taken.entry.length - read};
    Wakes wakes;
    mux->distributor.put_back(*this, taken, wakes);
}

void Socket::trace_delivery(const Taken& taken, u32 size)
{
    const Bundle& bundle = *taken.bundle;
    for (unsigned i = 0; i < taken.count; i++)
        kapi_trace_kcm_message(KAPI_TRACE_KCM_DELIVER, bundle.connection, 1,
                               taken.count == 1 ? size : bundle.entry(taken.index + i).length);
}

// Copies what was taken of a message, or the messages.
Result<u32> Socket::hand_over(Taken& taken, const ReadRoom& room, kcm_receive& receive)
{
    u32 size = static_cast<u32>(min(receive.size, usize{taken.entry.length}));
    bool peek = peeks(receive), keeps = keeps_rest(receive), rest = !taken.has_the_end() || size < taken.entry.length;
    Result<> copied = taken.bundle->copy_to_user(receive.msg, taken.entry.start, size);
    if (copied)
        copied = put_control(taken, room, size, receive);
    if (!copied && !peek)
        put_back(taken, 0);
    TRY(std::move(copied));
    if (!rest || !keeps)
        receive.out_flags |= KCM_ABI_MSG_EOR;
    if (rest && !keeps)
        receive.out_flags |= KCM_ABI_MSG_TRUNC;
    if (!peek) {
        if (kapi_traces(KAPI_TRACE_KCM_DELIVER))
            trace_delivery(taken, size);
        rx_bytes.add(size);
        if (!rest || !keeps)
            rx_msgs.add(taken.count);
        else if (size < taken.entry.length)
            put_back(taken, size);
        else
            wake_readers();
    }
    return size;
}

// For several messages there has to be room for the length of each. The options are looked at once: others may change them.
ReadRoom Socket::room_of(const kcm_receive& receive) const
{
    ReadRoom room{static_cast<u32>(min(receive.size, usize{~u32{0}}))};
    room.splits = keeps_rest(receive);
    room.connection = tell_connection_.load_relaxed() != 0;
    room.lengths = tell_lengths_.load_relaxed() != 0;
    if (room.lengths && !receive.spliced && !peeks(receive)) [[unlikely]]
        room.messages = room_for_lengths(receive, room.connection);
    return room;
}

bool Socket::take(const kcm_receive& receive, const ReadRoom& room, Taken& taken)
{
    bool is_there = Distributor::readable(*this) && mux->distributor.take(*this, peeks(receive), room, taken);
    // Before the copy, which takes as long as the program's memory likes: nobody else resumes this connection.
    if (Ref<Psock> resume = std::move(taken.resume))
        resume->resume_later();
    return is_there;
}

// Behind the first messages others that are there and for which there is room. An error is left to the next call.
u32 Socket::receive_more(kcm_receive& receive)
{
    u32 got = 0;
    for (unsigned run = 1; run < max_runs; run++) {
        ReadRoom room = room_of(receive);
        room.whole = true;
        Taken taken;
        if (!room.lengths || !room.messages || !take(receive, room, taken))
            break;
        auto more = hand_over(taken, room, receive);
        if (!more)
            break;
        receive.size -= *more;
        got += *more;
    }
    return got;
}

Result<u32> Socket::receive(kcm_receive& receive)
{
    u64 deadline_ns = 0;
    for (;;) {
        ReadRoom room = room_of(receive);
        bool many = room.messages > 1;
        room.messages = max(room.messages, 1u);
        receiving.cpu.store_relaxed(kapi_cpu());
        Taken taken;
        if (take(receive, room, taken)) {
            if (!peeks(receive))
                wake_next_reader();
            if (deadline_ns)
                wake_next_thread();
            u32 got = TRY(hand_over(taken, room, receive));
            receive.size -= got;
            bool whole = (receive.out_flags & (KCM_ABI_MSG_EOR | KCM_ABI_MSG_TRUNC)) == KCM_ABI_MSG_EOR;
            return many && whole ? got + receive_more(receive) : got;
        }
        TRY(wait_for_message(!(receive.flags & KCM_ABI_MSG_DONTWAIT), deadline_ns));
    }
}

// While an error is held back and nothing is there, recv() would say EAGAIN: KAPI_ERR would have a program ask again and again.
unsigned Socket::poll(kapi_poll* poll)
{
    polled_.store_relaxed(1);
    kapi_poll_wait(poll, pollers_.c());
    unsigned events = error_is_next() ? KAPI_ERR : 0;
    if (Distributor::readable(*this)) {
        events |= KAPI_IN | KAPI_RDNORM;
        if (has_error())
            events |= KAPI_ERR;
    }
    Guard guard(send_lock_);
    if (has_room_or_wants_it(&any_))
        events |= KAPI_OUT | KAPI_WRNORM;
    return events;
}

// Of pollers with EPOLLEXCLUSIVE one is woken for all messages of a packet. When it takes some and leaves some, it wakes the next
// one: before the copy, which takes as long as the program's memory likes.
void Socket::wake_next_reader()
{
    if (polled_.load_relaxed() && Distributor::readable(*this))
        pollers_.wake(KAPI_IN | KAPI_RDNORM);
}

// The same of threads in recvmsg(), by one that has waited itself: it was woken for all that it leaves. One that takes nothing
// (MSG_PEEK) leaves all, and who has not waited was not woken in another one's place. An error is left to them, too.
void Socket::wake_next_thread()
{
    if (Distributor::readable(*this) || error_is_next())
        readers_.wake();
}

// poll() reports an error that is held back as soon as there is something to read: also to those that poll for room only.
void Socket::wake_readers()
{
    readers_.wake();
    pollers_.wake(KAPI_IN | KAPI_RDNORM | (has_error() ? unsigned{KAPI_ERR} : 0));
    kapi_sk_signal(sk, KAPI_IN);
}

} // namespace kcm
