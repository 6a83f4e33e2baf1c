// SPDX-License-Identifier: GPL-2.0
#include "tcp.h"
#include "turn.h"

namespace sim {

namespace {

kapi_u32 first_sequence_number(Random &random)
{
    // Half of the streams wrap around early.
    auto near_wrap = static_cast<kapi_u32>(-static_cast<kapi_s64>(random.below(100'000)));
    return random.one_in(2) ? near_wrap : static_cast<kapi_u32>(random.next());
}

} // namespace

Tcb::Tcb(World &w, kapi_net &n, const kapi_addr &l, const kapi_addr &r)
    : world(w), net(&n), node(n.node), life(n.node->life()), local(l), remote(r), retransmit_ns(kFirstRetransmitNs),
      last_heard_ns(n.node->now_ns())
{
    static constexpr kapi_u32 kSegmentSizes[] = {536, 1448, 16384, 65536};
    Random &random = w.host_random();
    id = static_cast<std::uint32_t>(random.next());
    segment_size = kSegmentSizes[random.below(4)];
    kapi_u32 first = first_sequence_number(random);
    una = next = sent_max = recover = peer_right = first;
    write_seq = first + 1; // the SYN takes one
}

void Tcb::connect()
{
    state = TcpState::syn_sent;
    next = sent_max = una + 1;
    send_syn();
    set_timer();
}

kapi_u32 Tcb::window() const
{
    return unread >= rcvbuf() ? 0 : rcvbuf() - static_cast<kapi_u32>(unread);
}

kapi_u32 Tcb::room() const
{
    kapi_u32 used = write_seq - una;
    return used >= sndbuf() ? 0 : sndbuf() - used;
}

void Tcb::tell(kapi_stream_event event, int why)
{
    world.note("event", static_cast<std::uint64_t>(event), static_cast<std::uint64_t>(-why));
    AtomicScope atomic(this);
    ops.event(context, event, why);
}

void Tcb::tell_acked()
{
    if (!attached || state == TcpState::closed)
        return;
    wants_room = false;
    AtomicScope atomic(this);
    TurnScope turn;
    ops.acked(context, una);
}

void Tcb::tell_pending()
{
    if (!attached)
        return;
    bool was_established = state == TcpState::established || state == TcpState::time_wait || fin_received;
    if (!told_established && was_established) {
        told_established = true;
        tell(KAPI_STREAM_ESTABLISHED, 0);
    }
    if (!told_eof && fin_received) {
        told_eof = true;
        tell(KAPI_STREAM_EOF, 0);
    }
    if (!told_closed && (state == TcpState::closed || state == TcpState::time_wait)) {
        told_closed = true;
        tell(KAPI_STREAM_CLOSED, error);
    }
}

void Tcb::finish_if_both_closed()
{
    if (state != TcpState::established || !fin_acked || !fin_received)
        return;
    if (fin_received_first)
        return close(0);
    state = TcpState::time_wait;
    set_timer();
    tell_pending();
}

void Tcb::close(int why)
{
    if (state == TcpState::closed)
        return;
    world.note("closed", local.port, static_cast<std::uint64_t>(-why));
    if (state == TcpState::syn_received && listener)
        listener->embryos--;
    if (state != TcpState::time_wait)
        error = why;
    state = TcpState::closed;
    world.cancel(timer);
    auto self = shared_from_this(); // the list may hold the last reference
    world.network().remove(*self);
    tell_pending();
}

} // namespace sim
