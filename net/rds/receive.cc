// SPDX-License-Identifier: GPL-2.0
// From a path to a socket's queue, and recvmsg.
#include "connection.h"
#include "socket.h"
#include "uapi.h"

namespace rds {

namespace {

// With any SO_RCVBUF, one message of the largest size with its overhead fits.
constexpr u64 hard_limit_min = 2 * max_message + 256 * 1024;

} // namespace

// ---- the queue

usize Socket::initial_hard_limit() const
{
    return max<u64>(static_cast<u64>(kapi_sk_rcvbuf(sk)) * net.sysctl.receive_limit_factor, hard_limit_min);
}

// When the limit of payload has grown, as those of its senders probably have, there is more room for what these have under way.
usize Socket::hard_limit(usize initial)
{
    return receive_limit_.has_grown() ? 2 * initial : initial;
}

u64 Socket::receive_limit()
{
    u64 initial = kapi_sk_rcvbuf(sk) / 2;
    if (receive_limit_.has_grown() && kapi_sk_rcvbuf_is_set(sk))
        receive_limit_.reset();
    return receive_limit_.payload(initial);
}

void Socket::account_receive(Incoming& incoming, bool added)
{
    if (added) {
        received_bytes_ += incoming.length();
        received_true_ += incoming.true_size();
        net.count(Stat::recv_bytes_added_to_sock, incoming.length());
    } else {
        received_bytes_ -= incoming.length();
        received_true_ -= incoming.true_size();
        net.count(Stat::recv_bytes_freed_fromsock, incoming.length());
    }
}

// Congested above the limit, free again below half of it, so that peers are not notified at every message. Without memory,
// which others may have used up, from the first message until all are taken. What came over loopback at the hard limit
// makes the port congested, too: all users of two addresses share that path, so the path is not stopped. For a
// socket that is bound to loopback itself these are the only limits, as programs expect there.
Socket::CongestionChange Socket::update_congestion(bool looped)
{
    if (closed_ || !transport_)
        return CongestionChange::none;
    usize initial_limit = initial_hard_limit();
    usize much_memory = initial_limit / 2;
    bool full = is_full(initial_limit);
    looped_full_ = full ? looped_full_ || looped : looped_full_ && received_true_ >= much_memory;
    if (received_.empty() && !uncharged_)
        poor_ = false;
    if (received_.empty() && receive_limit_.was_congested()) [[unlikely]]
        receive_limit_.emptied(kapi_sk_rcvbuf(sk) / 2, much_memory);
    if (!full)
        overdrawn_ = 0;
    bool counts_payload = transport_->type != RDS_TRANSPORT_LOOP;
    u64 payload = receive_limit();
    bool much = congested_ ? received_bytes_ >= payload / 2 || received_true_ >= much_memory / 2
                           : received_bytes_ > payload || received_true_ > much_memory;
    bool congested = looped_full_ || poor_ || (counts_payload && much);
    if (congested == congested_)
        return CongestionChange::none;
    congested_ = congested;
    if (congested && counts_payload && received_bytes_ > payload)
        receive_limit_.congested();
    return congested ? CongestionChange::set : CongestionChange::cleared;
}

void Socket::write_congestion(CongestionChange change)
{
    Ref<CongestionMap> fresh, old;
    if (change == CongestionChange::set)
        if (auto map = net.own_maps.get(bound_key(), Alloc::atomic))
            fresh = std::move(*map);
    {
        // A set and a clear may run at the same time: the last one reports the state at that time. The map has the bit from this
        // socket exactly while full_on_ refers to it, so a late one does not touch the bit of the port's next owner.
        Guard reporting(reporting_);
        bool congested;
        {
            Guard guard(lock_);
            congested = congested_;
        }
        if (congested == static_cast<bool>(full_on_))
            return;
        if (!congested) {
            old = std::move(full_on_);
            static_cast<void>(old->set(bound_key().port, false));
        } else if (fresh && fresh->set(bound_key().port, true)) {
            full_on_ = std::move(fresh);
        } else if (change == CongestionChange::set) {
            Guard guard(lock_);
            congested_ = false; // no memory: the next message tries again
        }
    }
    if (!old)
        return;
    old->wake_blocked(); // senders on this host
    if (old->take_refused())
        net.congestion_changed();
}

// A message that has arrived is accepted even if its owner is at the limit of memory, because the peer forgets it. The path is
// then not read until the program has received that message, so there is at most one such message for each path. Over loopback
// messages sent before the port was congested are accepted, too: until then they counted for the sockets that sent them.
bool Socket::deliver(Ref<Incoming> incoming)
{
    bool looped = incoming->looped();
    bool poor = !incoming->charge(sk);
    if (kapi_sk_timestamps(sk))
        incoming->received_real_ns = kapi_real_ns();
    incoming->trace_ns[2] = net.trace_clock_ns();
    bool over, wakes;
    CongestionChange change;
    {
        Guard guard(lock_);
        if (closed_) {
            net.count(Stat::recv_drop_dead_sock);
            return false;
        }
        account_receive(*incoming, true);
        if (!incoming->charged())
            note_uncharged(*incoming);
        incoming->place = next_place_++;
        received_.push_back(std::move(incoming));
        poor_ |= poor;
        wakes = wakes_receiver();
        over = is_full();
        change = update_congestion(looped);
    }
    net.count(Stat::recv_queued);
    report_congestion(change);
    if (over && looped) {
        Guard guard(lock_);
        over = !congested_; // no memory for the bit
    }
    pollers.wake(KAPI_IN | KAPI_RDNORM);
    if (wakes)
        receivers.wake();
    return over;
}

bool Socket::is_closed()
{
    Guard guard(lock_);
    return closed_;
}

// ---- recvmsg

bool Socket::put_zerocopy(rds_receive& receive)
{
    // Other control messages may have used the room already.
    if (!kapi_sk_zerocopy(sk) || kapi_msg_cmsg_room(receive.msg) < s64{sizeof(rds_abi_zcopy_cookies)})
        return false;
    Ref<ZerocopyBatch> batch;
    Ref<NoticeBox> notices;
    {
        Guard guard(lock_);
        notices = notice_box_;
        batch = notices ? zerocopy_.pop_front() : Ref<ZerocopyBatch>();
        if (batch && batch.get() == zerocopy_last_)
            zerocopy_last_ = nullptr;
    }
    if (!batch)
        return false;
    rds_abi_zcopy_cookies cookies{};
    cookies.num = batch->count;
    kapi_copy(cookies.cookies, batch->cookies, sizeof(cookies.cookies));
    if (kapi_msg_put_cmsg(receive.msg, RDS_ABI_SOL_RDS, RDS_ABI_CMSG_ZCOPY_COMPLETION, &cookies, sizeof(cookies)) < 0) {
        Guard guard(lock_);
        if (zerocopy_.empty())
            zerocopy_last_ = batch.get();
        zerocopy_.push_front(std::move(batch));
        return false;
    }
    notices->taken(batch->count);
    return true;
}

// A congestion notice goes before data and alone.
Result<u32> Socket::put_notice(rds_receive& receive, u64 freed_ports)
{
    auto put = check(kapi_msg_put_cmsg(receive.msg, RDS_ABI_SOL_RDS, RDS_ABI_CMSG_CONG_UPDATE, &freed_ports,
                                       sizeof(freed_ports)));
    if (put)
        return 0u;
    {
        Guard guard(lock_);
        freed_ports_ |= freed_ports;
    }
    notify_input();
    return fail(put.error());
}

Result<> Socket::put_trace(Incoming& incoming, rds_receive& receive)
{
    rds_abi_cmsg_rx_trace trace;
    kapi_fill(&trace, 0, sizeof(trace)); // the padding, too
    {
        Guard guard(lock_);
        trace.rx_traces = trace_count_;
        for (unsigned i = 0; i < trace_count_; i++) {
            u8 position = traces_[i];
            trace.rx_trace_pos[i] = position;
            u64 from = incoming.trace_ns[position];
            u64 until = position == 2 ? kapi_local_clock_ns() : incoming.trace_ns[position + 1];
            // 0: nobody wanted to know then. Another processor's clock may be behind.
            trace.rx_trace[i] = from && until > from ? until - from : 0;
        }
    }
    if (trace.rx_traces)
        TRY(check(kapi_msg_put_cmsg(receive.msg, RDS_ABI_SOL_RDS, RDS_ABI_CMSG_RXPATH_LATENCY, &trace, sizeof(trace))));
    return {};
}

// Copies a message that was taken off the queue to the user.
Result<u32> Socket::hand_over(Incoming& incoming, bool traced, rds_receive& receive)
{
    if (incoming.header.extensions[0])
        TRY(put_memory_names(incoming, receive));
    u32 copied = static_cast<u32>(min<usize>(receive.size, incoming.length()));
    TRY(incoming.copy_to_user(receive.msg, copied));
    if (incoming.received_real_ns && kapi_sk_timestamps(sk))
        TRY(check(kapi_msg_put_timestamp(receive.msg, sk, incoming.received_real_ns)));
    if (traced)
        TRY(put_trace(incoming, receive));
    u32 result = copied;
    if (copied < incoming.length()) {
        receive.out_flags |= RDS_ABI_MSG_TRUNC;
        if (receive.flags & RDS_ABI_MSG_TRUNC)
            result = incoming.length();
    }
    receive.name_length = format_sockaddr(incoming.source, receive.name);
    return result;
}

// The call returns them: nothing fails any more.
void Socket::handed_over(u32 bytes, unsigned messages, rds_receive& receive)
{
    net.count(Stat::copy_to_user, min<usize>(bytes, receive.size));
    net.count(Stat::recv_delivered, messages);
    put_zerocopy(receive);
}

// Takes what comes next; false when there is nothing. One lock for all that a receiver needs.
bool Socket::take_input(bool peek, Input& input)
{
    Guard guard(lock_);
    came_unseen_ = 0;
    input.closed = closed_;
    if (closed_)
        return true;
    input.rdma = rdma_notices_.pop_front();
    if (input.rdma)
        return true;
    input.freed_ports = std::exchange(freed_ports_, 0);
    if (input.freed_ports)
        return true;
    if (received_.empty()) {
        input.unread = static_cast<bool>(unread_);
        return false;
    }
    input.traced = trace_count_ != 0;
    input.with_lengths = lengths_wanted_;
    if (peek) {
        input.incoming = Ref<Incoming>::share(*received_.front());
        return true;
    }
    input.incoming = received_.pop_front();
    account_receive(*input.incoming, false);
    input.change = update_congestion(false);
    input.stalls = !stalled_.empty();
    return true;
}

// A few steps towards the place of messages, behind passed, which is before them. False: there is more to look at.
bool Socket::put_back_some(std::span<Ref<Incoming>> messages, Ref<Incoming>& passed, CongestionChange& change)
{
    constexpr unsigned some = 64;
    Ref<Incoming> old; // ends after the lock
    Guard guard(lock_);
    if (closed_)
        return true;
    old = std::move(passed);
    // If it was received meanwhile, so was all that was before it.
    Incoming* next = old && is_on<SocketQueue>(*old) ? received_.next(*old) : received_.front();
    unsigned looked = 0;
    for (u64 place = messages.front()->place; next && next->place < place; next = received_.next(*next)) {
        if (++looked == some) {
            passed = Ref<Incoming>::share(*next);
            return false;
        }
    }
    for (Ref<Incoming>& message : messages) {
        account_receive(*message, true);
        if (next)
            received_.insert_before(*next, std::move(message));
        else
            received_.push_back(std::move(message));
    }
    change = update_congestion(false);
    return true;
}

// Nothing is lost when a copy fails: the next call gets the messages, which came one after the other, and a reader that began to
// sleep meanwhile is woken. Those before them are of other readers that failed: as many as a program has threads.
void Socket::put_back(std::span<Ref<Incoming>> messages)
{
    CongestionChange change = CongestionChange::none;
    Ref<Incoming> passed;
    while (!put_back_some(messages, passed, change))
        kapi_resched();
    report_congestion(change);
    for (usize i = 0; i < messages.size(); i++) // each for a waiter of its own, as when they came
        notify_input();
}

Result<u32> Socket::receive(rds_receive& receive)
{
    if (receive.flags & RDS_ABI_MSG_OOB)
        return 0u;
    bool peek = (receive.flags & RDS_ABI_MSG_PEEK) != 0;
    Input input;
    if (!take_or_pull(peek, input)) {
        if (put_zerocopy(receive))
            return 0u;
        if (receive.flags & RDS_ABI_MSG_DONTWAIT)
            return fail(KAPI_EAGAIN);
        TRY(wait_for_input(peek, input));
    }
    if (input.closed)
        return fail(KAPI_ENOTCONN);
    if (input.rdma)
        return put_rdma_notices(receive, std::move(input.rdma));
    if (input.freed_ports)
        return put_notice(receive, input.freed_ports);
    // The copy may take as long as the program likes, and others use the room meanwhile.
    report_congestion(input.change);
    if (input.stalls)
        room_made();
    if (input.with_lengths) [[unlikely]]
        return receive_run(input, peek, receive);
    auto result = hand_over(*input.incoming, input.traced, receive);
    if (result)
        handed_over(*result, 1, receive);
    if (!peek && !result)
        put_back({&input.incoming, 1});
    else if (!peek)
        trace_delivery(bound_key(), input.incoming->source, input.incoming->header);
    return result;
}

// Never KAPI_ERR: the kernel's only error of such a socket is what ended a recvmmsg() behind its first messages.
unsigned Socket::poll(kapi_poll* poll)
{
    kapi_poll_wait(poll, pollers.c());
    u32 generation = net.congestion_generation();
    unsigned events = 0;
    bool unread;
    {
        Guard guard(lock_);
        if (monitors_) {
            if (freed_ports_)
                events |= KAPI_IN | KAPI_RDNORM;
        } else if (seen_congestion_generation_ != generation) {
            seen_congestion_generation_ = generation;
            events |= KAPI_IN | KAPI_RDNORM | KAPI_WRBAND; // for programs that do not use monitors
        }
        if (!received_.empty() || !zerocopy_.empty() || !rdma_notices_.empty())
            events |= KAPI_IN | KAPI_RDNORM;
        if (has_send_room())
            events |= KAPI_OUT | KAPI_WRNORM;
        else
            room_wanted_ = RoomWanted::any;
        unread = unread_ && received_.empty();
    }
    if (unread) [[unlikely]] {
        if (Ref<Path> path = take_unread())
            path->pull();
        Guard guard(lock_);
        if (!received_.empty())
            events |= KAPI_IN | KAPI_RDNORM;
    }
    return events;
}

} // namespace rds
